package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/tool"
)

// A user is a client that can be asked, in one of the two ways, on a real suite.
type user struct {
	*peer
	era     era
	suite   *coding.Suite
	session string // a cat that waits for input
	n       int    // ids so far
}

const elicits = `{"elicitation":{"form":{}}}`

// newUser has a session that echoes what it is sent.
func newUser(t *testing.T, e era, capabilities string, timeout time.Duration) *user {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the session is a cat")
	}
	suite, err := coding.New(coding.Config{Root: t.TempDir(), Environ: os.Environ(), Shell: "/bin/sh", ApprovalTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := suite.Close(); err != nil {
			t.Error(err)
		}
	})
	u := &user{peer: newPeer(t, suite), era: e, suite: suite}
	if e == legacy {
		u.send(strings.Replace(initialize, `"capabilities":{}`, `"capabilities":`+capabilities, 1), initialized)
		u.reply()
	}
	r := u.outcome(u.request("exec_command", `{"cmd":"cat","stdin":"open","yield_time_ms":250}`, "", capabilities))
	u.session, _ = r.data["session_id"].(string)
	if u.session == "" {
		t.Fatalf("no session: %s", r.text)
	}
	return u
}

// request is the line of a call, and more is further params.
func (u *user) request(name, args, more, capabilities string) string {
	u.n++
	meta := ""
	if u.era == modern {
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s%s%s}}`, u.n, name, args, more, meta)
}

func (u *user) input(chars string) string {
	return fmt.Sprintf(`{"session_id":%q,"chars":%s,"yield_time_ms":250}`, u.session, encodeJSON(chars))
}

type got struct {
	text     string
	code     string
	data     map[string]any
	question json.RawMessage // params of the elicitation
	state    string          // of the modern way
	id       json.RawMessage // of the request for it, in the legacy way
}

// outcome sends lines, and reads what comes first: an answer, or a question.
func (u *user) outcome(lines ...string) got {
	u.t.Helper()
	if lines != nil {
		u.send(lines...)
	}
	for {
		line := u.line()
		var m struct {
			Method string
			ID     json.RawMessage
			Params json.RawMessage
			Error  any
			Result struct {
				ResultType    string
				RequestState  string
				InputRequests map[string]struct {
					Method string
					Params json.RawMessage
				}
				Content []struct{ Text string }
				IsError bool
				Meta    map[string]map[string]any `json:"_meta"`
			}
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			u.t.Fatalf("%v: %s", err, line)
		}
		switch {
		case m.Method == "notifications/cancelled":
			continue
		case m.Method == "elicitation/create":
			if u.era != legacy {
				u.t.Errorf("a request of the server, where there is none: %s", line)
			}
			return got{question: m.Params, id: m.ID}
		case m.Result.ResultType == "input_required":
			q := m.Result.InputRequests[questionID]
			if u.era != modern || len(m.Result.InputRequests) != 1 || q.Method != "elicitation/create" || m.Result.RequestState == "" || m.Result.Content != nil {
				u.t.Errorf("the question: %s", line)
			}
			return got{question: q.Params, state: m.Result.RequestState}
		case m.Error != nil:
			return got{text: line, code: "protocol"}
		case len(m.Result.Content) != 1:
			u.t.Fatalf("no answer: %s", line)
		}
		g := got{text: m.Result.Content[0].Text, data: m.Result.Meta[metaResult]}
		if m.Result.IsError {
			g.data = m.Result.Meta[metaError]
			g.code, _ = g.data["code"].(string)
		}
		return g
	}
}

// answer is the line that answers a question. In the modern way it is the call again.
func (u *user) answer(q got, args, response string) string {
	if u.era == legacy {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.id, response)
	}
	return u.request("write_stdin", args, fmt.Sprintf(`,"inputResponses":{%q:%s},"requestState":%q`, questionID, response, q.state), elicits)
}

// wrote is what the session was sent: a cat shows it.
func (u *user) wrote() string {
	u.t.Helper()
	r := u.outcome(u.request("exec_output", fmt.Sprintf(`{"session_id":%q}`, u.session), "", elicits))
	out, _ := r.data["output"].(string)
	return out
}

const accept = `{"action":"accept","content":{"decision":"send once"}}`

func inBothEras(t *testing.T, test func(t *testing.T, e era)) {
	for name, e := range map[string]era{"legacy": legacy, "modern": modern} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, e) })
	}
}

// P9, P10: the yes, and what is shown before it: whole, escaped, with its length, in
// a form that has no default.
func TestApproval_P9_P10(t *testing.T) {
	t.Parallel()
	inBothEras(t, func(t *testing.T, e era) {
		u := newUser(t, e, elicits, 0)
		args := u.input("a\x1b[31m\u202eb\n")
		q := u.outcome(u.request("write_stdin", args, "", elicits))
		var form struct {
			Mode, Message   string
			RequestedSchema json.RawMessage
		}
		if err := json.Unmarshal(q.question, &form); err != nil {
			t.Fatalf("%v in %s", err, q.question)
		}
		if form.Mode != "form" || !strings.Contains(form.Message, u.session) || !strings.Contains(form.Message, "cat") || !strings.Contains(form.Message, "11 bytes") ||
			strings.ContainsAny(form.Message, "\x1b\u202e") || !strings.Contains(form.Message, "[31m") {
			t.Errorf("shown: %q", form.Message)
		}
		var schema struct {
			Type, Default any
			Required      []string
			Properties    map[string]map[string]any
		}
		if err := json.Unmarshal(form.RequestedSchema, &schema); err != nil || len(schema.Required) != 1 || schema.Required[0] != "decision" ||
			len(schema.Properties) != 1 || fmt.Sprint(schema.Properties["decision"]["enum"]) != "[deny send once]" || schema.Properties["decision"]["default"] != nil {
			t.Errorf("form: %s", form.RequestedSchema)
		}
		if out := u.wrote(); out != "" {
			t.Fatalf("sent before the yes: %q", out)
		}
		// a client may spell the same arguments anew
		again := strings.Replace(args, `{"session_id":`, `{ "yield_time_ms" : 250, "session_id" : `, 1)
		again = strings.Replace(again, `,"yield_time_ms":250}`, `}`, 1)
		r := u.outcome(u.answer(q, again, accept))
		if r.code != "" || fmt.Sprint(r.data["written_bytes"]) != "11" {
			t.Fatalf("after the yes: %s", r.text)
		}
		if out := u.wrote(); !strings.HasPrefix(out, "a") || strings.Count(out, "b\n") != 1 {
			t.Errorf("the session got %q", out)
		}
	})
}

// P9: the matrix of everything that is no yes. Each ends with a refusal, and nothing
// was sent.
func TestNoApproval_P9(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ response, code string }{
		"decline":              {`{"action":"decline"}`, "approval_denied"},
		"decline with a yes":   {`{"action":"decline","content":{"decision":"send once"}}`, "approval_denied"},
		"cancel":               {`{"action":"cancel"}`, "approval_denied"},
		"accept, no content":   {`{"action":"accept"}`, "approval_denied"},
		"accept, null":         {`{"action":"accept","content":null}`, "approval_denied"},
		"accept, empty":        {`{"action":"accept","content":{}}`, "approval_denied"},
		"accept, deny":         {`{"action":"accept","content":{"decision":"deny"}}`, "approval_denied"},
		"accept, another case": {`{"action":"accept","content":{"decision":"Send once"}}`, "approval_denied"},
		"accept, another name": {`{"action":"accept","content":{"Decision":"send once"}}`, "approval_denied"},
		"wrong type: number":   {`{"action":"accept","content":{"decision":1}}`, "approval_denied"},
		"wrong type: true":     {`{"action":"accept","content":{"decision":true}}`, "approval_denied"},
		"wrong type: list":     {`{"action":"accept","content":{"decision":["send once"]}}`, "approval_denied"},
		"another action":       {`{"action":"Accept","content":{"decision":"send once"}}`, "approval_denied"},
		"a yes to a guard":     {`{"action":"accept","content":{"decision":"run once"}}`, "approval_denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBothEras(t, func(t *testing.T, e era) {
				u := newUser(t, e, elicits, 0)
				args := u.input("x\n")
				q := u.outcome(u.request("write_stdin", args, "", elicits))
				if q.question == nil {
					t.Fatalf("not asked: %s", q.text)
				}
				if r := u.outcome(u.answer(q, args, c.response)); r.code != c.code {
					t.Errorf("%s", r.text)
				}
				if out := u.wrote(); out != "" {
					t.Errorf("sent all the same: %q", out)
				}
			})
		})
	}
}

// P9: who did not declare on this request that it can show a form is not asked.
func TestClientsThatCannotAsk_P9(t *testing.T) {
	t.Parallel()
	inBothEras(t, func(t *testing.T, e era) {
		for _, capabilities := range []string{`{}`, `{"roots":{}}`, `{"elicitation":{"url":{}}}`} {
			u := newUser(t, e, capabilities, 0)
			if r := u.outcome(u.request("write_stdin", u.input("x\n"), "", capabilities)); r.code != "approval_unavailable" {
				t.Errorf("%s: %s", capabilities, r.text)
			}
			if r := u.outcome(u.request("write_stdin", u.input(""), "", capabilities)); r.code != "" {
				t.Errorf("a poll needs nobody: %s", r.text)
			}
			if out := u.wrote(); out != "" {
				t.Errorf("sent all the same: %q", out)
			}
		}
	})
	t.Run("declared on another request", func(t *testing.T) {
		t.Parallel()
		u := newUser(t, modern, elicits, 0)
		if r := u.outcome(u.request("write_stdin", u.input("x\n"), "", `{}`)); r.code != "approval_unavailable" {
			t.Errorf("%s", r.text)
		}
	})
	t.Run("declared and not there", func(t *testing.T) {
		t.Parallel()
		u := newUser(t, legacy, elicits, 0)
		q := u.outcome(u.request("write_stdin", u.input("x\n"), "", elicits))
		if r := u.outcome(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, q.id)); r.code != "approval_unavailable" {
			t.Errorf("%s", r.text)
		}
		q = u.outcome(u.request("write_stdin", u.input("x\n"), "", elicits))
		if r := u.outcome(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no"}}`, q.id)); r.code != "approval_denied" {
			t.Errorf("%s", r.text)
		}
	})
	t.Run("two ways on one connection", func(t *testing.T) {
		t.Parallel()
		u := newUser(t, legacy, elicits, 0)
		u.era = modern
		if r := u.outcome(u.request("write_stdin", u.input("x\n"), "", elicits)); r.code != "approval_unavailable" {
			t.Errorf("%s", r.text)
		}
	})
}

