package proctool

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/belayhq/belay/internal/proc"
)

// P5: a screen is what a person would see, as text that is safe to read; queries
// in the output neither block nor are answered.
func TestScreenIsWhatAPersonSees(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in, want string
		row, col       int
	}{
		{"nothing", "", "", 0, 0},
		{"lines", "one\r\ntwo", "one\ntwo", 1, 3},
		{"blank rows between", "a\r\n\r\nb\r\n", "a\n\nb", 3, 0},
		{"moving about", "\x1b[3;5Hdeep\x1b[Htop", "top\n\n    deep", 0, 3},
		{"cleared", "gone\x1b[2J\x1b[Hnew", "new", 0, 3},
		{"alternate screen", "shell$ \x1b[?1049h\x1b[Heditor", "editor", 0, 6},
		{"and back", "shell$ \x1b[?1049h\x1b[Heditor\x1b[?1049l", "shell$", 0, 7},
		{"scrolled off", strings.Repeat("x\r\n", 30) + "end", strings.Repeat("x\n", 9) + "end", 9, 3},
		{"queries", "a\x1b[6n\x1b[c\x1b[5n\x1b]11;?\x07b", "ab", 0, 2},
		{"wide", "\u4f60\u597dx", "\u4f60\u597dx", 0, 5},
		{"hidden", "a\u202eb", "ab", 0, 2},
		{"split sequence at the end", "a\x1b[3", "a", 0, 1},
	} {
		s, err := render(context.Background(), []byte(c.in), proc.Size{Cols: 40, Rows: 10})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if s.text != c.want {
			t.Errorf("%s: shows %q, want %q", c.name, s.text, c.want)
		}
		if s.row != c.row || s.col != c.col {
			t.Errorf("%s: cursor at %d,%d, want %d,%d", c.name, s.row, s.col, c.row, c.col)
		}
	}
}

// Output that is made to keep the emulator busy is stopped.
func TestScreenIsBounded(t *testing.T) {
	t.Parallel()
	size := proc.Size{Cols: maxCols, Rows: maxRows}
	for _, in := range []string{
		"a\x1b[2147483647b", "x\x1b[\x002000000000b", "x\x1b[\x7f2000000000b", "x\x1b\r[2000000000b", "x\x1b[20\n00000000b", "x\x1b\x00[2000000000b",
		"\x1b[999999999999999999999S", "\u009b1;999999999L", strings.Repeat("a\x1b[999999999b", 20),
	} {
		if _, err := render(context.Background(), []byte(in), size); err != nil {
			t.Errorf("%.20q: %v", in, err)
		}
	}
	if _, err := render(context.Background(), []byte(strings.Repeat("\x1b[99S", 1<<20)), size); err != errScreenTime {
		t.Errorf("a million scrolls: %v", err)
	}
	if got := clampParams([]byte("a1000000\x1b[38;5;70000mb\x1b]0;99999\x07\u009b99999H\x1b["), size); string(got) != "a1000000\x1b[38;5;1000mb\x1b]0;99999\x07\u009b1000H\x1b[" {
		t.Errorf("clamped to %q", got)
	}
}

// Margins beyond the screen end at the screen.
func TestMarginsEndAtTheScreen(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for i := range 99 {
		fmt.Fprintf(&lines, "\r\n%d", i+1)
	}
	for in, want := range map[string]string{
		"\x1b[1;999r" + lines.String():                     "96\n97\n98\n99",
		"\x1b[;5r" + lines.String():                        "96\n97\n98\n99",
		"\x1b[1;2r\x1b[4;1Hlast\x1b[1;1H" + lines.String(): "98\n99\n\nlast",
		"a\x1b[1;999r\x1b[H\x1bMx":                         "x\na",
		"\x1b[0;39r\n\n\x1b[H\x1b[Lx":                      "x",
		"\x1b[5;5000r\x1b[5T1":                             "1",
	} {
		got, err := render(context.Background(), []byte(in), proc.Size{Cols: 10, Rows: 4})
		if err != nil || got.text != want {
			t.Errorf("%.20q: %v %q, want %q", in, err, got.text, want)
		}
	}
}

// No output at all makes the emulator fail, on no size.
func TestScreenOfAnything(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(1, seed))
		number := func() string {
			return []string{"", "0", fmt.Sprint(r.IntN(5)), fmt.Sprint(r.IntN(50)), fmt.Sprint(r.IntN(3000))}[r.IntN(5)]
		}
		one := func(of string) string { return of[r.IntN(len(of)):][:1] }
		var b strings.Builder
		for range 1 + r.IntN(30) {
			switch r.IntN(7) {
			case 0:
				b.WriteString("text\r\n")
			case 1:
				b.WriteString("\x1b" + one("MDE78c=>"))
			case 2:
				b.WriteString("日本\t\b")
			case 3:
				b.WriteString("\x1b[?" + number() + one("hl"))
			default:
				b.WriteString("\x1b[" + number() + ";" + number() + one("ABCDEFGHIJKLMPSTXZ@`abcdefgmnrsu"))
			}
		}
		size := proc.Size{Cols: 1 + r.IntN(100), Rows: 1 + r.IntN(40)}
		if _, err := render(context.Background(), []byte(b.String()), size); err != nil {
			t.Errorf("%v: %v %q", size, err, b.String())
		}
	}
}

// Where the emulator failed there is something to see all the same.
func TestLastLines(t *testing.T) {
	t.Parallel()
	got := lastLines([]byte("1\r\n2\r\n\x1b[31m3\x1b[m 10%\r3 20%\r\n"), proc.Size{Cols: 10, Rows: 2})
	if got.text != "2\n3 20%" || got.row != 1 {
		t.Errorf("%+v", got)
	}
	if got := lastLines(nil, proc.Size{Cols: 1, Rows: 1}); got.text != "" || got.row != 0 {
		t.Errorf("%+v", got)
	}
}

// FuzzScreenIsInert holds that no output makes the emulator hang, or lets a
// control through.
func FuzzScreenIsInert(f *testing.F) {
	for _, s := range []string{"a\r\nb", "\x1b[6n", "\x1b[9999;9999Hx", "\x1b[?1049h", "\x1bP+q\x1b\\", "\x1b[1000000b", "\u202e\u200b", "\x1b[2;3r\x1b[50S", "\x9b6n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		s, err := render(context.Background(), []byte(in), proc.Size{Cols: 20, Rows: 5})
		if err != nil {
			return
		}
		for _, r := range s.text {
			if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u202e' {
				t.Fatalf("%q shows %q", in, s.text)
			}
		}
	})
}
