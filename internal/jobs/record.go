package jobs

import (
	"bytes"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/belayhq/belay/internal/capture"
	"github.com/belayhq/belay/internal/spool"
	"github.com/belayhq/belay/internal/termtext"
)

// pollHead is how much of the start of what was not polled yet is kept: half of
// the largest reply, 45,000 bytes, is head.
const pollHead = 24 << 10

// lookBacks are how far before a position a reader looks to learn whether it is
// within a terminal sequence, in turn until it knows. The last one is more than the
// longest sequence that termtext goes along with.
var lookBacks = [...]int64{16 << 10, 128 << 10, 1<<20 + 16<<10}

// A Piece is what one poll delivers.
type Piece struct {
	Text    string // clean; where Omitted is not 0 a note stands in its place, if there is room for it
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

// A record is the output of one session: a stream of decoded UTF-8, with positions
// in bytes of that stream. Memory keeps its last bytes, and the first of what was
// not polled yet. Once the stream is longer than the last bytes, a log on disk
// keeps its first ones; a short stream touches no disk.
//
// One goroutine at a time writes; all else may be called by any. Nobody waits for
// a disk but the writer, and readers of a part that memory does not have: mu is
// never held over an operation on the log.
type record struct {
	// The writer's own.
	decoder termtext.Decoder
	scratch []byte // for a stream that is not plain valid UTF-8; nil for one that is
	memory  int64  // bytes that the tail keeps

	logMu sync.Mutex
	log   *spool.Log

	mu       sync.Mutex
	tail     *capture.Tail
	end      int64                    // bytes so far; only the writer moves it
	cursor   int64                    // of polling
	head     []byte                   // starts at cursor; whole characters
	headFull bool                     // head does not go on
	cleaner  termtext.Cleaner         // as it stands at cursor, between two lines
	watchers map[chan<- struct{}]bool // true: told of output too, not only of the end
}

func newRecord(tailBytes int, log *spool.Log) *record {
	return &record{memory: int64(tailBytes), log: log, tail: capture.NewTail(tailBytes)}
}

// write takes raw output.
func (r *record) write(p []byte) {
	text := r.decoder.Decode(r.scratch, p)
	r.keep(text)
	if len(text) > 0 && &text[0] != &p[0] {
		r.scratch = text[:0]
	}
}

// finish ends the stream: an unfinished character becomes U+FFFD.
func (r *record) finish() {
	r.keep(r.decoder.Flush(nil))
	r.scratch = nil
}

func (r *record) keep(text []byte) {
	if len(text) == 0 {
		return
	}
	if r.end+int64(len(text)) > r.memory { // only the writer moves end
		var first []byte
		if r.end <= r.memory {
			first = r.tail.AppendRange(nil, 0, r.end)
		}
		r.logMu.Lock()
		r.log.Write(first)
		r.log.Write(text) // after a short write it takes nothing more
		r.logMu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.headFull {
		part := text
		if room := pollHead - len(r.head); len(part) > room {
			part = part[:room]
			part, r.headFull = part[:wholeCharacters(part)], true
		}
		r.head = append(r.head, part...)
	}
	r.tail.Write(text)
	r.end += int64(len(text))
	r.signal(false)
}

// wholeCharacters is the length of b, which is valid UTF-8 but for its end,
// without a character that is cut off there.
func wholeCharacters(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return len(b) - n
			}
			break
		}
	}
	return len(b)
}

// drop gives up what is on disk.
func (r *record) drop() {
	r.logMu.Lock()
	defer r.logMu.Unlock()
	r.log.Remove()
}

func (r *record) size() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end
}

// unpolled tells whether there is something to poll.
func (r *record) unpolled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end > r.cursor
}

// watch has w, which must have room for one, signalled at the end, and with output
// also at each write, until unwatch.
func (r *record) watch(w chan<- struct{}, output bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watchers == nil {
		r.watchers = map[chan<- struct{}]bool{}
	}
	r.watchers[w] = output
}

func (r *record) unwatch(w chan<- struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.watchers, w)
}

// ended tells those who watch that the state is final.
func (r *record) ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signal(true)
}

func (r *record) signal(end bool) {
	for w, output := range r.watchers {
		if end || output {
			select {
			case w <- struct{}{}:
			default: // it was signalled and has not looked yet
			}
		}
	}
}

// A part is a piece of the stream with its position.
type part struct {
	at int64
	b  []byte
}

func (p part) end() int64        { return p.at + int64(len(p.b)) }
func (p part) has(at int64) bool { return p.at <= at && at < p.end() }

// span appends the bytes from..to that are kept without a gap after from. disk
// holds what was read from the log. Called under mu.
func (r *record) span(dst []byte, disk part, from, to int64) []byte {
	head := part{r.cursor, r.head}
	for from < to {
		var b []byte
		switch {
		case from >= r.tail.Start():
			return r.tail.AppendRange(dst, from, to)
		case disk.has(from):
			b = disk.b[from-disk.at:]
		case head.has(from):
			b = head.b[from-head.at:]
		default:
			return dst
		}
		b = b[:min(int64(len(b)), to-from)]
		dst = append(dst, b...)
		from += int64(len(b))
	}
	return dst
}

