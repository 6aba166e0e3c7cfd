package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// began waits until a call of shell or exec_wait runs.
func (s *suite) began(t *testing.T) string {
	t.Helper()
	select {
	case id := <-s.started:
		return id
	case <-time.After(hang):
		t.Fatal("the call did not start")
		return ""
	}
}

func cancelOf(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"user"}}`
}

// MC-05: while a tool runs, everything else is answered.
func TestALongCallHoldsUpNothing(t *testing.T) {
	t.Parallel()
	s := newSuite()
	p := newPeer(t, s).hello()
	p.send(callOf("1", "exec_wait", `{}`))
	s.began(t)
	p.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, callOf("4", "write_stdin", `{"text":"fast"}`))
	got := map[string]string{}
	for range 3 {
		r := p.reply()
		got[string(r.ID)] = string(r.Result)
	}
	if got["2"] != `{}` || !strings.Contains(got["3"], `"write_stdin"`) || !strings.Contains(got["4"], `"fast"`) {
		t.Errorf("%v", got)
	}
	close(s.release)
	if r := p.reply(); string(r.ID) != "1" || !strings.Contains(string(r.Result), "released") {
		t.Errorf("%s: %s", r.ID, r.Result)
	}
	p.silent("end")
}

// MC-06: a cancel ends the call, which is not answered then; one for what is not
// in flight changes nothing.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, id := range []string{`7`, `"seven"`, `"\u0037"`, `9007199254740993`, `7.5`} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			s := newSuite()
			ended := make(chan error, 1)
			s.onCall = func(err error) { ended <- err }
			p := newPeer(t, s).hello()
			p.send(callOf(id, "shell", `{}`))
			if got := s.began(t); got != id {
				t.Errorf("call %s has the id %s", id, got)
			}
			p.send(cancelOf(`"eight"`), cancelOf(id))
			select {
			case err := <-ended:
				if err == nil || !strings.HasPrefix(err.Error(), "uncertain") {
					t.Errorf("the cancelled call ended with %v", err)
				}
			case <-time.After(hang):
				t.Fatal("the cancel did not reach the call")
			}
			p.send(cancelOf(id), cancelOf(`999`), cancelOf(`"x"`), cancelOf(`null`), cancelOf(`{}`), cancelOf(`"init"`),
				`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}`)
			p.silent("8")
			for end := time.Now().Add(hang); ; { // the id is free again, once the SDK is done with the call
				p.send(callOf(id, "write_stdin", `{"text":"ok"}`))
				r := p.reply()
				if r.Error != nil && time.Now().Before(end) {
					continue
				}
				if string(r.ID) != id || !strings.Contains(string(r.Result), `"ok"`) {
					t.Errorf("%s: %s", r.ID, r.Result)
				}
				break
			}
			p.silent("9")
		})
	}
}

// MCP lets nobody cancel initialize, and a client that waits for its answer would
// wait for ever.
func TestInitializeIsNotCancelled(t *testing.T) {
	t.Parallel()
	for range 20 {
		p := newPeer(t, newSuite())
		p.send(initialize, cancelOf(`"init"`))
		if r := p.reply(); string(r.ID) != `"init"` || r.Error != nil {
			t.Errorf("%+v", r)
		}
	}
}

// MC-06: a call that does not heed its cancel gives no answer when it ends.
func TestCancelledCallThatSucceedsIsNotAnswered(t *testing.T) {
	t.Parallel()
	s := newSuite()
	done := make(chan error, 1)
	s.onCall = func(err error) { done <- err }
	p := newPeer(t, s).hello()
	p.send(callOf("1", "exec_wait", `{}`))
	s.began(t)
	p.send(cancelOf("1"))
	p.silent("a")
	close(s.release)
	<-done
	p.silent("b")
}

// Each id is answered once: one that is in flight is refused to a second
// request, without its name, and the first is not disturbed.
func TestAnIDInFlightIsRefused(t *testing.T) {
	t.Parallel()
	for _, id := range []string{`1`, `"x"`, `1.0`} {
		s := newSuite()
		p := newPeer(t, s).hello()
		p.send(callOf(id, "exec_wait", `{}`))
		s.began(t)
		for _, second := range []string{
			callOf(id, "write_stdin", `{"text":"second"}`),
			`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`,
			`{"jsonrpc":"2.0","id":` + id + `,"method":5}`,
		} {
			p.send(second)
			if r := p.reply(); string(r.ID) != "null" || r.Error == nil || r.Error.Code != codeInvalidRequest {
				t.Errorf("%s: got %+v", second, r)
			}
		}
		close(s.release)
		if r := p.reply(); string(r.ID) != id || !strings.Contains(string(r.Result), "released") {
			t.Errorf("%+v", r)
		}
		p.silent("end")
	}
}

// No two messages are interleaved within a line, and every id is answered
// exactly once, also when large answers are written at the same time.
func TestManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	const calls, size = 150, 40_000
	p := newPeer(t, newSuite()).hello()
	go func() {
		for i := range calls {
			text := strings.Repeat(string(rune('a'+i%26)), size+i)
			if _, err := fmt.Fprintln(p.in, callOf(fmt.Sprint(i), "write_stdin", `{"text":"`+text+`"}`)); err != nil {
				return
			}
		}
	}()
	seen := map[string]bool{}
	for range calls {
		r := p.reply()
		var result struct {
			Content []struct{ Text string }
		}
		if json.Unmarshal(r.Result, &result) != nil || len(result.Content) != 1 {
			t.Fatalf("%s: %.200s", r.ID, r.Result)
		}
		var n int
		fmt.Sscan(string(r.ID), &n)
		if text := result.Content[0].Text; seen[string(r.ID)] || len(text) != size+n || strings.Trim(text, string(rune('a'+n%26))) != "" {
			t.Fatalf("the answer to %s is not its own", r.ID)
		}
		seen[string(r.ID)] = true
	}
	p.silent("end")
}

// C6: what is over the bound on requests in flight is refused, and pings still
// pass.
func TestFlightIsBounded(t *testing.T) {
	t.Parallel()
	s := newSuite()
	p := newPeer(t, s).hello()
	for i := range maxFlight {
		p.send(callOf(fmt.Sprint(i), "exec_wait", `{}`))
		s.began(t)
	}
	p.send(callOf(`"over"`, "exec_wait", `{}`))
	if r := p.reply(); string(r.ID) != `"over"` || r.Error == nil || r.Error.Code != codeBusy {
		t.Errorf("%+v", r)
	}
	p.silent("ping")
	close(s.release)
	for range maxFlight {
		if r := p.reply(); r.Error != nil {
			t.Errorf("%+v", r)
		}
	}
	p.send(callOf(`"over"`, "write_stdin", `{}`))
	if r := p.reply(); r.Error != nil {
		t.Errorf("%+v", r)
	}
}

// C6: the lines of the requests in flight are bounded together.
func TestFlightIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	s := newSuite()
	p := newPeer(t, s).hello()
	large := `{"x":"` + strings.Repeat("x", maxLine-200) + `"}`
	for i := range maxFlightBytes / maxLine {
		p.send(callOf(fmt.Sprint(i), "exec_wait", large))
		s.began(t)
	}
	p.send(callOf(`"over"`, "write_stdin", large))
	if r := p.reply(); string(r.ID) != `"over"` || r.Error == nil || r.Error.Code != codeBusy {
		t.Errorf("%+v", r)
	}
	p.silent("ping")
	close(s.release)
	for range maxFlightBytes / maxLine {
		p.reply()
	}
	p.send(callOf(`"again"`, "write_stdin", large))
	if r := p.reply(); string(r.ID) != `"again"` || r.Error != nil {
		t.Errorf("%+v", r)
	}
}
