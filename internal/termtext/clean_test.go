package termtext

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestP5_Clean(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		// Text stays text.
		{"plain", "a b\n\tc  \n\nno end ", "a b\n\tc  \n\nno end "},
		{"CRLF is a line end", "a\r\nb\r\r\n", "a\nb\n"},
		{"blanks at the end stay", "a  \r\nb \x1b[0m\n", "a  \nb \n"},
		{"unicode", "caf\u00e9 \u4f60\u597d e\u0301\n", "caf\u00e9 \u4f60\u597d e\u0301\n"},
		{"SH-31", "ok\xe2\x82", "ok\ufffd"},
		{"controls", "a\x00b\x07c\x0bd\x0ce\x0ef\x0fg\x7fh\x01", "abcdefgh"},

		// Overprinting.
		{"SE-29", "10%\r20%\r100%\ndone\n", "100%\ndone\n"},
		{"shorter last frame", "100%\r7%\n", "7%0%\n"},
		{"erased with blanks", "Downloading\r           \rdone\n", "done\n"},
		{"erased for good", "Downloading\r           \r\nnext\n", "\nnext\n"},
		{"erased by sequence", "Downloading\r\x1b[Kdone\n", "done\n"},
		{"erase behind text", "match\x1b[m\x1b[K  \n", "match  \n"},
		{"yarn", "[1/4] step\x1b[2K\x1b[1G[2/4] step\n", "[2/4] step\n"},
		{"spinner", "| work\b\b\b\b\b\b/\b-\b\\ work\n", "\\ work\n"},
		{"man page bold", "N\bNA\bAM\bME\bE _\bu\n", "NAME u\n"},
		{"backspace at start", "\b\bab\n", "ab\n"},
		{"backspace does not erase", "abc\b\n", "abc\n"},
		{"bell and CR", "\rab\r\a\r\n", "ab\n"},
		{"wide", "\u4f60\u597d\rX\n", "X \u597d\n"},
		{"wide half", "\u4f60\u597d\b\b\bX\n", " X\u597d\n"},
		{"wide over narrow", "abcd\r\u4f60\n", "\u4f60cd\n"},
		{"marks go with their base", "e\u0301f\rX\n", "Xf\n"},
		{"mark behind overprinted", "ab\rc\u0301\n", "c\u0301b\n"},
		{"tab kept", "a\tb\rX\n", "X\tb\n"},
		{"tab as move", "abcdefghij\r\tX\n", "abcdefghXj\n"},
		{"tab over gap", "ab\r\tX\n", "ab      X\n"},
		{"in a tab", "a\tb\r\x1b[4CX\n", "a   X   b\n"},
		{"column", "abc\x1b[10GX\x1b[2GY\n", "aYc      X\n"},
		{"forward and back", "abcdef\x1b[3D-\x1b[1C+\n", "abc-e+\n"},
		{"delete, insert, erase", "abcdef\r\x1b[2P\x1b[1C\x1b[2@\x1b[1X\n", "c  def\n"},
		{"insert in a wide one", "\u4f60b\r\x1b[1C\x1b[1@X\n", " X b\n"},
		{"restored without saving", "ab\x1b8cd\x1b[u\x1b[uef\n", "ab\ncd\nef\n"},
		{"repeat", "-\x1b[9b>\n", "---------->\n"},
		{"saved", "ab\x1b7cd\x1b8X\x1b[s1\x1b[u2\n", "abX2\n"},
		{"jump is bounded", "\x1b[99999CX\n", strings.Repeat(" ", maxJump) + "X\n"},
		{"prompt keeps its blank", "xx\r\x1b[Kname? ", "name? "},
		{"npm gauge", "\x1b[1G\x1b[0K\u28f7 idle\x1b[1G\x1b[0K\u28ef fetch\x1b[1G\x1b[0Kok\n", "ok\n"},

		// Other rows.
		{"home and clear", "abc\x1b[H\x1b[2Jdef\n", "abc\ndef\n"},
		{"home at start", "\x1b[H\x1b[2Jdef\n", "def\n"},
		{"up and down do nothing", "a\x1b[2Ab\x1b[3Bc\x1bMd\x1bDe\n", "abcde\n"},
		{"NEL", "a\u0085b\x1bEc\n", "a\nb\nc\n"},

		// Sequences.
		{"SE-39", "A\x1b]52;c;aGVsbG8=\aB\x1b]0;t\aC\x1b]8;;http://x\x1b\\L\x1b]8;;\x1b\\D\x1b[2JE\x1b[10AF\x1bPG\x1b\\H\x1b_I\x1b\\J\x1bcK\u009b1mM\n", "ABCLDEFHJKM\n"},
		{"SE-41", "a\x1b]52;c;aGk=\ab\x1b[2Jc\n", "abc\n"},
		{"colours", "\x1b[1;38;5;196mred\x1b[0m \x1b[38:2::1:2:3mx\x1b[4:3my\x1b[m\n", "red xy\n"},
		{"modes", "\x1b[?25l\x1b[?1049hx\x1b[>4;2m\x1b[!p\x1b[ q\x1b[?u\x1b[=1;1u\n", "x\n"},
		{"escapes", "\x1b=a\x1b>b\x1b(0c\x1b)Bd\x1b#8e\x1b%Gf\x1b F\n", "abcdef\n"},
		{"8-bit strings", "a\u009d0;t\u009cb\u0090q\x1b\\c\u009fx\u009cd\u009ey\u009ce\u0098z\u009cf\n", "abcdef\n"},
		{"SOS and PM", "a\x1bXsos\x1b\\b\x1b^pm\x1b\\c\n", "abc\n"},
		{"BEL ends no DCS", "a\x1bPq\ab\x1b\\c\n", "ac\n"},
		{"CAN and SUB", "a\x1b[3\x18b\x1b]0;t\x1ac\x1b[3\x1ad\n", "abcd\n"},
		{"sequence in string", "a\x1b]0;t\x1b[31mb\n", "ab\n"},
		{"tmux passthrough", "a\x1bPtmux;\x1b\x1b]52;c;aGk=\a\x1b\\b\n", "ab\n"},
		{"controls within", "a\x1b[3\n1mb\x1b[\r2Kc\n", "a\nc\n"},
		{"not in a sequence", "a\x1b[31\u4f60b\x1b\u4f60c\n", "a\u4f60b\u4f60c\n"},
		{"unfinished at the end", "a\x1b[31", "a"},
		{"unfinished string at the end", "a\x1b]0;title", "a"},
		{"broken character before ESC", "\xe2\x1b[31mX\n", "\ufffdX\n"},
		{"long parameters", "a\x1b[" + strings.Repeat("9", 5000) + ";" + strings.Repeat("1;", 500) + "mb\n", "ab\n"},
		{"title with lines", "a\x1b]0;for i in 1 2\ndo x\ndone\ab\n", "ab\n"},
		{"clipboard with lines", "a\x1b]52;c;" + strings.Repeat("aGVsbG8gd29ybGQ\n", 1000) + "\ab\n", "ab\n"},
		{"C1 from text encoded twice", "\u00e2\u0080\u009cquote\u00e2\u0080\u009d and\nmore\n", "\u00e2quote\u00e2\nmore\n"},

		// What cannot be seen.
		{"bidi", "a\u202eb\u2066c\u200f\u061c\n", "a<U+202E>b<U+2066>c<U+200F><U+061C>\n"},
		{"zero width", "a\u200bb\u200cc\u200dd\u2060e\u00adf\n", "a<U+200B>b<U+200C>c<U+200D>d<U+2060>e<U+00AD>f\n"},
		{"BOM", "\ufeffa\n", "<U+FEFF>a\n"},
		{"tags", "x\U000e0041\U000e007f\n", "x<U+E0041><U+E007F>\n"},
		{"separators", "a\u2028b\u2029c\n", "a<U+2028>b<U+2029>c\n"},
		{"fillers", "\u3164\uffa0\u115f\n", "<U+3164><U+FFA0><U+115F>\n"},
		{"emoji", "\u2764\ufe0f \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd 1\ufe0f\u20e3 \U0001f3f3\ufe0f\u200d\U0001f308\n", "\u2764\ufe0f \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd 1\ufe0f\u20e3 \U0001f3f3\ufe0f\u200d\U0001f308\n"},
		{"joiner elsewhere", "\U0001f468\u200da\u200d\U0001f468\u200d\n", "\U0001f468<U+200D>a<U+200D>\U0001f468<U+200D>\n"},
		{"selectors smuggled", "\u2764\ufe0f\ufe0f\U000e0141a\ufe0f1\ufe0f2\n", "\u2764\ufe0f<U+FE0F><U+E0141>a<U+FE0F>1<U+FE0F>2\n"},
		{"selector of a Chinese character", "\u845b\U000e0100\U000e0101\n", "\u845b\U000e0100<U+E0101>\n"},
		{"hidden has no column", "ab\u200b\b\bX\n", "Xb<U+200B>\n"},
		{"hidden goes with its base", "a\u200bb\rX\n", "Xb\n"},
		{"hidden at the start", "\u200bab\b\bX\n", "Xb\n"},
	} {
		if got := string(Clean([]byte(c.in))); got != c.want {
			t.Errorf("%s: Clean(%+q)\n got %+q\nwant %+q", c.name, c.in, got, c.want)
		}
	}
}

