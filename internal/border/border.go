// Package border turns the errors of the effects into the errors of the contract.
// It is the one place where that happens: what is not named here is told as a
// fault of belay, without a word of the error itself (C4, C5).
package border

import (
	"context"
	"errors"
	"fmt"

	"github.com/belayhq/belay/approve"
	"github.com/belayhq/belay/guard"
	"github.com/belayhq/belay/internal/delivery"
	"github.com/belayhq/belay/internal/jobs"
	"github.com/belayhq/belay/internal/journal"
	"github.com/belayhq/belay/internal/proc"
	"github.com/belayhq/belay/internal/textedit"
	"github.com/belayhq/belay/internal/worktree"
	"github.com/belayhq/belay/tool"
)

// A Place says what an error is about, in the words of the call. All of it may be
// shown to the model; none of it is shown to anybody else.
type Place struct {
	Root     string // of the tree
	Path     string // of the file
	Argument string // the name of the argument that held the path
	Dir      string // the working directory of a start
	Program  string // as it was asked for
}

// Error is the error of the contract for an error of an effect. It is nil for
// nil. A context that ended is taken as the end before anything happened, which
// is what the effects promise when they return it.
func Error(err error, at Place) error {
	if err == nil {
		return nil
	}
	var (
		own   *tool.Error
		file  *worktree.Error
		start *proc.StartError
		full  *jobs.FullError
		block *guard.Error
		log   *journal.Error
	)
	if e := editError(err, at); e != nil {
		return e
	}
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &file):
		return fileError(file, at)
	case errors.As(err, &start):
		return startError(start, at)
	case errors.As(err, &full):
		return limit("sessions", int64(full.Limit), int64(full.Running))
	case errors.As(err, &block):
		return tool.NewError(tool.GuardFailed, fact("reason", block.Explain()))
	case errors.As(err, &log):
		// the call was not started: a refusal
		return tool.NewError(tool.Limit, fact("what", "journal: "+journalReason(log.Reason)))
	case errors.Is(err, delivery.ErrFull):
		return limit("completion messages that are asked for or wait", delivery.MaxNotices, delivery.MaxNotices)
	case errors.Is(err, approve.ErrUnavailable):
		return tool.NewError(tool.ApprovalUnavailable)
	case errors.Is(err, approve.ErrDenied):
		return tool.NewError(tool.ApprovalDenied)
	case errors.Is(err, approve.ErrTimeout):
		return tool.NewError(tool.ApprovalTimeout)
	case errors.Is(err, jobs.ErrClosed):
		return tool.NewError(tool.Cancelled)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return tool.Stopped(err)
	}
	return tool.NewError(tool.UncertainOutcome)
}

func fact(name string, value any) tool.Fact { return tool.Fact{Name: name, Value: value} }

func limit(what string, limit, actual int64) *tool.Error {
	return tool.NewError(tool.Limit, fact("what", what), fact("limit", limit), fact("actual", actual))
}

// orNull is for facts that may have nothing to say.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func fileError(e *worktree.Error, at Place) *tool.Error {
	path := fact("path", e.Path)
	switch e.Reason {
	case worktree.OutsideRoot:
		return tool.NewError(tool.OutsideRoot, path, fact("root", at.Root))
	case worktree.NotFound:
		return tool.NewError(tool.NotFound, path, fact("what", e.What))
	case worktree.NotRegular:
		return tool.NewError(tool.NotRegular, path, fact("what", e.What))
	case worktree.TooLarge:
		return tool.NewError(tool.TooLarge, path, fact("what", e.What), fact("limit", e.Limit), fact("actual", e.Actual))
	case worktree.Exists:
		return tool.NewError(tool.Exists, path, fact("current_sha256", orNull(e.Current)))
	case worktree.Stale:
		return tool.NewError(tool.Stale, path, fact("current_sha256", orNull(e.Current)))
	case worktree.Protected:
		return tool.NewError(tool.Protected, path)
	case worktree.BadName:
		return tool.Invalid(at.Argument, badName(e.What))
	case worktree.Cancelled:
		return tool.Stopped(e.Unwrap())
	case worktree.ReadFailed:
		return tool.NewError(tool.ReadFailed, path, fact("reason", e.What))
	case worktree.WriteFailed:
		return tool.NewError(tool.WriteFailed, path, fact("reason", e.What))
	case worktree.WorkDir:
		return tool.NewError(tool.Workdir, path, fact("reason", e.What))
	case worktree.Busy:
		return limit("milliseconds to wait for another writer in the folder", e.Limit, e.Actual)
	case worktree.Unconfirmed:
		return tool.NewError(tool.UncertainOutcome, path)
	}
	return tool.NewError(tool.UncertainOutcome)
}

