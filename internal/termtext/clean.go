package termtext

import (
	"slices"
	"unicode/utf8"
)

// Cleaner makes decoded output inert text for a model: what a person would have
// read, line by line.
//
//   - Terminal sequences are removed, 7-bit and 8-bit, whole and unfinished,
//     with their payload. So is every control but line feed and tab.
//   - Within a line carriage return, backspace, tab and the control sequences
//     that move the cursor sideways, erase, insert, delete or repeat have their
//     effect, on a model of columns in which East Asian characters and emoji
//     take two and combining marks none. A line that was edited loses the
//     blanks at its end; any other line comes out as it was printed.
//   - Invisible characters and those that change the direction of text are
//     written as <U+202E>, except where they are part of an emoji or a Chinese
//     character.
//
// Rows are not modelled, nor is the right edge of a screen. A sequence that
// goes to the beginning of another row ends the line (CUP, HVP, CNL, CPL, NEL);
// one that goes up or down in the same column, clears the screen or changes the
// character set does nothing.
//
// A line longer than 16 KiB comes out in parts; going back in it starts a new
// line, so that nothing is lost.
//
// The result does not depend on how the stream is split into calls of Append.
// It can be longer than the source, where cursor jumps leave gaps and where
// hidden characters are spelled out: bound the result, not the source.
//
// The zero value is ready. A Cleaner keeps less than 8 KiB between lines and
// nothing at all after Flush or Skip: it may then be copied, and both go on from
// there on their own.
type Cleaner struct {
	dec    Decoder
	parser parser
	line   line
}

// Append takes the next piece of the stream, appends the lines that it
// completes to dst and returns it.
func (c *Cleaner) Append(dst, src []byte) []byte {
	src = c.dec.Decode(nil, src)
	dst = slices.Grow(dst, len(src))
	for i := 0; i < len(src); {
		if c.parser.state == ground {
			n := plainLen(src[i:])
			if end := lineEnd(src[i+n:]); end > 0 && c.line.untouched() {
				dst = append(dst, src[i:i+n]...)
				dst = append(dst, '\n')
				i += n + end
				continue
			}
			if n > 0 {
				dst = c.line.plain(dst, src[i:i+n])
				i += n
				continue
			}
		}
		r, size := utf8.DecodeRune(src[i:])
		dst = c.step(dst, r)
		i += size
	}
	return dst
}

// Flush appends the current line as it stands, for a reader who cannot wait for
// its end, and begins an empty line. Whether the stream is within a sequence or
// a character is remembered: the next Append goes on there.
func (c *Cleaner) Flush(dst []byte) []byte { return c.line.flush(dst) }

// Skip takes a piece of the stream that is not to be shown, for a reader who
// starts in the middle: see [LookBack]. What follows it begins an empty line.
func (c *Cleaner) Skip(src []byte) {
	for _, r := range string(c.dec.Decode(nil, src)) {
		c.parser.next(r)
	}
	c.line = line{}
}

// Clean is a Cleaner for a text that is there as a whole.
func Clean(src []byte) []byte {
	var c Cleaner
	dst := c.Append(nil, src)
	for _, r := range string(c.dec.Flush(nil)) {
		dst = c.step(dst, r)
	}
	return c.Flush(dst)
}

func (c *Cleaner) step(dst []byte, r rune) []byte {
	l := &c.line
	switch c.parser.next(r) {
	case printed:
		return l.print(dst, r)
	case executed:
		switch r {
		case '\n':
			return l.end(dst)
		case '\r':
			l.cr = true
		case '\b':
			return l.backspace(dst)
		case '\t':
			return l.print(dst, r)
		}
	case dispatched:
		switch c.parser.final {
		case 'E':
			return l.end(dst)
		case '7':
			return l.save(dst)
		case '8':
			return l.restore(dst)
		}
	case commanded:
		return l.command(dst, c.parser.final, c.parser.param)
	}
	return dst
}

// plainLen counts the characters that b starts with and that are only printed.
func plainLen(b []byte) int {
	for i, c := range b {
		if c < ' ' && c != '\t' || c > '~' {
			return i
		}
	}
	return len(b)
}

// lineEnd is the length of the line end that b starts with, or 0.
func lineEnd(b []byte) int {
	switch {
	case len(b) > 0 && b[0] == '\n':
		return 1
	case len(b) > 1 && b[0] == '\r' && b[1] == '\n':
		return 2
	}
	return 0
}