// SE-29: two thousand frames of progress are one line.
func TestSE29_ProgressIsItsLastFrame(t *testing.T) {
	t.Parallel()
	var in bytes.Buffer
	for i := 1; i <= 2000; i++ {
		fmt.Fprintf(&in, "\rstep %d/2000", i)
	}
	in.WriteString("\r\ndone\r\n")
	if got := string(Clean(in.Bytes())); got != "step 2000/2000\ndone\n" {
		t.Fatalf("got %q", got)
	}
}

// A sequence that was never finished must not hide the rest of a log for ever.
func TestRunawayStringsAreGivenUp(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&log, "line %d of a log\n", i)
	}
	for _, begin := range []string{"\x1b]0;title", "\x1bPq", "\x1b_x", "\x1b^x", "\x1bXx"} {
		got := string(Clean([]byte("before " + begin + log.String())))
		if !strings.HasPrefix(got, "before \nline ") || !strings.HasSuffix(got, log.String()[len(log.String())/10:]) {
			t.Errorf("%+q swallowed too much: %.60q", begin, got)
		}
	}
	if got := string(Clean([]byte("x\u009dmojibake " + log.String()))); got != "x\n"+strings.SplitAfterN(log.String(), "\n", 2)[1] {
		t.Errorf("8-bit: %.60q", got)
	}
	data := strings.Repeat("nameswithoutblanks\n", (dataLeash+1<<14)/19)
	if got := string(Clean([]byte("x\x1b]0;" + data + "end\n"))); !strings.HasSuffix(got, "\nend\n") {
		t.Errorf("data: %.60q", got)
	}
}

