package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/internal/host/transcript"
)

// What was accepted is not lost when the agent ends: a prompt that was not taken up yet,
// steers and follow-ups are in the transcript, in this order, and a model that goes on with
// it is shown them.
func TestTextsOutliveTheAgent(t *testing.T) {
	t.Parallel()
	t.Run("a prompt and the end at once", func(t *testing.T) {
		t.Parallel()
		for i := range 30 { // the run may have taken it up by then, or not
			h := newHost(t, []m{{"text": "here", "wait_ms": 5000}})
			h.prompt(fmt.Sprint("task ", i))
			h.Stop()
			next := h.resume([]m{{"text": "here", "expect": []string{fmt.Sprintf(`(?s)^user:\ntask %d\n.*user:\nand now\n$`, i)}}})
			next.does("and now")
			if n := strings.Count(shown(next.Messages()), fmt.Sprint("task ", i)); n != 1 {
				t.Fatalf("it is there %d times", n)
			}
		}
	})
	for name, p := range map[string]model.Provider{
		"a run": provider(func(ctx context.Context, _ model.Request, text func(string)) (model.Answer, error) {
			text("I begin")
			<-ctx.Done()
			return model.Answer{Text: "I begin"}, ctx.Err()
		}),
		"a run that hangs": provider(func(ctx context.Context, _ model.Request, text func(string)) (model.Answer, error) {
			text("I begin")
			<-ctx.Done()
			time.Sleep(2 * time.Second) // far over what it is given
			return model.Answer{Text: "I begin"}, ctx.Err()
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hostWith(t, p)
			h.leave = 200 * time.Millisecond
			h.prompt("start")
			h.until("the model speaks", func(e Event) bool { return e.Type == TextDelta })
			for _, text := range []string{"f1", "f2"} {
				if err := h.FollowUp(text); err != nil {
					t.Fatal(err)
				}
			}
			for _, text := range []string{"s1", "s2"} {
				if err := h.Steer(text); err != nil {
					t.Fatal(err)
				}
			}
			h.Stop()
			if err := h.Steer("too late"); err != ErrClosed {
				t.Error(err)
			}
			began := time.Now()
			if err := h.Close(); err != nil && err != errLeft {
				t.Error(err)
			}
			if d := time.Since(began); d > long/2 {
				t.Errorf("it took %s", d)
			}
			h.gone()
			told := ""
			for _, e := range h.told() {
				if e.Type == Said {
					told += e.Text + ";"
				}
			}
			h.is("told", told, "start;I begin;s1;s2;f1;f2;")
			next := h.resume([]m{{"text": "here", "expect": []string{`(?s)user:\ns1\nuser:\ns2\nuser:\nf1\nuser:\nf2\n.*user:\nand now\n$`}}})
			next.does("and now")
			next.is("transcript", next.line(), "user assistant user user user user notice user assistant turn")
		})
	}
	t.Run("after an abort", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{{"text": "x", "wait_ms": 60_000}})
		h.prompt("start")
		h.until("a request", func(e Event) bool { return e.Type == TurnStart })
		if err := h.FollowUp("given back"); err != nil {
			t.Fatal(err)
		}
		if queued := h.soon(5 * time.Second); len(queued) != 1 {
			t.Errorf("%q", queued)
		}
		h.Close()
		h.is("transcript", h.line(), "user notice")
	})
	t.Run("a transcript that takes nothing", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{{"text": "x"}})
		h.does("start")
		h.config.Transcript.Close()
		h.prompt("more")
		h.settle()
		var e *transcript.Error
		if err := h.Close(); !errors.As(err, &e) || e.Reason != transcript.Closed {
			t.Errorf("what could not be kept ends in %v", err)
		}
		h.Agent.mu.Lock()
		defer h.Agent.mu.Unlock()
		h.unkept = nil // told; the end of the test closes it again
	})
	t.Run("a run that could not begin", func(t *testing.T) {
		t.Parallel()
		before := newHost(t, []m{{"text": "x"}})
		before.does("start")
		h := before.resume([]m{{"text": "here"}})
		good := h.config.Transcript
		bad := h.dir.New(h.root)
		bad.Close()
		h.history.transcript = bad // the model cannot be told that it was resumed
		for _, text := range []string{"one", "two"} {
			h.prompt(text)
			if o := h.settle(); o.Err == nil || o.Requests > 0 {
				t.Fatalf("%+v", o)
			}
		}
		h.history.transcript = good
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		texts := ""
		for _, e := range h.entries() {
			texts += e.Text + ";"
		}
		h.is("transcript", texts, "start;x;;one;two;")
	})
}
