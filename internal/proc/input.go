package proc

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// input is the open standard input of a program, or the writing side of its terminal.
type input struct {
	writing chan bool // capacity 1, full during a Write, so that two of them never mix
	file    *os.File
	tty     bool
	line    int // of a terminal: bytes of the unfinished line; guarded by writing

	mu     sync.Mutex
	closed bool
}

func newInput(f *os.File, tty bool) *input {
	return &input{writing: make(chan bool, 1), file: f, tty: tty}
}

// Write gives input to the program. It blocks while the program does not read, until the context
// ends; it says how many bytes the system took, which is not yet that the program read them. A
// second Write waits for the first. Errors: ErrInputClosed (by CloseInput, by the program, or never
// open), ErrEnded, the context's own, *LineError (a terminal; nothing was written).
func (p *Proc) Write(ctx context.Context, b []byte) (int, error) {
	in := p.input
	if in == nil {
		return 0, p.endedOr(ErrInputClosed)
	}
	select {
	case in.writing <- true:
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-p.exited:
		return 0, ErrEnded
	}
	defer func() { <-in.writing }()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := p.endedOr(nil); err != nil {
		return 0, err
	}
	in.mu.Lock()
	closed := in.closed
	in.mu.Unlock()
	if closed {
		return 0, ErrInputClosed
	}
	if in.tty {
		if err := in.fits(b); err != nil {
			return 0, err
		}
	}
	// A context that ended makes the deadline pass; the lock keeps a late one from reaching into
	// the next Write.
	var over bool
	in.file.SetWriteDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		if !over {
			in.file.SetWriteDeadline(time.Unix(1, 0))
		}
	})
	n, err := in.file.Write(b)
	stop()
	in.mu.Lock()
	over = true
	in.mu.Unlock()
	if in.tty {
		in.sent(b[:n])
	}
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return n, ctx.Err()
	}
	return n, p.endedOr(ErrInputClosed)
}

// CloseInput gives the program end of file on its standard input. A Write that is under way fails.
// Closing twice is no error. A terminal has no end of file but the character for it:
// ErrInputClosed.
func (p *Proc) CloseInput() error {
	if p.input == nil || p.input.tty {
		return p.endedOr(ErrInputClosed)
	}
	p.closeInput()
	return nil
}

func (p *Proc) closeInput() {
	if p.feeding != nil {
		p.feeding.Close()
	}
	if p.input == nil {
		return
	}
	p.input.mu.Lock()
	closed := p.input.closed
	p.input.closed = true
	p.input.mu.Unlock()
	if closed {
		return
	}
	if p.input.tty {
		// The terminal is read until the end; only a Write under way is stopped.
		p.input.file.SetWriteDeadline(time.Unix(1, 0))
		return
	}
	p.input.file.Close()
}

func (p *Proc) endedOr(err error) error {
	select {
	case <-p.exited:
		return ErrEnded
	default:
		return err
	}
}

// sent keeps the length of the line that the terminal is editing.
func (in *input) sent(b []byte) {
	for _, c := range b {
		if endsLine(c) {
			in.line = 0
		} else {
			in.line++
		}
	}
}

// endsLine tells whether a terminal in its usual setting is through with its line at c.
func endsLine(c byte) bool {
	switch c {
	case '\n', '\r', 0x03, 0x04, 0x15, 0x1a, 0x1c: // also ^C ^D ^U ^Z ^\
		return true
	}
	return false
}

// fits refuses what the terminal would cut.
func (in *input) fits(b []byte) error {
	if !editsLines(in.file) {
		in.line = 0
		return nil
	}
	line, longest := in.line, 0
	for _, c := range b {
		if endsLine(c) {
			line = 0
			continue
		}
		line++
		longest = max(longest, line)
	}
	if longest > lineLimit {
		return &LineError{Limit: lineLimit, Actual: longest}
	}
	return nil
}
