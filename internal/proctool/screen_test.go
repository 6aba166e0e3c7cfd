package proctool

import (
	"context"
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
	if got := clampParams([]byte("a1000000\x1b[38;5;70000mb\x1b]0;99999\x07\u009b99999H\x1b[")); string(got) != "a1000000\x1b[38;5;1000mb\x1b]0;99999\x07\u009b1000H\x1b[" {
		t.Errorf("clamped to %q", got)
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