// P5: a poll shows the line as it stands, and the next one goes on.
func TestP5_FlushKeepsTheParserState(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want []string }{
		{[]string{"a\x1b]52;c;", "aGk=\ab\x1b[", "2Jc\n"}, []string{"a", "b", "c\n"}},
		{[]string{"10%", "\r20%", "\r30%\r", "\n"}, []string{"10%", "20%", "30%", "\n"}},
		{[]string{"caf\xc3", "\xa9\n"}, []string{"caf", "\u00e9\n"}},
		{[]string{"x\u009b1", "mM\xc2", "\x9d0;t\x07y"}, []string{"x", "M", "y"}},
		{[]string{"abc", "\bX\n"}, []string{"abc", "X\n"}},
		{[]string{"user\r\x1b[KPassword: ", "\nok\n"}, []string{"Password: ", "\nok\n"}},
		{[]string{"ab\tq\b\x1b[K\x1b[4G", "x\n"}, []string{"ab\t", "x\n"}}, // the cursor is within the tab
		{[]string{"\x1b", "[31", ";1", "mX"}, []string{"", "", "", "X"}},
	} {
		var cl Cleaner
		for i, in := range c.in {
			if got := string(cl.Flush(cl.Append(nil, []byte(in)))); got != c.want[i] {
				t.Errorf("%+q, piece %d: got %q, want %q", c.in, i, got, c.want[i])
			}
		}
	}
}

