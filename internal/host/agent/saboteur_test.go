package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belayhq/belay/approve"
	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/guard"
	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/internal/host/transcript"
	"github.com/belayhq/belay/tool"
)

// A hook is a guard made of a function.
type hook func(context.Context, tool.Action) (guard.Verdict, error)

func (f hook) Check(ctx context.Context, a tool.Action) (guard.Verdict, error) { return f(ctx, a) }

// An asker is made of a function.
type asker func(context.Context, tool.Prompt) (bool, error)

func (f asker) Ask(ctx context.Context, p tool.Prompt) (bool, error) { return f(ctx, p) }

// A provider is made of a function.
type provider func(context.Context, model.Request, func(string)) (model.Answer, error)

func (f provider) Stream(ctx context.Context, r model.Request, text func(string)) (model.Answer, error) {
	return f(ctx, r, text)
}

func hooked(h hook) option {
	return func(_ *Config, s *coding.Config) { s.Hooks = append(s.Hooks, h) }
}

func asked(a approve.Asker) option { return func(c *Config, _ *coding.Config) { c.Asker = a } }

// askFor lets the user decide on shell.
func askFor(_ context.Context, a tool.Action) (guard.Verdict, error) {
	if a.Tool == "shell" {
		return guard.Verdict{Decision: guard.Ask, Reason: "because"}, nil
	}
	return guard.Verdict{}, nil
}

// soon aborts, and wants it done within the bounds, with every call closed and the
// conversation fit to go on.
func (h *host) soon(within time.Duration) (queued []string) {
	h.Helper()
	began := time.Now()
	queued = h.Abort()
	if d := time.Since(began); d > within {
		h.Errorf("the abort took %v", d)
	}
	if h.Busy() {
		h.Error("it is busy behind an abort")
	}
	o := h.settle()
	if !o.Aborted || o.Err != nil {
		h.Errorf("%+v", o)
	}
	return queued
}

// again wants the conversation to go on with what was said before in it.
func (h *host) again() {
	h.Helper()
	h.prompt("and now")
	o := h.settle()
	if o.Err != nil || o.Text != "here" {
		h.Errorf("the second question: %+v\n%s", o, h.line())
	}
	last := h.model.all()[len(h.model.all())-1]
	texts := []string{}
	for _, m := range last.Messages {
		texts = append(texts, m.Text)
	}
	if all := strings.Join(texts, "|"); !strings.Contains(all, "start") || !strings.Contains(all, "and now") {
		h.Errorf("the context is gone: %s", all)
	}
}

var here = m{"text": "here"}

