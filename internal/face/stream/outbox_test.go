package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// HO-07: whatever a text holds, each line is JSON, and no reader of lines finds another end
// in it.
func TestLinesEndAtLineFeedsOnly(t *testing.T) {
	t.Parallel()
	text := "a\u2028b\u2029c\u0085d\re\vf\fg\x00h\ni\u200bj\xffk<&>\U0001f600\u0080\u009b31m\u009f\u00a0\u00c2"
	line := encode(map[string]any{"type": "text_delta", "text": text})
	if n := strings.Count(string(line), "\n"); n != 1 || line[len(line)-1] != '\n' {
		t.Fatalf("%d line feeds in %q", n, line)
	}
	for _, bad := range []string{"\u2028", "\u2029", "\u0085", "\r", "\v", "\f", "\x00", "\xff", "\u0080", "\u009b", "\u009f"} {
		if strings.Contains(string(line), bad) {
			t.Errorf("%q is in the line", bad)
		}
	}
	var got map[string]string
	if err := json.Unmarshal(line, &got); err != nil || got["text"] != strings.ToValidUTF8(text, "\ufffd") {
		t.Errorf("%q, %v", got["text"], err)
	}
}

func FuzzEncodedLineIsOneLine(f *testing.F) {
	f.Add("a\u2028\u0085\n")
	f.Add("a\x7fb\x00")
	f.Add("\\\u0085\u00c2\u00a0\u0080")
	f.Fuzz(func(t *testing.T, s string) {
		line := encode(map[string]string{"text": s, s: ""})
		if bytes.ContainsAny(line, "\u2028\u2029") || bytes.ContainsFunc(line[:len(line)-1], unicode.IsControl) || !utf8.Valid(line) {
			t.Fatalf("%q", line)
		}
		if !json.Valid(line) {
			t.Fatalf("%q is no JSON", line)
		}
		var got map[string]string
		if json.Unmarshal(line, &got) == nil && s != "text" && got["text"] != strings.ToValidUTF8(s, "\ufffd") && utf8.ValidString(s) {
			t.Fatalf("%q became %q", s, got["text"])
		}
	})
}

// A reader that does not read lets Put wait, and nothing grow; responses and what is in a hurry
// do not wait.
func TestAReaderThatDoesNotRead(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	o := newOutbox(w, nil)
	defer func() { r.Close(); o.Close(); <-o.ended }()
	big := strings.Repeat("x", 300<<10)
	put := make(chan int, 100)
	go func() {
		for i := range 20 {
			o.Put(big)
			put <- i
		}
		close(put)
	}()
	waiting := func() (bytes int) {
		for range 3000 { // until it stands still
			before := len(put)
			time.Sleep(20 * time.Millisecond)
			if len(put) == before && before > 0 {
				break
			}
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.size
	}
	if n := waiting(); n > maxWaiting {
		t.Errorf("%d bytes wait", n)
	}
	o.Reply("at once") // does not wait
	if o.Drain(context.Background(), 20*time.Millisecond) {
		t.Error("it was drained without a reader")
	}
	over := o.Hurry()
	for range put { // all of them come
	}
	over()
	var got int
	go func() { o.Put("end") }()
	lines := newLines(r)
	for {
		line, err := lines.next()
		must(t, err)
		got++
		if string(line) == `"end"` {
			break
		}
	}
	if got != 22 {
		t.Errorf("%d lines", got)
	}
	if !o.Drain(context.Background(), hang) {
		t.Error("it was not drained with a reader")
	}
}

// The patience ends also where the wait begins late.
func TestDrainThatIsHeldUp(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe() // nobody reads
	o := newOutbox(w, nil)
	defer func() { r.Close(); o.Close(); <-o.ended }()
	o.Put("x")
	o.mu.Lock()
	done := make(chan bool)
	go func() { done <- o.Drain(context.Background(), 10*time.Millisecond) }()
	time.Sleep(50 * time.Millisecond)
	o.mu.Unlock()
	select {
	case all := <-done:
		if all {
			t.Error("it was drained without a reader")
		}
	case <-time.After(hang):
		t.Fatal("it waits for ever")
	}
}

type failing struct{ after int }

func (f *failing) Write(b []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, errors.New("gone")
	}
	return len(b), nil
}

// HO-03: an output that fails ends all waiting, and takes no more.
func TestAReaderThatLeft(t *testing.T) {
	t.Parallel()
	o := newOutbox(&failing{1}, nil)
	defer o.Close()
	for range 100 {
		o.Put(strings.Repeat("x", 1<<20)) // does not hang
	}
	<-o.broken
	if o.Room() || o.Flush(context.Background()) || !errors.Is(o.lost(), ErrReader) || !strings.Contains(o.lost().Error(), "gone") {
		t.Errorf("it goes on: %v", o.lost())
	}
	<-o.ended
}

// A reader that was seen to leave ends all waiting without a Write.
func TestAReaderThatWasSeenToLeave(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	gone := make(chan struct{})
	o := newOutbox(w, gone)
	close(gone)
	<-o.broken
	o.Put("dropped")
	if o.Room() || !errors.Is(o.lost(), io.ErrClosedPipe) {
		t.Error("it goes on")
	}
	o.Close()
	<-o.ended
	r.Close()
	o = newOutbox(io.Discard, make(chan struct{}))
	o.Close() // and nothing stays behind
	<-o.ended
}

// Responses of a client that asks and does not read are bounded: it is not read from.
func TestRoomForResponses(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	o := newOutbox(w, nil)
	defer func() { r.Close(); o.Close(); <-o.ended }()
	o.Reply("first")
	o.Reply(strings.Repeat("x", maxReplies+1))
	room := make(chan bool)
	go func() { room <- o.Room() }()
	select {
	case <-room:
		t.Error("there is room")
	case <-time.After(50 * time.Millisecond):
	}
	lines := newLines(r)
	for range 2 {
		_, err := lines.next()
		must(t, err)
	}
	if !<-room {
		t.Error("there is no room for a reader")
	}
}

// A drain ends with its context, and with its patience only if nothing moves.
func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	o := newOutbox(w, nil)
	defer func() { r.Close(); o.Close(); <-o.ended }()
	for range 12 {
		o.Put(strings.Repeat("x", maxBatch)) // each a Write of its own
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if o.Flush(ctx) {
		t.Error("it was flushed without a reader")
	}
	go func() { // a slow one
		lines := newLines(r)
		for {
			if _, err := lines.next(); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	if !o.Drain(context.Background(), 5*time.Second) {
		t.Error("a reader that goes on was given up")
	}
}
