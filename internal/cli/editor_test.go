package cli

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/vt"
)

func TestEditor(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"abc":                             "abc|",
		"abc\x7f":                         "ab|",
		"\x7f\b":                          "|",
		"abc\x1b[D\x1b[Dx":                "ax|bc",
		"abc\x1bOD\x1bODx":                "ax|bc",
		"abc\x1b[Dx\x1b[Cy":               "abxcy|",
		"abc\x01x\x05y":                   "xabcy|",
		"abc\x1b[Hx\x1b[Fy\x1b[1~\x1b[4~": "xabcy|",
		"abc\x01\x1b[3~\x04":              "|c",
		"ab cd  \x17":                     "ab |",
		"ab cd\x1b[D\x15":                 "|d",
		"abcd\x1b[D\x1b[D\x0b":            "ab|",
		"gr\u00fc\u00dfe \U0001f9d7":      "gr\u00fc\u00dfe \U0001f9d7|",
		"\U0001f9d7\x7f":                  "|",
		"\xc3(a":                          "\ufffd(a|",
		"\xff\xe2\x82x":                   "\ufffd\ufffd\ufffdx|",
		"a\x1b[31mb\x1b]0":                "ab0|", // what no keyboard sends does nothing harmful
		"a\x1b\x1b[Db":                    "b|a",
		"a\x00\x02\x1ab":                  "ab|",
		"a\x1b\rb":                        "a\nb|", // Alt-Enter
		"a\tb":                            "a\tb|",
		"\x1b[200~one\r\ntwo\rthree\nfour\x03\x1b[31m\x07\x1b[201~!": "one\ntwo\nthree\nfour!|",
		"\x1b[200~\xc3\xbc\x1b[201~\x1b[D":                           "|\u00fc",
		"\x1b[" + strings.Repeat("1", 100):                           strings.Repeat("1", 100-maxSequence+2) + "|",
	} {
		var e editor
		for _, b := range []byte(typed) {
			if a := e.key(b); a == actSend || a == actInterrupt || a == actLeave {
				t.Errorf("%q: act %d at %q", typed, a, b)
			}
		}
		if got := string(e.text[:e.at]) + "|" + string(e.text[e.at:]); got != want {
			t.Errorf("%q gives %q, want %q", typed, got, want)
		}
	}
}

func TestEditorActs(t *testing.T) {
	t.Parallel()
	var e editor
	for typed, want := range map[string]act{"\r": actSend, "\n": actSend, "\x03": actInterrupt, "\x04": actLeave, "a": actChanged, "\x1b": actNone} {
		e = editor{}
		if got := e.key(typed[0]); got != want {
			t.Errorf("%q: %d, want %d", typed, got, want)
		}
	}
	e = editor{}
	e.key(esc)
	if got := e.key(ctrlC); got != actInterrupt { // Esc, then Ctrl-C
		t.Errorf("Esc Ctrl-C: %d", got)
	}
	e = editor{}
	for _, s := range []string{"one", "two", "two", ""} {
		e.set(s)
		if got := e.take(); got != s || !e.empty() {
			t.Errorf("%q, %q", got, string(e.text))
		}
	}
	e.set("draft")
	up, down := "\x1b[A", "\x1b[B"
	for _, step := range []struct{ key, want string }{{up, "two"}, {up, "one"}, {up, "one"}, {down, "two"}, {down, "draft"}, {down, "draft"}} {
		for _, b := range []byte(step.key) {
			e.key(b)
		}
		if string(e.text) != step.want {
			t.Errorf("%q, want %q", string(e.text), step.want)
		}
	}
	e = editor{}
	for range maxTyped + 10 {
		e.put('x')
	}
	if len(e.text) != maxTyped {
		t.Errorf("%d characters", len(e.text))
	}
	for i := range maxRemembered + 10 {
		e.set(strings.Repeat("y", i+1))
		e.take()
	}
	if len(e.past) != maxRemembered {
		t.Errorf("%d lines are remembered", len(e.past))
	}
}

// Whatever is typed, the row is inert and fits.
func FuzzTypedRowIsInert(f *testing.F) {
	f.Add([]byte("a\x1b[200~\x1b]0;t\x07\u202e\x1b[201~"), 40)
	f.Add([]byte("gr\u00fc\x1b[D\x1b[D\x1b[D"), 8)
	f.Fuzz(func(t *testing.T, typed []byte, columns int) {
		columns = 8 + (columns&0x7fff)%200
		var e editor
		for _, b := range typed {
			if e.key(b) == actSend {
				e.take()
			}
			if e.at < 0 || e.at > len(e.text) || len(e.part) > utf8.UTFMax || len(e.sequence) > maxSequence {
				t.Fatalf("%+v", e)
			}
		}
		all, before := e.row(columns)
		if !strings.HasPrefix(all, before) || columnsOf(all) > columns {
			t.Fatalf("%q, %q in %d columns", all, before, columns)
		}
		for _, r := range all {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q holds %q", all, r)
			}
		}
	})
}