// An abort ends whatever step it meets, each call has its result, and the next question is
// answered with the former context. HO-09.
func TestAbortAtEachStep(t *testing.T) {
	t.Parallel()
	shell := func(line string) m { return call("shell", m{"argv": []string{"sh", "-c", line}}) }
	stuck := func(h *Agent) { h.leave = 200 * time.Millisecond }

	t.Run("the model hangs", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{{"text": "half of ", "hang": true}, here})
		h.prompt("start")
		h.until("a piece", func(e Event) bool { return e.Type == TextDelta })
		h.soon(5 * time.Second)
		h.is("transcript", h.line(), "user assistant notice")
		h.again()
	})
	t.Run("the model ignores the abort", func(t *testing.T) {
		t.Parallel()
		n, free := 0, make(chan struct{}) // lets what ignores its context go, at the end
		h := hostWith(t, provider(func(ctx context.Context, r model.Request, text func(string)) (model.Answer, error) {
			if n++; n == 1 {
				text("half of ")
				<-free
				text("late")
				return model.Answer{Text: "late", Stop: model.Done}, nil
			}
			text("here")
			return model.Answer{Text: "here", Stop: model.Done}, nil
		}))
		stuck(h.Agent)
		h.prompt("start")
		h.until("a piece", func(e Event) bool { return e.Type == TextDelta })
		h.soon(5 * time.Second)
		h.again()
		h.is("transcript", h.line(), "user assistant notice user assistant turn")
		if err := h.Close(); err != errLeft {
			t.Errorf("Close says %v of a provider that is still there", err)
		}
		close(free)
		h.gone()
	})
	t.Run("the answer comes with the abort", func(t *testing.T) {
		t.Parallel()
		n, at := 0, make(chan struct{})
		h := hostWith(t, provider(func(ctx context.Context, r model.Request, text func(string)) (model.Answer, error) {
			if n++; n == 1 {
				close(at)
				<-ctx.Done()
				return model.Answer{Stop: model.ToolUse, Calls: []model.Call{{ID: "c", Name: "shell", Args: `{"argv":["touch","P"]}`}}}, nil
			}
			return model.Answer{Text: "here", Stop: model.Done}, nil
		}))
		h.prompt("start")
		<-at
		h.soon(5 * time.Second)
		h.is("transcript", h.line(), "user notice")
		h.again()
		if h.exists("P") {
			t.Error("it ran")
		}
	})
	t.Run("a command that ignores signals", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{calls(shell("trap '' INT TERM; touch up; sleep 30309; sleep 30309"), call("read", m{"path": "up"})), here})
		h.prompt("start")
		h.appears("up")
		h.soon(10 * time.Second)
		h.is("transcript", h.line(), "user assistant shell read refused uncertain turn notice")
		if ids := h.suite.Running(); len(ids) > 0 {
			t.Errorf("%v run", ids)
		}
		h.again()
	})
	t.Run("a session lives on", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{calls(call("exec_command", m{"cmd": "touch up; exec sleep 30310", "mode": "background", "yield_time_ms": 250})), calls(call("exec_wait", m{"timeout_ms": 300000})), here})
		h.prompt("start")
		h.started("exec_wait")
		h.soon(5 * time.Second)
		if ids := h.suite.Running(); len(ids) != 1 { // D2: an abort does not stop it
			t.Errorf("%v run", ids)
		}
		h.again()
	})
	t.Run("a dialog is open", func(t *testing.T) {
		t.Parallel()
		shown, gone := make(chan struct{}), make(chan struct{})
		h := newHost(t, []m{calls(shell("touch P")), here}, hooked(askFor), asked(asker(func(ctx context.Context, _ tool.Prompt) (bool, error) {
			close(shown)
			<-ctx.Done()
			close(gone)
			return true, nil // a late yes
		})))
		h.prompt("start")
		<-shown
		h.soon(5 * time.Second)
		<-gone
		h.is("transcript", h.line(), "user assistant shell refused turn notice")
		h.again()
		if h.exists("P") {
			t.Error("a late yes counted")
		}
	})
	t.Run("a dialog that ignores the abort", func(t *testing.T) {
		t.Parallel()
		shown, release := make(chan struct{}), make(chan struct{})
		h := newHost(t, []m{calls(shell("touch P")), here}, hooked(askFor), asked(asker(func(context.Context, tool.Prompt) (bool, error) {
			close(shown)
			<-release
			return true, nil
		})))
		h.prompt("start")
		<-shown
		h.soon(5 * time.Second)
		h.is("transcript", h.line(), "user assistant shell refused turn notice")
		h.again()
		close(release)
		h.gone()
		time.Sleep(50 * time.Millisecond)
		if h.exists("P") {
			t.Error("a late yes counted")
		}
	})
	t.Run("a hook hangs", func(t *testing.T) {
		t.Parallel()
		at := make(chan struct{})
		h := newHost(t, []m{calls(shell("touch P")), here}, hooked(func(ctx context.Context, a tool.Action) (guard.Verdict, error) {
			if a.Tool == "shell" {
				close(at)
				<-ctx.Done()
			}
			return guard.Verdict{}, nil
		}))
		h.prompt("start")
		<-at
		h.soon(5 * time.Second)
		h.is("transcript", h.line(), "user assistant shell refused turn notice")
		h.again()
	})
	t.Run("a hook ignores the abort", func(t *testing.T) {
		t.Parallel()
		at, release := make(chan struct{}), make(chan struct{})
		h := newHost(t, []m{calls(shell("touch P"), call("read", m{"path": "nothing"})), here}, hooked(func(ctx context.Context, a tool.Action) (guard.Verdict, error) {
			if a.Tool == "shell" {
				close(at)
				<-release
			}
			return guard.Verdict{}, nil
		}))
		stuck(h.Agent)
		h.prompt("start")
		<-at
		h.soon(5 * time.Second)
		h.is("transcript", h.line(), "user assistant shell read (refused )?uncertain (refused )?turn notice")
		h.again()
		close(release)
		h.gone()
		time.Sleep(50 * time.Millisecond)
		if h.exists("P") {
			t.Error("it ran behind the abort")
		}
	})
	t.Run("before anything was asked", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{{"text": "start", "repeat": 100}})
		given := 0
		for i := range 50 { // wherever it meets the run, the text is sent or given back, not both
			h.prompt("start")
			time.Sleep(time.Duration(i) * 20 * time.Microsecond)
			given += len(h.Abort())
			h.settle()
		}
		told := 0
		for _, e := range h.entries() {
			if e.Type == transcript.User {
				told++
			}
		}
		if told+given != 50 {
			t.Errorf("%d were sent and %d given back", told, given)
		}
	})
	t.Run("the face is deaf", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		var once sync.Once
		h := newHost(t, []m{{"text": "0123456789", "times": 40000, "pieces": 40000}, here}, func(c *Config, _ *coding.Config) {
			tell := c.Event
			c.Event = func(e Event) {
				if e.Type == TextDelta {
					<-release
				}
				tell(e)
			}
		})
		defer once.Do(func() { close(release) })
		h.prompt("start")
		for end := time.Now().Add(long); ; time.Sleep(time.Millisecond) {
			h.Agent.events.mu.Lock()
			n := len(h.Agent.events.queue)
			h.Agent.events.mu.Unlock()
			if n > maxEvents/2 { // and no room is made before half of it is gone
				time.Sleep(50 * time.Millisecond)
				break
			}
			if time.Now().After(end) {
				t.Fatal("the run does not fill the queue")
			}
		}
		began := time.Now()
		h.Abort()
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("the abort took %v", d)
		}
		if h.Busy() {
			t.Error("busy")
		}
		h.Agent.events.mu.Lock()
		n := len(h.Agent.events.queue)
		h.Agent.events.mu.Unlock()
		if n > maxEvents+8 {
			t.Errorf("%d events wait", n)
		}
		once.Do(func() { close(release) })
		h.again()
	})
	t.Run("the transcript fails", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{calls(shell("touch up; " + after("go", "true"))), here})
		h.prompt("start")
		h.appears("up")
		h.config.Transcript.Close()
		h.write("go", "")
		o := h.settle()
		var e *transcript.Error
		if !errors.As(o.Err, &e) || e.Reason != transcript.Closed {
			t.Errorf("%+v", o)
		}
		if n := len(h.model.all()); n != 1 {
			t.Errorf("%d requests: it went on without a record", n)
		}
		if got := Code(o.Err); got != "transcript" {
			t.Error(got)
		}
		h.until("the error is told", func(e Event) bool { return e.Type == Failed && e.Code == "transcript" })
	})
}

