package transcript

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/belayhq/belay/internal/osfile"
)

const suffix = ".jsonl"

// patience is how long a conversation that another has is asked for: a host that was just
// ended may take a moment to let go.
const patience = 250 * time.Millisecond

// A Dir is the folder with all conversations of an account.
type Dir struct {
	path string
	sync func(*os.File) error // (*os.File).Sync, but for tests of when it is called
}

// In names a folder. It is made (0700) with the first conversation.
func In(path string) *Dir { return &Dir{path: path, sync: (*os.File).Sync} }

// Path is the file of a conversation.
func (d *Dir) Path(id string) string { return filepath.Join(d.path, id+suffix) }

// validID keeps IDs from being paths.
func validID(id string) bool {
	return len(id) == 16 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// New begins a conversation about a root. There is no file before its first entry.
func (d *Dir) New(root string) *Transcript {
	return &Transcript{dir: d, id: strings.ToLower(rand.Text()[:16]), root: root}
}

// Try tells whether a conversation could be begun now. It makes the folder, and leaves no file. The
// error is an *Error.
func (d *Dir) Try() error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return unmade(wrap(err, ""))
	}
	f, err := os.CreateTemp(d.path, ".try-*")
	if err != nil {
		return unmade(wrap(err, ""))
	}
	f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return wrap(err, "")
	}
	return nil
}

// begin makes the file with its first line, on the disk.
func (t *Transcript) begin() (err error) {
	if err := os.MkdirAll(t.dir.path, 0o700); err != nil {
		return err
	}
	if info, err := os.Stat(t.dir.path); err != nil {
		return err
	} else if info.Mode().Perm()&0o077 != 0 {
		_ = os.Chmod(t.dir.path, 0o700) // the files are 0600 also in a folder that is not ours to change
	}
	path := t.dir.Path(t.id)
	line, sum, err := encode(Entry{Type: Begin, Time: time.Now().UTC(), Version: version, ID: t.id, Root: t.root}, 0)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	h := &held{f, func() {}}
	defer func() {
		if err != nil {
			h.release()
			os.Remove(path)
		}
	}()
	if err := h.lock(); err != nil {
		return err
	}
	if _, err := f.Write(line); err != nil {
		return err
	}
	if err := t.dir.sync(f); err != nil {
		return err
	}
	if err := osfile.SyncDir(t.dir.path); err != nil {
		return err
	}
	t.file, t.size, t.sum = h, int64(len(line)), sum
	return nil
}

// A Repair is what Resume did before the conversation could go on.
type Repair struct {
	Dropped int64    // bytes of a last line that a crash cut off
	Closed  []string // IDs of the calls that got the result uncertain
}

// Resume opens a conversation to go on with it. each gets its entries in their order, one
// at a time, with those that the repair added; an error of each ends it and is returned.
//
// Nothing is changed before the whole file was read: a damaged one stays as it is. The
// error is an *Error: NotFound, Busy while another has the conversation, Damaged with the
// line, Empty where a crash came before its first entry.
func (d *Dir) Resume(id string, each func(Entry) error) (*Transcript, Repair, error) {
	f, err := d.hold(id)
	if err != nil {
		return nil, Repair{}, wrap(err, id)
	}
	t, repair, err := d.resume(f, id, each)
	if err != nil {
		f.release()
		return nil, Repair{}, wrap(err, id)
	}
	return t, repair, nil
}

func (d *Dir) resume(f *held, id string, each func(Entry) error) (*Transcript, Repair, error) {
	r, err := read(f, each)
	if err != nil {
		return nil, Repair{}, err
	}
	if r.first.ID != id {
		return nil, Repair{}, &Error{Reason: Damaged, Line: 1}
	}
	t := &Transcript{dir: d, id: id, root: r.first.Root, file: f, size: r.whole, chain: r.chain}
	repair := Repair{Dropped: r.torn, Closed: append([]string(nil), r.open...)}
	add := func(e Entry) error {
		if err := t.append(e); err != nil {
			return err
		}
		return each(e)
	}
	if r.bare {
		if err := t.write([]byte("\n")); err != nil {
			return nil, repair, err
		}
	}
	if r.torn > 0 {
		if err := f.Truncate(r.whole); err != nil {
			return nil, repair, err
		}
		if err := add(Entry{Type: Recovered, Dropped: r.torn}); err != nil {
			return nil, repair, err
		}
	}
	for _, call := range repair.Closed {
		if err := add(Entry{Type: Result, CallID: call, Text: Lost, Kind: "uncertain", Code: "uncertain"}); err != nil {
			return nil, repair, err
		}
	}
	if repair.Dropped > 0 || r.bare || len(repair.Closed) > 0 {
		if err := d.sync(f.File); err != nil {
			return nil, repair, err
		}
	}
	return t, repair, nil
}

