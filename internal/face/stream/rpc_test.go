package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asking is a script that starts cat and wants to write to it, again and again: each prompt
// is one question.
// Its questions are as many as the matrix has.
const asking = `{"calls":[{"name":"exec_command","args":{"cmd":"cat","stdin":"open","yield_time_ms":250}}]}
{"take":{"s":"session=([a-z0-9_]+)"},"text":"ready"}
` + question + question + question + question + question + question + question + question + question + question + question

const question = `{"calls":[{"name":"write_stdin","args":{"session_id":"${s}","chars":"in\u001b[2J\n","yield_time_ms":1000}}]}
{"text":"done"}
`

// ready is a client at the first question of that script.
func ready(t *testing.T, p *place) *client {
	t.Helper()
	c := p.serve(Which{})
	if h := c.event("hello"); h["protocol"] != 1.0 || h["version"] != "1.2.3" || h["root"] != p.root || h["conversation"] == "" {
		t.Errorf("%v", h)
	}
	if r, code := c.do(`{"id":1,"type":"hello","ui":true}`); code != "" || r["type"] != nil || r["protocol"] != 1.0 || r["root"] != p.root {
		t.Error(code, r)
	}
	if _, code := c.do(`{"id":2,"type":"prompt","text":"begin"}`); code != "" {
		t.Error(code)
	}
	c.event("settled")
	return c
}

// P9, P10, AP-10: of all that a client can answer only the JSON value true, to the question that
// stands, gets input written.
func TestOnlyTrueIsAYes_P9_P10(t *testing.T) {
	t.Parallel()
	p := newPlace(t, asking)
	c := ready(t, p)
	last := ""
	for i, a := range []struct {
		answer string // %s is the id of the question
		code   string // of the call
		void   bool   // the answer gets an error response, and the question stands on
	}{
		{`{"type":"ui_response","id":"%s","confirmed":true}`, "", false},
		{`{"type":"ui_response","id":"%s","confirmed":false}`, "approval_denied", false},
		{`{"type":"ui_response","id":"%s","confirmed":"true"}`, "approval_denied", false},
		{`{"type":"ui_response","id":"%s","confirmed":1}`, "approval_denied", false},
		{`{"type":"ui_response","id":"%s"}`, "approval_denied", false},
		{`{"type":"ui_response","id":"%s","confirmed":{"confirmed":true}}`, "approval_denied", false},
		{`{"type":"ui_response","id":"%s","confirmed":"` + strings.Repeat("true", 1<<20) + `"}`, "approval_denied", false},
		{`{"type":"ui_response","id":"%s","confirmed":true`, "approval_denied", true},
		{`{"type":"ui_response","id":"%s","confirmed":false,"confirmed":true}`, "approval_denied", true},
		{`{"type":"ui_response","id":"x%s","confirmed":true}`, "approval_denied", true},
		{`{"type":"ui_response","id":"%s","confirmed":true,"value":true}`, "approval_denied", true},
	} {
		c.do(fmt.Sprintf(`{"id":"p%d","type":"prompt","text":"ask"}`, i))
		q := c.event("ui_request")
		if q["kind"] != "confirm" || q["reason"] != "input" || q["title"] != "cat" || q["shown"] != `in\x1b[2J\n` || q["bytes"] != 7.0 || q["session_id"] == "" {
			t.Fatalf("%v", q)
		}
		if ms, _ := q["timeout_ms"].(float64); ms < 1000 || ms > 60_000 {
			t.Errorf("timeout_ms is %v", q["timeout_ms"])
		}
		id := fmt.Sprint(q["id"])
		if last != "" { // the question before: a late answer is void
			c.send(fmt.Sprintf(`{"type":"ui_response","id":"%s","confirmed":true}`, last))
			if r := c.answer(last); r["ok"] != false || r["error"].(map[string]any)["code"] != "void" {
				t.Errorf("a late answer: %v", r)
			}
		}
		c.send(fmt.Sprintf(a.answer, id))
		if a.void {
			if r := c.event("response"); r["ok"] != false {
				t.Errorf("%.99s: %v", a.answer, r)
			}
			c.send(fmt.Sprintf(`{"type":"ui_response","id":"%s","confirmed":false}`, id))
		}
		e := c.event("tool_end")
		if code, _ := e["code"].(string); code != a.code {
			t.Errorf("%.99s: %v, want %q", a.answer, e, a.code)
		}
		c.event("settled")
		last = id
	}
	// What reached the process is the one input that was confirmed.
	r, _ := c.do(`{"id":"ps","type":"processes"}`)
	session := r["sessions"].([]any)[0].(map[string]any)
	if session["output_bytes"] != 7.0 {
		t.Errorf("the process got more: %v", session)
	}
	must(t, c.end())
}

