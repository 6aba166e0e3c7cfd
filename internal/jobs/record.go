package jobs

import (
	"fmt"
	"unicode/utf8"

	"github.com/belayhq/belay/internal/capture"
	"github.com/belayhq/belay/internal/termtext"
)

// pollHead is how much of the start of what was not polled yet is kept: half of
// the largest reply, 45,000 bytes, is head.
const pollHead = 24 << 10

// A Piece is what one poll delivers.
type Piece struct {
	Text    string // clean; where Omitted is not 0 a note stands in its place
	Cursor  int64  // position after the last byte that was delivered or omitted
	Omitted int64  // bytes of the decoded stream left out of Text
}

// A Page is a part of the output by position.
type Page struct {
	Text    string
	Cursor  int64 // position of the first byte in Text: the one asked for, or the next that is still kept
	Next    int64 // where the next page starts
	End     int64 // of the output so far
	Omitted int64 // bytes between the asked and the returned position
}

// A record is the output of one session: a stream of decoded UTF-8 of which the
// last bytes are kept, and the first of what was not polled yet. Positions are
// bytes of that stream. Its owner locks.
type record struct {
	decoder termtext.Decoder
	scratch []byte // for a stream that is not valid UTF-8; nil for one that is
	tail    *capture.Tail
	end     int64 // bytes so far

	cursor  int64            // of polling
	head    []byte           // starts at cursor
	cleaner termtext.Cleaner // as it stands at cursor
}

func newRecord(tailBytes int) record { return record{tail: capture.NewTail(tailBytes)} }

// write takes raw output.
func (r *record) write(p []byte) {
	text := r.decoder.Decode(r.scratch, p)
	r.keep(text)
	if len(text) > 0 && len(p) > 0 && &text[0] != &p[0] {
		r.scratch = text[:0]
	}
}

// finish ends the stream: an unfinished character becomes U+FFFD.
func (r *record) finish() { r.keep(r.decoder.Flush(nil)) }

func (r *record) keep(text []byte) {
	if r.end == r.cursor+int64(len(r.head)) {
		r.head = append(r.head, text[:min(len(text), pollHead-len(r.head))]...)
	}
	r.tail.Write(text)
	r.end += int64(len(text))
}

// span appends the bytes from..to that are kept without a gap after from.
func (r *record) span(dst []byte, from, to int64) []byte {
	for from < to {
		switch {
		case from >= r.tail.Start():
			return r.tail.AppendRange(dst, from, to)
		case from >= r.cursor && from < r.cursor+int64(len(r.head)):
			b := r.head[from-r.cursor:]
			b = b[:min(int64(len(b)), to-from)]
			dst = append(dst, b...)
			from += int64(len(b))
		default:
			return dst
		}
	}
	return dst
}

// before gives a cleaner that stands at a position, as far as what is kept in
// front of it tells: whether the position is within a sequence.
func (r *record) before(at int64) termtext.Cleaner {
	var c termtext.Cleaner
	from := max(0, at-termtext.LookBack)
	if from < r.tail.Start() && at > r.tail.Start() {
		from = r.tail.Start()
	}
	if b := r.span(nil, from, at); int64(len(b)) == at-from {
		c.Skip(b)
	}
	return c
}

func (r *record) poll(limit int) Piece {
	p := Piece{Cursor: r.end}
	var after termtext.Cleaner
	p.Text = termtext.Fit(limit, func(budget int) string {
		after = r.cleaner
		var text string
		text, p.Omitted = r.unread(&after, int64(budget))
		return text
	})
	r.cleaner = after
	r.cursor, r.head = r.end, r.head[:0]
	if cap(r.head) > 4<<10 { // a quiet session holds no buffer
		r.head = nil
	}
	return p
}

// unread renders what was not polled yet from at most budget bytes of it.
func (r *record) unread(c *termtext.Cleaner, budget int64) (text string, omitted int64) {
	if r.end-r.cursor <= budget {
		if b := r.span(nil, r.cursor, r.end); int64(len(b)) == r.end-r.cursor {
			return string(c.Flush(c.Append(nil, b))), 0
		}
	}
	head := r.span(nil, r.cursor, r.cursor+budget/2)
	head = head[:capture.EndOfPart(head)]
	gap := r.cursor + int64(len(head))

	start := max(gap, r.tail.Start(), r.end-(budget-int64(len(head))))
	tail := r.span(nil, start, r.end)
	n := capture.StartOfPart(tail)
	start, tail = start+int64(n), tail[n:]

	out := c.Flush(c.Append(nil, head))
	omitted = start - gap
	if omitted > 0 {
		if len(out) > 0 && out[len(out)-1] != '\n' {
			out = append(out, '\n')
		}
		out = fmt.Appendf(out, "[... %d bytes omitted; exec_output reads them from cursor=%d ...]\n", omitted, gap)
		// the two parts are cleaned apart: a sequence that the cut left open swallows nothing
		*c = r.before(start)
	}
	return string(c.Flush(c.Append(out, tail))), omitted
}

func (r *record) page(cursor int64, limit int) Page {
	if cursor < 0 {
		cursor = max(0, r.end+cursor)
	}
	cursor = min(cursor, r.end)
	at := cursor
	if len(r.span(nil, at, at+1)) == 0 {
		at = r.tail.Start() // only the tail is kept for good
		if at < cursor {
			at = r.end
		}
	}
	// one more character than may be needed, so that a page always advances
	b := r.span(nil, at, min(r.end, at+int64(max(limit, utf8.UTFMax))))
	n := capture.StartOfPart(b)
	at, b = at+int64(n), b[n:]

	p := Page{Cursor: at, End: r.end, Omitted: at - cursor}
	p.Text = termtext.Fit(limit, func(budget int) string {
		part := b
		if len(part) > budget {
			part = part[:max(budget, utf8.UTFMax)]
		}
		if at+int64(len(part)) < r.end {
			part = part[:capture.EndOfPart(part)]
		}
		p.Next = at + int64(len(part))
		c := r.before(at)
		return string(c.Flush(c.Append(nil, part)))
	})
	return p
}
