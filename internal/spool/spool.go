// Package spool keeps bounded output logs in a private directory that removes
// itself and nothing else.
//
// A [Dir] belongs to one runtime. A [Log] keeps the first bytes of one stream of
// output, up to a quota for each log and one for all of them; when a quota or the
// disk gives out, that log ends for good, so what is kept is always an unbroken
// beginning. No trouble with the disk is ever an error to the writer: [Log.Write]
// says how much it kept, and the caller counts the rest as omitted.
//
// The directory is made when the first log is written, with a name that cannot be
// guessed, 0700, and every file in it exclusively, 0600. From then on it is known
// by its handle and every file by its identity, not by a path: if somebody renames
// the directory, puts another in its place or swaps a file, what is not ours is
// neither written, nor read, nor removed. A directory of a runtime that was
// killed is not looked for: [New] and [Dir.Close] touch no other directory.
//
// What it does not promise. 0700 and 0600 stop other accounts, not programs of the
// same account (B4): such a program can read, change or delete the logs, and can
// race the identity check against the removal that follows it. After a SIGKILL or
// a crash the directory stays behind under the system's policy for temporary files
// (B5). Nothing is synced: a log is no record that survives a power loss. Nothing
// is archived byte for byte: a log keeps what it was given, decoded text.
//
// At the same time: different logs of one Dir may be used from different
// goroutines, also while the Dir is closed. The methods of one Log are serialised
// by its owner. Each of them may block for as long as the file system does.
package spool

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"unicode/utf8"
)

// The quotas of P6. They can be lowered by [Limits], not raised.
const (
	MaxPerLog = 8 << 20  // bytes kept of one log
	MaxTotal  = 32 << 20 // bytes kept in one directory
)

// maxOpen bounds the descriptors that logs hold between two calls. A runtime may
// have 4096 logs and a limit of 1024 descriptors; opening a log for each write
// costs about 10 µs, which only counts for the few that are written all the time.
const maxOpen = 32

// Limits are quotas in bytes. Zero means the maximum.
type Limits struct {
	PerLog int64 // 1 to MaxPerLog
	Total  int64 // 1 to MaxTotal; may be smaller than PerLog
}

// Dir is the private directory of one runtime. A nil *Dir gives logs that keep
// nothing, for a runtime that is to write none.
type Dir struct {
	parent string // absolute
	limits Limits

	// ops counts the file operations in flight; Close waits for them, so that it
	// is alone when it removes. Added to under mu and only while not closed.
	ops sync.WaitGroup

	once     sync.Once // guards the one run of remove
	closeErr error

	mu     sync.Mutex
	closed bool
	used   int64         // bytes charged to Limits.Total
	home   *home         // nil until the first write
	logs   map[*Log]bool // those that have a file
	open   []*Log        // those that hold a descriptor, least recently used first
}

// New prepares a directory belay-<random> in parent, or in [os.TempDir] if parent
// is "". It does no I/O: the directory is made when the first log is written, so a
// runtime that spills nothing leaves nothing, whatever ends it. A parent that is
// missing, full or not writable by then ends that log, and the next one tries again.
//
// The error, always an *[Error], is [BadLimit] for a limit that is negative or over
// the maximum, and [BadParent] for a relative parent without a working directory.
func New(parent string, l Limits) (*Dir, error) {
	if l.PerLog < 0 || l.PerLog > MaxPerLog || l.Total < 0 || l.Total > MaxTotal {
		return nil, &Error{Reason: BadLimit}
	}
	parent, err := filepath.Abs(cmp.Or(parent, os.TempDir()))
	if err != nil {
		return nil, &Error{Reason: BadParent, Path: parent, cause: err}
	}
	return &Dir{
		parent: parent,
		limits: Limits{PerLog: cmp.Or(l.PerLog, MaxPerLog), Total: cmp.Or(l.Total, MaxTotal)},
		logs:   map[*Log]bool{},
	}, nil
}

