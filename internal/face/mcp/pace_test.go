package mcp

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/belayhq/belay/tool"
)

func TestPace(t *testing.T) {
	t.Parallel()
	wait := def("exec_wait", tool.ReadOnly, tool.Safe, json.RawMessage(`{"type":"object","properties":{"timeout_ms":{},"max_output_tokens":{}}}`))
	poll := def("write_stdin", tool.Mutating, tool.Unsafe, json.RawMessage(`{"type":"object","properties":{"yield_time_ms":{},"max_output_tokens":{}}}`))
	read := def("read", tool.ReadOnly, tool.Safe, json.RawMessage(`{"type":"object","properties":{"path":{"description":"max_output_tokens"}}}`))
	for _, c := range []struct {
		client   string
		token    bool
		longest  time.Duration
		d        tool.Definition
		in, want string
	}{
		// a wait that would outlast its client ends in time
		{"some client", true, 0, wait, `{}`, `{"timeout_ms":50000}`},
		{"some client", true, 0, wait, ``, `{"timeout_ms":50000}`},
		{"some client", false, 0, wait, `{"timeout_ms":300000}`, `{"timeout_ms":50000}`},
		{"some client", false, 0, wait, `{"timeout_ms":50000}`, `{"timeout_ms":50000}`},
		{"some client", false, 0, wait, `{ "timeout_ms" : 5 }`, `{ "timeout_ms" : 5 }`},
		{"", false, 0, poll, `{"yield_time_ms":300000,"session_id":"s"}`, `{"yield_time_ms":50000,"session_id":"s"}`},
		{"", false, 0, poll, `{"session_id":"s"}`, `{"session_id":"s"}`},
		{"Codex-mcp-client", true, 0, wait, `{"timeout_ms":300000}`, `{"timeout_ms":240000,"max_output_tokens":2500}`},
		{"opencode", true, 0, wait, `{"timeout_ms":300000}`, `{"timeout_ms":300000}`},
		{"opencode", false, 0, wait, `{"timeout_ms":300000}`, `{"timeout_ms":45000}`},
		{"opencode", false, 0, wait, `{}`, `{"timeout_ms":45000}`},
		{"gemini-cli-mcp-client", true, 0, wait, `{"timeout_ms":300000}`, `{"timeout_ms":300000}`},
		{"claude-code", true, 0, wait, `{"timeout_ms":300000}`, `{"timeout_ms":300000}`},
		// what the user says holds
		{"codex", true, 5 * time.Second, poll, `{"yield_time_ms":6000,"max_output_tokens":9}`, `{"yield_time_ms":5000,"max_output_tokens":9}`},
		{"some client", true, 200 * time.Second, wait, `{}`, `{}`},
		{"some client", true, 5 * time.Second, poll, `{}`, `{}`},
		// what a tool refuses it gets to see
		{"some client", true, 0, wait, `{"timeout_ms":300001}`, `{"timeout_ms":300001}`},
		{"some client", true, 0, wait, `{"timeout_ms":"300000"}`, `{"timeout_ms":"300000"}`},
		{"some client", true, 0, wait, `{"timeout_ms":3e5}`, `{"timeout_ms":3e5}`},
		{"some client", true, 0, wait, `[1]`, `[1]`},
		{"codex", true, 0, wait, `7`, `7`},
		{"codex", true, 0, wait, `{"timeout_ms":1,"max_output_tokens":null}`, `{"timeout_ms":1,"max_output_tokens":null}`},
		{"codex", true, 0, read, `{"path":"a"}`, `{"path":"a"}`},
	} {
		var in []byte
		if c.in != "" {
			in = []byte(c.in)
		}
		if got := string(paced(c.d, in, paceOf(c.client), c.token, c.longest)); got != c.want {
			t.Errorf("%s %v: %s became %s, want %s", c.client, c.token, c.in, got, c.want)
		}
	}
}

// A call that takes long says so every beat, with numbers that grow, if it was asked
// to, and never after its answer.
func TestProgress(t *testing.T) {
	t.Parallel()
	for name, meta := range map[string]string{
		"legacy": ``,
		"modern": `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + elicits + `,`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSuite()
			p := newPeerWith(t, s, Config{beat: 2 * time.Millisecond}, patient)
			if name == "legacy" {
				p.hello()
			}
			p.send(strings.Replace(callOf("1", "exec_output", `{}`), `"arguments"`, `"_meta":{`+meta+`"progressToken":"tok"},"arguments"`, 1))
			s.began(t)
			last := 0.0
			for range 3 {
				var m struct {
					Method string
					Params struct {
						ProgressToken, Message string
						Progress               float64
					}
				}
				line := p.line()
				if err := json.Unmarshal([]byte(line), &m); err != nil || m.Method != "notifications/progress" || m.Params.ProgressToken != "tok" ||
					m.Params.Progress <= last || !strings.HasPrefix(m.Params.Message, "running for ") {
					t.Fatalf("%v: %s", err, line)
				}
				last = m.Params.Progress
			}
			close(s.release)
			for {
				line := p.line()
				if strings.Contains(line, "notifications/progress") {
					continue
				}
				if !strings.Contains(line, "released") {
					t.Errorf("%s", line)
				}
				break
			}
			time.Sleep(10 * time.Millisecond) // some beats; too short proves less, and fails nothing
			if name == "legacy" {
				p.silent("end")
			} else {
				p.in.Close()
				if rest := p.rest(); rest != nil {
					t.Errorf("after the answer: %q", rest)
				}
			}
		})
	}
	t.Run("not asked", func(t *testing.T) {
		t.Parallel()
		s := newSuite()
		p := newPeerWith(t, s, Config{beat: time.Millisecond}, patient).hello()
		p.send(callOf("1", "exec_output", `{}`))
		s.began(t)
		time.Sleep(10 * time.Millisecond) // as above
		close(s.release)
		if line := p.line(); !strings.Contains(line, "released") {
			t.Errorf("%s", line)
		}
	})
}

// --tools and --read-only: what is not served is neither listed nor run.
func TestChoiceOfTools(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		Config
		want string
	}{
		"read only": {Config{ReadOnly: true}, "exec_wait read exec_output exec_list"},
		"some":      {Config{Tools: []string{"shell", "read", "exec_ack"}}, "shell read"},
		"both":      {Config{Tools: []string{"shell", "read"}, ReadOnly: true}, "read"},
		"none":      {Config{Tools: []string{}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeerWith(t, newSuite(), c.Config, patient).hello()
			p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			var list struct{ Tools []struct{ Name string } }
			if err := json.Unmarshal(p.reply().Result, &list); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, d := range list.Tools {
				names = append(names, d.Name)
			}
			if got := strings.Join(names, " "); got != c.want || list.Tools == nil {
				t.Errorf("listed: %s, want %s", got, c.want)
			}
			p.send(callOf("2", "replace", `{}`))
			if r := p.reply(); !strings.Contains(string(r.Result), "unknown_tool") {
				t.Errorf("%s", r.Result)
			}
		})
	}
}