// gone waits until what was left behind has ended.
func (h *host) gone() {
	h.Helper()
	for end := time.Now().Add(long); h.left.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			h.Fatal("it stays")
		}
	}
}

// The texts of the user that wait survive an abort: each is given back or was said, once.
func TestAbortKeepsTexts(t *testing.T) {
	t.Parallel()
	h := newHost(t, []m{{"text": "hm", "hang": true}, here})
	h.prompt("start")
	h.until("a piece", func(e Event) bool { return e.Type == TextDelta })
	for _, f := range []func(string) error{h.FollowUp, h.Steer} {
		for i := range 2 {
			if err := f(fmt.Sprint("text ", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if steer, follow := h.Queued(); len(steer) != 2 || len(follow) != 2 {
		t.Errorf("%q %q", steer, follow)
	}
	if err := h.Prompt("no"); err != ErrBusy {
		t.Error(err)
	}
	if got := h.soon(5 * time.Second); !slices.Equal(got, []string{"text 0", "text 1", "text 0", "text 1"}) {
		t.Errorf("%q", got)
	}
	e := h.told()
	if last := e[slices.IndexFunc(e, func(e Event) bool { return e.Type == Queue && len(e.Steer)+len(e.FollowUp) == 0 })]; last.Type != Queue {
		t.Error("the empty queue is not told")
	}
	h.again()
	h.is("transcript", h.line(), "user assistant notice user assistant turn")
	if got := h.Abort(); len(got) != 0 { // idle
		t.Errorf("%q", got)
	}
}

// A text that comes behind an abort, while the run is still ending, is heard.
func TestSteerBehindAbort(t *testing.T) {
	t.Parallel()
	at, release := make(chan struct{}), make(chan struct{})
	h := newHost(t, []m{calls(call("shell", m{"argv": []string{"true"}})), {"text": "here", "expect": []string{"another way"}}}, hooked(func(ctx context.Context, a tool.Action) (guard.Verdict, error) {
		close(at)
		<-release
		return guard.Verdict{}, nil
	}))
	h.prompt("start")
	<-at
	done := make(chan []string)
	go func() { done <- h.Abort() }()
	for end := time.Now().Add(long); ; time.Sleep(time.Millisecond) {
		h.Agent.mu.Lock()
		halted := h.halted
		h.Agent.mu.Unlock()
		if halted || time.Now().After(end) {
			break
		}
	}
	if err := h.Steer("another way"); err != nil {
		t.Fatal(err)
	}
	close(release)
	if got := <-done; len(got) > 0 {
		t.Errorf("%q", got)
	}
	h.is("text", h.settle().Text, "here")
}

// AP-07, AP-10: what the user cannot be asked, and every answer that is no yes, is a
// refusal in time; the run goes on, and its outcome says so.
func TestApproval(t *testing.T) {
	t.Parallel()
	step := []m{calls(call("shell", m{"argv": []string{"touch", "P"}})), {"text": "done", "expect": []string{"tool failed"}}}
	for name, c := range map[string]struct {
		asker approve.Asker
		code  tool.Code
	}{
		"nobody":       {nil, tool.ApprovalUnavailable},
		"unavailable":  {asker(func(context.Context, tool.Prompt) (bool, error) { return false, approve.ErrUnavailable }), tool.ApprovalUnavailable},
		"no":           {asker(func(context.Context, tool.Prompt) (bool, error) { return false, nil }), tool.ApprovalDenied},
		"end of input": {asker(func(context.Context, tool.Prompt) (bool, error) { return true, errors.New("EOF") }), tool.ApprovalDenied},
		"panic":        {asker(func(context.Context, tool.Prompt) (bool, error) { panic("x") }), tool.ApprovalDenied},
		"never": {asker(func(ctx context.Context, _ tool.Prompt) (bool, error) { <-ctx.Done(); return true, nil }),
			tool.ApprovalTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, step, hooked(askFor), asked(c.asker), func(_ *Config, s *coding.Config) { s.ApprovalTimeout = 300 * time.Millisecond })
			o := h.does("start")
			if o.Approval != c.code || o.Uncertain != 0 || o.Text != "done" {
				t.Errorf("%+v", o)
			}
			if h.exists("P") {
				t.Error("it ran")
			}
			h.until("the refusal is told", func(e Event) bool {
				return e.Type == ToolEnd && e.Kind == "refused" && e.Code == string(c.code)
			})
		})
	}
	t.Run("yes", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{step[0], {"text": "done"}}, hooked(askFor), asked(asker(func(_ context.Context, p tool.Prompt) (bool, error) { return p.Reason == "guard_ask", nil })))
		if o := h.does("start"); o.Approval != "" || !h.exists("P") {
			t.Errorf("%+v", o)
		}
	})
	// P9: input needs a yes each time.
	t.Run("input", func(t *testing.T) {
		t.Parallel()
		var mu sync.Mutex
		var shown []string
		input := func(chars string) m { return call("write_stdin", m{"session_id": "${id}", "chars": chars}) }
		h := newHost(t, []m{
			calls(call("exec_command", m{"cmd": "exec cat", "stdin": "open", "yield_time_ms": 250})),
			{"take": m{"id": `session=(\w+)`}, "calls": []m{input("one\n"), input("two\n"), input("three\n")}},
			{"text": "done", "expect": []string{`(?s)^tool:.*tool failed:\napproval_denied.*\ntool:`}},
		}, asked(asker(func(_ context.Context, p tool.Prompt) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			shown = append(shown, p.Shown)
			return !strings.Contains(p.Shown, "two"), nil
		})))
		h.does("start")
		if !slices.Equal(shown, []string{`one\n`, `two\n`, `three\n`}) { // in the order of the calls
			t.Errorf("%q", shown)
		}
	})
}

