package termtext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMarks is how many combining marks are shown on one character. More than
// any language stacks would paint over the lines above and below.
const maxMarks = 3

// Escape writes s for human eyes, whole and on one line: everything that is not
// plainly visible as itself is written as Go writes it in a string literal (\n,
// \t, \x1b, \u202e, \U000e0041; \xNN for a byte that is no UTF-8), and a
// backslash is doubled. So nothing in the result acts on a terminal, changes
// the direction of text, or hides; and two different texts never look alike by
// it: the result can be unquoted to s exactly.
//
// Beside controls, bidirectional and invisible characters that concerns every
// blank but the space, private and unassigned characters, and combining marks
// that have no character of this text to stand on or come in heaps. Letters of
// right-to-left scripts stay: a terminal may show them in another order.
func Escape(s string) string {
	if plainText(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + len(s)/8)
	var e escaper
	for len(s) > 0 {
		piece, size := e.next(s)
		b.WriteString(piece)
		s = s[size:]
	}
	return b.String()
}

// Preview is the beginning of Escape(s): at most max characters, the last of
// them an ellipsis (U+2026) where something was left out. It never cuts an
// escape in two and reads no more of s than it shows. A max below 1 gives "".
func Preview(s string, max int) string {
	if max < 1 {
		return ""
	}
	var (
		b   strings.Builder
		e   escaper
		n   int // characters in b
		cut int // bytes of b up to where an ellipsis still fits
	)
	for len(s) > 0 {
		piece, size := e.next(s)
		n += utf8.RuneCountInString(piece)
		if n > max {
			return b.String()[:cut] + "…"
		}
		b.WriteString(piece)
		if n < max {
			cut = b.Len()
		}
		s = s[size:]
	}
	return b.String()
}

// escaper walks over a text. Its zero value stands before the text.
type escaper struct {
	base  bool // the last character can carry marks
	marks int  // that it carries already
}

// next gives the form of the first character of s, which is not empty, and its
// length in s.
func (e *escaper) next(s string) (piece string, size int) {
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && size == 1:
		piece = fmt.Sprintf(`\x%02x`, s[0])
	case unicode.Is(unicode.M, r) && !hidden(r) && e.base && e.marks < maxMarks:
		e.marks++
		return s[:size], size
	case plainRune(r):
		*e = escaper{base: true}
		return s[:size], size
	default:
		piece = escapeRune(r)
	}
	*e = escaper{}
	return piece, size
}

// plainRune: visible as itself wherever it stands.
func plainRune(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r <= '~' && r != '\\'
	}
	return unicode.IsPrint(r) && !unicode.Is(unicode.M, r) && !hidden(r) && r != '\u2800' // braille without dots
}

func plainText(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return true
}

func escapeRune(r rune) string {
	switch r {
	case '\\':
		return `\\`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	switch {
	case r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	default:
		return fmt.Sprintf(`\U%08x`, r)
	}
}
