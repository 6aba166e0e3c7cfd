package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belayhq/belay/approve"
	"github.com/belayhq/belay/guard"
	"github.com/belayhq/belay/internal/journal"
	"github.com/belayhq/belay/tool"
)

// A hook answers as the test says, and notes what it saw.
type hook struct {
	verdict guard.Verdict
	err     error
	saw     []tool.Action
}

func (h *hook) Check(_ context.Context, a tool.Action) (guard.Verdict, error) {
	h.saw = append(h.saw, a)
	return h.verdict, h.err
}

// A says is a user who always answers the same.
type says struct {
	answer bool
	asked  []tool.Prompt
}

func (s *says) Ask(_ context.Context, p tool.Prompt) (bool, error) {
	s.asked = append(s.asked, p)
	return s.answer, nil
}

// G1, G3, C4: the strictest verdict decides before anything runs; the model sees a
// reason, the user alone the override; a guard that could not decide shows in the
// result.
func TestGuardsStandBeforeTheEffect(t *testing.T) {
	t.Parallel()
	allow := guard.Verdict{}
	for _, c := range []struct {
		name    string
		hooks   guard.Chain
		asker   approve.Asker
		want    tool.Code // "" is a result
		posture string
		reason  string
		notice  string
	}{
		{name: "no guard", posture: "none"},
		{name: "allowed", hooks: guard.Chain{&hook{verdict: allow}}, posture: "ok"},
		{name: "unavailable", hooks: guard.Chain{&hook{verdict: guard.Verdict{Unavailable: true}}}, posture: "unavailable"},
		{name: "denied", hooks: guard.Chain{&hook{verdict: guard.Verdict{Decision: guard.Deny, Reason: "no rm", UserOnly: "code 1234"}}}, want: tool.Denied, reason: "no rm", notice: "code 1234"},
		{name: "the strictest wins", hooks: guard.Chain{&hook{verdict: allow}, &hook{verdict: guard.Verdict{Decision: guard.Deny, Reason: "no"}}}, want: tool.Denied, reason: "no"},
		{name: "cannot decide, blocks", hooks: guard.Chain{&hook{err: &guard.Error{Program: "dcg"}}}, want: tool.GuardFailed},
		{name: "asks, nobody there", hooks: guard.Chain{&hook{verdict: guard.Verdict{Decision: guard.Ask}}}, want: tool.ApprovalUnavailable},
		{name: "asks, no", hooks: guard.Chain{&hook{verdict: guard.Verdict{Decision: guard.Ask}}}, asker: &says{}, want: tool.ApprovalDenied},
		{name: "asks, yes", hooks: guard.Chain{&hook{verdict: guard.Verdict{Decision: guard.Ask}}}, asker: &says{answer: true}, posture: "ok"},
		{name: "a hook that panics", hooks: guard.Chain{panics{}}, want: tool.GuardFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := &fake{effect: tool.Mutating}
			corridor, err := New(Gates{Hooks: c.hooks, Gate: approve.New(time.Second)}, f)
			if err != nil {
				t.Fatal(err)
			}
			notice := ""
			_, err = corridor.Call(context.Background(), Caller{Asker: c.asker, Notify: func(s string) { notice += s }}, tool.Call{ID: "1", Name: "fake"})
			var e *tool.Error
			if errors.As(err, &e); c.want == "" {
				if shown := strings.Contains(notice, "could not decide"); shown != (c.posture == "unavailable") {
					t.Errorf("the user is shown %q", notice)
				}
				if err != nil || f.ran != 1 || f.posture != c.posture {
					t.Errorf("%v, ran %d times, guard %q", err, f.ran, f.posture)
				}
				return
			}
			if e == nil || e.Code != c.want || e.Kind != tool.Refused || f.ran != 0 || f.closed == 0 {
				t.Fatalf("%v, ran %d times, closed %d times", err, f.ran, f.closed)
			}
			if !strings.Contains(e.Message(), c.reason) || c.notice != "" && strings.Contains(e.Message(), c.notice) {
				t.Errorf("the model is told %q", e.Message())
			}
			if notice != c.notice {
				t.Errorf("the user is shown %q, want %q", notice, c.notice)
			}
		})
	}
}

