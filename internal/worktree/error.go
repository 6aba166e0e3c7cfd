package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

// Reason says why a call did not do what it was asked for. The set is closed and only grows.
type Reason int

const (
	// OutsideRoot: the name, or a link met on the way, leads out of the tree. Nothing was touched.
	OutsideRoot Reason = iota + 1
	// NotFound: the file or a folder on the way does not exist. What is "missing", or "not_directory" where a component
	// on the way is a file.
	NotFound
	// NotRegular: there is something else than a regular file. What is directory, fifo, socket, device, link (as the target
	// of a write), link_loop or other.
	NotRegular
	// TooLarge: What ("file" or "content") has Actual bytes, more than Limit.
	TooLarge
	// Exists: a create found the file with other content. Current is its digest.
	Exists
	// Stale: the file has not the digest that was named. Current is the digest that it has.
	Stale
	// Protected: the place is one that [Options].Protect keeps from writes, or a temporary file of this package.
	Protected
	// BadName: the name cannot be used on any or on this system. What is empty, nul, too_long, too_deep, not_utf8,
	// reserved, bad_character, trailing, or, from Open, not_absolute.
	BadName
	// Cancelled: the caller's context ended before the commit; nothing was changed. Unwrap gives the context's error.
	Cancelled
	// ReadFailed: the system refused to read. What is permission, no_space, read_only, io or cross_device.
	ReadFailed
	// WriteFailed: the system refused to write; the old content is whole. What as for ReadFailed.
	WriteFailed
	// WorkDir: the directory cannot be worked in. What is missing, not_directory, link or permission.
	WorkDir
	// Busy: another process held the folder's lock for longer than Limit milliseconds. Nothing was changed.
	Busy
	// Unconfirmed: the system failed in the commit itself, and whether the new content is in place could not be seen.
	Unconfirmed
)

var reasonNames = [...]string{
	OutsideRoot: "outside_root", NotFound: "not_found", NotRegular: "not_regular", TooLarge: "too_large", Exists: "exists",
	Stale: "stale", Protected: "protected", BadName: "bad_name", Cancelled: "cancelled", ReadFailed: "read_failed",
	WriteFailed: "write_failed", WorkDir: "workdir", Busy: "busy", Unconfirmed: "unconfirmed",
}

func (r Reason) String() string {
	if r <= 0 || int(r) >= len(reasonNames) {
		return "unknown"
	}
	return reasonNames[r]
}

// Error is every error of this package but those of a function given to [Tree.Update].
type Error struct {
	Reason        Reason
	Path          string // the name that was asked for
	What          string // see the reasons; a word of a closed set, never text of the system
	Current       string // the digest in force, for Exists and Stale; "" where there is none to give
	Limit, Actual int64  // for TooLarge bytes, for Busy milliseconds

	cause error // for tests and for Unwrap; never part of the text
}

// Error returns fixed text: no path, no content, nothing of the system's own words.
func (e *Error) Error() string {
	if e.What == "" {
		return "worktree: " + e.Reason.String()
	}
	return "worktree: " + e.Reason.String() + ": " + e.What
}

// Unwrap gives the caller's own cancellation or deadline and nothing else.
func (e *Error) Unwrap() error {
	if e.Reason != Cancelled {
		return nil
	}
	if errors.Is(e.cause, context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return context.Canceled
}

func ended(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return &Error{Reason: Cancelled, Path: name, cause: err}
	}
	return nil
}

// systemError turns an error of the operating system into the reason it stands for, op where it stands for none in particular.
func (t *Tree) systemError(op Reason, name string, err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	e := &Error{Reason: op, Path: name, cause: err}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Reason = Cancelled
	case innermost(err) == t.escapes:
		e.Reason = OutsideRoot
	case notDirectory(err):
		e.Reason, e.What = NotFound, "not_directory"
	case errors.Is(err, fs.ErrNotExist):
		e.Reason, e.What = NotFound, "missing"
	case tooManyLinks(err):
		e.Reason, e.What = NotRegular, "link_loop"
	case badName(err):
		e.Reason, e.What = BadName, "too_long"
	default:
		e.What = systemWord(err)
	}
	return e
}

// innermost is the error below the os package's wrappers: os.Root's error for an escape has no exported name, but it is one value.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

func kindOf(fi os.FileInfo) string {
	switch m := fi.Mode(); {
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "link"
	case m&fs.ModeNamedPipe != 0:
		return "fifo"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "other"
}
