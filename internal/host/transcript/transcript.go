// Package transcript keeps conversations: one file each, one line for each thing that was
// said or done, in that order.
//
// It promises that a conversation that is read back is the one that was written, or an
// error that names the line: each line carries a sum that goes on from the line before,
// so that a line that was changed, lost or moved is noticed. Only what a crash left of
// the last line is dropped, and that is told. A call has its one result before anything
// else follows; a call that a crash left without one is closed as uncertain when the
// conversation is resumed, and is never run again. What Turn or Sync acknowledged
// survives a loss of power. One writer has a conversation at a time.
//
// It does not encrypt and redacts nothing: files are 0600 in a folder of 0700, which
// stops other accounts, not programs of the same one. Lines are never rewritten; whatever
// shortens what a model is shown is one more line.
//
// A Transcript is safe for concurrent use, and so is a Dir, also by several processes.
package transcript

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"time"
)

// version is that of the lines. A reader refuses what it does not know.
const version = 1

// MaxEntry bounds one line, in bytes. The most that a turn brings is an answer of a model,
// which has 16 MiB, each byte of which can be spelled with six.
const MaxEntry = 128 << 20

// A Type is what a line tells.
type Type string

const (
	Begin      Type = "begin"      // the first line; only this package writes it
	User       Type = "user"       // said by the user
	Assistant  Type = "assistant"  // said by the model; its calls follow
	Call       Type = "call"       // of a tool
	Result     Type = "result"     // of the call that CallID names
	Notice     Type = "notice"     // told to the model by belay
	Turn       Type = "turn"       // the end of a turn
	Compaction Type = "compaction" // Text stands for all that is before it, which is kept
	Recovered  Type = "recovered"  // a torn line was dropped here; only this package writes it
)

// An Entry is one line.
type Entry struct {
	Type Type      `json:"type"`
	Time time.Time `json:"time"` // Append sets it
	// Display false marks what is part of the model's context and not shown by
	// default. nil is true.
	Display *bool `json:"display,omitempty"`

	Text string `json:"text,omitempty"` // what was said, or what the model was given as result

	CallID string `json:"call_id,omitempty"` // Call, Result
	Tool   string `json:"tool,omitempty"`    // Call
	Args   string `json:"args,omitempty"`    // Call: as the model wrote them
	// Contract is the fingerprint of the tool's definition that the call ran under.
	Contract string `json:"contract,omitempty"`
	Kind     string `json:"kind,omitempty"` // Result: result, refused, failed or uncertain
	Code     string `json:"code,omitempty"` // Result: of an error

	Session string          `json:"session,omitempty"` // Notice: of the process
	Data    json.RawMessage `json:"data,omitempty"`    // of the caller, kept as it is: usage, a vendor's own form

	Dropped int64 `json:"dropped,omitempty"` // Recovered: bytes

	// Of Begin.
	Version int    `json:"version,omitempty"`
	ID      string `json:"id,omitempty"`
	Root    string `json:"root,omitempty"`
}

// Hidden tells whether the entry is marked as not to be shown by default.
func (e Entry) Hidden() bool { return e.Display != nil && !*e.Display }

// Hide marks an entry.
func Hide(e Entry) Entry {
	no := false
	e.Display = &no
	return e
}

// Lost is the text of the result of a call that a crash left without one.
const Lost = "uncertain: belay ended before the outcome of this call was known. It may have had its effect wholly, in part or not at all; look before you do it again.\n"

// A Transcript is a conversation that is being written.
type Transcript struct {
	dir  *Dir
	id   string
	root string

	mu     sync.Mutex
	file   *held // nil before the first entry, and after Close
	closed bool
	broken error // what no write can mend: the end of the file is not known
	size   int64 // of what is whole
	chain
}

// A chain is the order of lines so far.
type chain struct {
	sum  uint32   // of the last line
	open []string // calls without a result, in their order
}

// take checks that an entry may follow, and moves on.
func (c *chain) take(e Entry) bool {
	switch e.Type {
	case Call:
		for _, id := range c.open {
			if id == e.CallID {
				return false
			}
		}
		c.open = append(c.open, e.CallID)
		return e.CallID != ""
	case Result:
		for i, id := range c.open {
			if id == e.CallID {
				c.open = append(c.open[:i:i], c.open[i+1:]...)
				return true
			}
		}
		return false
	case User, Assistant, Notice, Turn, Compaction:
		return len(c.open) == 0
	case Recovered:
		return true
	}
	return false
}

var table = crc32.MakeTable(crc32.Castagnoli)

const sumForm = `,"sum":"%08x"}` + "\n"

// sumLen is the length of the end of each line.
var sumLen = len(fmt.Sprintf(sumForm, 0))

// encode makes the line of an entry behind a line with a sum.
func encode(e Entry, before uint32) ([]byte, uint32, error) {
	if len(e.Text)+len(e.Args)+len(e.Data) > MaxEntry { // before it is spelled out
		return nil, 0, &Error{Reason: TooLarge}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b) // escapes U+2028 and U+2029 in any case
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, 0, &Error{Reason: Order}
	}
	line := bytes.TrimSuffix(b.Bytes(), []byte("}\n"))
	if len(line)+sumLen > MaxEntry {
		return nil, 0, &Error{Reason: TooLarge}
	}
	sum := crc32.Update(before, table, line)
	return fmt.Appendf(line, sumForm, sum), sum, nil
}

