//go:build unix

package transcript

import (
	"errors"
	"os"
	"syscall"
)

// lock keeps other writers out for as long as the file is open: it goes with the
// descriptor, so a writer that is killed gives it back.
func lock(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	if err := raw.Control(func(fd uintptr) {
		for {
			if locked = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB); locked != syscall.EINTR {
				return
			}
		}
	}); err != nil {
		return err
	}
	switch {
	case errors.Is(locked, syscall.EWOULDBLOCK):
		return &Error{Reason: Busy}
	case errors.Is(locked, syscall.ENOTSUP), errors.Is(locked, syscall.ENOLCK):
		return nil // a file system without locks: a second writer is found by the sums only
	}
	return locked
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
