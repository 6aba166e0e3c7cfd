//go:build linux || darwin || freebsd

package proc

import (
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// openTerminal makes a pseudo-terminal: the program gets the slave side three times, we read and
// write the master side.
func (p *Proc) openTerminal(pl *plumbing, s *Spec) error {
	none := func(err error) error {
		return &StartError{Reason: NoTerminal, What: Terminal, cause: errnoOf(err)}
	}
	master, slave, err := pty.Open()
	if err != nil {
		return none(err)
	}
	// Both come with a mode of waiting that is not ours: the program must find a terminal that
	// blocks, and the poller one that does not.
	theirs, err := dupCloexec(slave)
	slave.Close()
	if err != nil {
		master.Close()
		return none(err)
	}
	unix.SetNonblock(theirs, false)
	p.slave = os.NewFile(uintptr(theirs), "slave")
	pl.ours = append(pl.ours, p.slave)
	ours, err := dupCloexec(master)
	master.Close()
	if err != nil {
		return none(err)
	}
	unix.SetNonblock(ours, true)
	f := os.NewFile(uintptr(ours), "terminal")
	pl.ours = append(pl.ours, f)
	if err := unix.IoctlSetWinsize(theirs, unix.TIOCSWINSZ, winsize(*s.TTY)); err != nil {
		return none(err)
	}
	editUTF8(theirs)
	st, err := newStream(f, Stdout, s, p.began)
	if err != nil {
		return none(err)
	}
	p.tty = f
	p.streams = append(p.streams, st)
	p.input = newInput(f, true)
	pl.fds = [3]uintptr{uintptr(theirs), uintptr(theirs), uintptr(theirs)}
	return nil
}

func dupCloexec(f *os.File) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	var fd int
	var derr error
	if err := raw.Control(func(old uintptr) { fd, derr = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 3) }); err != nil {
		return -1, err
	}
	return fd, derr
}

func winsize(s Size) *unix.Winsize {
	return &unix.Winsize{Row: uint16(s.Rows), Col: uint16(s.Cols)}
}

// Resize gives the terminal another size; the foreground job is told by SIGWINCH.
func (p *Proc) Resize(s Size) error {
	if p.tty == nil {
		return ErrNoTerminal
	}
	if !s.valid() {
		return ErrBadSize
	}
	err := p.onTerminal(func(fd int) error { return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, winsize(s)) })
	if err != nil {
		return p.endedOr(ErrNoTerminal)
	}
	return nil
}

func (p *Proc) onTerminal(f func(fd int) error) error {
	raw, err := p.tty.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	if err := raw.Control(func(fd uintptr) { ferr = f(int(fd)) }); err != nil {
		return err
	}
	return ferr
}

// editsLines tells whether the terminal is in its line mode now. A program can change that at any
// moment: then the limit was too careful, or a cut line is its own doing.
func editsLines(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return true
	}
	canonical := true
	raw.Control(func(fd uintptr) {
		if t, err := unix.IoctlGetTermios(int(fd), getTermios); err == nil {
			canonical = t.Lflag&unix.ICANON != 0
		}
	})
	return canonical
}

// sendForeground signals the foreground group of the terminal, and tells whether it did.
func (p *Proc) sendForeground(sig Signal) (sent bool) {
	p.onTerminal(func(fd int) error {
		if sig == INT && interruptTerminal(fd) {
			sent = true
			return nil
		}
		group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		if err != nil || group <= 1 || group == p.pid {
			return err // the group of the program is signalled by the caller
		}
		// The number is from the terminal of our session: a group of it, if its leader still says
		// so.
		if sid, err := unix.Getsid(group); err != nil || sid != p.pid {
			return err
		}
		sent = unix.Kill(-group, sig.unix()) == nil
		return nil
	})
	return sent
}