// decode is its reverse. ok is false for what encode did not make.
func decode(line []byte, before uint32) (e Entry, sum uint32, ok bool) {
	at := len(line) - sumLen
	if at < 1 {
		return e, 0, false
	}
	sum = crc32.Update(before, table, line[:at])
	if string(line[at:]) != fmt.Sprintf(sumForm, sum) {
		return e, 0, false
	}
	body := append(line[:at:at], '}')
	return e, sum, json.Unmarshal(body, &e) == nil
}

// ID names the conversation: 16 characters a–z2–7.
func (t *Transcript) ID() string { return t.id }

// Root is the folder that the conversation is about.
func (t *Transcript) Root() string { return t.root }

// Append writes one entry. It returns when a crash of the program cannot lose it; see
// Sync for a loss of power. The error is an *Error: Order for an entry that may not
// follow, NoSpace and such for a disk that failed, after which the transcript is whole
// without the entry.
func (t *Transcript) Append(e Entry) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.append(e)
}

func (t *Transcript) append(e Entry) error {
	switch {
	case t.closed:
		return t.wrap(&Error{Reason: Closed})
	case t.broken != nil:
		return t.broken
	}
	e.Time = time.Now().UTC()
	next := chain{sum: t.sum, open: append([]string(nil), t.open...)}
	if e.Type == Begin || !next.take(e) {
		return t.wrap(&Error{Reason: Order})
	}
	if t.file == nil {
		if err := t.begin(); err != nil {
			return unmade(t.wrap(err))
		}
	}
	line, sum, err := encode(e, t.sum)
	if err != nil {
		return t.wrap(err)
	}
	if err := t.write(line); err != nil {
		return err
	}
	next.sum = sum
	t.chain = next
	return nil
}

// write appends a whole line or nothing.
func (t *Transcript) write(line []byte) error {
	n, err := t.file.WriteAt(line, t.size)
	if err == nil {
		t.size += int64(n)
		return nil
	}
	if undo := t.file.Truncate(t.size); undo != nil {
		t.broken = t.wrap(undo)
	}
	return t.wrap(err)
}

// Turn ends a turn: it appends the entry and returns when the disk has all of it.
func (t *Transcript) Turn(data json.RawMessage) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.append(Entry{Type: Turn, Data: data}); err != nil {
		return err
	}
	return t.sync()
}

// Sync returns when the disk has all that was appended.
func (t *Transcript) Sync() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sync()
}

func (t *Transcript) sync() error {
	if t.file == nil {
		return nil
	}
	if t.broken != nil {
		return t.broken
	}
	err := t.wrap(t.dir.sync(t.file.File))
	var e *Error
	if errors.As(err, &e) && e.Reason != NoSpace {
		// The system tells of it once, and may hold for written what is not: a later sync proves
		// nothing.
		t.broken = err
	}
	return err
}

// Close syncs, and gives the conversation free for others. A conversation without an entry
// leaves no file.
func (t *Transcript) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.file == nil {
		return nil
	}
	err := t.sync()
	if e := t.file.release(); err == nil {
		err = t.wrap(e)
	}
	t.file = nil
	return err
}

func (t *Transcript) wrap(err error) error { return wrap(err, t.id) }

// A reading is a pass over a file.
type reading struct {
	chain
	first Entry // of type Begin
	whole int64 // bytes of whole lines
	torn  int64 // bytes behind them
	bare  bool  // the last whole line lacks its line end
}

// read gives each entry but the first to each. The error is an *Error without a
// conversation, or that of each.
func read(in io.Reader, each func(Entry) error) (r reading, err error) {
	lines := bufio.NewReaderSize(in, 64<<10)
	var line []byte
	for n := 1; ; n++ {
		line = line[:0]
		end := false
		for {
			part, err := lines.ReadSlice('\n')
			if len(line)+len(part) > MaxEntry {
				return r, &Error{Reason: Damaged, Line: n}
			}
			line = append(line, part...)
			if err == bufio.ErrBufferFull {
				continue
			}
			if err != nil && err != io.EOF {
				return r, wrap(err, "")
			}
			end = err == io.EOF
			break
		}
		if end && len(line) == 0 {
			if n == 1 {
				return r, &Error{Reason: Empty}
			}
			return r, nil
		}
		length := int64(len(line))
		if end {
			line = append(line, '\n')
		}
		e, sum, ok := decode(line, r.sum)
		switch {
		case !ok && n > 1 && (end || cutOff(line, lines)):
			r.torn = length
			return r, nil
		case n == 1 && (!ok || e.Type != Begin):
			return r, firstLine(line, end)
		case n == 1 && e.Version != version:
			return r, &Error{Reason: TooNew, Line: 1}
		case n == 1:
			r.first = e
		case !ok || !r.take(e):
			return r, &Error{Reason: Damaged, Line: n}
		}
		r.sum = sum
		r.whole += length
		if n > 1 {
			if err := each(e); err != nil {
				return r, err
			}
		}
		if end {
			r.bare = true
			return r, nil
		}
	}
}

// cutOff tells whether a line that is the last one has blocks in it that never reached the
// disk: no line that was written has a NUL.
func cutOff(line []byte, rest *bufio.Reader) bool {
	_, err := rest.Peek(1)
	return err == io.EOF && bytes.IndexByte(line, 0) >= 0
}

// firstLine tells what a first line is that is not one.
func firstLine(line []byte, end bool) *Error {
	switch {
	case end && len(bytes.Trim(line, "\x00\n")) == 0, end && bytes.HasPrefix(line, []byte(`{"type":"begin"`)):
		return &Error{Reason: Empty} // it was being made
	case bytes.HasPrefix(line, []byte(`{"type":"begin"`)):
		return &Error{Reason: Damaged, Line: 1}
	}
	return &Error{Reason: NotATranscript}
}
