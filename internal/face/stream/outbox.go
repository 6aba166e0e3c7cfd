package stream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sync"
	"time"
)

// maxWaiting bounds the events that wait for a reader, in bytes. It holds what a model says
// in some seconds; with more the conversation waits for its reader.
const maxWaiting = 1 << 20

// maxReplies bounds the responses that wait, in bytes. A client that asks on without
// reading is not read from until it does.
const maxReplies = 1 << 20

// An outbox writes whole lines to one stream, in the order in which they were put.
//
// Put waits while too much is waiting to be read: that is what slows the conversation down to
// its reader. Reply never waits, for those who must go on reading. One goroutine writes;
// if its Write never returns it stays until the program ends.
type outbox struct {
	out io.Writer

	mu      sync.Mutex
	moved   *sync.Cond // something of the fields below changed
	waiting []line
	size    int // bytes of waiting that Put put
	replies int // bytes of waiting that Reply put
	writing bool
	wrote   int64 // lines, so that who drains sees that it goes on
	hurry   int   // Put does not wait while this is over zero
	gone    bool  // the reader left, or the outbox was closed: all that is put is dropped
	closed  bool
	failed  error // of the Write that failed

	broken chan struct{} // closed when a Write failed, or the reader was seen to leave
	over   chan struct{} // closed by Close
	ended  chan struct{} // closed when the writer is
}

type line struct {
	text  []byte
	reply bool
}

// newOutbox makes one. gone is closed by who sees the reader leave without a Write; nil is
// nobody.
func newOutbox(out io.Writer, gone <-chan struct{}) *outbox {
	o := &outbox{out: out, broken: make(chan struct{}), over: make(chan struct{}), ended: make(chan struct{})}
	o.moved = sync.NewCond(&o.mu)
	go o.write()
	if gone != nil {
		go o.left(gone)
	}
	return o
}

// Put queues an event. It waits for its turn while others wait to be read.
func (o *outbox) Put(v any) {
	text := encode(v)
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.size > 0 && o.size+len(text) > maxWaiting && o.hurry == 0 && !o.gone {
		o.moved.Wait()
	}
	o.queue(line{text: text})
}

// Reply queues a response at once.
func (o *outbox) Reply(v any) {
	text := encode(v)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue(line{text, true})
}

// queue is called with the lock.
func (o *outbox) queue(l line) {
	if o.gone {
		return
	}
	o.waiting = append(o.waiting, l)
	if l.reply {
		o.replies += len(l.text)
	} else {
		o.size += len(l.text)
	}
	o.moved.Broadcast()
}

// Text queues a text as it is.
func (o *outbox) Text(s string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue(line{text: []byte(s)})
}

// Room waits until there is room for responses. It is false when nobody reads any more.
func (o *outbox) Room() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.replies > maxReplies && !o.gone {
		o.moved.Wait()
	}
	return !o.gone
}

// Hurry lets Put queue without waiting until the function it gives is called: what ends
// must not wait for a reader. What comes then is little: the ends of calls.
func (o *outbox) Hurry() (over func()) {
	add := func(n int) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.hurry += n
		o.moved.Broadcast()
	}
	add(1)
	return sync.OnceFunc(func() { add(-1) })
}

// Drain waits until all is written, ctx is done, or nothing was written for the patience.
// It tells whether all was.
func (o *outbox) Drain(ctx context.Context, patience time.Duration) bool {
	wake := func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.moved.Broadcast()
	}
	defer context.AfterFunc(ctx, wake)()
	began := time.Now() // before the timer: when that wakes it, the time is up
	timer := time.AfterFunc(patience, wake)
	defer timer.Stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	wrote := o.wrote
	for len(o.waiting) > 0 || o.writing {
		if o.wrote != wrote {
			began, wrote = time.Now(), o.wrote
			timer.Reset(patience)
		}
		if ctx.Err() != nil || o.gone || time.Since(began) >= patience {
			return false
		}
		o.moved.Wait()
	}
	return !o.gone
}

// Flush waits until all is written, however long the reader takes, or ctx is done. It tells
// whether all was.
func (o *outbox) Flush(ctx context.Context) bool { return o.Drain(ctx, math.MaxInt64) }

// lost is the error for an output that is not read to its end.
func (o *outbox) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Errorf("%w: %w", ErrReader, cmp.Or(o.failed, io.ErrClosedPipe))
}

// Close drops what waits, and ends the writer when its Write returns.
func (o *outbox) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		close(o.over)
	}
	o.closed = true
	o.drop()
}

// drop is called with the lock.
func (o *outbox) drop() {
	o.gone, o.waiting, o.size, o.replies = true, nil, 0, 0
	o.moved.Broadcast()
}

// fail notes that nobody reads any more. It is called with the lock.
func (o *outbox) fail(err error) {
	if o.failed == nil {
		o.failed = err
		o.drop()
		close(o.broken)
	}
}

// left waits for one who sees that the reader left, until the outbox is closed or fails.
func (o *outbox) left(gone <-chan struct{}) {
	select {
	case <-gone:
		o.mu.Lock()
		defer o.mu.Unlock()
		o.fail(io.ErrClosedPipe)
	case <-o.broken:
	case <-o.over:
	}
}

// maxBatch bounds what one Write is given where several lines wait, in bytes.
const maxBatch = 64 << 10

func (o *outbox) write() {
	defer close(o.ended)
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for len(o.waiting) == 0 && !o.closed && o.failed == nil {
			o.moved.Wait()
		}
		if o.closed || o.failed != nil {
			return
		}
		n := 1
		text := o.waiting[0].text
		for n < len(o.waiting) && len(text)+len(o.waiting[n].text) <= maxBatch {
			if n == 1 {
				text = bytes.Clone(text)
			}
			text = append(text, o.waiting[n].text...)
			n++
		}
		for _, l := range o.waiting[:n] {
			if l.reply {
				o.replies -= len(l.text)
			} else {
				o.size -= len(l.text)
			}
		}
		o.waiting = o.waiting[n:]
		o.writing = true
		o.mu.Unlock()
		_, err := o.out.Write(text)
		o.mu.Lock()
		o.writing = false
		o.wrote += int64(n)
		o.moved.Broadcast()
		if err != nil {
			o.fail(err)
		}
	}
}

// encode makes one line: no character that any reader takes for the end of a line is in it but
// the line feed at its end, and no control character.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b) // escapes U+2028 and U+2029
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// Facts come from tools, and are checked to be JSON before they get here.
		return []byte(`{"type":"error","code":"internal","message":"an event could not be encoded"}` + "\n")
	}
	line := b.Bytes()
	if !hasC1(line) && bytes.IndexByte(line, 0x7f) < 0 {
		return line
	}
	// U+0085 is the end of a line to some readers, and others of its kind act on a terminal.
	escaped := make([]byte, 0, len(line)+len(line)/8)
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == 0x7f:
			escaped = append(escaped, `\u007f`...)
		case line[i] == 0xc2 && line[i+1] < 0xa0: // the line is valid UTF-8
			i++
			escaped = fmt.Appendf(escaped, `\u00%02x`, line[i])
		default:
			escaped = append(escaped, line[i])
		}
	}
	return escaped
}

// hasC1 tells whether a text in UTF-8 has a control character of U+0080 to U+009F.
func hasC1(text []byte) bool {
	for {
		i := bytes.IndexByte(text, 0xc2)
		if i < 0 {
			return false
		}
		if text[i+1] < 0xa0 {
			return true
		}
		text = text[i+2:]
	}
}