// A poll may be rendered several times from where the last one ended.
func TestFlushedCleanerMayBeCopied(t *testing.T) {
	t.Parallel()
	var c Cleaner
	c.Flush(c.Append(nil, []byte("some text, edited\rSOME\u200b \x1b]0;ti")))
	a, b := c, c
	x := a.Append(nil, []byte("tle\aone"))
	y := b.Append(nil, []byte("tle\atwo\r\r"))
	x, y = a.Append(x, []byte(" 1\r1\n")), b.Append(y, []byte("2\n"))
	if string(x) != "1ne 1\n" || string(y) != "2wo\n" {
		t.Fatalf("%q, %q", x, y)
	}
}

func TestSkipExposesNoPayload(t *testing.T) {
	t.Parallel()
	stream := "line\x1b]52;c;c2VjcmV0\abehind\x1b[31;1mred\nend\n"
	for i := range stream {
		var c Cleaner
		c.Skip([]byte(stream[:i]))
		got := string(c.Flush(c.Append(nil, []byte(stream[i:]))))
		whole := "linebehindred\nend\n"
		if !strings.HasSuffix(whole, got) {
			t.Errorf("skipped %d: %q", i, got)
		}
	}
}

// C6: a line without an end is not kept, and nothing of it is lost.
func TestLongLinesComeOutWhole(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 20_000)
	for _, c := range []struct{ in, want string }{
		{long + "\n", long + "\n"},
		{long + "\r\n", long + "\n"},
		{long + "\rnext\rlast\n", long + "\nlast\n"},
		{long + "\b\b\x1b[3D\x1b[KX\n", long + "X\n"},
		{"ab\rX" + long + "\n", "X" + long + "\n"},
		{strings.Repeat("\u4f60", 30_000) + "\n", strings.Repeat("\u4f60", 30_000) + "\n"},
		{strings.Repeat("\t", 20_000) + "x\ry\n", strings.Repeat("\t", 20_000) + "x\ny\n"},
	} {
		for _, size := range []int{1 << 20, 1000} {
			var cl Cleaner
			var got []byte
			for b := []byte(c.in); len(b) > 0; b = b[min(size, len(b)):] {
				got = cl.Append(got, b[:min(size, len(b))])
				if n := len(cl.line.text) + len(cl.line.cells); n > 9*maxLine {
					t.Fatalf("holds %d", n)
				}
			}
			if cap(cl.line.text) > 1<<10 || cap(cl.line.cells) > 1<<8 {
				t.Error("keeps the memory of a long line")
			}
			if got = cl.Flush(got); string(got) != c.want {
				t.Errorf("%.20q…: got %d bytes %.40q…%q, want %d", c.in, len(got), got, got[max(0, len(got)-20):], len(c.want))
			}
		}
	}
	// Frames and marks without a line end must not pile up.
	var cl Cleaner
	frame := []byte("e" + strings.Repeat("\u0301", 100) + "\r")
	var out []byte
	for range 10_000 {
		out = cl.Append(out[:0], frame)
	}
	if cl.line.joined > 2*maxLine {
		t.Errorf("%d bytes of marks kept", cl.line.joined)
	}
}