// P10: a question is withdrawn, with the reason, at its timeout, an abort, the end of its process
// and the end of the host; nothing is written then.
func TestQuestionsAreWithdrawn(t *testing.T) {
	t.Parallel()
	for reason, void := range map[string]func(c *client, session string) (code string){
		"timeout": func(*client, string) string { return "approval_timeout" },
		"aborted": func(c *client, _ string) string {
			if r, code := c.do(`{"id":"a","type":"abort"}`); code != "" || len(r["queued"].([]any)) != 0 {
				c.t.Errorf("abort: %v %s", r, code)
			}
			return "cancelled"
		},
		"process_gone": func(c *client, session string) string {
			c.send(`{"id":"k","type":"kill","session_id":"` + session + `","signal":"KILL"}`)
			return "session_ended"
		},
		"shutdown": func(c *client, _ string) string {
			c.send(`{"id":"end","type":"shutdown"}`)
			return "cancelled"
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, asking)
			if reason == "timeout" {
				p.approval = time.Second
			}
			c := ready(t, p)
			c.send(`{"id":"p","type":"prompt","text":"ask"}`)
			q := c.event("ui_request")
			before := len(c.text())
			want := void(c, fmt.Sprint(q["session_id"]))
			var withdrawn, end map[string]any
			for end == nil || withdrawn == nil { // in either order
				for _, line := range strings.Split(c.text()[before:], "\n") {
					var m map[string]any
					json.Unmarshal([]byte(line), &m)
					switch m["type"] {
					case "ui_withdrawn":
						withdrawn = m
					case "tool_end":
						end = m
					}
				}
				time.Sleep(5 * time.Millisecond)
			}
			if withdrawn["id"] != q["id"] || withdrawn["reason"] != reason {
				t.Errorf("%v, want %s", withdrawn, reason)
			}
			if end["code"] != want {
				t.Errorf("%v, want %s", end, want)
			}
			if reason == "shutdown" {
				if r := c.answer("end"); r["ok"] != true {
					t.Errorf("%v", r)
				}
				return
			}
			c.send(fmt.Sprintf(`{"type":"ui_response","id":"%s","confirmed":true}`, q["id"]))
			if r := c.answer(q["id"]); r["ok"] != false {
				t.Errorf("a late yes: %v", r)
			}
			r, _ := c.do(`{"id":"ps","type":"processes"}`)
			if n := r["sessions"].([]any)[0].(map[string]any)["output_bytes"]; n != 0.0 {
				t.Errorf("%v bytes were written", n)
			}
		})
	}
}

// P9: a client that did not say that it can ask is not asked, and nothing is written.
func TestWithoutUINothingIsAsked_P9(t *testing.T) {
	t.Parallel()
	p := newPlace(t, asking)
	c := p.serve(Which{})
	c.do(`{"id":2,"type":"prompt","text":"begin"}`)
	c.event("settled")
	for _, ui := range []string{"", `{"id":1,"type":"hello"}`, `{"id":1,"type":"hello","ui":false}`} {
		if ui != "" {
			c.do(ui)
		}
		c.do(`{"id":3,"type":"prompt","text":"ask"}`)
		if e := c.event("tool_end"); e["code"] != "approval_unavailable" {
			t.Errorf("%q: %v", ui, e)
		}
		c.event("settled")
	}
	if strings.Contains(c.text(), "ui_request") {
		t.Error("somebody was asked")
	}
}

// No line ends the host: each is answered, and the next one is taken.
func TestBadLinesAreAnswered(t *testing.T) {
	t.Parallel()
	c := newPlace(t, `{"text":"hi"}`).serve(Which{})
	for line, code := range map[string]string{
		`garbage`: "invalid_json", `{"type":"abort"}`: "invalid_request", `[]`: "invalid_json",
		strings.Repeat("x", maxLine+1): "too_large",
	} {
		c.send(line)
		r := c.event("response")
		e, _ := r["error"].(map[string]any)
		if id, there := r["id"]; id != nil || !there || r["ok"] != false || e["code"] != code {
			t.Errorf("%.20s: %v", line, r)
		}
	}
	if _, code := c.do(`{"id":"u","type":"unheard_of"}`); code != "unknown_type" {
		t.Error(code)
	}
	for line, want := range map[string]string{
		`{"id":5,"type":"output","session_id":"none"}`:               "unknown_session",
		`{"id":6,"type":"kill","session_id":"none"}`:                 "unknown_session",
		`{"id":7,"type":"resume"}`:                                   "invalid_request",
		`{"id":8,"type":"resume","conversation":"../../etc/passwd"}`: "not_found",
		`{"id":9,"type":"resume","conversation":"aaaaaaaaaaaaaaaa"}`: "not_found",
		`{"id":10,"type":"prompt","text":"  "}`:                      "invalid_request",
	} {
		if _, code := c.do(line); code != want {
			t.Errorf("%s: %q, want %s", line, code, want)
		}
	}
	c.do(`{"id":11,"type":"prompt","text":"hi"}`)
	c.event("settled")
	must(t, c.end())
}

