package cli

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// maxHeld bounds the text that waits while a dialog is on the terminal, in bytes. Who
// prints more waits.
const maxHeld = 256 << 10

// maxHalf bounds a line that waits for its end while the user types, in bytes.
const maxHalf = 8 << 10

const promptMark = "> "

// A display is a terminal with text that comes at the bottom, and below it one row for what
// the user types. While that row is there, text comes above it line by line; without it,
// as it is printed. It takes inert text only: what acts on a terminal is for its callers
// to remove.
//
// It is safe for concurrent use.
type display struct {
	console console
	dim     bool // asides are dim; set before use

	mu     sync.Mutex
	room   *sync.Cond
	begun  bool   // the last line of the text has no end yet
	row    string // the input row as it stands, "" if it is not there
	before string // what of it is before the cursor
	held   string // text that waits
	dialog bool
	closed bool
	failed error // of the first write that did
}

func newDisplay(c console) *display {
	d := &display{console: c}
	d.room = sync.NewCond(&d.mu)
	return d
}

func (d *display) write(s string) {
	if s == "" {
		return
	}
	if err := d.console.write(strings.ReplaceAll(s, "\n", "\r\n")); err != nil && d.failed == nil {
		d.failed = err
	}
}

// print adds text. It waits while a dialog has the terminal and much is waiting.
func (d *display) print(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.dialog && len(d.held) > maxHeld && !d.closed {
		d.room.Wait()
	}
	d.held += s
	d.flush()
}

// line adds a line of its own.
func (d *display) line(s string) {
	d.mu.Lock()
	begun := d.begun || d.held != "" && !strings.HasSuffix(d.held, "\n")
	d.mu.Unlock()
	if begun {
		s = "\n" + s
	}
	d.print(s + "\n")
}

// aside adds a line that is belay's own.
func (d *display) aside(s string) {
	if d.dim {
		s = "\x1b[2m" + s + "\x1b[0m"
	}
	d.line(s)
}

// endLine ends the last line if it has no end yet.
func (d *display) endLine() {
	d.mu.Lock()
	begun := d.begun && d.held == "" || d.held != "" && !strings.HasSuffix(d.held, "\n")
	d.mu.Unlock()
	if begun {
		d.print("\n")
	}
}

// flush shows what may be shown. It is called with the lock.
func (d *display) flush() {
	if d.dialog || d.held == "" {
		return
	}
	text := d.held
	if d.row != "" { // whole lines only
		n := strings.LastIndexByte(text, '\n') + 1
		if n == 0 && len(text) > maxHalf {
			text += "\n"
			n = len(text)
		}
		text = text[:n]
		if n == 0 {
			return
		}
	}
	d.held = d.held[min(len(text), len(d.held)):]
	row, before := d.row, d.before
	d.erase()
	if row != "" && d.begun { // the row had broken the line off
		d.begun = false
	}
	d.write(text)
	d.begun = !strings.HasSuffix(text, "\n")
	d.draw(row, before)
}

// erase removes the input row. It is called with the lock.
func (d *display) erase() {
	if d.row != "" {
		d.write("\r" + strings.Repeat(" ", columnsOf(d.row)) + "\r")
		d.row = ""
	}
}

// draw shows the input row, with the cursor behind before. It is called with the lock.
func (d *display) draw(row, before string) {
	if row == "" {
		return
	}
	if d.begun {
		d.write("\n")
		d.begun = false
	}
	d.row, d.before = row, before
	d.write("\r" + row)
	if before != row {
		d.write("\r" + before)
	}
}

// input shows what is being typed, in place of what stood there.
func (d *display) input(e *editor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dialog {
		return
	}
	cols, _ := d.console.size()
	all, before := e.row(max(cols-len(promptMark)-2, 8))
	d.erase()
	d.draw(promptMark+all, promptMark+before)
}

// noInput takes the input row away.
func (d *display) noInput() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.erase()
	d.flush()
}

// begin gives the terminal to a dialog: nothing else is shown until it ends.
func (d *display) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.erase()
	d.flush()
	if d.begun {
		d.write("\n")
		d.begun = false
	}
	d.dialog = true
}

func (d *display) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dialog = false
	d.room.Broadcast()
	d.flush()
}

// close lets nobody wait any more.
func (d *display) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.room.Broadcast()
}

// lost is the error of the first write that failed.
func (d *display) lost() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// columnsOf is how many columns a row takes at most.
func columnsOf(s string) (n int) {
	for _, r := range s {
		n++
		if r >= utf8.RuneSelf {
			n++
		}
	}
	return n
}
