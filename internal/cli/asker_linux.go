package cli

import "golang.org/x/sys/unix"

const (
	getTermios      = unix.TCGETS
	setTermiosFlush = unix.TCSETSF

	noChar = 0 // switches a key off
)

func discardInput(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }

// waitForInput is true when fd can be read, and false when wake can.
func waitForInput(fd, wake int) (bool, error) {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
	if _, err := unix.Poll(p, -1); err != nil {
		return false, err
	}
	return p[1].Revents == 0, nil
}
