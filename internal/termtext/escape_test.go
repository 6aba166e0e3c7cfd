package termtext

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// P10, U2: what a person is asked about or shown is visible as what it is.
func TestP10_EscapeShowsEverything(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"ls -la\n", `ls -la\n`},
		{"a\tb\r\n", `a\tb\r\n`},
		{"\x03\x04\x00\x7f", `\x03\x04\x00\x7f`},
		{"\x1b[31mred\x1b]52;c;aGk=\x07", `\x1b[31mred\x1b]52;c;aGk=\x07`},
		{"\u009b31m", `\u009b31m`},
		{"\xff\xe2\x82", `\xff\xe2\x82`},
		{`C:\new \x41`, `C:\\new \\x41`},
		{"a\u202egpj.exe", `a\u202egpj.exe`},
		{"\u2066x\u2069\u200e\u200f\u061c", `\u2066x\u2069\u200e\u200f\u061c`},
		{"zero\u200bwidth\ufeff\u00ad", `zero\u200bwidth\ufeff\u00ad`},
		{"\U000e0041\U000e007f", `\U000e0041\U000e007f`},
		{"x\U000e0100", `x\U000e0100`},
		{"rm -rf\u00a0/", `rm -rf\u00a0/`},
		{"rm\u3000-rf\u2800/", `rm\u3000-rf\u2800/`},
		{"\u3164\uffa0\u115f", `\u3164\uffa0\u115f`},
		{"a\u2028b\u2029c\u0085", `a\u2028b\u2029c\u0085`},
		{"caf\u00e9 \u4f60\u597d \U0001f600", "caf\u00e9 \u4f60\u597d \U0001f600"},
		{"e\u0301", "e\u0301"},
		{"\u0301x", `\u0301x`},
		{"e" + strings.Repeat("\u0301", 5), "e" + strings.Repeat("\u0301", 3) + `\u0301\u0301`},
		{"\n\u0301", `\n\u0301`},
		{"\ue0b0\U0010ffff", `\ue0b0\U0010ffff`},
		{"\ufffd", "\ufffd"},
		{"", ""},
	} {
		if got := Escape(c.in); got != c.want {
			t.Errorf("Escape(%+q) = %s, want %s", c.in, got, c.want)
		}
	}
}

func TestU2_PreviewIsShortAndSaysSo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		max  int
		want string
	}{
		{"short", 160, "short"},
		{"short", 5, "short"},
		{"short", 4, "sho…"},
		{"short", 1, "…"},
		{"short", 0, ""},
		{"short", -1, ""},
		{"", 3, ""},
		{"a\nb", 4, `a\nb`},
		{"a\nb", 3, "a…"},
		{"a\n", 3, `a\n`},
		{"a\u202e", 6, "a…"},
		{"\u4f60\u597d\u4f60", 2, "\u4f60…"},
		{"\u202e", 3, "…"},
	} {
		if got := Preview(c.in, c.max); got != c.want {
			t.Errorf("Preview(%+q, %d) = %q, want %q", c.in, c.max, got, c.want)
		}
	}
	if got := Preview(strings.Repeat("x", 10<<20), 160); utf8.RuneCountInString(got) != 160 {
		t.Errorf("%d characters", utf8.RuneCountInString(got))
	}
}

// P10: nothing hides in what is shown, and nothing is lost by it.
func FuzzEscapeIsInvertible(f *testing.F) {
	for _, s := range []string{"", "ls\n", `\x1b`, "\x1b", "e\u0301\u0301\u0301\u0301", "\xff\u202e\U000e0041", "\u009b"} {
		f.Add(s, 8)
	}
	f.Fuzz(func(t *testing.T, s string, max int) {
		shown := Escape(s)
		back, err := strconv.Unquote(`"` + strings.ReplaceAll(shown, `"`, `\"`) + `"`)
		if err != nil || back != s {
			t.Fatalf("%q is shown as %q, which reads back as %q (%v)", s, shown, back, err)
		}
		for _, r := range shown {
			if unicode.IsControl(r) || hidden(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.IsSpace(r) && r != ' ' {
				t.Fatalf("%q holds %U", shown, r)
			}
		}
		if Escape(s) != shown || !utf8.ValidString(shown) {
			t.Fatal("not text")
		}
		p := Preview(s, max)
		if n := utf8.RuneCountInString(p); n > 0 && n > max {
			t.Fatalf("%d characters, %d allowed", n, max)
		}
		if cut, ok := strings.CutSuffix(p, "…"); p != shown && max > 0 && (!ok || !strings.HasPrefix(shown, cut)) {
			t.Fatalf("%q is no preview of %q", p, shown)
		}
	})
}
