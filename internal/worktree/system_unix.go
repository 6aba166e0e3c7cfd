//go:build unix

package worktree

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openWithoutWaiting keeps an open from waiting for the other end of a FIFO, or from making a terminal the controlling one.
const openWithoutWaiting = syscall.O_NONBLOCK | syscall.O_NOCTTY

const localRules = posixRules

func identityOf(_ *os.File, fi os.FileInfo) (identity, error) {
	id, ok := identityAt(fi)
	if !ok {
		return identity{}, errors.ErrUnsupported
	}
	return id, nil
}

// identityAt is the identity of a file that is not open, where the system tells it all.
func identityAt(fi os.FileInfo) (identity, bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}, false
	}
	return identity{
		device:   uint64(st.Dev),
		inode:    uint64(st.Ino),
		size:     st.Size,
		modified: fi.ModTime().UnixNano(),
		changed:  changeTime(st),
	}, true
}

func identify(f *os.File) (identity, error) {
	fi, err := f.Stat()
	if err != nil {
		return identity{}, err
	}
	return identityOf(f, fi)
}

func notDirectory(err error) bool { return errors.Is(err, unix.ENOTDIR) }
func tooManyLinks(err error) bool { return errors.Is(err, unix.ELOOP) }

func badName(err error) bool {
	return errors.Is(err, unix.ENAMETOOLONG) || errors.Is(err, unix.EILSEQ)
}

func systemWord(err error) string {
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "permission"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return "no_space"
	case errors.Is(err, unix.EROFS):
		return "read_only"
	case errors.Is(err, unix.EXDEV):
		return "cross_device"
	}
	return "io"
}

// passing tells whether a failed rename can work a moment later; here none can.
func passing(error) bool { return false }

// removed tells whether a directory that is still held has no name any more.
func removed(dir os.FileInfo) bool {
	st, ok := dir.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}

// mayEnter tells whether a process could make dir its working directory.
func mayEnter(dir *os.File) bool {
	return unix.Faccessat(int(dir.Fd()), ".", unix.X_OK, unix.AT_EACCESS) == nil
}

// mayWrite asks what opening the entry for writing would answer.
func mayWrite(dir *os.File, entry string) error {
	return unix.Faccessat(int(dir.Fd()), entry, unix.W_OK, unix.AT_EACCESS)
}

// tryLock takes the lock of an open directory or file if it is free. The lock belongs to this opening, not to the
// process, so that it holds between two openings in one process as well, and the system drops it when the process dies.
func tryLock(f *os.File) (bool, error) {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
		case nil:
			return true, nil
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return false, nil
		default:
			return false, err
		}
	}
}

// unlock says so rather than leave it to the close: a child that is just being started still holds a copy of the handle.
func unlock(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// lockHandle opens what is locked for a directory.
func lockHandle(dir *os.File) (f *os.File, own bool) { return dir, false }

// syncDir makes the names in a directory last.
func syncDir(dir *os.File) error { return dir.Sync() }