// before gives a cleaner that stands at a position, as far as what is kept in front
// of it tells: whether the position is within a sequence. Called under mu.
func (r *record) before(disk part, at int64) (c termtext.Cleaner) {
	low := at // from here on all is kept up to the position
	for range 3 {
		for _, kept := range [...]part{disk, {r.cursor, r.head}} {
			if kept.at < low && low <= kept.end() {
				low = kept.at
			}
		}
		if start := r.tail.Start(); start < low {
			low = start
		}
	}
	for _, back := range lookBacks {
		from := max(low, at-back)
		b := r.span(nil, disk, from, at)
		if from == low || settles(b) {
			c.Skip(b)
			return c
		}
	}
	return c
}

// settles tells whether a reader who starts at the beginning of b knows where it
// stands at the end of b, even if it started within a sequence: termtext gives a
// sequence up at a line end that follows a blank and 1024 characters.
func settles(b []byte) bool {
	blank, line := bytes.IndexByte(b, ' '), bytes.LastIndexByte(b, '\n')
	return blank >= 0 && line > blank && line > utf8.UTFMax*1024
}

// inMemory tells whether the last bytes are enough for a page at a position and for
// knowing where it stands there. Called under mu.
func (r *record) inMemory(at int64) bool {
	start := r.tail.Start()
	from := at - lookBacks[0]
	return start == 0 || from >= start && settles(r.tail.AppendRange(nil, from, at))
}

// fromDisk reads what a page at a position may need of the log: limit bytes, and
// what is in front of them. What cannot be read is empty, and so counted as omitted.
func (r *record) fromDisk(at int64, limit int) part {
	r.logMu.Lock()
	defer r.logMu.Unlock()
	to := min(at+int64(limit), r.log.Len())
	for _, back := range lookBacks {
		p := part{at: max(0, at-back)}
		if p.at >= to {
			return part{}
		}
		p.b = make([]byte, to-p.at)
		if _, err := r.log.ReadAt(p.b, p.at); err != nil {
			return part{}
		}
		if p.at == 0 || settles(p.b[:min(at-p.at, int64(len(p.b)))]) || back == lookBacks[len(lookBacks)-1] {
			return p
		}
	}
	return part{}
}

// poll renders what was not polled yet, and moves the cursor to the end if take
// says so.
func (r *record) poll(limit int, take bool) Piece {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := Piece{Cursor: r.end}
	var after termtext.Cleaner
	p.Text = termtext.Fit(limit, int(min(r.end-r.cursor, int64(len(r.head))+r.end-r.tail.Start())), func(budget int) string {
		after = r.cleaner // its line is empty: the copy shares nothing
		var text string
		text, p.Omitted = r.unread(&after, int64(budget))
		return text
	})
	if len(p.Text) > limit { // there is not even room for the note
		p.Text, p.Omitted = "", r.end-r.cursor
	}
	if !take {
		return p
	}
	r.cleaner = after
	r.cursor, r.head, r.headFull = r.end, r.head[:0], false
	if cap(r.head) > 4<<10 { // a quiet session holds no buffer
		r.head = nil
	}
	return p
}

// unread renders what was not polled yet from at most budget bytes of it.
func (r *record) unread(c *termtext.Cleaner, budget int64) (text string, omitted int64) {
	if r.end-r.cursor <= budget {
		if b := r.span(nil, part{}, r.cursor, r.end); int64(len(b)) == r.end-r.cursor {
			return string(c.Flush(c.Append(nil, b))), 0
		}
	}
	head := r.span(nil, part{}, r.cursor, min(r.end, r.cursor+budget/2))
	head = head[:capture.EndOfPart(head)]
	gap := r.cursor + int64(len(head))

	start := max(gap, r.tail.Start(), r.end-(budget-int64(len(head))))
	tail := r.span(nil, part{}, start, r.end)
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
		*c = r.before(part{}, start)
	}
	return string(c.Flush(c.Append(out, tail))), omitted
}

func (r *record) page(cursor int64, limit int) Page {
	limit = max(limit, 0)
	// A page always advances: there is a whole character in it, also where it has to
	// begin within one.
	want := max(limit, utf8.UTFMax) + utf8.UTFMax - 1

	r.mu.Lock()
	end := r.end // what comes while the disk is read is for the next page: it may be gone from memory, and not be in what was read
	if cursor < 0 {
		cursor = max(0, end+cursor)
	}
	cursor = min(cursor, end)
	var disk part
	if !r.inMemory(cursor) {
		r.mu.Unlock()
		disk = r.fromDisk(cursor, want)
		r.mu.Lock()
	}
	at := cursor
	if at < end && len(r.span(nil, disk, at, at+1)) == 0 {
		at, end = r.tail.Start(), r.end // only the tail is kept for good
	}
	b := r.span(nil, disk, at, min(end, at+int64(want)))
	n := capture.StartOfPart(b)
	at, b = at+int64(n), b[n:]
	before := r.before(disk, at)
	r.mu.Unlock()

	p := Page{Cursor: at, End: end, Omitted: at - cursor}
	// Four bytes can become many: a jump of the cursor, a character that is spelled
	// out. To cut that to a limit that is less would lose what no count tells of.
	p.Text = termtext.Fit(limit, 0, func(budget int) string {
		part := b[:min(len(b), max(budget, utf8.UTFMax))]
		if at+int64(len(part)) < end {
			part = part[:capture.EndOfPart(part)]
		}
		p.Next = at + int64(len(part))
		c := before
		return string(c.Flush(c.Append(nil, part)))
	})
	return p
}