// P9, P10: a state that is not ours, of another server, or used up, approves nothing,
// and one that is not ours does not use up the question.
func TestStateIsOurs_P9(t *testing.T) {
	t.Parallel()
	inBothEras(t, func(t *testing.T, e era) {
		u := newUser(t, e, elicits, 0)
		args := u.input("x\n")
		with := func(state string) string {
			return u.request("write_stdin", args, fmt.Sprintf(`,"inputResponses":{%q:%s},"requestState":%q`, questionID, accept, state), elicits)
		}
		if e == legacy { // which has no states
			for _, state := range []string{"x", strings.Repeat("A", base64.RawURLEncoding.EncodedLen(stateSize))} {
				if r := u.outcome(with(state)); r.code != "protocol" || !strings.Contains(r.text, "-32602") {
					t.Errorf("forged: %s", r.text)
				}
			}
			// an answer that comes with the call is none
			q := u.outcome(u.request("write_stdin", args, fmt.Sprintf(`,"inputResponses":{%q:%s}`, questionID, accept), elicits))
			if q.question == nil {
				t.Fatalf("not asked: %s", q.text)
			}
			if r := u.outcome(u.answer(q, args, accept)); r.code != "" {
				t.Errorf("%s", r.text)
			}
			u.send(u.answer(q, args, accept)) // once more
			u.silent("once")
			if out := u.wrote(); out != "x\n" {
				t.Errorf("the session got %q", out)
			}
			return
		}
		other := newUser(t, e, elicits, 0)
		foreign := other.outcome(other.request("write_stdin", other.input("x\n"), "", elicits)).state
		q := u.outcome(u.request("write_stdin", args, "", elicits))
		raw, err := base64.RawURLEncoding.DecodeString(q.state)
		if err != nil || len(raw) != stateSize {
			t.Fatalf("%v, %d bytes", err, len(raw))
		}
		forged := []string{"x", q.state[1:], q.state + "A", q.state + "=", foreign}
		for at := range raw {
			raw[at] ^= 1
			forged = append(forged, base64.RawURLEncoding.EncodeToString(raw))
			raw[at] ^= 1
		}
		for _, state := range forged {
			if r := u.outcome(with(state)); r.code != "protocol" || !strings.Contains(r.text, "-32602") {
				t.Fatalf("forged %q: %s", state, r.text)
			}
		}
		if out := u.wrote(); out != "" {
			t.Fatalf("sent by a forged state: %q", out)
		}
		if r := u.outcome(u.answer(q, args, accept)); r.code != "" {
			t.Fatalf("the question was used up by what is not ours: %s", r.text)
		}
		for range 2 {
			if r := u.outcome(u.answer(q, args, accept)); r.code != "approval_denied" || r.data["reason"] != "used" {
				t.Errorf("replayed: %s", r.text)
			}
		}
		if out := u.wrote(); out != "x\n" {
			t.Errorf("the session got %q", out)
		}
	})
}

