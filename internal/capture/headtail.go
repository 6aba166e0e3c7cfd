package capture

import (
	"bytes"
	"unicode/utf8"
)

// A HeadTail keeps the first and the last bytes of a stream, half of the bound
// each, and counts all of it.
type HeadTail struct {
	headLimit int
	head      []byte
	tail      *Tail // of the whole stream, the head included
}

// NewHeadTail keeps at most limit bytes.
func NewHeadTail(limit int) *HeadTail {
	limit = max(limit, 2)
	return &HeadTail{headLimit: limit / 2, tail: NewTail(limit - limit/2)}
}

// Write takes the next bytes of the stream. It never fails.
func (h *HeadTail) Write(p []byte) (int, error) {
	if n := min(len(p), h.headLimit-len(h.head)); n > 0 {
		h.head = append(grow(h.head, len(h.head)+n, h.headLimit), p[:n]...)
	}
	return h.tail.Write(p)
}

// Total is the number of bytes that went by.
func (h *HeadTail) Total() int64 { return h.tail.End() }

// Kept is how many bytes of it are kept, a little more where head and tail overlap.
func (h *HeadTail) Kept() int { return len(h.head) + int(h.tail.End()-h.tail.Start()) }

// A Cut is the part of a stream that fits into a budget.
type Cut struct {
	Head, Tail []byte
	Omitted    int64 // bytes between them; if 0, Tail is empty and Head is all
	// Before is what is kept in front of Tail, up to a bound: a reader of Tail
	// may need it to know where it stands.
	Before []byte
}

// Cut gives the head and the tail that fit into budget bytes together, cut
// between characters where the stream is UTF-8, and between lines where that
// costs little. before bounds Cut.Before. The slices are the caller's own.
func (h *HeadTail) Cut(budget, before int) Cut {
	budget = max(budget, 0)
	total := h.Total()
	if total <= int64(budget) {
		if whole := h.append(nil, 0, total); int64(len(whole)) == total {
			return Cut{Head: whole}
		}
	}
	head := h.head[:min(len(h.head), budget/2)]
	head = head[:EndOfPart(head)]
	from := max(int64(len(head)), h.tail.Start(), total-int64(budget-len(head)))
	tail := h.tail.AppendRange(nil, from, total)
	skip := StartOfPart(tail)
	from += int64(skip)
	return Cut{
		Head: bytes.Clone(head), Tail: tail[skip:], Omitted: from - int64(len(head)),
		Before: h.tail.AppendRange(nil, max(int64(len(head)), from-int64(before)), from),
	}
}

// append appends the bytes from..to as far as they are kept without a gap.
func (h *HeadTail) append(dst []byte, from, to int64) []byte {
	if n := int64(len(h.head)); from < n {
		k := min(n, to)
		dst = append(dst, h.head[from:k]...)
		from = k
	}
	if from >= h.tail.Start() {
		dst = h.tail.AppendRange(dst, from, to)
	}
	return dst
}

// EndOfPart is where to end a part of UTF-8 text that goes on: behind the last
// line end in its second half, else behind its last whole character.
func EndOfPart(b []byte) int {
	if i := bytes.LastIndexByte(b, '\n'); i >= len(b)/2 {
		return i + 1
	}
	for n := 1; n <= utf8.UTFMax && n <= len(b); n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return len(b) - n
			}
			break
		}
	}
	return len(b)
}

// StartOfPart is where to start in a part of UTF-8 text that was cut off at its
// front: at its first whole character.
func StartOfPart(b []byte) int {
	n := 0
	for n < len(b) && !utf8.RuneStart(b[n]) {
		if n++; n == utf8.UTFMax { // more than a character has: no UTF-8
			return 0
		}
	}
	return n
}
