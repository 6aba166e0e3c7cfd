package termtext

import "unicode/utf8"

// Decoder turns a byte stream into valid UTF-8. A malformed sequence becomes
// U+FFFD, one for each maximal subpart: the longest run of bytes that could
// still have begun a character, or else one byte. That is the practice that the
// Unicode Standard recommends (chapter 3, U+FFFD Substitution of Maximal
// Subparts), and what browsers do; Go's own range loop replaces byte by byte.
//
// The result does not depend on how the stream is split: up to three bytes that
// may still become a character are held back until the next call, or Flush.
//
// The zero value is ready. A Decoder holds no buffer.
type Decoder struct {
	held [utf8.UTFMax - 1]byte // a character that is not finished yet
	n    int                   // bytes of it
}

// Append decodes src, appends the text to dst and returns it.
func (d *Decoder) Append(dst, src []byte) []byte {
	dst, src = d.finish(dst, src)
	src = d.holdBack(src)
	if utf8.Valid(src) {
		return append(dst, src...)
	}
	start := 0 // of the valid text not yet appended
	for i := 0; i < len(src); {
		if src[i] < utf8.RuneSelf {
			i++
			continue
		}
		if r, size := utf8.DecodeRune(src[i:]); r != utf8.RuneError || size > 1 {
			i += size
			continue
		}
		dst = append(dst, src[start:i]...)
		dst = utf8.AppendRune(dst, utf8.RuneError)
		i += maximalSubpart(src[i:])
		start = i
	}
	return append(dst, src[start:]...)
}

// Decode is Append for streams that are mostly valid: where nothing has to be
// changed the result is a part of src itself and nothing is copied. Otherwise
// it is built in scratch, which is overwritten and must not share memory with
// src; 3*len(src)+3 bytes are always enough, with less it may be reallocated.
// Either way the result is good until src or scratch is used again. Keep scratch
// and the result apart: the result is not a scratch for the next call.
func (d *Decoder) Decode(scratch, src []byte) []byte {
	if d.n == 0 {
		n := len(src) - unfinished(src)
		if utf8.Valid(src[:n]) {
			return d.holdBack(src)
		}
	}
	return d.Append(scratch[:0], src)
}

// Flush ends the stream: what was held back becomes one U+FFFD. The Decoder is
// then ready for another stream.
func (d *Decoder) Flush(dst []byte) []byte {
	if d.n > 0 {
		d.n = 0
		dst = utf8.AppendRune(dst, utf8.RuneError)
	}
	return dst
}

// finish completes the held character with the first bytes of src.
func (d *Decoder) finish(dst, src []byte) (text, rest []byte) {
	for d.n > 0 && len(src) > 0 {
		var c [utf8.UTFMax]byte
		copy(c[:], d.held[:d.n])
		c[d.n] = src[0]
		b := c[:d.n+1]
		switch {
		case !utf8.FullRune(b):
			d.held[d.n] = src[0]
			d.n++
			src = src[1:]
		case utf8.Valid(b):
			dst = append(dst, b...)
			d.n = 0
			src = src[1:]
		default: // what was held is a maximal subpart; src[0] starts anew
			dst = utf8.AppendRune(dst, utf8.RuneError)
			d.n = 0
		}
	}
	return dst, src
}

// holdBack keeps the unfinished end of src for the next call. It is called
// only when nothing is held, or when src is empty.
func (d *Decoder) holdBack(src []byte) []byte {
	n := unfinished(src)
	if n > 0 {
		d.n = copy(d.held[:], src[len(src)-n:])
	}
	return src[:len(src)-n]
}

// unfinished counts the bytes at the end of b that may still become a
// character.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			break
		}
	}
	return 0
}

// maximalSubpart is the length of the malformed sequence that b starts with.
func maximalSubpart(b []byte) int {
	for n := min(utf8.UTFMax-1, len(b)); n > 1; n-- {
		if !utf8.FullRune(b[:n]) {
			return n
		}
	}
	return 1
}