// journalReason is why a call could not be recorded, and so was not started.
func journalReason(r journal.Reason) string {
	switch r {
	case journal.NoSpace:
		return "no_space"
	case journal.Permission:
		return "permission"
	}
	return "io"
}

// editError is for the errors of textedit, nil for others.
func editError(err error, at Place) error {
	path := fact("path", at.Path)
	var (
		notText   *textedit.NotTextError
		empty     *textedit.EmptyError
		miss      *textedit.MissError
		ambiguous *textedit.AmbiguousError
		overlap   *textedit.OverlapError
		large     *textedit.TooLargeError
	)
	switch {
	case errors.As(err, &notText):
		return tool.NewError(tool.NotText, path)
	case errors.As(err, &empty):
		return tool.Invalid(fmt.Sprintf("edits[%d].old_text", empty.Edit), "text that is not empty")
	case errors.As(err, &miss):
		facts := []tool.Fact{path, fact("edit", miss.Edit)}
		if miss.NearLine > 0 {
			facts = append(facts, fact("near_line", miss.NearLine), fact("near_percent", miss.NearPercent), fact("differs", miss.Differs))
		}
		return tool.NewError(tool.NoMatch, facts...)
	case errors.As(err, &ambiguous):
		return tool.NewError(tool.AmbiguousMatch, path, fact("edit", ambiguous.Edit), fact("matches", ambiguous.Matches), fact("lines", ambiguous.Lines))
	case errors.As(err, &overlap):
		return tool.Invalid(fmt.Sprintf("edits[%d]", overlap.Edit), fmt.Sprintf("text that no other edit changes: edits[%d] does", overlap.Other))
	case errors.As(err, &large):
		return tool.NewError(tool.TooLarge, path, fact("what", "content"), fact("limit", large.Limit), fact("actual", large.Actual))
	}
	return nil
}

// badName says what a path has to be, for each fault of a name.
func badName(what string) string {
	switch what {
	case "empty":
		return "a path that is not empty"
	case "nul":
		return "a path without NUL"
	case "too_long", "too_deep":
		return "a path that the system takes: this one is too long"
	case "not_utf8":
		return "a path in UTF-8"
	case "reserved":
		return "a path without names that Windows reserves for devices"
	case "bad_character":
		return "a path without characters that Windows refuses"
	case "trailing":
		return "a path without names that end in a dot or a blank"
	case "not_absolute":
		return "an absolute path"
	}
	return "a path that can be used on this system"
}

func startError(e *proc.StartError, at Place) *tool.Error {
	switch e.What {
	case proc.Directory:
		return tool.NewError(tool.Workdir, fact("path", at.Dir), fact("reason", e.Reason.String()))
	case proc.Terminal:
		return tool.NewError(tool.PTYUnavailable)
	}
	facts := []tool.Fact{fact("program", at.Program), fact("reason", e.Reason.String())}
	if e.What == proc.Interpreter {
		facts = append(facts, fact("what", "the interpreter that the script names"))
	}
	if e.Reason == proc.ArgumentTooLong {
		facts = append(facts, fact("limit", e.Limit), fact("actual", e.Actual))
	}
	return tool.NewError(tool.StartFailed, facts...)
}
