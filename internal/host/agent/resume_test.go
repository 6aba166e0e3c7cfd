package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/internal/host/transcript"
)

// resume goes on with the conversation of h under a model that says other steps. h's own
// agent and transcript are closed.
func (h *host) resume(steps []m, options ...option) *host {
	h.Helper()
	if err := h.Close(); err != nil {
		h.Fatal(err)
	}
	id := h.config.Transcript.ID()
	if err := h.config.Transcript.Close(); err != nil {
		h.Fatal(err)
	}
	return resumeIn(h.T, h.dir, id, steps, options...)
}

func resumeIn(t *testing.T, dir *transcript.Dir, id string, steps []m, options ...option) *host {
	t.Helper()
	var history []transcript.Entry
	tr, _, err := dir.Resume(id, func(e transcript.Entry) error { history = append(history, e); return nil })
	if err != nil {
		t.Fatal(err)
	}
	next := newHost(t, steps, append(options, func(c *Config, _ *coding.Config) { c.Transcript, c.History = tr, history })...)
	next.dir = dir
	return next
}

// A conversation that is resumed is the one that was: the model is shown the same, told
// what it lost (B6), and goes on.
func TestResume(t *testing.T) {
	t.Parallel()
	h := newHost(t, []m{
		{"text": "look", "calls": []m{call("read", m{"path": "f"}), call("shell", m{"argv": []string{"sh", "-c", "printf 'a\\r\\nb\\tc\\0d\\342\\200\\250e\\n'; yes L | head -c 100000"}}), call("nope", m{})}},
		{"text": "done"},
	})
	h.write("f", "line\u2028separator\u2029\r\n")
	h.does("start")
	before := h.Messages()
	next := h.resume([]m{{"text": "here", "expect": []string{`(?s)^user:\nbelay: this conversation was resumed.*user:\nand now\n$`}}, {"text": "more", "reject": []string{"resumed"}}})
	if a, b := shown(next.Messages()), shown(before); a != b { // TR-04
		t.Errorf("%s\nwant %s", a, b)
	}
	next.prompt("and now")
	next.is("text", next.settle().Text, "here")
	next.does("more")
	next.is("transcript", next.line(), "user assistant read shell nope .* turn assistant turn notice user assistant turn user assistant turn")
}

// A crash in each place of a turn: what is found again is a conversation that every
// provider takes, calls without a result are uncertain, and nothing is run again (C3).
func TestResumeBehindACrash(t *testing.T) {
	t.Parallel()
	native, err := json.Marshal(said{Native: &model.Native{By: "x", JSON: []byte(`{"calls":["a","b"]}`)}, Calls: 2})
	if err != nil {
		t.Fatal(err)
	}
	all := []transcript.Entry{
		{Type: transcript.User, Text: "start"},
		{Type: transcript.Assistant, Text: "two calls", Data: native},
		{Type: transcript.Call, CallID: "a", Tool: "shell", Args: `{"argv":["touch","A"]}`},
		{Type: transcript.Call, CallID: "b", Tool: "shell", Args: `{"argv":["touch","B"]}`},
		{Type: transcript.Result, CallID: "b", Kind: "result", Text: "result-b"},
		{Type: transcript.Result, CallID: "a", Kind: "result", Text: "result-a"},
		{Type: transcript.Turn},
	}
	for n := 1; n <= len(all); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			dir := transcript.In(filepath.Join(t.TempDir(), "c"))
			w := dir.New("/")
			for _, e := range all[:n] {
				if err := w.Append(e); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			h := resumeIn(t, dir, w.ID(), []m{here})
			h.again()
			msgs := h.Messages()
			text := shown(msgs)
			if got, want := strings.Contains(text, `"by":"x"`), n >= 4; got != want {
				t.Errorf("the vendor's own form is there: %v, want %v: %s", got, want, text)
			}
			lost := strings.Count(text, "uncertain: belay ended before")
			want := map[int]int{3: 1, 4: 2, 5: 1}[n]
			if lost != want {
				t.Errorf("%d uncertain, want %d: %s", lost, want, text)
			}
			if n >= 5 && (msgs[2].CallID != "a" || msgs[3].CallID != "b" || msgs[3].Text != "result-b" || !msgs[2].Failed != (n >= 6)) {
				t.Errorf("%s", text)
			}
			if h.exists("A") || h.exists("B") {
				t.Error("it was run again")
			}
		})
	}
}

