//go:build linux || darwin || freebsd

package proc

import "golang.org/x/sys/unix"

// Echoes tells whether what is written to the terminal is shown on it at this
// moment. It is not while a program asks for a password. Without a terminal it is true.
func (p *Proc) Echoes() bool {
	echo := true
	if p.tty == nil {
		return echo
	}
	_ = p.onTerminal(func(fd int) error {
		t, err := unix.IoctlGetTermios(fd, getTermios)
		if err == nil {
			// A program that takes each key by itself, an editor, shows it in its own way.
			echo = t.Lflag&unix.ECHO != 0 || t.Lflag&unix.ICANON == 0
		}
		return err
	})
	return echo
}
