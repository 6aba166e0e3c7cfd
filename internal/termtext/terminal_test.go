package termtext

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/vt"
)

// screen is what a terminal emulator, the second judge, shows after in, without
// the blanks at the ends of its rows.
func screen(in string) []string {
	const cols, rows = 250, 3 // wide enough that nothing of the tests wraps
	e := vt.NewEmulator(cols, rows)
	defer e.Close()
	// Nobody reads its answers: no test asks it anything, and its Read and
	// Close race.
	io.WriteString(e, strings.ReplaceAll(in, "\n", "\r\n"))
	var out []string
	for y := range rows {
		var row strings.Builder
		for x := 0; x < cols; {
			c := e.CellAt(x, y)
			if c.Content == "" { // it forgets to blank what is left of a wide character
				row.WriteByte(' ')
			}
			row.WriteString(c.Content)
			x += max(c.Width, 1)
		}
		out = append(out, strings.TrimRight(row.String(), " "))
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

// seen is Clean in the form of screen: tabs as the blanks that they show.
func seen(in string) []string {
	var out []string
	for _, s := range strings.Split(string(Clean([]byte(in))), "\n") {
		var l line
		l.edit()
		for _, r := range s {
			l.put(r)
		}
		var row strings.Builder
		for i := range l.cells {
			c := l.cells[i]
			switch {
			case c.r == '\t':
				row.WriteString(strings.Repeat(" ", int(c.cols)))
			case c.cols > 0:
				row.WriteRune(c.r)
				row.WriteString(c.more)
			}
		}
		out = append(out, strings.TrimRight(row.String(), " "))
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

func judge(t *testing.T, in string) {
	t.Helper()
	want, got := screen(in), seen(in)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%+q\n     got %+q\nterminal %+q", in, got, want)
	}
}

// P5: what a line last showed, by a terminal's word for it.
func TestP5_LinesLookAsOnATerminal(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"10%\r20%\r100%\ndone\n",
		"100%\r7%\n",
		"Downloading\r           \rdone\n",
		"Downloading\r\x1b[Kdone",
		"abc\x1b[1Kd", "abc\x1b[2Kd", "abc\rx\x1b[1Ky", "abcdef\x1b[3D\x1b[K",
		"N\bNA\bAM\bME\bE _\bu",
		"\b\b\bab",
		"\u4f60\u597d\rX", "\u4f60\u597d\b\b\bX", "abcd\r\u4f60", "abcd\r.\u4f60", "\u4f60\u597d\u4e16\r\x1b[1C\u754c",
		"\u4f60\u597d\x1b[3D\x1b[K", "\u4f60\u597d\x1b[3D\x1b[1K", "\u4f60\u597d\r\x1b[1C\x1b[1X", "\u4f60\u597d\u4e16\r\x1b[3Cab",
		"e\u0301f\rX", "ab\rc\u0301", "xe\u0301\bY", "\ud55c\uae00\b\bX", "\u1112\u1161\u11abx\b\b\bY",
		"a\tb\rX", "abcdefghij\r\tX", "ab\r\tX", "a\tb\r\x1b[4CX", "\t\tx\b\b\b\by", "abcdefgh\tx\x1b[2Zy", "a\x1b[2Ib",
		"abc\x1b[10GX\x1b[2GY", "abc\x1b[10`X\x1b[2aY", "abcdef\x1b[3D-\x1b[1C+", "x\x1b[0C\x1b[0D\x1b[GY",
		"abcdef\r\x1b[2P\x1b[1C\x1b[2@\x1b[1X", "abc\x1b[5Pd", "abc\r\x1b[5@d", "abc\r\x1b[9Xd",
		"abc\tdef\r\x1b[1P", "abc\tdef\r\x1b[1@", "abc\tdef\tg\r\x1b[6C\x1b[3P",
		"-\x1b[9b>", "ab\x1b7cd\x1b8X",
		"\x1b[1G\x1b[0K| idle\x1b[1G\x1b[0K/ fetch\x1b[1G\x1b[0Kok",
		"\U0001f600\U0001f600\b\bX", "\U0001f468\u200d\U0001f469\u200d\U0001f467ab\r\x1b[3CX", "\u2764\ufe0fab\r\x1b[3CX", "\U0001f44d\U0001f3fdab\r\x1b[3CX",
		"\U0001f1e9\U0001f1eaab\r\x1b[3CX", "1\ufe0f\u20e3ab\r\x1b[3CX", "\u2764ab\r\x1b[2CX",
		"\x1b[1;38;5;196mred\x1b[0m \x1b[38:2::1:2:3mx\x1b[m",
		"a\x1b[3\n1mb", "a\x1b[\r2Kc", "a\x1b[31\u4f60b", "a\x1b]0;t\x1b[31mb", "a\x1bPq;x\x1b\\b", "a\x1b[3\x18b\x1b]0;t\x1ac",
		"a\x1bXsos\x1b\\b\x1b^pm\x1b\\c\x1b_x\x1b\\d",
		"\x1b[?25l\x1b[?2004hx\x1b[>4;2m", "a\x00b\x07c\x0ef\x0f\x7fg",
	} {
		judge(t, in)
	}
}

// Long runs: BELAY_TEST_LONG=1.
func TestP5_RandomLinesLookAsOnATerminal(t *testing.T) {
	t.Parallel()
	rounds := 1000
	if os.Getenv("BELAY_TEST_LONG") != "" {
		rounds = 30_000
	}
	words := []string{"a", "bc", "def", " ", "  ", "50%", "\u4f60", "\u597d\u4e16", "e\u0301", "\u00e9", "\U0001f600", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "\U0001f468\u200d\U0001f469", "\u2588\u2591", "x\u0323\u0301"}
	moves := []string{"\r", "\r", "\b", "\b\b", "\t", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[J", "\x1b[%dC", "\x1b[%dD", "\x1b[%dG", "\x1b[%dX", "\x1b[%d`", "\x1b[%da", "\x1b[I", "\x1b[Z", "\x1b7", "\x1b8"}
	// The emulator shifts halves of wide characters about when it inserts or
	// deletes, so these come in lines without any.
	shifts := []string{"\x1b[%dP", "\x1b[%d@"}
	quiet := []string{"\x1b[31m", "\x1b[m", "\x1b]0;t\a", "\x1b]8;;u\x1b\\", "\x1b[?25l", "\x1bPq1\x1b\\", "\x1b_G\x1b\\", "\a", "\x00"}
	for i := range rounds {
		rng := rand.New(rand.NewPCG(uint64(i), 5))
		narrow := rng.IntN(4) == 0
		pick := func(s []string) string { return s[rng.IntN(len(s))] }
		var in strings.Builder
		saved := false
		for range 1 + rng.IntN(14) {
			s := ""
			switch rng.IntN(5) {
			case 0, 1:
				if s = pick(words); narrow {
					s = pick(words[:6])
				}
			case 2, 3:
				if s = pick(moves); narrow && rng.IntN(3) == 0 {
					s = pick(shifts)
				}
			default:
				s = pick(quiet)
			}
			if s == "\x1b7" {
				saved = true
			} else if s == "\x1b8" && !saved {
				continue // home: another row
			}
			if strings.Contains(s, "%d") {
				s = fmt.Sprintf(s, 1+rng.IntN(9)) // it takes 0 for 0, others for 1
			}
			in.WriteString(s)
		}
		if judge(t, in.String()); t.Failed() {
			t.Fatalf("round %d", i)
		}
	}
}

// Every width in the table, by the terminal's word for it.
func TestWidthsAreTheTerminals(t *testing.T) {
	t.Parallel()
	e := vt.NewEmulator(20, 1)
	defer e.Close()
	step := rune(1)
	if testing.Short() {
		step = 7
	}
	for r := rune(0xa0); r < 0x32000; r += step {
		if r >= 0xd7b0 && r < 0xe000 || r >= 0x1160 && r < 0x1200 { // parts of Hangul syllables, surrogates
			continue
		}
		if hidden(r) || unicode.Is(unicode.Cf, r) || !unicode.IsGraphic(r) && columns(r) < 2 { // younger than Go's tables
			continue
		}
		io.WriteString(e, "\r"+string(r))
		if x := e.CursorPosition().X; x != columns(r) {
			t.Errorf("%U: %d columns, a terminal has %d", r, columns(r), x)
		}
	}
}
