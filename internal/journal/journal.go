// Package journal records what was started, committed and ended, so that after a crash
// it can be told which calls are finished, which may be repeated and which are uncertain.
//
// It promises that a call whose start was recorded is in the file when its effect begins,
// also after a loss of power where the call can change something; that what cannot be
// recorded is reported before the effect; and that nothing in the file is ever
// rewritten. A line that a crash cut off is closed by the next writer and told by the
// reader; any other line that is not a record is an error that names it.
//
// It records identity, contract, phase, outcome and time. It has no place for arguments,
// content, command lines, environment, input or output. The IDs of calls are written as
// their caller chose them. It does not shrink: who moves the file away makes the next
// record begin a new one.
//
// A Journal and its Entries are safe for concurrent use, and several processes may write
// to one file.
package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/belayhq/belay/internal/osfile"
	"github.com/belayhq/belay/tool"
)

const (
	// version is that of the lines. A reader refuses what it does not know.
	version = 1
	// header is the first line. It tells a journal from a file that was named by
	// mistake, which must not be written to.
	header = `{"belay_journal":1}` + "\n"

	maxID = 128 // bytes kept of a caller's ID
	// maxLine is more than any record takes: two IDs of which each byte is spelled
	// with six, and less than 600 bytes of the rest.
	maxLine = 4 << 10

	// lockTime is how long a writer waits for another, which holds the lock for one
	// small write. Who holds it longer is stopped.
	lockTime = 2 * time.Second
)

// A Phase is how far a call has come.
type Phase string

const (
	Started   Phase = "started"   // the effect may begin
	Committed Phase = "committed" // the effect is complete; the answer was not given yet
	Ended     Phase = "ended"     // the outcome is known
)

// Done is the outcome of a call that gave a result; the others are the kinds of
// errors.
const Done tool.Kind = "result"

// A Call is what is recorded of a call. Nothing of it is an argument.
type Call struct {
	ID          string      `json:"id"`
	Parent      string      `json:"parent,omitempty"`
	Tool        string      `json:"tool"`
	Fingerprint string      `json:"fingerprint"`
	Effect      tool.Effect `json:"effect"`
	Replay      tool.Replay `json:"replay"`
}

// record is one line.
type record struct {
	Version int       `json:"v"`
	Time    time.Time `json:"time"`
	Run     string    `json:"run"` // of the writer: its calls' IDs may come again in another
	N       int64     `json:"n"`   // of the call in the run
	Phase   Phase     `json:"phase"`
	*Call             // in the first line of a call
	Kind    tool.Kind `json:"kind,omitempty"`
	Code    tool.Code `json:"code,omitempty"`
}

// A mark is a line that is no record of a call. It says that so many bytes in front of
// it, the line end between them left out, are what a crash left of a record. The
// number stands first, so that a mark that was cut off itself is recognised.
type mark struct {
	Torn    int64     `json:"torn"`
	Version int       `json:"v"`
	Time    time.Time `json:"time"`
	Run     string    `json:"run"` // of who found it
}

// A Journal appends to one file.
type Journal struct {
	path string
	run  string
	sync func(*os.File) error // (*os.File).Sync, but for tests of when it is called

	mu   sync.Mutex // one writer of this process at a time; the lock of the file is for the others
	file *os.File   // nil after Close
	n    int64
}

// Open opens the journal at path, or makes it (0600, its folder has to exist). The
// error is an *Error.
func Open(path string) (*Journal, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, wrap(err)
	}
	j := &Journal{path: path, sync: (*os.File).Sync, run: strings.ToLower(rand.Text()[:16])}
	if j.file, err = open(path); err != nil {
		return nil, err
	}
	return j, nil
}

func open(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, &Error{Reason: NotRegular}
	}
	f, err := openToAppend(path)
	if err != nil {
		return nil, wrap(err)
	}
	if err := begin(f, path); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// begin makes sure that the file is a journal, and is there after a loss of power.
func begin(f *os.File, path string) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return wrap(err)
	case !info.Mode().IsRegular():
		return &Error{Reason: NotRegular}
	}
	unlock, err := osfile.Lock(f, lockTime)
	if err != nil {
		return wrap(err)
	}
	defer unlock()
	have := make([]byte, len(header))
	n, err := f.ReadAt(have, 0)
	if err != nil && err != io.EOF {
		return wrap(err)
	}
	have = have[:n]
	if string(have) == header {
		return nil
	}
	if !strings.HasPrefix(header, string(have)) { // else a crash came before the end of it
		return &Error{Reason: NotAJournal}
	}
	if _, err := f.WriteString(header[len(have):]); err != nil {
		return wrap(err)
	}
	if err := f.Sync(); err != nil {
		return wrap(err)
	}
	return wrap(osfile.SyncDir(filepath.Dir(path)))
}

// Close closes the file. What is recorded afterwards is an error.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return wrap(err)
}

// An Entry is a call whose start was recorded.
type Entry struct {
	j      *Journal
	n      int64
	synced bool
}