type panics struct{}

func (panics) Check(context.Context, tool.Action) (guard.Verdict, error) { panic("secret-canary") }

// G1, P9: a call that a guard leaves to the user and that needs consent too is
// asked about twice, and direct and nested calls go the same way.
func TestBothQuestionsAreAsked(t *testing.T) {
	t.Parallel()
	f := &fake{effect: tool.Mutating, consent: true}
	h := &hook{verdict: guard.Verdict{Decision: guard.Ask}}
	corridor, err := New(Gates{Hooks: guard.Chain{h}, Gate: approve.New(time.Second)}, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, parent := range []string{"", "outer"} {
		u := &says{answer: true}
		if _, err := corridor.Call(context.Background(), Caller{Asker: u}, tool.Call{ID: "1", Name: "fake", Parent: parent}); err != nil {
			t.Fatal(err)
		}
		if len(u.asked) != 2 || u.asked[0].Reason != "guard_ask" || u.asked[1].Reason != "input" {
			t.Errorf("asked %+v", u.asked)
		}
	}
	if f.ran != 2 || len(h.saw) != 2 {
		t.Errorf("ran %d times, judged %d times", f.ran, len(h.saw))
	}
}

// C8: the journal tells of every call that it started and how it ended, and what
// cannot be recorded does not start.
func TestCallsAreRecorded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	j, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{effect: tool.Mutating}
	corridor, err := New(Gates{Journal: j}, f)
	if err != nil {
		t.Fatal(err)
	}
	call := func(id string) error {
		_, err := corridor.Call(context.Background(), Caller{}, tool.Call{ID: id, Name: "fake", Args: json.RawMessage(`{"secret":"canary"}`)})
		return err
	}
	if err := call("good"); err != nil {
		t.Fatal(err)
	}
	f.run = func() error { panic("canary") }
	_ = call("uncertain")
	f.run, f.prepare = nil, func() error { return tool.NewError(tool.NotFound) }
	_ = call("refused")
	report, err := journal.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []string
	for _, e := range slices.Concat(report.Finished, report.Repeat, report.Uncertain) {
		outcomes = append(outcomes, e.ID+" "+string(e.Kind))
	}
	slices.Sort(outcomes)
	if got := strings.Join(outcomes, ", "); got != "good result, refused refused, uncertain uncertain" {
		t.Errorf("recorded %s", got)
	}

	f.prepare = nil
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	ran := f.ran
	var e *tool.Error
	if err := call("unrecorded"); !errors.As(err, &e) || e.Code != tool.Limit || f.ran != ran {
		t.Errorf("%v, ran %d times more", err, f.ran-ran)
	}
}

// GU-10: arguments of the wrong type reach no guard: what a guard judges is what was
// decoded, and what is decoded is what runs.
func TestGuardsSeeOnlyWhatIsValid(t *testing.T) {
	t.Parallel()
	h := &hook{}
	f := &fake{effect: tool.Mutating, prepare: func() error { return tool.Invalid("cmd", "a string") }}
	corridor, err := New(Gates{Hooks: guard.Chain{h}}, f)
	if err != nil {
		t.Fatal(err)
	}
	_, err = corridor.Call(context.Background(), Caller{}, tool.Call{Name: "fake", Args: json.RawMessage(`{"cmd":["rm"]}`)})
	var e *tool.Error
	if !errors.As(err, &e) || e.Code != tool.InvalidArgument || len(h.saw) != 0 || f.ran != 0 {
		t.Errorf("%v, judged %d times, ran %d times", err, len(h.saw), f.ran)
	}
}