// HO-07: a prompt with line separators in it is one message.
func TestSeparatorsSplitNothing(t *testing.T) {
	t.Parallel()
	const text = "a\u2028b\u2029c\u0085d"
	c := newPlace(t, `{"expect":["a\u2028b\u2029c\u0085d"],"text":"x\u2028y\u0085\r\u000b\u000c\u0000"}`).serve(Which{})
	c.send(`{"id":1,"type":"prompt","text":"` + text + `"}`)
	c.answer(1)
	if m := c.event("message"); m["text"] != text {
		t.Errorf("%v", m)
	}
	c.event("settled")
	for _, raw := range []string{"\u2028", "\u2029", "\u0085"} {
		if strings.Contains(c.text(), raw) {
			t.Errorf("%q is in the output", raw)
		}
	}
	r, _ := c.do(`{"id":2,"type":"messages"}`)
	all, _ := r["messages"].([]any)
	if len(all) != 2 || all[0].(map[string]any)["text"] != text || all[1].(map[string]any)["role"] != "assistant" {
		t.Errorf("%v", r)
	}
}

// A prompt is answered when it is accepted; a steer comes before the next request, a follow-up when
// the model would stop; an abort gives back what waits, and the conversation goes on.
func TestARunIsSteeredAndStopped(t *testing.T) {
	t.Parallel()
	p := newPlace(t, `{"text":"work","calls":[{"name":"exec_command","args":{"cmd":"touch begun; sleep 0.5"}}]}
{"expect":["turn left"],"text":"left"}
{"expect":["and then"],"text":"then"}
{"text":"long","calls":[{"name":"exec_command","args":{"cmd":"trap '' INT TERM; touch c.pid; echo $$ > c.pid; sleep 30309","yield_time_ms":30000}}]}
{"expect":["next"],"text":"remembered"}
`)
	c := p.serve(Which{})
	c.do(`{"id":1,"type":"prompt","text":"go"}`)
	c.event("tool_start")
	if _, code := c.do(`{"id":2,"type":"prompt","text":"more"}`); code != "busy" {
		t.Error(code)
	}
	for i, r := range []string{`{"id":3,"type":"steer","text":"turn left"}`, `{"id":4,"type":"follow_up","text":"and then"}`} {
		if _, code := c.do(r); code != "" {
			t.Error(i, code)
		}
	}
	c.next("then", func(m map[string]any) bool { return m["type"] == "message" && m["text"] == "then" })
	c.event("settled")

	// HO-09: an abort while a tool runs
	c.do(`{"id":5,"type":"prompt","text":"run long"}`)
	var pid string
	for range 2000 {
		if b, _ := os.ReadFile(filepath.Join(p.root, "c.pid")); strings.HasSuffix(string(b), "\n") {
			pid = strings.TrimSpace(string(b))
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	c.do(`{"id":6,"type":"steer","text":"never sent"}`)
	r, code := c.do(`{"id":7,"type":"abort"}`)
	if q, _ := r["queued"].([]any); code != "" || len(q) != 1 || q[0] != "never sent" {
		t.Errorf("%v %s", r, code)
	}
	if alive(pid) {
		t.Error("the command lives on")
	}
	if _, code := c.do(`{"id":8,"type":"prompt","text":"next"}`); code != "" {
		t.Error(code)
	}
	c.next("the second answer", func(m map[string]any) bool { return m["type"] == "message" && m["text"] == "remembered" })
	must(t, c.end())
	if strings.Contains(c.text(), `"role":"user","text":"never sent"`) {
		t.Error("what was given back was sent all the same")
	}
}

func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return state != "" && state[0] != 'Z' && state[0] != 'X'
}

// D3, P6: the client sees the processes and their output, and ends them; nothing of that is in the
// conversation.
func TestProcessesOfAClient(t *testing.T) {
	t.Parallel()
	c := newPlace(t, `{"calls":[{"name":"exec_command","args":{"cmd":"echo out; sleep 300","yield_time_ms":250,"mode":"background"}}]}
{"text":"it runs"}
`).serve(Which{})
	c.do(`{"id":1,"type":"prompt","text":"go"}`)
	c.next("the answer", func(m map[string]any) bool { return m["type"] == "turn_end" && strings.Contains(c.text(), "it runs") })
	r, _ := c.do(`{"id":2,"type":"processes"}`)
	s := r["sessions"].([]any)[0].(map[string]any)
	id := fmt.Sprint(s["session_id"])
	if s["status"] != "running" || s["mode"] != "background" {
		t.Errorf("%v", s)
	}
	if r, _ = c.do(`{"id":3,"type":"output","session_id":"` + id + `","cursor":1}`); r["output"] != "ut\n" {
		t.Errorf("%v", r)
	}
	if r, _ = c.do(`{"id":4,"type":"kill","session_id":"` + id + `"}`); r["status"] != "killed" || r["cleanup_completed"] != true {
		t.Errorf("%v", r)
	}
	for range 2000 { // nothing will wake the model any more
		if strings.Contains(c.text(), `"settled"`) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if !strings.Contains(c.text(), `"settled"`) {
		t.Error("it is not settled")
	}
	text := c.text()
	if answer, event := strings.Index(text, `"response","id":1,`), strings.Index(text, `"role":"user"`); answer > event {
		t.Error("what a prompt brings about came before its response")
	}
	r, _ = c.do(`{"id":5,"type":"messages"}`)
	if all := r["messages"].([]any); len(all) != 4 { // user, call, result, answer; the empty one is not said
		for _, m := range all {
			t.Log(m)
		}
		t.Errorf("%d messages", len(all))
	}
	must(t, c.end())
}

// A client pages through what was said.
func TestMessagesComeInPages(t *testing.T) {
	t.Parallel()
	p := newPlace(t, `{"repeat":5,"text":"x","times":100000}`+"\n"+`{"text":"y","times":300000}`)
	c := p.serve(Which{})
	for i := range 6 {
		c.do(fmt.Sprintf(`{"id":"p%d","type":"prompt","text":"question %d"}`, i, i))
		c.event("settled")
	}
	var texts []string
	from := "0"
	for page := 0; page < 20; page++ {
		r, code := c.do(`{"id":"m","type":"messages","limit":3,"from":` + from + `}`)
		if code != "" {
			t.Fatal(code)
		}
		all := r["messages"].([]any)
		if len(all) > 3 {
			t.Errorf("%d on a page", len(all))
		}
		for _, m := range all {
			m := m.(map[string]any)
			texts = append(texts, fmt.Sprint(m["text"]))
			if m["omitted_bytes"] != nil && m["omitted_bytes"] != float64(300000-maxEntryBytes) {
				t.Errorf("%v omitted", m["omitted_bytes"])
			}
		}
		if r["next"] == nil {
			break
		}
		from = fmt.Sprint(int64(r["next"].(float64)))
	}
	if len(texts) != 12 || texts[10] != "question 5" || len(texts[11]) != maxEntryBytes {
		t.Errorf("%d texts", len(texts))
	}
	if r, _ := c.do(`{"id":"m","type":"messages","from":1000}`); len(r["messages"].([]any)) != 0 || r["next"] != nil {
		t.Errorf("beyond the end: %v", r)
	}
}

// D9: leaving a conversation ends its processes and says nothing of them; the next one and the
// one before are told apart; a conversation that is open elsewhere is busy.
func TestNewAndResume_D9(t *testing.T) {
	t.Parallel()
	p := newPlace(t, `{"calls":[{"name":"exec_command","args":{"cmd":"echo $$ > c.pid; exec sleep 300","yield_time_ms":500,"mode":"background"}}]}
{"text":"first"}
{"expect":["^user:\nhi"],"text":"second"}
{"expect":["again"],"reject":["(?m)^hi$"],"text":"third"}
`)
	c := p.serve(Which{})
	first := fmt.Sprint(c.event("hello")["conversation"])
	c.do(`{"id":1,"type":"prompt","text":"go"}`)
	c.next("the answer", func(m map[string]any) bool { return m["type"] == "message" && m["text"] == "first" })
	pid, _ := os.ReadFile(filepath.Join(p.root, "c.pid"))
	if !alive(strings.TrimSpace(string(pid))) {
		t.Error("the process does not run")
	}
	if _, code := c.do(`{"id":2,"type":"resume","conversation":"` + first + `"}`); code != "busy" {
		t.Error(code)
	}
	other := p.serve(Which{}) // another host
	if _, code := other.do(`{"id":1,"type":"resume","conversation":"` + first + `"}`); code != "busy" {
		t.Error(code)
	}
	must(t, other.end())

	r, code := c.do(`{"id":3,"type":"new"}`)
	second := fmt.Sprint(r["conversation"])
	if code != "" || second == first || second == "" {
		t.Fatalf("%v %s", r, code)
	}
	if alive(strings.TrimSpace(string(pid))) {
		t.Error("the process lives on")
	}
	c.do(`{"id":4,"type":"prompt","text":"hi"}`)
	c.next("the answer", func(m map[string]any) bool { return m["type"] == "message" && m["text"] == "second" })
	r, code = c.do(`{"id":5,"type":"resume","conversation":"` + first + `"}`)
	if code != "" || r["conversation"] != first {
		t.Fatalf("%v %s", r, code)
	}
	r, _ = c.do(`{"id":6,"type":"messages"}`)
	if all := r["messages"].([]any); all[0].(map[string]any)["text"] != "go" {
		t.Errorf("%v", all)
	}
	c.do(`{"id":7,"type":"prompt","text":"again"}`)
	c.next("the answer", func(m map[string]any) bool { return m["type"] == "message" && m["text"] == "third" })
	must(t, c.end())
	if n := strings.Count(c.text(), `"type":"notice","session_id"`); n != 0 {
		t.Errorf("%d messages of a conversation that was left", n)
	}
	if n := strings.Count(c.text(), `"type":"hello"`); n != 3 {
		t.Errorf("%d times hello", n)
	}
}

// P4: however it ends, its processes are gone and the transcript is whole: the end of the input,
// a shutdown, a context that is done, a reader that leaves, a reader that only stopped reading.
func TestHowItEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *client){
		"input": func(c *client) { c.in.Close() },
		"shutdown": func(c *client) {
			c.send(`{"id":"end","type":"shutdown"}`)
			if r := c.answer("end"); r["ok"] != true {
				c.t.Errorf("%v", r)
			}
		},
		"context": func(c *client) { c.stop() },
		"reader does not read": func(c *client) {
			c.mu.Lock()
			c.hold = make(chan struct{})
			hold := c.hold
			c.mu.Unlock()
			c.t.Cleanup(func() { close(hold) })
			for range 50 {
				c.send(`{"id":"ps","type":"processes"}`)
			}
			c.stop() // as by a signal; at the end of the input it has some time to read
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, `{"text":"x","calls":[{"name":"exec_command","args":{"cmd":"echo $$ > c.pid; exec sleep 300","yield_time_ms":30000}}]}`)
			c := p.serve(Which{})
			c.do(`{"id":1,"type":"prompt","text":"go"}`)
			pid := ""
			for range 2000 {
				if b, _ := os.ReadFile(filepath.Join(p.root, "c.pid")); strings.HasSuffix(string(b), "\n") {
					pid = strings.TrimSpace(string(b))
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			if !alive(pid) {
				t.Fatal("the command does not run")
			}
			end(c)
			select {
			case err := <-c.ended:
				c.ended <- err
				if err != nil {
					t.Error(err)
				}
			case <-time.After(hang):
				t.Fatal("it does not end")
			}
			if alive(pid) {
				t.Error("the command lives on")
			}
			next, err := p.open(context.Background(), Which{Last: true}, Ears{})
			must(t, err)
			if n := len(next.Agent.Messages()); n < 3 { // the task, the call and its result
				t.Errorf("%d messages are left", n)
			}
			must(t, next.Close())
		})
	}
}

// An abort and a shutdown work although the client reads nothing of what the model says.
func TestAbortWithoutAReader(t *testing.T) {
	t.Parallel()
	p := newPlace(t, `{"text":"0123456789abcdef","times":500000,"pieces":5000}
{"text":"after"}
`)
	c := p.serve(Which{})
	c.event("hello")
	c.mu.Lock()
	c.hold = make(chan struct{})
	hold := c.hold
	c.mu.Unlock()
	c.send(`{"id":1,"type":"prompt","text":"go"}`)
	time.Sleep(200 * time.Millisecond) // the outbox fills
	c.send(`{"id":2,"type":"abort"}`)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.mu.Lock()
		a := p.talks[0].Agent
		p.mu.Unlock()
		for a.Busy() {
			time.Sleep(time.Millisecond)
		}
	}()
	select {
	case <-ended:
	case <-time.After(hang):
		t.Error("the run is not ended")
	}
	c.mu.Lock()
	c.hold = nil
	c.mu.Unlock()
	close(hold)
	c.answer(2)
	c.do(`{"id":3,"type":"prompt","text":"go on"}`)
	c.next("the answer", func(m map[string]any) bool { return m["type"] == "message" && m["text"] == "after" })
	must(t, c.end())
}
