package transcript

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/belayhq/belay/internal/osfile"
)

// A Reason is why a conversation cannot be written or read.
type Reason int

const (
	IO             Reason = iota + 1 // anything that is not below
	NotFound                         // no such conversation
	NotATranscript                   // the file has something else in it
	Damaged                          // Line is not the one that was written
	TooNew                           // it was written by a version that this one does not know
	Empty                            // a crash came before its first entry
	Busy                             // another has it
	Permission                       // may not be opened
	ReadOnly                         // on a file system that cannot be written to
	NoSpace                          // the disk or a quota is full
	TooLarge                         // an entry is longer than MaxEntry
	Order                            // an entry may not follow: a fault of the caller
	Closed                           // after Close
)

func (r Reason) String() string {
	switch r {
	case NotFound:
		return "there is no such conversation"
	case NotATranscript:
		return "it is no conversation of belay"
	case Damaged:
		return "it is damaged"
	case TooNew:
		return "it was written by a newer version"
	case Empty:
		return "nothing was said in it"
	case Busy:
		return "another program has it open"
	case Permission:
		return "it may not be opened"
	case ReadOnly:
		return "it is on a read-only file system"
	case NoSpace:
		return "there is no space left"
	case TooLarge:
		return "an entry is too large"
	case Order:
		return "the entry may not follow"
	case Closed:
		return "it is closed"
	}
	return "reading or writing it failed"
}

// An Error says why. Its text has no path and nothing that was said; Dir.Path gives the
// file.
type Error struct {
	Reason       Reason
	Conversation string // "" where it is about the folder
	Line         int    // 1-based, for Damaged and TooNew; 0 otherwise
}

func (e *Error) Error() string {
	s := "conversations"
	if e.Conversation != "" {
		s = "conversation " + e.Conversation
	}
	if e.Line > 0 {
		s += fmt.Sprintf(": line %d", e.Line)
	}
	return s + ": " + e.Reason.String()
}

// wrap keeps the reason of an error and drops the rest. It is nil for nil. An error that
// is none of the system's is the caller's own, and stays.
func wrap(err error, id string) error {
	if err == nil {
		return nil
	}
	var own *Error
	if errors.As(err, &own) {
		e := *own
		if e.Conversation == "" && validID(id) {
			e.Conversation = id
		}
		return &e
	}
	e := &Error{Reason: IO}
	if validID(id) {
		e.Conversation = id
	}
	var path *fs.PathError
	var number syscall.Errno
	switch {
	case err == osfile.ErrBusy:
		e.Reason = Busy
	case osfile.IsFull(err):
		e.Reason = NoSpace
	case osfile.IsReadOnly(err):
		e.Reason = ReadOnly
	case errors.Is(err, fs.ErrPermission):
		e.Reason = Permission
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		e.Reason = NotFound
	case errors.Is(err, fs.ErrClosed):
		e.Reason = Closed
	case errors.As(err, &path), errors.As(err, &number):
	default:
		return err
	}
	return e
}

// unmade is an error about a folder that cannot be made or listed: no conversation was looked
// for that could be missing.
func unmade(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Reason == NotFound {
		return &Error{Reason: IO, Conversation: e.Conversation}
	}
	return err
}