// Path is where the directory was made, or "" as long as there is none. It is for
// people: nothing in this package opens a file by it.
func (d *Dir) Path() string {
	if d == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.home == nil {
		return ""
	}
	return filepath.Join(d.parent, d.home.name)
}

// Parent is the directory that the logs go into, absolute.
func (d *Dir) Parent() string {
	if d == nil {
		return ""
	}
	return d.parent
}

// Log returns a new, empty log. There is no I/O before its first write.
func (d *Dir) Log() *Log { return &Log{dir: d} }

// Close ends all logs and removes their files and the directory. It waits for file
// operations in flight and starts none after. Logs may still be used: they
// keep nothing more and can no longer be read. Every call returns the same error:
// nil if nothing is left at [Dir.Path], also when somebody else removed or renamed
// it before; otherwise an *[Error] with [LeftBehind].
func (d *Dir) Close() error {
	if d == nil {
		return nil
	}
	d.once.Do(func() {
		d.mu.Lock()
		d.closed = true
		d.mu.Unlock()
		d.ops.Wait()
		d.closeErr = d.remove()
	})
	return d.closeErr
}

// remove runs alone: nothing is in flight, and nothing new starts.
func (d *Dir) remove() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.open {
		l.file.Close() // first: Windows keeps the name of an open file
		l.file = nil
	}
	d.open = nil
	if d.home == nil {
		return nil
	}
	var first error
	for l := range d.logs {
		if err := d.home.unlink(l.name, l.info); err != nil && first == nil {
			first = err
		}
	}
	clear(d.logs)
	if err := d.home.remove(); first == nil {
		first = err
	}
	if first != nil {
		return &Error{Reason: LeftBehind, Path: filepath.Join(d.parent, d.home.name), cause: first}
	}
	return nil
}

// begin admits one file operation; the caller ends it by d.ops.Done.
func (d *Dir) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.ops.Add(1)
	return true
}

// Log keeps the first bytes of one stream. The fields belong to whoever serialises
// the log's methods, but for those of the last group, which belong to dir.mu.
type Log struct {
	dir   *Dir
	ended bool  // nothing more is kept
	kept  int64 // bytes that can be read; at the end the file may have up to 3 more

	name string      // of the file, "" until there is one
	info os.FileInfo // identity of the file, nil until there is one

	charged int64 // to the quotas: bytes in the file
	file    *os.File
	busy    bool // a method works with file: it must not be taken away
}

// Write appends p and returns how many bytes of it were kept. Less than all means
// that the log has ended: by a quota, by the disk, or because it or its Dir was
// removed. Every further Write then returns 0. Where whole characters are written,
// the cut is between two of them.
func (l *Log) Write(p []byte) (kept int) {
	d := l.dir
	if d == nil || l.ended || len(p) == 0 {
		return 0
	}
	defer func() { l.ended = kept < len(p) }()
	if !d.begin() {
		return 0
	}
	defer d.ops.Done()
	n := d.charge(l, int64(len(p)))
	if n == 0 {
		return 0
	}
	written := 0
	if f, err := d.take(l); err == nil {
		// The error is not looked at: whatever the reason, what was written is
		// kept, and the log ends because it is not all. Not WriteAt, which
		// forgets what it wrote before the error.
		written, _ = f.Write(p[:n])
		d.give(l)
	}
	if written < n {
		d.refund(l, n-written)
	}
	kept = whole(p, written)
	l.kept += int64(kept)
	return kept
}

// Len is the number of bytes kept, from the start of the stream.
func (l *Log) Len() int64 { return l.kept }

