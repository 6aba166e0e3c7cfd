package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/belayhq/belay/internal/osfile"
)

// A Reason is why the journal cannot be written or read.
type Reason int

const (
	IO          Reason = iota + 1 // anything that is not below
	NotFound                      // no such file, or no such folder
	NotRegular                    // a folder, a device, a pipe
	Permission                    // may not be opened
	ReadOnly                      // on a file system that cannot be written to
	NoSpace                       // the disk or a quota is full
	Busy                          // another writer held the lock for 2 s
	NotAJournal                   // the file has something else in it
	Damaged                       // Line is no record
	TooNew                        // Line was written by a version that this one does not know
	Closed                        // after Close
)

func (r Reason) String() string {
	switch r {
	case NotFound:
		return "there is no such file or folder"
	case NotRegular:
		return "it is no regular file"
	case Permission:
		return "it may not be opened"
	case ReadOnly:
		return "it is on a read-only file system"
	case NoSpace:
		return "there is no space left"
	case Busy:
		return "another program holds its lock"
	case NotAJournal:
		return "it is no journal of belay"
	case Damaged:
		return "it is damaged"
	case TooNew:
		return "it was written by a newer version"
	case Closed:
		return "it is closed"
	}
	return "reading or writing it failed"
}

// An Error says why. Its text has no path and nothing out of the file.
type Error struct {
	Reason Reason
	Line   int // 1-based, for Damaged and TooNew; 0 otherwise
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("journal: line %d: %s", e.Line, e.Reason)
	}
	return "journal: " + e.Reason.String()
}

// wrap keeps the reason of an error and drops the rest. It is nil for nil.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	e := &Error{Reason: IO}
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
	case errors.Is(err, syscall.EISDIR):
		e.Reason = NotRegular
	case errors.Is(err, fs.ErrClosed):
		e.Reason = Closed
	}
	return e
}
