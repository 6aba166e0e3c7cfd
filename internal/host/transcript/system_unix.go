//go:build unix

package transcript

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// lock keeps other writers out until release. It goes with the descriptor, so a writer
// that is killed gives it back: at once, or when a child that it was just starting has
// come so far as to close its copy, for which the patience is.
func lock(f *os.File) error {
	end := time.Now().Add(patience)
	for {
		err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK):
			return nil // a file system without locks: a second writer is found by the sums only
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return err
		case time.Now().After(end):
			return &Error{Reason: Busy}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// release unlocks and closes. The closing alone would leave the lock with a child that is
// being started at the moment and has a copy of the descriptor.
func release(f *os.File) error {
	_ = flock(f, syscall.LOCK_UN)
	return f.Close()
}

func flock(f *os.File, how int) (err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
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

// remove unlinks a file that is held.
func remove(_ *os.File, path string) error { return os.Remove(path) }

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
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}