// ReadAt reads kept bytes from off on, as [io.ReaderAt]: fewer than len(p) only
// with an error, which is [io.EOF] at the end of what was kept. Any other error is
// an *[Error] with [Unreadable]: the file was taken away, cut or cannot be read.
func (l *Log) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, &Error{Reason: Unreadable, cause: os.ErrInvalid}
	}
	if off >= l.kept {
		return 0, io.EOF
	}
	d := l.dir
	if !d.begin() {
		return 0, &Error{Reason: Unreadable, cause: os.ErrClosed}
	}
	defer d.ops.Done()
	f, err := d.take(l)
	if err != nil {
		return 0, &Error{Reason: Unreadable, cause: err}
	}
	defer d.give(l)
	want := min(int64(len(p)), l.kept-off)
	n, err := f.ReadAt(p[:want], off)
	if int64(n) < want {
		return n, &Error{Reason: Unreadable, cause: err} // also for EOF: more was kept
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Remove evicts the log: its file is unlinked and its bytes are given back to the
// total quota. It is empty then, and keeps nothing more. If the file cannot be
// unlinked its bytes stay charged, and Close tries again.
func (l *Log) Remove() {
	l.ended, l.kept = true, 0
	d := l.dir
	if d == nil || l.info == nil || !d.begin() {
		return
	}
	defer d.ops.Done()
	d.mu.Lock()
	f := d.detach(l)
	d.mu.Unlock()
	if f != nil {
		f.Close()
	}
	if d.home.unlink(l.name, l.info) != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used -= l.charged
	l.charged = 0
	l.info = nil
	delete(d.logs, l)
}

// charge takes as much of want as the quotas allow, and says how much that is.
func (d *Dir) charge(l *Log, want int64) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(want, d.limits.PerLog-l.charged, d.limits.Total-d.used)
	l.charged += n
	d.used += n
	return int(n)
}

func (d *Dir) refund(l *Log, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.charged -= int64(n)
	d.used -= int64(n)
}

// whole shortens a cut of p after n bytes by up to three, so that no character is
// cut in two. Bytes that are no UTF-8 are cut anywhere.
func whole(p []byte, n int) int {
	if n == len(p) {
		return n
	}
	for back := 0; back <= min(n, utf8.UTFMax-1); back++ {
		if utf8.RuneStart(p[n-back]) {
			if _, size := utf8.DecodeRune(p[n-back:]); size > back {
				return n - back
			}
			return n
		}
	}
	return n
}

// take returns the open file of l for use until give; it makes the directory and
// the file where there are none yet. Opening is done outside mu, since a file
// system may take its time and other logs should not wait for it.
func (d *Dir) take(l *Log) (*os.File, error) {
	d.mu.Lock()
	if l.file != nil {
		l.busy = true
		// To the end of the list: the most recently used.
		i := slices.Index(d.open, l)
		d.open = append(slices.Delete(d.open, i, i+1), l)
		d.mu.Unlock()
		return l.file, nil
	}
	var victim *os.File
	if len(d.open) >= maxOpen {
		if i := slices.IndexFunc(d.open, func(o *Log) bool { return !o.busy }); i >= 0 {
			victim = d.detach(d.open[i])
		}
	}
	var err error
	if d.home == nil {
		d.home, err = makeHome(d.parent) // under mu: nobody else has anything to do yet
	}
	h := d.home
	d.mu.Unlock()
	if victim != nil {
		victim.Close()
	}
	if err != nil {
		return nil, err
	}
	var f *os.File
	if l.info != nil {
		f, err = h.open(l.name, l.info, l.kept)
	} else {
		f, err = h.create(&l.name, &l.info)
	}
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.logs[l] = true
	d.open = append(d.open, l)
	l.file, l.busy = f, true
	return f, nil
}

// give ends what take began. More logs than maxOpen hold a descriptor only while
// as many are being used at once.
func (d *Dir) give(l *Log) {
	d.mu.Lock()
	l.busy = false
	var f *os.File
	if len(d.open) > maxOpen {
		f = d.detach(l)
	}
	d.mu.Unlock()
	if f != nil {
		f.Close()
	}
}

// detach takes l's descriptor, if it has one, out of the list, for the caller to
// close. Called under mu.
func (d *Dir) detach(l *Log) *os.File {
	f := l.file
	if f == nil {
		return nil
	}
	l.file = nil
	d.open = slices.DeleteFunc(d.open, func(o *Log) bool { return o == l })
	return f
}