// P10, P11: what was shown is what is sent. A second request that asks for anything
// else, or that comes without the answer, uses the question up.
func TestChangedBytes_P10_P11(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(u *user, q got, args string) string{
		"other input": func(u *user, q got, _ string) string { return u.answer(q, u.input("rm\n"), accept) },
		"more": func(u *user, q got, a string) string {
			return u.answer(q, strings.Replace(a, `{`, `{"close":true,`, 1), accept)
		},
		"other session": func(u *user, q got, a string) string {
			return u.answer(q, strings.Replace(a, u.session, "s_0", 1), accept)
		},
		"other tool": func(u *user, q got, a string) string {
			return strings.Replace(u.answer(q, a, accept), `"name":"write_stdin"`, `"name":"exec_kill"`, 1)
		},
		"no answer": func(u *user, q got, a string) string {
			return u.request("write_stdin", a, fmt.Sprintf(`,"requestState":%q`, q.state), elicits)
		},
		"an answer to something else": func(u *user, q got, a string) string {
			return strings.Replace(u.answer(q, a, accept), `"`+questionID+`":`, `"x":`, 1)
		},
		"two answers": func(u *user, q got, a string) string {
			return strings.Replace(u.answer(q, a, accept), `"inputResponses":{`, `"inputResponses":{"x":`+accept+`,`, 1)
		},
		"without the capability": func(u *user, q got, a string) string {
			return strings.Replace(u.answer(q, a, accept), elicits, `{}`, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, modern, elicits, 0)
			args := u.input("x\n")
			q := u.outcome(u.request("write_stdin", args, "", elicits))
			if r := u.outcome(change(u, q, args)); r.code != "approval_denied" {
				t.Errorf("%s", r.text)
			}
			if r := u.outcome(u.answer(q, args, accept)); r.code != "approval_denied" {
				t.Errorf("after it: %s", r.text)
			}
			if out := u.wrote(); out != "" {
				t.Errorf("sent all the same: %q", out)
			}
		})
	}
}

