//go:build unix

package journal

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// openToAppend makes the file where there is none. It can be moved away and removed meanwhile.
func openToAppend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
}

// lock keeps other writers out until unlock. It goes with the descriptor, so a writer that
// is killed gives it back.
func lock(f *os.File, patience time.Duration) (unlock func(), err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, wrap(err)
	}
	flock := func(how int) (err error) {
		if e := raw.Control(func(fd uintptr) {
			for {
				if err = syscall.Flock(int(fd), how); err != syscall.EINTR {
					return
				}
			}
		}); e != nil {
			return e
		}
		return err
	}
	end := time.Now().Add(patience)
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		err := flock(syscall.LOCK_EX | syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = flock(syscall.LOCK_UN) }, nil
		case errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK):
			// A file system without locks: the writes are appends of one piece all the
			// same. What is lost is that a torn line of another is closed for sure.
			return func() {}, nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return nil, wrap(err)
		case time.Now().After(end):
			return nil, &Error{Reason: Busy}
		}
		time.Sleep(pause)
	}
}

// systemReason knows the errors that each system has numbers of its own for, or gives 0.
func systemReason(err error) Reason {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return NoSpace
	case errors.Is(err, syscall.EROFS):
		return ReadOnly
	}
	return 0
}

// syncDir makes a new name in a folder survive a loss of power. Where a file system
// cannot do that, nothing more can be done.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return wrap(err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return wrap(err)
	}
	return nil
}
