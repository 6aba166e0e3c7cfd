//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package spool

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// noWait keeps an open from waiting where a FIFO was put in the place of a log.
const noWait = unix.O_NONBLOCK

var errNotOurs = errors.New("not private to this account")

func mkdir(parent *os.Root, name string) error { return parent.Mkdir(name, 0o700) }

// rmdir removes an empty directory and nothing else: os.Root.Remove would also
// unlink a file that was put there after the check. It has a descriptor of its own
// only for this call.
func rmdir(parent *os.Root, name string) error {
	dir, err := parent.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	conn, err := dir.SyscallConn()
	if err != nil {
		return err
	}
	var rmErr error
	err = conn.Control(func(fd uintptr) {
		rmErr = unix.Unlinkat(int(fd), name, unix.AT_REMOVEDIR)
	})
	if err != nil {
		return err
	}
	return rmErr
}

// ensureMode sees to it that f belongs to this account and has exactly these
// permissions. The umask can only have taken some away; a file system without
// permissions (FAT, some mounts of a host's folder) gives all to everybody, and is
// refused.
func ensureMode(f *os.File, perm os.FileMode) error {
	for range 2 {
		fi, err := f.Stat()
		if err != nil {
			return err
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			break
		}
		if fi.Mode().Perm() == perm {
			return nil
		}
		if err := f.Chmod(perm); err != nil {
			return err
		}
	}
	return errNotOurs
}

// announce is best effort: some network file systems cannot lock a directory.
func announce(dir *os.File) {
	conn, err := dir.SyscallConn()
	if err != nil {
		return
	}
	conn.Control(func(fd uintptr) { unix.Flock(int(fd), unix.LOCK_SH|unix.LOCK_NB) })
}
