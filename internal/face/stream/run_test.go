package stream

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belayhq/belay/internal/host/agent"
	"github.com/belayhq/belay/tool"
)

// A page is written by several goroutines.
type page struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) { p.mu.Lock(); defer p.mu.Unlock(); return p.b.Write(b) }
func (p *page) String() string              { p.mu.Lock(); defer p.mu.Unlock(); return p.b.String() }

// An asked is a user who thinks until the question is taken back.
type asked struct{ stands chan struct{} }

func (a asked) Ask(ctx context.Context, _ tool.Prompt) (bool, error) {
	close(a.stands)
	<-ctx.Done()
	return false, ctx.Err()
}

// A run that is stopped while a question stands ends at once, names what ended with it, and has
// nothing on the output: what the model had said is told beside it.
func TestStoppedAtAQuestion(t *testing.T) {
	t.Parallel()
	p := newPlace(t, `{"calls":[{"name":"exec_command","args":{"cmd":"cat","stdin":"open","yield_time_ms":250}}]}
{"take":{"s":"session=([a-z0-9_]+)"},"text":"I ask.","calls":[{"name":"write_stdin","args":{"session_id":"${s}","chars":"x"}}]}
`)
	ctx, stop := context.WithCancelCause(context.Background())
	user := asked{make(chan struct{})}
	var out, progress page
	type came struct {
		Report
		error
	}
	ended := make(chan came, 1)
	go func() {
		r, err := Print(ctx, p.config(Which{}), Task{Prompt: "go", Wait: time.Minute, Asker: user}, &out, &progress)
		ended <- came{r, err}
	}()
	<-user.stands
	stop(errors.New("stopped"))
	select {
	case r := <-ended:
		if !errors.Is(r.error, context.Canceled) || r.Conversation == "" {
			t.Errorf("%+v", r)
		}
	case <-time.After(hang / 2):
		t.Fatal("it does not end")
	}
	if s := progress.String(); out.String() != "" || !strings.Contains(s, "\n  I ask.\n") || !strings.Contains(s, "\nbelay: ended with the run: ") || !strings.HasSuffix(s, " cat\n") {
		t.Errorf("%q, %q", out.String(), s)
	}
}

// What came of a call is bounded and inert, whatever it holds.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	var out page
	p := newTeller(&out)
	p.armed = func() int { return 0 }
	facts := map[string]any{"argument": "a\x1b[2Jb\nbelay: c", "long": strings.Repeat("x", 100_000), "list": []any{"\x1b", 1}}
	for _, name := range strings.Split("ABCDEFGHIJ", "") {
		facts["z"+name] = true
	}
	p.tell(agent.Event{Type: agent.ToolStart, CallID: "1", Tool: "re\x1bad", Preview: strings.Repeat("p", 160)})
	p.tell(agent.Event{Type: agent.ToolEnd, CallID: "1", Kind: "refused", Code: "invalid\nargument", Facts: facts})
	p.tell(agent.Event{Type: agent.ToolEnd, CallID: "unknown", Kind: "result", Facts: map[string]any{"status": "exited", "exit_code": int64(0)}})
	p.tell(agent.Event{Type: agent.ToolEnd, CallID: "unknown", Kind: "result", Facts: map[string]any{"cleanup_completed": false, "exit_code": "\x1b"}})
	p.tell(agent.Event{Type: agent.Noticed, SessionID: "s\x1b", Facts: map[string]any{"status": "exited", "exit_code": int64(2)}, Text: "not to be shown"})
	p.tell(agent.Event{Type: agent.Said, Role: "assistant", Text: "a\rb\x1b]0;t\ac\n\nd\n"})
	s := out.String()
	if strings.Contains(s, "  ") {
		t.Error("the last answer is told already")
	}
	p.rest()
	s = out.String()
	if n := strings.Count(s, "\n"); n != 7 || len(s) > 2000 || strings.ContainsAny(s, "\x1b\r\a") || strings.Contains(s, "not to be shown") {
		t.Errorf("%d lines: %s", n, s)
	}
	for _, want := range []string{
		` -> invalid\nargument argument="a\x1b[2Jb\nbelay: c" list=["\\u001b",1] long=xxx`, " …\n", `exit code \x1b, its end could not be confirmed`,
		`belay: s\x1b has ended: exit code 2`, "\n  bc\n  \n  d\n",
	} {
		if !strings.Contains(s, want) {
			t.Errorf("%q is not in %s", want, s)
		}
	}
}
