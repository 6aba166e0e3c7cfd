package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/guard"
	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/internal/host/model/scripted"
	"github.com/belayhq/belay/internal/host/transcript"
	"github.com/belayhq/belay/tool"
)

// long is against hangs: nothing here takes that long.
const long = 30 * time.Second

type m = map[string]any

// A host is an agent with everything around it real but the model.
type host struct {
	*testing.T
	*Agent
	root   string
	dir    *transcript.Dir
	script *scripted.Model // nil where the model is another
	model  *recorder

	mu     sync.Mutex
	events []Event
	came   chan struct{} // closed and renewed with each event
}

// A recorder keeps the requests.
type recorder struct {
	model.Provider
	mu       sync.Mutex
	requests []model.Request
}

func (r *recorder) Stream(ctx context.Context, q model.Request, text func(string)) (model.Answer, error) {
	if err := q.Check(); err != nil {
		return model.Answer{}, err
	}
	r.mu.Lock()
	r.requests = append(r.requests, q)
	r.mu.Unlock()
	return r.Provider.Stream(ctx, q, text)
}

func (r *recorder) all() []model.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// said is the text that the n-th request has behind the last answer, from 0.
func (r *recorder) news(n int) string {
	q := r.all()
	if n >= len(q) {
		return fmt.Sprintf("(only %d requests)", len(q))
	}
	msgs := q[n].Messages
	from := len(msgs)
	for from > 0 && msgs[from-1].Role != model.Assistant {
		from--
	}
	var b strings.Builder
	for _, msg := range msgs[from:] {
		fmt.Fprintf(&b, "%s:%s\n", msg.Role, msg.Text)
	}
	return b.String()
}

type option func(*Config, *coding.Config)

// line is a step as a line of a script.
func line(step m) string {
	b, err := json.Marshal(step)
	if err != nil {
		panic(err)
	}
	return string(b) + "\n"
}

// newHost makes a host whose model says what the steps are.
func newHost(t *testing.T, steps []m, options ...option) *host {
	t.Helper()
	var b strings.Builder
	for _, s := range steps {
		b.WriteString(line(s))
	}
	script, err := scripted.Parse(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	h := hostWith(t, script, options...)
	h.script = script
	return h
}

func hostWith(t *testing.T, p model.Provider, options ...option) *host {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the commands of these tests are for sh")
	}
	h := &host{T: t, root: t.TempDir(), dir: transcript.In(filepath.Join(t.TempDir(), "conversations")), model: &recorder{Provider: p}, came: make(chan struct{})}
	c := Config{Model: h.model, Event: h.event}
	s := coding.Config{Root: h.root, Shell: "/bin/sh"}
	for _, o := range options {
		o(&c, &s)
	}
	s.Hooks = append(s.Hooks, hook(h.hold))
	suite, err := coding.New(s)
	if err != nil {
		t.Fatal(err)
	}
	c.Suite = suite
	if c.Transcript == nil {
		c.Transcript = h.dir.New(h.root)
	}
	h.Agent = New(c)
	t.Cleanup(func() {
		h.Stop()
		if err := suite.Close(); err != nil {
			t.Error(err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Transcript.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *host) event(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	close(h.came)
	h.came = make(chan struct{})
}

// told are the events so far.
func (h *host) told() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// until waits for an event, and gives it.
func (h *host) until(what string, is func(Event) bool) Event {
	h.Helper()
	end := time.After(long)
	for {
		h.mu.Lock()
		at, came := slices.IndexFunc(h.events, is), h.came
		var e Event
		if at >= 0 {
			e = h.events[at]
		}
		h.mu.Unlock()
		if at >= 0 {
			return e
		}
		select {
		case <-came:
		case <-end:
			h.Fatalf("never: %s\n%v", what, h.told())
		}
	}
}

func (h *host) started(tool string) Event {
	h.Helper()
	return h.until(tool+" starts", func(e Event) bool { return e.Type == ToolStart && e.Tool == tool })
}

// settle waits until nothing is left to do.
func (h *host) settle() Outcome {
	h.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	if err := h.Wait(ctx); err != nil {
		h.Fatalf("it does not settle: %v\n%v", err, h.told())
	}
	return h.Outcome()
}

func (h *host) prompt(text string) {
	h.Helper()
	if err := h.Prompt(text); err != nil {
		h.Fatal(err)
	}
}

// does prompts, and wants everything done as the script has it.
func (h *host) does(text string) Outcome {
	h.Helper()
	h.prompt(text)
	o := h.settle()
	if o.Err != nil {
		h.Fatalf("%s\n%s\n%s", sentence(o.Err), h.line(), h.model.news(len(h.model.all())-1))
	}
	if h.script != nil && h.script.Left() > 0 {
		h.Fatalf("%d steps are left", h.script.Left())
	}
	return o
}

// entries are those of the transcript, as a resume would have them.
func (h *host) entries() (all []transcript.Entry) {
	h.Helper()
	if err := h.dir.Read(h.config.Transcript.ID(), func(e transcript.Entry) error { all = append(all, e); return nil }); err != nil {
		h.Fatal(err)
	}
	return all
}

// line is the transcript in short: types, with tool, session and kind.
func (h *host) line() string {
	var words []string
	for _, e := range h.entries() {
		switch e.Type {
		case transcript.Result:
			words = append(words, e.Kind)
		case transcript.Call:
			words = append(words, e.Tool)
		default:
			words = append(words, string(e.Type))
		}
	}
	return strings.Join(words, " ")
}

func (h *host) write(name, content string) {
	h.Helper()
	if err := os.WriteFile(filepath.Join(h.root, name), []byte(content), 0o600); err != nil {
		h.Fatal(err)
	}
}

func (h *host) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(h.root, name))
	return err == nil
}

// appears waits for a file.
func (h *host) appears(name string) {
	h.Helper()
	for end := time.Now().Add(long); !h.exists(name); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.Fatalf("%s never appears", name)
		}
	}
}

func (h *host) is(what, got, want string) {
	h.Helper()
	if ok, err := regexp.MatchString("(?s)^(?:"+want+")$", got); err != nil || !ok {
		h.Errorf("%s is %q, want %q", what, got, want)
	}
}

// barrier is a call that goes on when a file of the name is there, and either so many
// messages wait or, for messages below 0, nothing runs.
func barrier(file string, messages int) m {
	return call("shell", m{"argv": []string{"true", file, fmt.Sprint(messages)}})
}

// hold is the hook behind barrier.
func (h *host) hold(_ context.Context, a tool.Action) (guard.Verdict, error) {
	if len(a.Argv) == 3 && a.Argv[0] == "true" {
		var n int
		fmt.Sscan(a.Argv[2], &n)
		for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			if h.exists(a.Argv[1]) && (n < 0 && len(h.suite.Running()) == 0 || n >= 0 && h.suite.Waiting(coding.Idle) >= n) {
				break
			}
		}
	}
	return guard.Verdict{}, nil
}

// call is a step's call.
func call(name string, args m) m { return m{"name": name, "args": args} }

func calls(all ...m) m { return m{"calls": all} }

// after is a shell line that waits for a file and goes on.
func after(file, rest string) string {
	return "while [ ! -e " + file + " ]; do sleep 0.02; done; " + rest
}

// background starts a process in the background that ends when a file is there.
func background(file, rest string) m {
	return call("exec_command", m{"cmd": after(file, rest), "mode": "background", "yield_time_ms": 250})
}

// nobody is a caller beside the agent.
func (h *host) nobody() coding.Caller { return coding.Caller{} }