// C3, HO: the whole program is killed in the middle of a command.
func TestKilledMidTurn(t *testing.T) {
	t.Parallel()
	dir, id := t.TempDir(), ""
	kill := startHelper(t, "midturn", dir)
	for end := time.Now().Add(long); id == ""; time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(filepath.Join(dir, "up")); err == nil && strings.HasSuffix(string(b), "\n") {
			id = strings.TrimSpace(string(b))
		}
		if time.Now().After(end) {
			t.Fatal("the command does not start")
		}
	}
	kill()
	conversations := transcript.In(filepath.Join(dir, "conversations"))
	h := resumeIn(t, conversations, id, []m{{"text": "here", "expect": []string{"(?s)tool:\n.*hello.*tool failed:\nuncertain: belay ended.*and now"}}})
	h.does("and now")
	if b, err := os.ReadFile(filepath.Join(dir, "ran")); err != nil || string(b) != "x" {
		t.Errorf("it ran %q times, %v", b, err)
	}
	h.is("transcript", h.line(), "user assistant read shell result uncertain notice user assistant turn")
}

func init() {
	helpers["midturn"] = func(args []string) {
		dir := args[0]
		tr := transcript.In(filepath.Join(dir, "conversations")).New(dir)
		s, err := coding.New(coding.Config{Root: dir, Shell: "/bin/sh"})
		if err != nil {
			panic(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte("hello\n"), 0o600); err != nil {
			panic(err)
		}
		// The command ends when this process is gone.
		a := New(Config{Suite: s, Transcript: tr, Model: provider(func(_ context.Context, r model.Request, _ func(string)) (model.Answer, error) {
			return model.Answer{Stop: model.ToolUse, Calls: []model.Call{{ID: "r", Name: "read", Args: `{"path":"f"}`},
				{ID: "c", Name: "shell", Args: `{"argv":["sh","-c","printf x >> ran; echo ` + tr.ID() + ` > up; n=0; while kill -0 ` + fmt.Sprint(os.Getpid()) + ` 2>/dev/null && [ $n -lt 600 ]; do sleep 0.05; n=$((n+1)); done"]}`}}}, nil
		})})
		if err := a.Prompt("start"); err != nil {
			panic(err)
		}
		time.Sleep(time.Minute)
	}
}

// summing makes a provider that has a context of some bytes, and sums up when it is asked.
type summing struct {
	limit    int
	fail     error // of the summary
	empty    bool
	summary  string // in place of the usual one
	mute     bool   // no usage
	say      func(n int, r model.Request) model.Answer
	requests int
	sums     int
	sizes    []int
}

func (s *summing) Stream(_ context.Context, r model.Request, text func(string)) (model.Answer, error) {
	size := len(r.System)
	for _, m := range r.Messages {
		size += int(weight(m))
	}
	s.sizes = append(s.sizes, size)
	if s.limit > 0 && size > s.limit {
		return model.Answer{}, &model.Error{Reason: model.TooLong}
	}
	u := model.Usage{Input: int64(size / 4), Output: 10}
	if s.mute {
		u = model.Usage{}
	}
	if strings.HasPrefix(r.System, "You sum up") {
		s.sums++
		if s.fail != nil {
			return model.Answer{}, s.fail
		}
		if s.empty {
			return model.Answer{Stop: model.Done}, nil
		}
		return model.Answer{Text: cmp.Or(s.summary, fmt.Sprintf("summary %d", s.sums)), Stop: model.Done, Usage: u}, nil
	}
	s.requests++
	a := s.say(s.requests, r)
	if a.Text != "" {
		text(a.Text)
	}
	a.Usage = u
	return a, nil
}

// reads is a model that reads a file some times, and is done.
func reads(times int) func(int, model.Request) model.Answer {
	return func(n int, r model.Request) model.Answer {
		if n <= times {
			return model.Answer{Stop: model.ToolUse, Calls: []model.Call{{ID: fmt.Sprint("c", n), Name: "read", Args: `{"path":"big"}`}}}
		}
		return model.Answer{Text: "here", Stop: model.Done}
	}
}

func big(h *host) { h.write("big", strings.Repeat("0123456789abcde\n", 2048)) } // 32 KiB

// A conversation that is too long for the model is summed up, and goes on: the transcript
// keeps all of it, and a resume gives what the model was shown.
func TestCompaction(t *testing.T) {
	t.Parallel()
	t.Run("the provider says so", func(t *testing.T) {
		t.Parallel()
		s := &summing{limit: 100_000, say: reads(10)}
		h := hostWith(t, s)
		big(h)
		h.prompt("start with THIS")
		o := h.settle()
		if o.Err != nil || o.Text != "here" || s.sums < 2 || s.sums > 6 {
			t.Errorf("%+v, %d sums", o, s.sums)
		}
		for _, r := range h.model.all() {
			if !strings.HasPrefix(r.System, "You sum up") && !strings.Contains(shown(r.Messages), "THIS") {
				t.Error("the task is gone")
			}
		}
		n, kept := 0, 0
		for _, e := range h.entries() {
			switch e.Type {
			case transcript.Compaction:
				n++
			case transcript.Result:
				kept += len(e.Text)
			}
		}
		if n != s.sums || kept < 10*32<<10 {
			t.Errorf("%d compactions, %d bytes kept", n, kept)
		}
		before := shown(h.Messages())
		next := h.resume([]m{here})
		if got := shown(next.Messages()); got != before {
			t.Errorf("%.300s\nwant %.300s", got, before)
		}
		next.again()
	})
	for _, mute := range []bool{false, true} {
		t.Run(fmt.Sprint("before the provider says so ", mute), func(t *testing.T) {
			t.Parallel()
			s := &summing{say: reads(10), mute: mute}
			h := hostWith(t, s, func(c *Config, _ *coding.Config) { c.Context = 25_000 })
			big(h)
			h.prompt("start")
			if o := h.settle(); o.Err != nil || o.Text != "here" || s.sums < 2 || s.sums > 6 {
				t.Errorf("%+v, %d sums", o, s.sums)
			}
			for _, size := range s.sizes {
				if size > 4*25_000+33<<10 {
					t.Errorf("a request of %d bytes", size)
				}
			}
		})
	}
	for name, c := range map[string]struct {
		s      summing
		reason model.Reason
	}{
		"fails":         {summing{fail: &model.Error{Reason: model.Auth}}, model.Auth},
		"is empty":      {summing{empty: true}, model.TooLong},
		"is too long":   {summing{fail: &model.Error{Reason: model.TooLong}}, model.TooLong},
		"does not help": {summing{}, model.TooLong},
	} {
		t.Run("a summary that "+name, func(t *testing.T) {
			t.Parallel()
			s := c.s
			s.limit, s.say = 100_000, reads(10)
			if name == "does not help" {
				s.limit = 60_000
			}
			h := hostWith(t, &s)
			big(h)
			text := "start"
			if name == "does not help" {
				h.config.System = strings.Repeat("s", 59_000) // what is always there fills it
				s.say = func(int, model.Request) model.Answer { return model.Answer{Text: "here", Stop: model.Done} }
				text = strings.Repeat("t", 30_000)
			}
			h.prompt(text)
			o := h.settle()
			var e *model.Error
			if !errors.As(o.Err, &e) || e.Reason != c.reason || s.sums > sumUpTries {
				t.Errorf("%+v, %d sums", o, s.sums)
			}
			if o.Requests > 20 {
				t.Errorf("%d requests: it does not end", o.Requests)
			}
			if name != "does not help" {
				if strings.Contains(h.line(), "compaction") || len(h.Messages()) < 6 {
					t.Errorf("something is lost: %s", h.line())
				}
			}
			next := h.resume([]m{here})
			next.again2()
		})
	}
	t.Run("what is always there is over the bound", func(t *testing.T) {
		t.Parallel()
		s := &summing{say: reads(10), summary: strings.Repeat("s", 20_000)}
		h := hostWith(t, s, func(c *Config, _ *coding.Config) { c.Context = 100 })
		h.write("big", "small")
		h.prompt("start")
		if o := h.settle(); o.Err != nil || o.Text != "here" || s.sums > 4 {
			t.Errorf("%+v, %d sums: one for each turn", o, s.sums)
		}
	})
	t.Run("the task is longer than the context", func(t *testing.T) {
		t.Parallel()
		s := &summing{limit: 20_000, say: reads(0)}
		h := hostWith(t, s)
		h.prompt(strings.Repeat("x", 200_000))
		if o := h.settle(); Code(o.Err) != "too_long" || o.Requests > 8 {
			t.Errorf("%+v", o)
		}
	})
	t.Run("an abort while it is summed up", func(t *testing.T) {
		t.Parallel()
		at := make(chan struct{})
		n := 0
		h := hostWith(t, provider(func(ctx context.Context, r model.Request, text func(string)) (model.Answer, error) {
			switch n++; n {
			case 1:
				return model.Answer{}, &model.Error{Reason: model.TooLong}
			case 2:
				close(at)
				<-ctx.Done()
				return model.Answer{Text: "half"}, ctx.Err()
			}
			return model.Answer{Text: "here", Stop: model.Done}, nil
		}))
		h.prompt("start")
		<-at
		h.soon(5 * time.Second)
		if strings.Contains(h.line(), "compaction") {
			t.Error(h.line())
		}
		h.again()
	})
	t.Run("a limit while it is summed up", func(t *testing.T) {
		t.Parallel()
		s := &summing{limit: 100_000, say: reads(10)}
		h := hostWith(t, s, func(c *Config, _ *coding.Config) { c.MaxTurns = 5 })
		big(h)
		h.prompt("start")
		if o := h.settle(); o.Limit != Turns || o.Requests != 5 {
			t.Errorf("%+v", o)
		}
	})
}

// again2 is again for a conversation that may have been summed up.
func (h *host) again2() {
	h.Helper()
	h.prompt("and now")
	if o := h.settle(); o.Err != nil || o.Text != "here" {
		h.Errorf("%+v", o)
	}
}

// A condensed conversation keeps to its budget, its beginning and its end.
func TestCondensed(t *testing.T) {
	t.Parallel()
	var msgs []model.Message
	for i := range 1000 {
		msgs = append(msgs, model.Message{Role: model.User, Text: fmt.Sprintf("message %d. %s", i, strings.Repeat("ä", i))},
			model.Message{Role: model.Assistant, Calls: []model.Call{{Name: "read", Args: strings.Repeat("{", i*10)}}},
			model.Message{Role: model.Result, Text: strings.Repeat("r", i*100)})
	}
	for _, budget := range []int{0, 5000, 50_000, 500_000} {
		got := condensed(msgs, budget)
		if len(got) > max(budget, 4<<10)*11/10+200 || !strings.Contains(got, "message 0.") || !strings.Contains(got, "are left out here") || budget > 10_000 && !strings.Contains(got, "message 999.") {
			t.Errorf("%d: %d bytes", budget, len(got))
		}
	}
	if got := condensed(msgs[:3], 1<<20); strings.Contains(got, "left out") {
		t.Error(got)
	}
}
