//go:build darwin || freebsd

package cli

import (
	"golang.org/x/sys/unix"
)

const (
	getTermios      = unix.TIOCGETA
	setTermiosFlush = unix.TIOCSETAF

	noChar = 0xff // switches a key off
)

// fread says that input is meant (FREAD of sys/fcntl.h).
const fread = 1

func discardInput(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, fread) }

// waitForInput is true when fd can be read, and false when wake can. It is select, since
// poll does not know terminals on darwin.
func waitForInput(fd, wake int) (bool, error) {
	var set unix.FdSet
	if fd >= unix.FD_SETSIZE || wake >= unix.FD_SETSIZE {
		return false, unix.EINVAL
	}
	set.Set(fd)
	set.Set(wake)
	if _, err := unix.Select(max(fd, wake)+1, &set, nil, nil, nil); err != nil {
		return false, err
	}
	return !set.IsSet(wake), nil
}
