//go:build unix

package osfile

import (
	"errors"
	"os"
	"syscall"
)

func tryLock(f *os.File) (unlock func(), err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
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
	switch err := flock(syscall.LOCK_EX | syscall.LOCK_NB); {
	case err == nil:
		return func() { _ = flock(syscall.LOCK_UN) }, nil
	case errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK):
		return func() {}, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, ErrBusy
	default:
		return nil, err
	}
}

// SyncDir makes a new name in a folder survive a loss of power. Where a file system cannot do that,
// nothing more can be done.
func SyncDir(dir string) error {
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

// IsFull tells whether the disk, a quota or a limit has no room.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// IsReadOnly tells whether the file system cannot be written to.
func IsReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }
