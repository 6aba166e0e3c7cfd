//go:build !windows

package proctool

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/belayhq/belay/tool"
)

type schema struct {
	Properties map[string]struct {
		Type    string   `json:"type"`
		Enum    []string `json:"enum"`
		Minimum *int64   `json:"minimum"`
		Maximum *int64   `json:"maximum"`
		Items   *struct {
			Type string `json:"type"`
		} `json:"items"`
	} `json:"properties"`
	Required   []string `json:"required"`
	Additional *bool    `json:"additionalProperties"`
}

// clamped are the arguments that the contract moves into their range.
var clamped = []string{"yield_time_ms", "max_output_tokens"}

// C1, C7: what a schema declares is what Prepare takes: the same names, the same
// types, the same bounds, the same required ones; and nothing is started by asking.
func TestSchemasAreWhatPrepareTakes(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	id := b.session()
	valid := map[string]any{
		"argv": []string{"true"}, "cmd": "true", "session_id": id, "session_ids": []string{id},
		"workdir": ".", "stdin": "", "chars": "", "shell": "sh",
	}
	// an argument that makes sense only with or without others
	with := map[string]map[string]any{
		"exec_command cols": {"tty": true}, "exec_command rows": {"tty": true},
		"write_stdin cols": {"rows": 20}, "write_stdin rows": {"cols": 20},
	}
	seen := 0
	for name, x := range b.tools {
		if name == "exec_ack" {
			continue
		}
		d := x.Definition()
		var s schema
		if err := json.Unmarshal(d.Schema, &s); err != nil {
			t.Fatal(name, err)
		}
		if s.Additional == nil || *s.Additional {
			t.Errorf("%s: the schema lets other names through", name)
		}
		base := map[string]any{}
		for _, r := range s.Required {
			base[r] = valid[r]
		}
		args := func(more ...any) map[string]any {
			m := maps.Clone(base)
			for i := 0; i < len(more); i += 2 {
				if more[i+1] == nil {
					delete(m, more[i].(string))
				} else {
					m[more[i].(string)] = more[i+1]
				}
			}
			return m
		}
		refused := func(what, argument string, m map[string]any) {
			t.Helper()
			_, e := b.prepare(name, m)
			switch {
			case e == nil:
				t.Errorf("%s: %s is accepted", name, what)
			case e.Code != tool.InvalidArgument || e.Kind != tool.Refused || factsOf(e)["argument"] != argument || factsOf(e)["expects"] == "":
				t.Errorf("%s: %s: %s", name, what, e.Message())
			}
		}
		accepted := func(what string, m map[string]any) {
			t.Helper()
			// A session on pipes is no fault of the arguments.
			if _, e := b.prepare(name, m); e != nil && !strings.Contains(factsOf(e)["expects"], "tty: true") {
				t.Errorf("%s: %s: %s", name, what, e.Message())
			}
		}
		accepted("what is required", base)
		for _, r := range s.Required {
			refused("nothing for "+r, r, args(r, nil))
		}
		refused("an unknown name", "colour", args("colour", "red"))
		refused("a name in another case", strings.ToUpper("max_output_tokens"), args("MAX_OUTPUT_TOKENS", 10))

		_, e := b.prepare(name, args("colour", "red"))
		_, list, _ := strings.Cut(factsOf(e)["expects"], "known: ")
		known := strings.Fields(list)
		slices.Sort(known)
		if want := slices.Sorted(maps.Keys(s.Properties)); !slices.Equal(known, want) {
			t.Errorf("%s: takes %v, declares %v", name, known, want)
		}

		for p, prop := range s.Properties {
			seen++
			more := []any{}
			for k, v := range with[name+" "+p] {
				more = append(more, k, v)
			}
			try := func(v any) map[string]any { return args(append(more, p, v)...) }
			for _, wrong := range []any{map[string]any{}, []any{1}, 1.5} {
				_, e := b.prepare(name, try(wrong))
				if e == nil || e.Code != tool.InvalidArgument || !strings.HasPrefix(factsOf(e)["argument"], p) {
					t.Errorf("%s: %s = %v: %v", name, p, wrong, e)
				}
			}
			switch prop.Type {
			case "string":
				refused("a number for "+p, p, try(7))
				if len(prop.Enum) == 0 {
					v, ok := valid[p]
					if !ok {
						t.Errorf("%s: the test has no value for %s", name, p)
						continue
					}
					accepted(p, try(v))
				}
				for _, v := range prop.Enum {
					if name == "exec_output" && v == "screen" {
						continue // of a session on pipes there is none
					}
					accepted(p+"="+v, try(v))
				}
				if len(prop.Enum) > 0 {
					refused("no value of "+p, p, try("none of these"))
				}
			case "boolean":
				refused("a string for "+p, p, try("true"))
				accepted(p, try(true))
				accepted(p, try(false))
			case "array":
				refused("no list for "+p, p, try("x"))
				refused("an empty list for "+p, p, try([]string{}))
				accepted(p, try(valid[p]))
			case "integer":
				refused("a string for "+p, p, try("7"))
				if prop.Minimum == nil {
					accepted(p+" below zero", try(-5))
					continue
				}
				low, high := *prop.Minimum, *prop.Maximum
				accepted(p+" at its lower end", try(low))
				accepted(p+" at its upper end", try(high))
				refused(p+" below zero", p, try(-1))
				huge := json.RawMessage("123456789012345678901234567890")
				if slices.Contains(clamped, p) {
					accepted(p+" over its range", try(high+1))
					accepted(p+" far over its range", try(huge))
					accepted(p+" under its range", try(0))
				} else {
					refused(p+" over its range", p, try(high+1))
					refused(p+" far over its range", p, try(huge))
					if low > 0 {
						refused(p+" under its range", p, try(low-1))
					}
				}
			default:
				t.Errorf("%s: %s has the type %q, which the test does not know", name, p, prop.Type)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d arguments seen", seen)
	}
	if n := len(b.table.Jobs()); n != 1 {
		t.Errorf("%d sessions: asking started something", n)
	}
}

// C7: values that cannot be, and arguments that do not go together.
func TestImpossibleArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	id := b.session()
	for _, c := range []struct {
		tool, args, argument string
	}{
		{"shell", `{"argv":[""]}`, "argv"},
		{"shell", `{"argv":["true","a\u0000b"]}`, "argv[1]"},
		{"shell", `{"argv":["true",3]}`, "argv[1]"},
		{"shell", `{"argv":["true"],"workdir":"a\u0000b"}`, "workdir"},
		{"shell", `{"argv":["true"],"workdir":""}`, "workdir"},
		{"shell", `{"argv":["true"],"timeout_ms":0}`, "timeout_ms"},
		{"shell", `{"argv":["true"],"timeout_ms":9223372036854775807}`, "timeout_ms"},
		{"shell", `{"argv":["true"],"argv":["false"]}`, "argv"},
		{"shell", `{"argv":["true"],"stdin":"\ud800"}`, "stdin"},
		{"shell", `["true"]`, "arguments"},
		{"shell", `{"argv":["true"]`, "arguments"},
		{"exec_command", `{"cmd":""}`, "cmd"},
		{"exec_command", `{"cmd":" \n\t"}`, "cmd"},
		{"exec_command", `{"cmd":"a\u0000b"}`, "cmd"},
		{"exec_command", `{"cmd":"true","shell":""}`, "shell"},
		{"exec_command", `{"cmd":"true","shell":"s\u0000h"}`, "shell"},
		{"exec_command", `{"cmd":"true","cols":80}`, "cols"},
		{"exec_command", `{"cmd":"true","rows":24,"tty":false}`, "rows"},
		{"exec_command", `{"cmd":"true","tty":true,"stdin":"open"}`, "stdin"},
		{"exec_command", `{"cmd":"true","timeout_ms":0}`, "timeout_ms"},
		{"exec_command", `{"cmd":"true","timeout_ms":99999999999}`, "timeout_ms"},
		{"write_stdin", `{"session_id":"` + id + `","chars":"` + strings.Repeat("x", 4097) + `"}`, "chars"},
		{"write_stdin", `{"session_id":"` + id + `","cols":80}`, "cols"},
		{"exec_output", `{"session_id":"` + id + `","cursor":"0"}`, "cursor"},
		{"exec_kill", `{"session_id":"` + id + `","signal":"HUP"}`, "signal"},
		{"exec_kill", `{"session_id":"` + id + `","grace_ms":-1}`, "grace_ms"},
		{"exec_wait", `{"session_ids":[1]}`, "session_ids[0]"},
		{"exec_list", `{"all":true}`, "all"},
	} {
		_, err := b.tools[c.tool].Prepare(t.Context(), tool.Call{ID: "1", Name: c.tool, Args: json.RawMessage(c.args)})
		if err == nil {
			t.Errorf("%s %.80s: accepted", c.tool, c.args)
			continue
		}
		if e := b.contract(err); e.Code != tool.InvalidArgument || factsOf(e)["argument"] != c.argument {
			t.Errorf("%s %.80s: %s", c.tool, c.args, e.Message())
		}
	}
}

// P2: nothing but an ID of this runtime names a session: no PID, no path.
func TestSessionsHaveNoOtherName(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	id := b.session()
	for _, name := range []string{"write_stdin", "exec_output", "exec_kill", "exec_wait"} {
		for _, other := range []string{"", "1", "-1", "0", "../x", "/proc/1", strings.ToUpper(id), id + " ", id[:15]} {
			args := map[string]any{"session_id": other}
			if name == "exec_wait" {
				args = map[string]any{"session_ids": []string{id, other}}
			}
			if _, e := b.prepare(name, args); e == nil || e.Code != tool.UnknownSession || e.Kind != tool.Refused {
				t.Errorf("%s %q: %v", name, other, e)
			}
		}
	}
	// a fault of the arguments is told before it is looked for
	if _, e := b.prepare("exec_kill", map[string]any{"session_id": "none", "signal": "9"}); e == nil || e.Code != tool.InvalidArgument {
		t.Errorf("%v", e)
	}
}
