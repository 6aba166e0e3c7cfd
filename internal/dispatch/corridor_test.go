package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/belayhq/belay/tool"
)

type fake struct {
	posture      string
	effect       tool.Effect
	prepare, run func() error
	consent      bool
	ran, closed  int
}

func (f *fake) Definition() tool.Definition {
	replay := tool.Unsafe
	if f.effect == tool.ReadOnly {
		replay = tool.Safe
	}
	return tool.Definition{Name: "fake", Description: "d", Schema: json.RawMessage(`{"type":"object"}`), Effect: f.effect, Replay: replay}
}

func (f *fake) Prepare(context.Context, tool.Call) (tool.Plan, error) {
	if f.prepare != nil {
		if err := f.prepare(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *fake) Action() (a tool.Action) {
	if f.consent {
		a.Consent = &tool.Prompt{Reason: "input"}
	}
	return a
}

func (f *fake) Run(_ context.Context, report tool.Reporter) (tool.Result, error) {
	f.ran++
	report("under way")
	if f.run != nil {
		if err := f.run(); err != nil {
			return tool.Result{}, err
		}
	}
	return tool.Result{Text: "done"}, nil
}

func (f *fake) Judged(guard string) { f.posture = guard }

func (f *fake) Close() { f.closed++ }

func call(t *testing.T, f *fake, ctx context.Context) (tool.Result, *tool.Error) {
	t.Helper()
	c, err := New(Gates{}, f)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Call(ctx, Caller{}, tool.Call{ID: "1", Name: "fake"})
	var e *tool.Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("an error of type %T left the corridor", err)
	}
	return r, e
}

// C3, C4, C5: a panic and a foreign error are one answer with fixed text: uncertain
// once a mutating tool ran, a failed read otherwise; nothing of the value leaks.
func TestFaultsOfAToolAreOneAnswer(t *testing.T) {
	t.Parallel()
	boom := func() error { panic("secret-canary") }
	foreign := func() error { return fmt.Errorf("secret-canary") }
	for _, c := range []struct {
		name         string
		effect       tool.Effect
		prepare, run func() error
		want         tool.Code
		ran          int
	}{
		{"panic in Run, mutating", tool.Mutating, nil, boom, tool.UncertainOutcome, 1},
		{"panic in Run, read only", tool.ReadOnly, nil, boom, tool.ReadFailed, 1},
		{"panic in Prepare, mutating", tool.Mutating, boom, nil, tool.ReadFailed, 0},
		{"error of Run, mutating", tool.Mutating, nil, foreign, tool.UncertainOutcome, 1},
		{"error of Run, read only", tool.ReadOnly, nil, foreign, tool.ReadFailed, 1},
		{"error of Prepare", tool.Mutating, foreign, nil, tool.ReadFailed, 0},
	} {
		f := &fake{effect: c.effect, prepare: c.prepare, run: c.run}
		r, e := call(t, f, context.Background())
		if e == nil || e.Code != c.want || f.ran != c.ran || r.Text != "" {
			t.Errorf("%s: %v, ran %d times, want %s", c.name, e, f.ran, c.want)
			continue
		}
		if out, _ := json.Marshal(e); strings.Contains(string(out)+e.Message(), "canary") || errors.Unwrap(e) != nil {
			t.Errorf("%s: leaked: %s", c.name, out)
		}
		if c.prepare == nil && f.closed == 0 {
			t.Errorf("%s: the plan was not closed", c.name)
		}
	}
}

// S1, F7: a call that is cancelled before it starts does nothing and says so.
func TestACancelledCallDoesNotStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f := &fake{effect: tool.Mutating}
	_, e := call(t, f, ctx)
	if e == nil || e.Code != tool.Cancelled || !errors.Is(e, context.Canceled) || f.ran != 0 {
		t.Errorf("%v, ran %d times", e, f.ran)
	}
}

// P9: what needs the user's consent is refused where nobody can be asked.
func TestConsentWithoutAnAskerIsRefused(t *testing.T) {
	t.Parallel()
	f := &fake{effect: tool.Mutating, consent: true}
	_, e := call(t, f, context.Background())
	if e == nil || e.Code != tool.ApprovalUnavailable || f.ran != 0 || f.closed == 0 {
		t.Errorf("%v, ran %d, closed %d", e, f.ran, f.closed)
	}
}

func TestUnknownToolAndGoodCall(t *testing.T) {
	t.Parallel()
	f := &fake{effect: tool.Mutating}
	c, err := New(Gates{}, f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Call(context.Background(), Caller{}, tool.Call{Name: "Fake"}); err.(*tool.Error).Code != tool.UnknownTool {
		t.Error(err)
	}
	said := ""
	r, err := c.Call(context.Background(), Caller{Report: func(s string) { said = s }}, tool.Call{Name: "fake"})
	if err != nil || r.Text != "done" || said != "under way" || f.closed != 1 {
		t.Error(r, err, said, f.closed)
	}
	if _, err := New(Gates{}, f, f); err == nil {
		t.Error("two tools of one name were accepted")
	}
	if _, err := New(Gates{}, &fake{}); err == nil {
		t.Error("a definition without effect was accepted")
	}
}