// held is a file that no other writer has. A file system without locks keeps nobody out: a second
// writer is found by the sums only.
type held struct {
	*os.File
	unlock func()
}

func (h *held) lock() (err error) {
	unlock, err := osfile.Lock(h.File, patience)
	if err == nil {
		h.unlock = unlock
	}
	return err
}

func (h *held) release() error {
	h.unlock()
	return h.Close()
}

// hold opens the file of a conversation and keeps others from writing to it.
func (d *Dir) hold(id string) (*held, error) {
	if !validID(id) {
		return nil, &Error{Reason: NotFound}
	}
	path := d.Path(id)
	if info, err := os.Lstat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() { // a pipe would wait
		return nil, &Error{Reason: NotATranscript}
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	h := &held{f, func() {}}
	if err := h.lock(); err != nil {
		f.Close()
		return nil, err
	}
	// Between the opening and the lock it may have been removed.
	info, err := f.Stat()
	if err == nil {
		var named fs.FileInfo
		if named, err = os.Lstat(path); err == nil && !os.SameFile(info, named) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		h.release()
		return nil, err
	}
	return h, nil
}

// Remove removes a conversation for good, damaged or not. The error is an *Error: Busy
// while somebody has it.
func (d *Dir) Remove(id string) error {
	f, err := d.hold(id)
	if err != nil {
		return wrap(err, id)
	}
	defer f.release()
	if runtime.GOOS == "windows" { // it removes none that is open in the way the runtime opens it
		f.Close()
	}
	if err := os.Remove(d.Path(id)); err != nil {
		return wrap(err, id)
	}
	return wrap(osfile.SyncDir(d.path), id)
}

// Info is what a list says of a conversation.
type Info struct {
	ID       string    `json:"id"`
	Root     string    `json:"root"`
	Created  time.Time `json:"created"`
	Modified time.Time `json:"modified"`
	Size     int64     `json:"size"`  // bytes
	Title    string    `json:"title"` // the beginning of what the user said first, one line, not escaped; "" if that is far in
	Damaged  bool      `json:"damaged,omitempty"`
}

const maxTitle = 80 // characters

// errEnough ends a reading.
var errEnough = errors.New("enough")

// List tells of all conversations, the last used first. It reads the beginning of each
// and takes no lock. The error is an *Error; that there is no folder is none.
func (d *Dir) List() ([]Info, error) {
	entries, err := os.ReadDir(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, unmade(wrap(err, ""))
	}
	var list []Info
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || !validID(id) || !e.Type().IsRegular() {
			continue
		}
		if info, ok := d.info(id); ok {
			list = append(list, info)
		}
	}
	slices.SortFunc(list, func(a, b Info) int {
		return cmp.Or(b.Modified.Compare(a.Modified), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}

// info is false for one that was removed meanwhile.
func (d *Dir) info(id string) (Info, bool) {
	i := Info{ID: id, Damaged: true}
	f, err := os.Open(d.Path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return i, false
	}
	if err != nil {
		return i, true
	}
	defer f.Close()
	if s, err := f.Stat(); err == nil {
		i.Modified, i.Size = s.ModTime(), s.Size()
	}
	entries := 0
	r, err := read(f, func(e Entry) error {
		if entries++; e.Type == User && !e.Hidden() {
			i.Title = title(e.Text)
			return errEnough
		}
		if entries >= 8 {
			return errEnough
		}
		return nil
	})
	i.Root, i.Created = r.first.Root, r.first.Time
	i.Damaged = err != nil && err != errEnough || r.first.ID != id
	return i, true
}

func title(s string) string {
	s = strings.Join(strings.Fields(s[:min(len(s), 16*maxTitle)]), " ")
	n := 0
	for i := range s {
		if n++; n > maxTitle {
			return s[:i] + "…"
		}
	}
	return strings.ToValidUTF8(s, string(utf8.RuneError))
}

// Read gives each entry of a conversation, in order, also while somebody writes to it: it takes
// no lock and mends nothing. What is being appended meanwhile may be missing. An error of
// each ends it and is returned; any other is an *Error.
func (d *Dir) Read(id string, each func(Entry) error) error {
	if !validID(id) {
		return &Error{Reason: NotFound}
	}
	f, err := os.Open(d.Path(id))
	if err != nil {
		return wrap(err, id)
	}
	defer f.Close()
	_, err = read(f, each)
	return wrap(err, id)
}

// Last is the conversation about a root that was used last, damaged or not, or "": to go on with
// an older one in its place is nothing that anybody asked for. One whose first line cannot be read may be about
// any root.
func (d *Dir) Last(root string) (string, error) {
	list, err := d.List()
	if err != nil {
		return "", err
	}
	for _, i := range list {
		if i.Root == root || i.Root == "" { // it may be the one: its first line cannot be read
			return i.ID, nil
		}
	}
	return "", nil
}