// A paper is a console that only remembers what was written.
type paper struct {
	mu   sync.Mutex
	text strings.Builder
	cols int
}

func (p *paper) size() (int, int) { return p.cols, 24 }
func (p *paper) write(s string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.WriteString(s)
	return nil
}
func (p *paper) discard() error                        { return nil }
func (p *paper) key(ctx context.Context) (byte, error) { <-ctx.Done(); return 0, ctx.Err() }
func (p *paper) close()                                {}

// rows are what a terminal shows of it, and where its cursor is.
func (p *paper) rows() (rows []string, x, y int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := vt.NewEmulator(p.cols, 100)
	e.Write([]byte(p.text.String()))
	at := e.CursorPosition()
	for _, r := range strings.Split(e.String(), "\n") {
		rows = append(rows, strings.TrimRight(r, " \r"))
	}
	for len(rows) > 0 && rows[len(rows)-1] == "" {
		rows = rows[:len(rows)-1]
	}
	return rows, at.X, at.Y
}

// On a real terminal's screen text stands above the row that is typed, whole and in order, and the
// cursor is where the next character goes.
func TestTextAboveTheTypedRow(t *testing.T) {
	t.Parallel()
	p := &paper{cols: 40}
	d := newDisplay(p)
	var e editor
	check := func(cursor int, want ...string) {
		t.Helper()
		rows, x, y := p.rows()
		if strings.Join(rows, "|") != strings.Join(want, "|") {
			t.Errorf("the screen is %q, want %q", rows, want)
		}
		if cursor >= 0 && (x != cursor || y != len(want)-1) {
			t.Errorf("the cursor is at %d, %d", x, y)
		}
	}
	d.print("Hel")
	d.print("lo")
	check(5, "Hello")
	e.set("ty")
	d.input(&e) // breaks the line that has no end yet
	check(4, "Hello", "> ty")
	d.print(" there, ") // waits for its end
	check(4, "Hello", "> ty")
	d.print("you\nnext")
	check(4, "Hello", " there, you", "> ty")
	e.key(0x01)
	d.input(&e)
	check(2, "Hello", " there, you", "> ty")
	d.line("a line")
	check(2, "Hello", " there, you", "next", "a line", "> ty")
	d.noInput()
	check(-1, "Hello", " there, you", "next", "a line")
	if _, x, y := p.rows(); x != 0 || y != 4 {
		t.Errorf("the cursor is at %d, %d", x, y)
	}
	d.print("end")
	d.endLine()
	d.endLine()
	e.set("x")
	d.input(&e)
	d.begin() // a dialog
	p.write("Send it? ")
	d.print("meanwhile\n")
	d.input(&e)
	check(-1, "Hello", " there, you", "next", "a line", "end", "Send it?")
	p.write("no\r\n")
	d.end()
	d.input(&e)
	check(3, "Hello", " there, you", "next", "a line", "end", "Send it? no", "meanwhile", "> x")
	if d.lost() != nil {
		t.Error(d.lost())
	}
}

// A dialog that stands long lets who prints wait, and nothing grow; the end frees them.
func TestPrintingWaitsForADialog(t *testing.T) {
	t.Parallel()
	p := &paper{cols: 80}
	d := newDisplay(p)
	d.begin()
	printed := make(chan int, 100)
	go func() {
		defer close(printed)
		for i := range 20 {
			d.print(strings.Repeat("x", 64<<10) + "\n")
			printed <- i
		}
	}()
	time.Sleep(100 * time.Millisecond)
	d.mu.Lock()
	if n := len(d.held); n > maxHeld+65<<10 {
		t.Errorf("%d bytes are held", n)
	}
	d.mu.Unlock()
	d.end()
	n := 0
	for range printed {
		n++
	}
	if n != 20 || p.text.Len() < 20*64<<10 {
		t.Errorf("%d prints, %d bytes", n, p.text.Len())
	}
	d.begin()
	go d.close()
	for range 20 { // nobody waits behind the end
		d.print(strings.Repeat("x", 64<<10))
	}
}
