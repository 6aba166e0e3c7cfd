package border

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/belayhq/belay/internal/jobs"
	"github.com/belayhq/belay/internal/proc"
	"github.com/belayhq/belay/internal/worktree"
	"github.com/belayhq/belay/tool"
)

var place = Place{Root: "/root", Path: "a/b", Argument: "path", Dir: "d", Program: "prog"}

func turned(t *testing.T, err error) *tool.Error {
	t.Helper()
	var e *tool.Error
	if !errors.As(Error(err, place), &e) {
		t.Fatalf("%v did not become an error of the contract", err)
	}
	return e
}

// C3, C4: every reason of the file tools has a code of its own, none falls through,
// and only a commit that could not be confirmed is uncertain.
func TestEveryFileReasonIsTurned(t *testing.T) {
	t.Parallel()
	codes := map[worktree.Reason]tool.Code{
		worktree.OutsideRoot: tool.OutsideRoot, worktree.NotFound: tool.NotFound, worktree.NotRegular: tool.NotRegular,
		worktree.TooLarge: tool.TooLarge, worktree.Exists: tool.Exists, worktree.Stale: tool.Stale, worktree.Protected: tool.Protected,
		worktree.BadName: tool.InvalidArgument, worktree.Cancelled: tool.Cancelled, worktree.ReadFailed: tool.ReadFailed,
		worktree.WriteFailed: tool.WriteFailed, worktree.WorkDir: tool.Workdir, worktree.Busy: tool.Limit,
		worktree.Unconfirmed: tool.UncertainOutcome,
	}
	for r, code := range codes {
		err := fmt.Errorf("around: %w", &worktree.Error{Reason: r, Path: "a/b", What: "link", Limit: 1, Actual: 2})
		e := turned(t, err)
		if e.Code != code {
			t.Errorf("reason %v is %s, not %s", r, e.Code, code)
		}
	}
	for r := worktree.OutsideRoot; r <= worktree.Unconfirmed; r++ {
		if _, known := codes[r]; !known {
			t.Errorf("reason %d has no code in this test", r)
		}
	}
}

// C4: what a start could not do, by what it is about.
func TestEveryStartReasonIsTurned(t *testing.T) {
	t.Parallel()
	for r := proc.Missing; r <= proc.IO; r++ {
		for what, code := range map[string]tool.Code{
			proc.Program: tool.StartFailed, proc.Interpreter: tool.StartFailed, proc.Argument: tool.StartFailed,
			proc.Directory: tool.Workdir, proc.Terminal: tool.PTYUnavailable,
		} {
			e := turned(t, &proc.StartError{Reason: r, What: what, Limit: 10, Actual: 20})
			if e.Code != code || e.Kind != tool.Refused {
				t.Errorf("%s %s is %s", what, r, e.Code)
			}
			m := e.Message()
			switch code {
			case tool.StartFailed:
				if !strings.Contains(m, "program=prog") || !strings.Contains(m, "reason="+r.String()) {
					t.Error(m)
				}
			case tool.Workdir:
				if !strings.Contains(m, "path=d") || !strings.Contains(m, "reason="+r.String()) {
					t.Error(m)
				}
			}
			if r == proc.ArgumentTooLong && code == tool.StartFailed && !strings.Contains(m, "limit=10 actual=20") {
				t.Error(m)
			}
		}
	}
}

// C4, C5: what is not known becomes a fixed text; a context is recognised, and nothing else.
func TestOthersAreTurnedIntoFixedTexts(t *testing.T) {
	t.Parallel()
	if Error(nil, place) != nil {
		t.Error("nil is no error")
	}
	canary := errors.New("CANARY /home/me/secret")
	for _, c := range []struct {
		err   error
		code  tool.Code
		cause error
	}{
		{canary, tool.UncertainOutcome, nil},
		{fmt.Errorf("x: %w", &jobs.FullError{Limit: 2, Running: 2}), tool.Limit, nil},
		{jobs.ErrClosed, tool.Cancelled, nil},
		{context.Canceled, tool.Cancelled, context.Canceled},
		{fmt.Errorf("CANARY: %w", context.DeadlineExceeded), tool.Deadline, context.DeadlineExceeded},
		{fmt.Errorf("CANARY: %w", tool.NewError(tool.Denied)), tool.Denied, nil},
	} {
		e := turned(t, c.err)
		if e.Code != c.code || c.cause != nil && !errors.Is(e, c.cause) || c.cause == nil && e.Unwrap() != nil {
			t.Errorf("%v is %s because of %v", c.err, e.Code, e.Unwrap())
		}
		if strings.Contains(e.Error()+e.Message(), "CANARY") || errors.Is(e, canary) {
			t.Errorf("%s: the text got through", e.Code)
		}
	}
}

// C7: each fault of a path says what a path has to be.
func TestBadNamesSayWhatIsExpected(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, what := range []string{"empty", "nul", "too_long", "not_utf8", "reserved", "bad_character", "trailing", "not_absolute", "another"} {
		e := turned(t, &worktree.Error{Reason: worktree.BadName, Path: "p", What: what})
		m := e.Message()
		if e.Code != tool.InvalidArgument || !strings.Contains(m, "argument=path") || seen[m] {
			t.Errorf("%s: %s", what, m)
		}
		seen[m] = true
	}
}
