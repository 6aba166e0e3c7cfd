package mcp

import (
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belayhq/belay/internal/jsontext"
	"github.com/belayhq/belay/tool"
)

// What a suite has and this face neither lists nor accepts. A server wakes no
// model: MCP clients show notifications to nobody. So there is nothing to
// acknowledge, and no message to order.
var (
	hiddenTools     = []string{"exec_ack"}
	hiddenArguments = map[string][]string{"exec_command": {"completion_mode", "notify_on_exit"}}
)

// visible is the definitions that are served, without what is hidden, in their order.
func (c Config) visible(all []tool.Definition) []tool.Definition {
	var out []tool.Definition
	for _, d := range all {
		switch {
		case slices.Contains(hiddenTools, d.Name),
			c.Tools != nil && !slices.Contains(c.Tools, d.Name),
			c.ReadOnly && d.Effect != tool.ReadOnly:
			continue
		}
		if hidden := hiddenArguments[d.Name]; hidden != nil {
			d.Schema = withoutProperties(d.Schema, hidden)
		}
		out = append(out, d)
	}
	return out
}

// listing is a definition as MCP lists it. The hints follow from effect and
// replay alone. A tool that is unsafe to replay is one that runs what the caller
// wrote, which may reach anything; the file tools stay inside the root, and
// exec_kill ends only what belay started.
func listing(d tool.Definition) *sdk.Tool {
	destructive := d.Effect == tool.Mutating
	open := d.Replay == tool.Unsafe
	var meta sdk.Meta
	if d.Name == "write_stdin" {
		// Claude Code then asks its user as well, also where a rule of theirs would
		// let the call pass.
		meta = sdk.Meta{"anthropic/requiresUserInteraction": true}
	}
	return &sdk.Tool{
		Meta:        meta,
		Name:        d.Name,
		Description: d.Description,
		InputSchema: withoutBounds(d.Schema),
		Annotations: &sdk.ToolAnnotations{
			ReadOnlyHint:    d.Effect == tool.ReadOnly,
			DestructiveHint: &destructive,
			IdempotentHint:  d.Replay != tool.Unsafe,
			OpenWorldHint:   &open,
		},
	}
}

// withoutBounds is a schema as it is listed: without the ranges of its arguments. They
// are a sixteenth of the list, which every conversation pays for; a call out of range is
// clamped, or refused with an error that names argument and range. A client that holds
// its model to them would refuse what belay clamps.
func withoutBounds(schema json.RawMessage) json.RawMessage {
	var strip func(text []byte, names bool) []byte
	strip = func(text []byte, names bool) []byte { // names: its members are arguments
		if len(text) == 0 || text[0] != '{' {
			return text
		}
		out, ok := filterMembers(text, func(name string, value []byte) []byte {
			if names {
				return strip(value, false)
			}
			switch name {
			case "minimum", "maximum", "minItems", "maxItems":
				return nil
			}
			return strip(value, name == "properties")
		})
		if !ok {
			return text
		}
		return out
	}
	return strip(schema, false)
}

// withoutProperties is a schema whose properties lack some names; the rest keeps
// its spelling and order.
func withoutProperties(schema json.RawMessage, names []string) json.RawMessage {
	out, ok := filterMembers(schema, func(name string, value []byte) []byte {
		if name != "properties" {
			return value
		}
		kept, _ := filterMembers(value, func(name string, value []byte) []byte {
			if slices.Contains(names, name) {
				return nil
			}
			return value
		})
		return kept
	})
	if !ok {
		return schema
	}
	return out
}

// filterMembers rebuilds an object from what keep makes of its values; nil drops
// a member.
func filterMembers(text []byte, keep func(name string, value []byte) []byte) ([]byte, bool) {
	out := []byte{'{'}
	ok := jsontext.Object(text, func(name string, value []byte) {
		if value = keep(name, value); value == nil {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, encodeJSON(name)...), ':'), value...)
	})
	return append(out, '}'), ok
}

// refuseHidden is the refusal of a call that gives a hidden argument: the one
// that an argument gets which no tool ever had.
func refuseHidden(d tool.Definition, arguments []byte) *tool.Error {
	hidden := hiddenArguments[d.Name]
	if hidden == nil {
		return nil
	}
	given := ""
	jsontext.Object(arguments, func(name string, _ []byte) {
		if given == "" && slices.Contains(hidden, name) {
			given = name
		}
	})
	if given == "" {
		return nil
	}
	var known []string
	jsontext.Object(d.Schema, func(name string, value []byte) {
		if name == "properties" {
			jsontext.Object(value, func(name string, _ []byte) { known = append(known, name) })
		}
	})
	return tool.Invalid(given, "no such argument; known: "+strings.Join(known, " "))
}