// P10: after its time a question is void; a late yes sends nothing.
func TestLateAnswer_P10(t *testing.T) {
	t.Parallel()
	inBothEras(t, func(t *testing.T, e era) {
		u := newUser(t, e, elicits, 200*time.Millisecond)
		args := u.input("x\n")
		q := u.outcome(u.request("write_stdin", args, "", elicits))
		if e == legacy {
			if r := u.outcome(); r.code != "approval_timeout" {
				t.Errorf("%s", r.text)
			}
			u.send(u.answer(q, args, accept))
		} else {
			time.Sleep(300 * time.Millisecond) // longer than the question stands
			if r := u.outcome(u.answer(q, args, accept)); r.code != "approval_timeout" {
				t.Errorf("%s", r.text)
			}
		}
		if out := u.wrote(); out != "" {
			t.Errorf("sent all the same: %q", out)
		}
		// and the next question is asked as ever
		q = u.outcome(u.request("write_stdin", args, "", elicits))
		if q.question == nil {
			t.Errorf("not asked again: %s", q.text)
		}
	})
}

// P11: approved input goes to the process that was shown, or nowhere.
func TestProcessGone_P11(t *testing.T) {
	t.Parallel()
	inBothEras(t, func(t *testing.T, e era) {
		u := newUser(t, e, elicits, 0)
		args := u.input("x\n")
		q := u.outcome(u.request("write_stdin", args, "", elicits))
		killed := u.outcome(u.request("exec_kill", fmt.Sprintf(`{"session_id":%q}`, u.session), "", elicits))
		var lost got
		if e == legacy { // the question is withdrawn, and the call answered, without the user
			if lost = u.outcome(); lost.code == "" { // either may come first
				killed, lost = lost, killed
			}
			u.send(u.answer(q, args, accept)) // too late for anything
		} else {
			lost = u.outcome(u.answer(q, args, accept))
		}
		if killed.data["status"] != "killed" || lost.code != "session_ended" {
			t.Errorf("%s\n%s", killed.text, lost.text)
		}
		if r := u.outcome(u.request("exec_list", `{}`, "", elicits)); r.code != "" {
			t.Errorf("%s", r.text)
		}
	})
}