func TestHiddenTableIsUnicodes(t *testing.T) {
	t.Parallel()
	shown := func(r rune) bool { // format characters that have a glyph
		return r >= 0x600 && r <= 0x605 || r == 0x6dd || r == 0x70f || r == 0x890 || r == 0x891 || r == 0x8e2 || r == 0x110bd || r == 0x110cd
	}
	for r := rune(0xa0); r <= unicode.MaxRune; r++ {
		want := unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point,
			unicode.Variation_Selector, unicode.Bidi_Control, unicode.Join_Control) && !shown(r)
		if hidden(r) == want {
			continue
		}
		// What the table has beyond the categories: unassigned, but ignorable
		// or reserved for format characters.
		if hidden(r) && !unicode.IsGraphic(r) && (r >= 0xfff0 && r <= 0xfffb || r >= 0xe0000 && r <= 0xe0fff || r == 0x2065 || r == 0x13430 || r > 0x13430 && r <= 0x1343f) {
			continue
		}
		if hidden(r) && r >= 0x13440-16 && r < 0x13440 { // younger than this Go's tables
			continue
		}
		t.Errorf("%U: hidden %v", r, hidden(r))
	}
}

// inert fails if a cleaned text could act on anything that shows it.
func inert(t *testing.T, s []byte) {
	t.Helper()
	if !utf8.Valid(s) {
		t.Fatalf("%q is not UTF-8", s)
	}
	for _, r := range string(s) {
		if r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Variation_Selector, r) && r > 0xfe0f && r < 0xe0100 {
			t.Fatalf("%q holds %U", s, r)
		}
	}
}

// P5, SE-39: whatever the input, the result is inert, and clean text stays as
// it is.
func FuzzStripIsInert(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte, seed uint64) {
		got := Clean(src)
		inert(t, got)
		if again := Clean(got); !bytes.Equal(again, got) {
			t.Fatalf("%q: cleaned again %q", got, again)
		}
		// Also in the middle of a stream, in any mixture of calls.
		var c Cleaner
		for i, part := range split(src, seed) {
			if i%3 == 2 {
				c.Skip(part)
				continue
			}
			inert(t, c.Flush(c.Append(nil, part)))
		}
	})
}

// P5, SE-41: any split into pieces gives the same text.
func FuzzSplitInvariance(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte, seed uint64) {
		want := Clean(append(src, '\n'))
		var c Cleaner
		var got []byte
		for _, part := range split(append(src, '\n'), seed) {
			got = c.Append(got, part)
		}
		if got = c.Flush(got); !bytes.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func seeds(f *testing.F) {
	for i, s := range []string{
		"", "plain\n", "10%\r20%\n", "a\bb\x1b[2Kc\x1b[3G", "\x1b]52;c;aGk=\a", "\u009d0;t\u009c", "\xe2\x1b[31mX",
		"\u202e\U000e0041\u2764\ufe0f\u200d\U0001f468", "\x1bP\x1b\x1b]0;\a\x1b\\", "\x1b[10@\x1b[3P\x1b[5b\x1b[I\x1b[Z\x1b7\x1b8",
		"\u4f60\t\u597d\r\tX\x1b[1K", "\x1b[H\x1b[2J\x1bE\u0085", "\U0001f1e9\U0001f1ea\b\bX",
	} {
		f.Add([]byte(s), uint64(i))
	}
}

func BenchmarkClean(b *testing.B) {
	for name, line := range map[string]string{
		"plain":    "main.go:12: a line of a log, nothing special in it at all 0123456789\n",
		"crlf":     "main.go:12: a line of a log, nothing special in it at all 0123456789\r\n",
		"coloured": "\x1b[35mmain.go\x1b[m\x1b[K:\x1b[32m12\x1b[m: a line of \x1b[1mgrep\x1b[m, nothing special 0123456789\n",
		"chinese":  "\u4f60\u597d\u4e16\u754c\u4f60\u597d\u4e16\u754c\u4f60\u597d\u4e16\u754c\n",
		"progress": "\rstep 1234/2000 [=====>     ] 45%",
	} {
		src := bytes.Repeat([]byte(line), 100_000/len(line))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			dst := make([]byte, 0, 2*len(src))
			for b.Loop() {
				var c Cleaner
				c.Flush(c.Append(dst[:0], src))
			}
		})
	}
}