// A panic in a callback ends neither the loop nor the program, and is not silent.
func TestPanics(t *testing.T) {
	t.Parallel()
	t.Run("hook in a batch", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{
			calls(call("shell", m{"argv": []string{"echo", "one"}}), call("shell", m{"argv": []string{"echo", "boom"}}), call("shell", m{"argv": []string{"echo", "three"}})),
			{"text": "done", "expect": []string{"(?s)tool:.*one.*tool failed:.*tool:.*three"}},
		}, hooked(func(_ context.Context, a tool.Action) (guard.Verdict, error) {
			if slices.Contains(a.Argv, "boom") {
				panic("boom")
			}
			return guard.Verdict{}, nil
		}))
		h.does("start")
	})
	t.Run("provider", func(t *testing.T) {
		t.Parallel()
		n := 0
		h := hostWith(t, provider(func(_ context.Context, _ model.Request, text func(string)) (model.Answer, error) {
			if n++; n == 1 {
				text("some")
				panic("secret")
			}
			text("here")
			return model.Answer{Text: "here", Stop: model.Done}, nil
		}))
		h.prompt("start")
		o := h.settle()
		var e *model.Error
		if !errors.As(o.Err, &e) || e.Code != "provider_fault" || strings.Contains(o.Err.Error(), "secret") {
			t.Errorf("%+v", o)
		}
		h.again()
	})
	for _, where := range []string{"Event", "Notify"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, []m{calls(call("shell", m{"argv": []string{"touch", "P"}})), here}, func(c *Config, s *coding.Config) {
				tell := c.Event
				c.Event = func(e Event) {
					tell(e)
					if where == "Event" && e.Type == ToolStart {
						panic("secret")
					}
				}
				c.Notify = func(string) {
					if where == "Notify" {
						panic("secret")
					}
				}
			}, hooked(func(context.Context, tool.Action) (guard.Verdict, error) {
				return guard.Verdict{UserOnly: "code 123"}, nil
			}))
			h.prompt("start")
			o := h.settle()
			var p *Panic
			if o.Text != "here" || !h.exists("P") || !errors.As(o.Err, &p) || p.Where != where {
				t.Errorf("%+v", o)
			}
			if err := h.Close(); !errors.As(err, &p) {
				t.Error(err)
			}
			h.Agent.mu.Lock()
			h.broken = nil // told
			h.Agent.mu.Unlock()
		})
	}
}