// P10: who cancels the call while the user is asked gets no write, whatever is
// answered then.
func TestCancelledWhileAsked_P10(t *testing.T) {
	t.Parallel()
	u := newUser(t, legacy, elicits, 0)
	args := u.input("x\n")
	q := u.outcome(u.request("write_stdin", args, "", elicits))
	u.send(cancelOf(fmt.Sprint(u.n)))
	if line := u.line(); !strings.Contains(line, "notifications/cancelled") {
		t.Errorf("the question was not withdrawn: %s", line)
	}
	u.send(u.answer(q, args, accept))
	u.silent("end")
	if out := u.wrote(); out != "" {
		t.Errorf("sent all the same: %q", out)
	}
}

// C6: calls that wait for a second request are bounded, also where no gate lets one
// question after the other through; at the end of the server all of them end.
func TestParkedIsBounded(t *testing.T) {
	t.Parallel()
	s := newSuite()
	ended := make(chan error, 2*maxParked)
	s.onCall = func(err error) { ended <- err }
	s.asking = true
	p := newPeer(t, s)
	u := &user{peer: p, era: modern}
	for range maxParked {
		if q := u.outcome(u.request("edit", `{}`, "", elicits)); q.question == nil {
			t.Fatalf("not asked: %s", q.text)
		}
	}
	if r := u.outcome(u.request("edit", `{}`, "", elicits)); r.code != "approval_unavailable" {
		t.Fatalf("over the bound: %s", r.text)
	}
	<-ended
	p.in.Close()
	p.gone()
	for range maxParked {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a parked call was approved by the end of the server")
			}
		case <-time.After(hang):
			t.Fatal("a parked call lives on")
		}
	}
}

// A panic behind a question is one answer.
func TestPanicAfterApproval(t *testing.T) {
	t.Parallel()
	s := newSuite()
	s.asking = true
	u := &user{peer: newPeer(t, s), era: modern}
	q := u.outcome(u.request("replace", `{}`, "", elicits))
	line := u.request("replace", `{}`, fmt.Sprintf(`,"inputResponses":{%q:%s},"requestState":%q`, questionID, strings.Replace(accept, "send", "run", 1), q.state), elicits)
	if r := u.outcome(line); r.code != "uncertain" || strings.Contains(r.text, "canary") {
		t.Errorf("%s", r.text)
	}
}

// ask is what a suite does that asks before each call, without a gate.
func ask(ctx context.Context, caller coding.Caller) error {
	if caller.Asker == nil {
		return tool.NewError(tool.ApprovalUnavailable)
	}
	yes, err := caller.Asker.Ask(ctx, tool.Prompt{Reason: "guard_ask", Title: "t", Shown: "s"})
	switch {
	case err != nil && ctx.Err() == nil:
		return tool.NewError(tool.ApprovalUnavailable)
	case !yes:
		return tool.NewError(tool.ApprovalDenied)
	}
	return nil
}
