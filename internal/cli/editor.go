package cli

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/belayhq/belay/internal/termtext"
)

// maxTyped bounds the line that is being typed, in characters: what is pasted beyond is
// dropped. A longer prompt comes by belay run.
const maxTyped = 256 << 10

// maxRemembered bounds the lines that the arrow keys bring back.
const maxRemembered = 200

// An editor makes a line of the keys of a terminal. It knows no terminal: bytes come in,
// and what is to be shown is asked for. A pasted text is one line, with its line feeds in
// it, where the terminal marks what is pasted.
type editor struct {
	text []rune
	at   int // where the next character goes

	past  []string // lines that were sent, the oldest first
	back  int      // how far the arrows went back in them
	draft string   // what was being typed before they did

	part     []byte // of a character
	sequence []byte // of a terminal sequence, from its ESC on; nil: not within one
	pasting  bool
	cr       bool // the last byte of a paste was a carriage return
}

// An act is what a key asks for.
type act int

const (
	actNone      act = iota
	actChanged       // the line, or where its cursor is
	actSend          // Enter
	actInterrupt     // Ctrl-C
	actLeave         // Ctrl-D on an empty line
)

// key takes the next byte.
func (e *editor) key(b byte) act {
	switch {
	case e.sequence != nil:
		return e.inSequence(b)
	case b == esc:
		e.sequence, e.part = []byte{esc}, nil
		return actNone
	case e.pasting:
		return e.paste(b)
	case b >= utf8.RuneSelf || len(e.part) > 0:
		return e.character(b)
	}
	switch b {
	case '\r', '\n':
		return actSend
	case ctrlC:
		return actInterrupt
	case ctrlD:
		if len(e.text) == 0 {
			return actLeave
		}
		return e.cut(e.at, e.at+1)
	case 0x7f, '\b':
		return e.cut(e.at-1, e.at)
	case 0x01: // Ctrl-A
		e.at = 0
	case 0x05: // Ctrl-E
		e.at = len(e.text)
	case 0x15: // Ctrl-U
		return e.cut(0, e.at)
	case 0x0b: // Ctrl-K
		return e.cut(e.at, len(e.text))
	case 0x17: // Ctrl-W
		from := e.at
		for from > 0 && unicode.IsSpace(e.text[from-1]) {
			from--
		}
		for from > 0 && !unicode.IsSpace(e.text[from-1]) {
			from--
		}
		return e.cut(from, e.at)
	case '\t':
		e.insert(b)
	default:
		if b < ' ' {
			return actNone
		}
		e.insert(b)
	}
	return actChanged
}

func (e *editor) insert(b byte) { e.put(rune(b)) }

func (e *editor) put(r rune) {
	if len(e.text) < maxTyped {
		e.text = slices.Insert(e.text, e.at, r)
		e.at++
	}
}

// character takes a byte of one that is not ASCII.
func (e *editor) character(b byte) act {
	e.part = append(e.part, b)
	if !utf8.FullRune(e.part) && len(e.part) < utf8.UTFMax {
		return actNone
	}
	r, size := utf8.DecodeRune(e.part)
	rest := e.part[size:]
	e.part = nil
	e.put(r)
	for _, b := range rest { // what followed a cut character stands for itself
		e.key(b)
	}
	return actChanged
}

// paste takes a byte of what is pasted: controls but line ends and tabs are dropped.
func (e *editor) paste(b byte) act {
	was := e.cr
	e.cr = b == '\r'
	switch {
	case b >= utf8.RuneSelf || len(e.part) > 0:
		return e.character(b)
	case b == '\n' && was: // the line feed of a pair
		return actNone
	case b == '\r' || b == '\n':
		e.put('\n')
	case b == '\t' || b >= ' ' && b != 0x7f:
		e.insert(b)
	}
	return actChanged
}

// maxSequence bounds a terminal sequence of the keyboard.
const maxSequence = 32

func (e *editor) inSequence(b byte) act {
	e.sequence = append(e.sequence, b)
	n := len(e.sequence)
	switch {
	case b == ctrlC && !e.pasting:
		e.sequence = nil
		return actInterrupt
	case n == 2 && (b == '[' || b == 'O'), n > 2 && b >= 0x20 && b < 0x40 && n < maxSequence:
		return actNone
	}
	whole := string(e.sequence[1:])
	e.sequence = nil
	if (whole == "\r" || whole == "\n") && !e.pasting { // Alt-Enter
		e.put('\n')
		return actChanged
	}
	if n == 2 && b == esc { // ESC ESC
		e.sequence = []byte{esc}
		return actNone
	}
	switch whole {
	case "[200~":
		e.pasting, e.cr = true, false
		return actNone
	case "[201~":
		e.pasting = false
		return actNone
	}
	if e.pasting {
		return actNone
	}
	switch whole {
	case "[D", "OD":
		e.at = max(e.at-1, 0)
	case "[C", "OC":
		e.at = min(e.at+1, len(e.text))
	case "[H", "OH", "[1~":
		e.at = 0
	case "[F", "OF", "[4~":
		e.at = len(e.text)
	case "[3~":
		return e.cut(e.at, e.at+1)
	case "[A", "OA":
		return e.recall(1)
	case "[B", "OB":
		return e.recall(-1)
	default:
		return actNone
	}
	return actChanged
}

func (e *editor) cut(from, to int) act {
	if from < 0 || to > len(e.text) || from >= to {
		return actNone
	}
	e.text = slices.Delete(e.text, from, to)
	e.at = from
	return actChanged
}

func (e *editor) recall(by int) act {
	to := e.back + by
	if to < 0 || to > len(e.past) {
		return actNone
	}
	if e.back == 0 {
		e.draft = string(e.text)
	}
	e.back = to
	if to == 0 {
		e.set(e.draft)
	} else {
		e.set(e.past[len(e.past)-to])
	}
	return actChanged
}

// set puts another line in place of the one that is being typed.
func (e *editor) set(s string) {
	e.text = []rune(s)
	e.at = len(e.text)
}

// take gives the line, and begins an empty one.
func (e *editor) take() string {
	s := string(e.text)
	e.set("")
	e.back, e.draft = 0, ""
	if s != "" && (len(e.past) == 0 || e.past[len(e.past)-1] != s) {
		if e.past = append(e.past, s); len(e.past) > maxRemembered {
			e.past = slices.Delete(e.past, 0, 1)
		}
	}
	return s
}

func (e *editor) empty() bool { return len(e.text) == 0 }

// row is what of the line fits into so many columns, around the cursor, and the part of it
// that is before the cursor. Nothing in it acts on a terminal.
func (e *editor) row(columns int) (all, before string) {
	var pieces []string
	// From the cursor to the left as far as it fits, leaving a third for what is right of it.
	left := columns
	if e.at < len(e.text) {
		left = columns * 2 / 3
	}
	used := 0
	from := e.at
	for from > 0 {
		p := visible(e.text[from-1])
		if used+columnsOf(p) > left {
			break
		}
		used += columnsOf(p)
		pieces = append(pieces, p)
		from--
	}
	slices.Reverse(pieces)
	before = strings.Join(pieces, "")
	all = before
	for _, r := range e.text[e.at:] {
		p := visible(r)
		if used+columnsOf(p) > columns {
			break
		}
		used += columnsOf(p)
		all += p
	}
	return all, before
}

// visible is a character as it is shown on a row.
func visible(r rune) string {
	switch {
	case r == '\n':
		return "⏎"
	case r == '\t':
		return " "
	case r == '\\':
		return `\`
	}
	return termtext.Escape(string(r))
}