// G3: what is for the user alone goes to Notify and neither to the model nor the
// transcript.
func TestNotify(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	h := newHost(t, []m{calls(call("shell", m{"argv": []string{"true"}})), here}, func(c *Config, _ *coding.Config) {
		c.Notify = func(s string) { mu.Lock(); defer mu.Unlock(); got = append(got, s) }
	}, hooked(func(context.Context, tool.Action) (guard.Verdict, error) {
		return guard.Verdict{Decision: guard.Deny, Reason: "no", UserOnly: "allow-once 12345"}, nil
	}))
	h.does("start")
	if !slices.Equal(got, []string{"allow-once 12345"}) {
		t.Errorf("%q", got)
	}
	for _, e := range h.entries() {
		if strings.Contains(e.Text+string(e.Data), "12345") {
			t.Errorf("%+v", e)
		}
	}
	for _, r := range h.model.all() {
		for _, m := range r.Messages {
			if strings.Contains(m.Text, "12345") {
				t.Error("the model was told")
			}
		}
	}
}

// After a fault of the program itself in the middle of a batch each call has its result, in
// the transcript and in front of the model.
func TestFaultInABatch(t *testing.T) {
	t.Parallel()
	dir := transcript.In(t.TempDir())
	h := history{transcript: dir.New("/")}
	defer h.transcript.Close()
	if err := h.tell(transcript.Entry{Type: transcript.User, Text: "start"}); err != nil {
		t.Fatal(err)
	}
	var entries []transcript.Entry
	answer := model.Message{Role: model.Assistant}
	for _, id := range []string{"a", "b", "c"} {
		answer.Calls = append(answer.Calls, model.Call{ID: id, Name: "shell"})
		entries = append(entries, transcript.Entry{Type: transcript.Call, CallID: id, Tool: "shell"})
	}
	if err := h.answered(answer, said{}, entries); err != nil {
		t.Fatal(err)
	}
	if err := h.ended(result{id: "b", kind: kindResult, text: "b is done"}); err != nil {
		t.Fatal(err)
	}
	h.results(func(c model.Call) result { return failure(c.ID, tool.NewError(tool.UncertainOutcome)) })
	if err := h.tell(transcript.Entry{Type: transcript.User, Text: "and now"}); err != nil {
		t.Fatal(err)
	}
	if err := (model.Request{Messages: h.view()}).Check(); err != nil {
		t.Error(err)
	}
	if m := h.view(); m[3].Text != "b is done" || !m[2].Failed || !m[4].Failed {
		t.Errorf("%+v", m)
	}
}

// What waits for a deaf face is bounded, also behind an abort.
func TestDeafFace(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var mu sync.Mutex
	told := 0
	e := teller{tell: func(Event) { <-release; mu.Lock(); told++; mu.Unlock() }}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for range 10_000 {
			e.put(ctx, Event{Type: TextDelta, Text: "x"})
		}
	}()
	time.Sleep(20 * time.Millisecond)
	cancel()
	<-stopped // it waits no longer
	for range 10_000 {
		e.put(ctx, Event{Type: ToolEnd})
		e.now(Event{Type: Queue})
	}
	e.mu.Lock()
	n, queues, words := len(e.queue), 0, 0
	for _, q := range e.queue {
		switch q.Type {
		case Queue:
			queues++
		case TextDelta:
			words++
		}
	}
	e.mu.Unlock()
	if n > hardEvents || queues > 1 || words > maxEvents {
		t.Errorf("%d events wait, %d of the queue, %d of words", n, queues, words)
	}
	if e.flush() {
		t.Error("all was told")
	}
	close(release)
	if err := e.wait(context.Background()); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if told < n || told > n+1 {
		t.Errorf("%d of %d told", told, n)
	}
}
