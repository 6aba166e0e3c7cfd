package mcp

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/belayhq/belay/tool"
)

// C1: the four hints follow from effect and replay.
func TestHints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		effect tool.Effect
		replay tool.Replay
		want   string
	}{
		{tool.ReadOnly, tool.Safe, `{"destructiveHint":false,"idempotentHint":true,"openWorldHint":false,"readOnlyHint":true}`},
		{tool.Mutating, tool.Idempotent, `{"destructiveHint":true,"idempotentHint":true,"openWorldHint":false,"readOnlyHint":false}`},
		{tool.Mutating, tool.Unsafe, `{"destructiveHint":true,"idempotentHint":false,"openWorldHint":true,"readOnlyHint":false}`},
	} {
		out, err := json.Marshal(listing(def("x", c.effect, c.replay, nil)).Annotations)
		if err != nil || string(out) != c.want {
			t.Errorf("%s, %s: %s, %v; want %s", c.effect, c.replay, out, err, c.want)
		}
	}
}

// D6, D7: the older forms and exec_ack are not listed over MCP; all else of a
// schema stays as it is spelled.
func TestHidden(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object", "properties" : {"cmd":{"type":"string","description":"<\u00e9>"},"notify_on_exit":{"x":["}",{"y":1}]} , "completion_mode":{},"mode":{}},"required":["cmd"]}`)
	got := Config{}.visible([]tool.Definition{
		def("exec_ack", tool.Mutating, tool.Idempotent, schema),
		def("exec_command", tool.Mutating, tool.Unsafe, schema),
		def("shell", tool.Mutating, tool.Unsafe, schema),
	})
	if len(got) != 2 || got[1].Name != "shell" || string(got[1].Schema) != string(schema) {
		t.Fatalf("%+v", got)
	}
	want := `{"type":"object","properties":{"cmd":{"type":"string","description":"<\u00e9>"},"mode":{}},"required":["cmd"]}`
	if string(got[0].Schema) != want {
		t.Errorf("got %s, want %s", got[0].Schema, want)
	}
	if string(withoutProperties(json.RawMessage(`[1]`), []string{"x"})) != `[1]` {
		t.Error("what is no object was changed")
	}
}

// maxInstructions bounds the instructions, in bytes: Claude Code cuts them there.
const maxInstructions = 2048

// The instructions fit where clients cut them, carry the warning and what is
// said about confirmation, and name no tool that is not listed.
func TestInstructions(t *testing.T) {
	t.Parallel()
	all := Config{}.visible(newSuite().Definitions())
	full := instructions(all)
	if len(full) > maxInstructions {
		t.Errorf("%d bytes", len(full))
	}
	for _, must := range []string{"full authority", "no sandbox", "needs the user's confirmation each time", "expected_sha256", "not instructions"} {
		if !strings.Contains(full, must) {
			t.Errorf("nothing about %q", must)
		}
	}
	for _, d := range all {
		if !strings.Contains(full, d.Name) {
			t.Errorf("nothing about %s", d.Name)
		}
	}
	names := regexp.MustCompile(`\b(read|replace|edit|shell|exec_[a-z]+|write_stdin)\b`)

	for mask := range 1 << len(all) {
		var some []tool.Definition
		listed := map[string]bool{}
		for i, d := range all {
			if mask>>i&1 == 1 {
				some = append(some, d)
				listed[d.Name] = true
			}
		}
		text := instructions(some)
		for _, name := range names.FindAllString(text, -1) {
			if !listed[name] {
				t.Fatalf("with %v it speaks of %s: %s", listed, name, text)
			}
		}
		if !strings.HasPrefix(text, "belay acts") || strings.Contains(text, "  ") || strings.Contains(text, "\n\n") || strings.HasSuffix(text, "\n") {
			t.Fatalf("malformed: %q", text)
		}
	}
}

// Ranges are not listed, at any depth; arguments of such a name are.
func TestWithoutBounds(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"type":"object","properties":{"minimum":{"type":"integer","minimum":1},"x":{"type":"array","minItems":1,"items":{"properties":{"maximum":{"maximum":2}}}}}}`: `{"type":"object","properties":{"minimum":{"type":"integer"},"x":{"type":"array","items":{"properties":{"maximum":{}}}}}}`,
		`[1]`: `[1]`,
		``:    ``,
	} {
		if got := string(withoutBounds(json.RawMessage(in))); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}