// Start records that a call is about to have its effect. For a call that can change
// something it returns when the record is on the disk. After an error, which is an
// *Error, the effect must not begin.
func (j *Journal) Start(c Call) (*Entry, error) {
	e := &Entry{j: j, synced: c.Effect != tool.ReadOnly}
	var err error
	e.n, err = j.append(record{Phase: Started, Call: kept(c)}, e.synced)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Refuse records a call that was refused before it could start: it is finished, and
// changed nothing. Nothing depends on the record, so it is not waited for the disk.
func (j *Journal) Refuse(c Call, code tool.Code) error {
	_, err := j.append(record{Phase: Ended, Call: kept(c), Kind: tool.Refused, Code: code}, false)
	return err
}

// Commit records that the effect is complete, where that is known before the answer
// is. A call that only started a process is not complete.
func (e *Entry) Commit() error {
	_, err := e.j.append(record{N: e.n, Phase: Committed}, e.synced)
	return err
}

// End records the outcome: Done without a code, or the kind and code of an error. The
// effect stands whatever comes of it: after an error the journal knows of the call that
// it started.
func (e *Entry) End(kind tool.Kind, code tool.Code) error {
	_, err := e.j.append(record{N: e.n, Phase: Ended, Kind: kind, Code: code}, e.synced)
	return err
}

func kept(c Call) *Call {
	c.ID, c.Parent = cut(c.ID), cut(c.Parent)
	return &c
}

func cut(id string) string {
	if len(id) <= maxID {
		return id
	}
	n := maxID
	for n > 0 && !utf8.RuneStart(id[n]) {
		n--
	}
	return id[:n]
}

// append writes one line, in one write. A record with a Call that has no number yet gets
// the next.
func (j *Journal) append(r record, sync bool) (n int64, err error) {
	j.mu.Lock()
	f, n, err := j.write(r)
	j.mu.Unlock()
	if err != nil || !sync {
		return n, err
	}
	// Outside of the mutex: the system brings the records of several calls to the disk
	// together.
	return n, wrap(j.sync(f))
}

func (j *Journal) write(r record) (*os.File, int64, error) {
	if j.file == nil {
		return nil, 0, &Error{Reason: Closed}
	}
	if err := j.follow(); err != nil {
		return nil, 0, err
	}
	if r.N == 0 {
		j.n++
		r.N = j.n
	}
	r.Version, r.Run, r.Time = version, j.run, time.Now().UTC()
	line, err := json.Marshal(r)
	if err != nil || len(line) >= maxLine {
		return nil, 0, &Error{Reason: IO}
	}
	line = append(line, '\n')
	// Without locks on a file system the writes are appends of one piece all the same. What is lost is
	// that a torn line of another is closed for sure.
	unlock, err := osfile.Lock(j.file, lockTime)
	if err != nil {
		return nil, 0, wrap(err)
	}
	defer unlock()
	info, err := j.file.Stat()
	if err != nil {
		return nil, 0, wrap(err)
	}
	size := info.Size()
	closing, err := j.closeTorn(size)
	if err != nil {
		return nil, 0, err
	}
	if _, err := j.file.Write(append(closing, line...)); err != nil {
		// Under the lock what is behind size is ours. Where it cannot be taken back
		// it is a torn line for the next writer.
		_ = j.file.Truncate(size)
		return nil, 0, wrap(err)
	}
	return j.file, r.N, nil
}

// closeTorn is what has to be written before the next line where a crash cut off the last
// one. Nothing is taken away from the file, which others may have an eye on. The caller
// holds the lock.
func (j *Journal) closeTorn(size int64) ([]byte, error) {
	if size == 0 { // somebody emptied it
		return []byte(header), nil
	}
	tail := make([]byte, min(size, 2*maxLine)) // a record, and the mark that was to close it
	if _, err := j.file.ReadAt(tail[len(tail)-1:], size-1); err != nil {
		return nil, wrap(err)
	}
	if tail[len(tail)-1] == '\n' {
		return nil, nil
	}
	if _, err := j.file.ReadAt(tail, size-int64(len(tail))); err != nil {
		return nil, wrap(err)
	}
	at := bytes.LastIndexByte(tail, '\n')
	if at < 0 { // no record is that long: whatever this is, it is not ours to go on with
		return nil, &Error{Reason: Damaged}
	}
	rest := tail[at+1:]
	if _, reason := parse(rest); reason == 0 {
		return []byte{'\n'}, nil // it lacks its end only, and what it says is true
	}
	torn := int64(len(rest))
	before := tail[bytes.LastIndexByte(tail[:at], '\n')+1 : at]
	if _, reason := parse(before); reason == Damaged && tornBy(before) == 0 && beginsMark(rest, int64(len(before))) {
		if tornBy(rest) > 0 {
			return []byte{'\n'}, nil // the mark lacks its end only
		}
		torn += int64(len(before)) + 1
	}
	m, err := json.Marshal(mark{Torn: torn, Version: version, Time: time.Now().UTC(), Run: j.run})
	if err != nil {
		return nil, &Error{Reason: IO}
	}
	return slices.Concat([]byte{'\n'}, m, []byte{'\n'}), nil
}

// tornBy is the number in a mark, and 0 for any other line.
func tornBy(line []byte) int64 {
	var m mark
	if json.Unmarshal(line, &m) != nil || m.Version != version {
		return 0
	}
	return m.Torn
}

// beginsMark tells whether b can be the beginning of a mark for so many bytes.
func beginsMark(b []byte, torn int64) bool {
	want := fmt.Appendf(nil, `{"torn":%d,`, torn)
	return bytes.HasPrefix(want, b) || bytes.HasPrefix(b, want)
}

// follow opens the journal anew where its path leads to another file by now, or to none:
// a record in a file that nobody finds is none.
func (j *Journal) follow() error {
	named, err := os.Stat(j.path)
	if err == nil {
		held, err := j.file.Stat()
		if err != nil {
			return wrap(err)
		}
		if os.SameFile(named, held) {
			return nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return wrap(err)
	}
	f, err := open(j.path)
	if err != nil {
		return err
	}
	// Who wrote to the old one and has not waited for the disk yet is refused.
	_ = j.file.Close()
	j.file = f
	return nil
}
