package proc

import "golang.org/x/sys/unix"

const getTermios = unix.TCGETS

// interruptTerminal has the kernel signal the foreground group, as the key would, in one step.
func interruptTerminal(fd int) bool {
	return unix.IoctlSetInt(fd, unix.TIOCSIG, int(unix.SIGINT)) == nil
}

// editUTF8 lets the erase key take a whole character, as terminals of today are set.
func editUTF8(fd int) {
	if t, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
		t.Iflag |= unix.IUTF8
		unix.IoctlSetTermios(fd, unix.TCSETS, t)
	}
}
