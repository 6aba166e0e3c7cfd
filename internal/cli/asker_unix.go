//go:build unix

package cli

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// tty is the controlling terminal of the program while a question is on it.
type tty struct {
	fd   int
	was  unix.Termios
	wake [2]int // a pipe: a write to it ends a wait
}

// These let a terminal mark what is pasted, and end that.
const (
	markPastes   = "\x1b[?2004h"
	unmarkPastes = "\x1b[?2004l"
)

// openConsole takes the terminal for a question: Ctrl-C ends belay as ever, and with it the
// question. It fails where there is none, and where another job has it: reading from it
// would stop the program.
func openConsole() (console, error) { return openTTY(true) }

// openKeyboard takes the terminal for the interactive form: Ctrl-C is a key like any other.
func openKeyboard() (console, error) { return openTTY(false) }

func openTTY(signals bool) (console, error) {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	t := &tty{fd: fd}
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err == nil && group != unix.Getpgrp() {
		err = errors.New("the terminal is another's")
	}
	if err == nil {
		var was *unix.Termios
		if was, err = unix.IoctlGetTermios(fd, getTermios); err == nil {
			t.was = *was
			err = t.pipe()
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	set := t.was
	set.Lflag &^= unix.ICANON | unix.ECHO | unix.ECHONL | unix.IEXTEN
	set.Lflag |= unix.ISIG
	if !signals {
		set.Lflag &^= unix.ISIG
		// Ctrl-S would stand still for no reason; the two ends of a pasted line are told apart.
		set.Iflag &^= unix.IXON | unix.ICRNL | unix.INLCR | unix.IGNCR
	}
	set.Iflag &^= unix.ISTRIP
	set.Cc[unix.VMIN], set.Cc[unix.VTIME] = 1, 0
	// A program that is stopped would leave the terminal without an echo.
	set.Cc[unix.VSUSP], set.Cc[unix.VQUIT] = noChar, noChar
	if err := unix.IoctlSetTermios(fd, setTermiosFlush, &set); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *tty) pipe() error {
	// Not pipe2, which darwin lacks; nothing is started while a question stands but by
	// proc, which closes what it does not pass on.
	if err := unix.Pipe(t.wake[:]); err != nil {
		return err
	}
	for _, fd := range t.wake {
		unix.CloseOnExec(fd)
	}
	return nil
}

func (t *tty) size() (cols, rows int) {
	w, err := unix.IoctlGetWinsize(t.fd, unix.TIOCGWINSZ)
	if err != nil || w.Col == 0 || w.Row == 0 {
		return 80, 24
	}
	return int(w.Col), int(w.Row)
}

func (t *tty) write(s string) error {
	for len(s) > 0 {
		n, err := unix.Write(t.fd, []byte(s))
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
		case err != nil:
			return err
		}
		s = s[max(n, 0):]
	}
	return nil
}

func (t *tty) discard() error { return discardInput(t.fd) }

func (t *tty) key(ctx context.Context) (byte, error) {
	defer onEnd(ctx, func() { _, _ = unix.Write(t.wake[1], []byte{0}) })()
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		ready, err := waitForInput(t.fd, t.wake[0])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case !ready:
			continue // it was the pipe
		}
		b := make([]byte, 1)
		n, err := unix.Read(t.fd, b)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return b[0], nil
		}
	}
}

func (t *tty) close() {
	// What was typed and not read was no answer, and is nobody else's input.
	_ = unix.IoctlSetTermios(t.fd, setTermiosFlush, &t.was)
	unix.Close(t.fd)
	unix.Close(t.wake[0])
	unix.Close(t.wake[1])
}
