package proc

import "golang.org/x/sys/unix"

const getTermios = unix.TCGETS

// interruptTerminal has the kernel signal the foreground group, as the key would, in one step.
func interruptTerminal(fd int) bool {
	return unix.IoctlSetInt(fd, unix.TIOCSIG, int(unix.SIGINT)) == nil
}
