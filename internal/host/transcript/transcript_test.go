package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func reasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return 0
}

func folder(t testing.TB) *Dir { return In(filepath.Join(t.TempDir(), "conversations")) }

// talk makes a conversation of n entries, the first one not counted, and closes it.
func talk(t testing.TB, d *Dir, n int) string {
	t.Helper()
	tr := d.New("/root/of/it")
	for i := range n {
		must(t, tr.Append(Entry{Type: []Type{User, Assistant}[i%2], Text: fmt.Sprintf("entry %d, a sentence of some length", i)}))
	}
	must(t, tr.Close())
	return tr.ID()
}

// resume gives all entries; the conversation is closed with the test, or by its caller.
func resume(t testing.TB, d *Dir, id string) (*Transcript, []Entry, Repair) {
	t.Helper()
	var all []Entry
	tr, repair, err := d.Resume(id, func(e Entry) error { all = append(all, e); return nil })
	must(t, err)
	t.Cleanup(func() { tr.Close() })
	return tr, all, repair
}

func none(Entry) error { return nil }

// What was written is read back, and goes on: each kind of entry, texts that could break a
// line, D1's hidden entries.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	d := folder(t)
	tr := d.New("/r")
	odd := "a\r\nb\tc\x00d\u2028e\u2029\u0085 <&> \"q\" \\ é \x1b[31m" // TR-04
	want := []Entry{
		{Type: User, Text: "hello"},
		{Type: Assistant, Text: "I look", Data: json.RawMessage(`{"usage":{"input":3}}`)},
		{Type: Call, CallID: "1", Tool: "read", Args: `{"path":`, Contract: strings.Repeat("a", 64)},
		{Type: Call, CallID: "2", Tool: "shell", Args: `{}`},
		{Type: Result, CallID: "2", Text: odd, Kind: "failed", Code: "write_failed"},
		{Type: Result, CallID: "1", Text: strings.Repeat("L", 1_700_000), Kind: "result"},
		Hide(Entry{Type: Notice, Session: "abc", Text: odd}),
		{Type: Compaction, Text: "so far"},
	}
	for _, e := range want {
		must(t, tr.Append(e))
	}
	must(t, tr.Turn(json.RawMessage(`{"n":1}`)))
	must(t, tr.Close())
	want = append(want, Entry{Type: Turn, Data: json.RawMessage(`{"n":1}`)})

	raw, err := os.ReadFile(d.Path(tr.ID()))
	must(t, err)
	if lines := bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n")); len(lines) != len(want)+1 {
		t.Errorf("%d lines", len(lines))
	} else {
		for i, line := range lines {
			if !json.Valid(line) || bytes.ContainsAny(line, "\r\x00\x1b\u2028\u2029") {
				t.Errorf("line %d does not stand alone: %.100q", i+1, line)
			}
		}
	}
	again, got, repair := resume(t, d, tr.ID())
	if repair.Dropped != 0 || repair.Closed != nil || again.Root() != "/r" || again.ID() != tr.ID() {
		t.Errorf("%+v %q", repair, again.Root())
	}
	check := func(got []Entry) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%d entries, want %d", len(got), len(want))
		}
		for i, e := range got {
			if e.Time.IsZero() || e.Hidden() != (i == 6) {
				t.Errorf("%d: %v %v", i, e.Time, e.Hidden())
			}
			e.Time = time.Time{}
			a, _ := json.Marshal(e)
			b, _ := json.Marshal(want[i])
			if !bytes.Equal(a, b) {
				t.Errorf("%d: %.200s, want %.200s", i, a, b)
			}
		}
	}
	check(got)
	must(t, again.Append(Entry{Type: User, Text: "more"}))
	must(t, again.Close())
	want = append(want, Entry{Type: User, Text: "more"})
	_, got, _ = resume(t, d, tr.ID())
	check(got)
}

// TR-01: what a crash left of the last line is dropped and told, wherever it cut, and what
// stands before it is there; also NULs and half a character behind the end. The second
// resume has nothing to repair.
func TestTornEnd(t *testing.T) {
	t.Parallel()
	d := folder(t)
	id := talk(t, d, 50)
	whole, err := os.ReadFile(d.Path(id))
	must(t, err)
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	zeroed := slices.Clone(whole)
	clear(zeroed[last+10 : last+40])
	type wreck struct {
		raw     []byte
		entries int
		dropped int
	}
	wrecks := []wreck{
		{whole, 50, 0},
		{whole[:len(whole)-1], 50, 0}, // it lacks its end only, and what it says is true
		{whole[:last], 49, 0},         // nothing tells that there was more
		{append(slices.Clone(whole), make([]byte, 40)...), 50, 40},
		{append(slices.Clone(whole), 0xc3), 50, 1},
		{append(slices.Clone(whole), `{"type":"user"`...), 50, 14},
		{zeroed, 49, len(whole) - last}, // a block of it never reached the disk
	}
	for cut := last + 1; cut < len(whole)-1; cut += 7 {
		wrecks = append(wrecks, wreck{whole[:cut], 49, cut - last})
	}
	for i, w := range wrecks {
		must(t, os.WriteFile(d.Path(id), w.raw, 0o600))
		tr, got, repair := resume(t, d, id)
		if w.dropped > 0 {
			if end := got[len(got)-1]; end.Type != Recovered || end.Dropped != int64(w.dropped) {
				t.Errorf("%d: %+v", i, end)
			}
			got = got[:len(got)-1]
		}
		if len(got) != w.entries || repair.Dropped != int64(w.dropped) {
			t.Errorf("%d: %d entries, %+v", i, len(got), repair)
		}
		must(t, tr.Append(Entry{Type: User, Text: "on"}))
		must(t, tr.Close())
		tr, got, repair = resume(t, d, id)
		if repair.Dropped != 0 || got[len(got)-1].Text != "on" {
			t.Errorf("%d, again: %+v, %+v", i, repair, got[len(got)-1])
		}
		must(t, tr.Close())
	}
}

// TR-03: damage anywhere else is an error that names the conversation and the line, and the
// file stays as it is. That holds for damage that is still good JSON, and for lines that
// are missing, doubled or moved.
func TestDamage(t *testing.T) {
	t.Parallel()
	d := folder(t)
	id := talk(t, d, 50)
	whole, err := os.ReadFile(d.Path(id))
	must(t, err)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	lines = lines[:len(lines)-1]
	change := func(f func([][]byte) [][]byte) []byte {
		copied := make([][]byte, len(lines))
		for i, l := range lines {
			copied[i] = slices.Clone(l)
		}
		return bytes.Join(f(copied), nil)
	}
	at := bytes.Index(lines[9], []byte("a sentence of some"))
	for name, c := range map[string]struct {
		raw  []byte
		line int
	}{
		"good JSON":    {change(func(l [][]byte) [][]byte { copy(l[9][at:], "another sentence xx"); return l }), 10},
		"no JSON":      {change(func(l [][]byte) [][]byte { copy(l[9][3:], "\x00\x00\x00\x00\x00{{{{{{{{"); return l }), 10},
		"one bit":      {change(func(l [][]byte) [][]byte { l[9][at] ^= 1; return l }), 10},
		"line end":     {change(func(l [][]byte) [][]byte { l[9][len(l[9])-1] = ' '; return l }), 10},
		"missing":      {change(func(l [][]byte) [][]byte { return slices.Delete(l, 9, 10) }), 10},
		"doubled":      {change(func(l [][]byte) [][]byte { return slices.Insert(l, 9, l[8]) }), 10},
		"moved":        {change(func(l [][]byte) [][]byte { l[9], l[10] = l[10], l[9]; return l }), 10},
		"empty line":   {change(func(l [][]byte) [][]byte { return slices.Insert(l, 9, []byte("\n")) }), 10},
		"last line":    {change(func(l [][]byte) [][]byte { l[50][at] ^= 1; return l }), 51},
		"first line":   {change(func(l [][]byte) [][]byte { l[0][len(l[0])/2] ^= 1; return l }), 1},
		"another's":    {bytes.ReplaceAll(whole, []byte(id), []byte("aaaaaaaaaaaaaaaa")), 1},
		"a later line": {change(func(l [][]byte) [][]byte { l[30] = append(l[30], "x\n"...); return l }), 32},
	} {
		must(t, os.WriteFile(d.Path(id), c.raw, 0o600))
		_, _, err := d.Resume(id, none)
		var e *Error
		if !errors.As(err, &e) || e.Reason != Damaged || e.Line != c.line || !strings.Contains(err.Error(), fmt.Sprintf("conversation %s: line %d: it is damaged", id, c.line)) {
			t.Errorf("%s: %v, want line %d", name, err, c.line)
		}
		if now, _ := os.ReadFile(d.Path(id)); !bytes.Equal(now, c.raw) {
			t.Errorf("%s: the file was changed", name)
		}
	}
	for name, c := range map[string]struct {
		raw  string
		want Reason
	}{
		"something else": {"hello\n", NotATranscript},
		"nothing":        {"", Empty}, "blocks": {"\x00\x00\x00", Empty},
		"a torn first line": {string(lines[0][:len(lines[0])-9]), Empty},
	} {
		must(t, os.WriteFile(d.Path(id), []byte(c.raw), 0o600))
		if _, _, err := d.Resume(id, none); reasonOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, os.WriteFile(d.Path("bbbbbbbbbbbbbbbb"), whole, 0o600)) // a copy is not that conversation
	if _, _, err := d.Resume("bbbbbbbbbbbbbbbb", none); reasonOf(err) != Damaged {
		t.Error(err)
	}
	line, _, err := encode(Entry{Type: Begin, Version: 2, ID: id}, 0)
	must(t, err)
	must(t, os.WriteFile(d.Path(id), line, 0o600))
	if _, _, err := d.Resume(id, none); reasonOf(err) != TooNew {
		t.Error(err)
	}
	must(t, d.Remove(id)) // whatever it is
}

// C3: a call that a crash left without a result is closed as uncertain, once, in the order
// of the calls, and stays so.
func TestOpenCallsAreClosed(t *testing.T) {
	t.Parallel()
	d := folder(t)
	tr := d.New("/")
	must(t, tr.Append(Entry{Type: Assistant}))
	for _, id := range []string{"a", "b", "c"} {
		must(t, tr.Append(Entry{Type: Call, CallID: id, Tool: "shell"}))
	}
	must(t, tr.Append(Entry{Type: Result, CallID: "b", Kind: "result"}))
	must(t, tr.Close())
	f, err := os.OpenFile(d.Path(tr.ID()), os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	f.WriteString(`{"type":"result","call_id":"c`) // and a torn one
	f.Close()
	for round := range 2 {
		again, got, repair := resume(t, d, tr.ID())
		if round == 0 && (!slices.Equal(repair.Closed, []string{"a", "c"}) || repair.Dropped != 29) || round == 1 && (repair.Closed != nil || repair.Dropped != 0) {
			t.Errorf("%d: %+v", round, repair)
		}
		if len(got) != 8 {
			t.Fatalf("%d: %d entries", round, len(got))
		}
		for i, id := range []string{"a", "c"} {
			if e := got[6+i]; e.Type != Result || e.CallID != id || e.Kind != "uncertain" || e.Code != "uncertain" || e.Text != Lost {
				t.Errorf("%d: %+v", round, e)
			}
		}
		must(t, again.Append(Entry{Type: Call, CallID: "a"})) // an ID may come again in another turn
		must(t, again.Append(Entry{Type: Result, CallID: "a"}))
		must(t, again.Close())
		if round == 0 {
			cut, err := os.ReadFile(d.Path(tr.ID()))
			must(t, err)
			ends := bytes.SplitAfter(cut, []byte("\n"))
			must(t, os.WriteFile(d.Path(tr.ID()), bytes.Join(ends[:len(ends)-3], nil), 0o600)) // without the two
		}
	}
}

// A call has one result, and nothing stands between a batch of calls and its results.
func TestOrder(t *testing.T) {
	t.Parallel()
	d := folder(t)
	tr := d.New("/")
	defer tr.Close()
	for i, c := range []struct {
		e  Entry
		ok bool
	}{
		{Entry{Type: Result, CallID: "a"}, false}, {Entry{Type: Call}, false}, {Entry{Type: Begin}, false}, {Entry{}, false}, {Entry{Type: "made up"}, false},
		{Entry{Type: Call, CallID: "a"}, true}, {Entry{Type: Call, CallID: "a"}, false}, {Entry{Type: User}, false}, {Entry{Type: Notice}, false},
		{Entry{Type: Turn}, false}, {Entry{Type: Compaction}, false}, {Entry{Type: Assistant}, false}, {Entry{Type: Call, CallID: "b"}, true},
		{Entry{Type: Result, CallID: "b"}, true}, {Entry{Type: Result, CallID: "b"}, false}, {Entry{Type: Notice}, false}, {Entry{Type: Result, CallID: "a"}, true},
		{Entry{Type: Result, CallID: "a"}, false}, {Entry{Type: Notice}, true}, {Entry{Type: Turn}, true},
	} {
		if err := tr.Append(c.e); (err == nil) != c.ok || err != nil && reasonOf(err) != Order {
			t.Errorf("%d: %+v: %v", i, c.e, err)
		}
	}
	if err := tr.Append(Entry{Type: User, Data: json.RawMessage("{")}); reasonOf(err) != Order {
		t.Error(err)
	}
	if err := tr.Append(Entry{Type: User, Text: strings.Repeat("x", MaxEntry)}); reasonOf(err) != TooLarge {
		t.Error(err)
	}
	must(t, tr.Append(Entry{Type: User}))
	must(t, tr.Close())
	if _, got, _ := resume(t, d, tr.ID()); len(got) != 7 {
		t.Errorf("%d entries", len(got))
	}
	if err := tr.Append(Entry{Type: User}); reasonOf(err) != Closed {
		t.Error(err)
	}
}

// TR-06: one writer has a conversation; the second is refused, in one process and in two,
// and loses nothing of the first.
func TestOneWriter(t *testing.T) {
	t.Parallel()
	d := folder(t)
	tr := d.New("/")
	must(t, tr.Append(Entry{Type: User, Text: "x"})) // from here on it is held
	if _, _, err := d.Resume(tr.ID(), none); reasonOf(err) != Busy {
		t.Error(err)
	}
	if err := d.Remove(tr.ID()); reasonOf(err) != Busy {
		t.Error(err)
	}
	if list, err := d.List(); err != nil || len(list) != 1 || list[0].Damaged { // a list needs no lock
		t.Errorf("%+v, %v", list, err)
	}
	id := tr.ID()
	must(t, tr.Close())
	var wg sync.WaitGroup
	var mu sync.Mutex
	won, busy := 0, 0
	for range 8 { // several at once, each for 30 turns
		wg.Go(func() {
			tr, _, err := d.Resume(id, none)
			if reasonOf(err) == Busy {
				mu.Lock()
				busy++
				mu.Unlock()
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			for range 30 {
				if err := tr.Append(Entry{Type: User, Text: "turn"}); err != nil {
					t.Error(err)
				}
			}
			mu.Lock()
			won++
			mu.Unlock()
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	_, got, _ := resume(t, d, id)
	if won+busy != 8 || won == 0 || len(got) != 1+30*won {
		t.Errorf("%d won, %d busy, %d entries", won, busy, len(got))
	}
}

// One transcript takes entries from several goroutines.
func TestConcurrentAppends(t *testing.T) {
	t.Parallel()
	d := folder(t)
	tr := d.New("/")
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 50 {
				if err := tr.Append(Entry{Type: User, Text: fmt.Sprint(g, i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must(t, tr.Close())
	if _, got, repair := resume(t, d, tr.ID()); len(got) != 200 || repair.Dropped != 0 {
		t.Errorf("%d entries, %+v", len(got), repair)
	}
}

// TR-06, B4: the folder is 0700, files are 0600, whatever the folder was; nothing is there
// before something was said.
func TestModesAndList(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	modes := runtime.GOOS != "windows" // it has lists of rights, which come from the folder above
	d := In(filepath.Join(base, "state", "conversations"))
	if list, err := d.List(); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	empty := d.New("/r")
	must(t, empty.Sync())
	must(t, empty.Close())
	if entries, _ := os.ReadDir(base); len(entries) != 0 {
		t.Errorf("%v", entries)
	}
	must(t, os.MkdirAll(d.path, 0o755))
	must(t, os.Chmod(d.path, 0o755))

	var ids []string
	for i, root := range []string{"/a", "/b", "/a"} {
		tr := d.New(root)
		must(t, tr.Append(Hide(Entry{Type: User, Text: "hidden"})))
		must(t, tr.Append(Entry{Type: User, Text: fmt.Sprintf(" the\n%d. question \x1b é", i) + strings.Repeat(" long", 50)}))
		must(t, tr.Close())
		ids = append(ids, tr.ID())
		must(t, os.Chtimes(d.Path(tr.ID()), time.Time{}, time.Unix(int64(1e9+i), 0)))
		if info, err := os.Stat(d.Path(tr.ID())); err != nil || modes && info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
	if info, err := os.Stat(d.path); err != nil || modes && info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	must(t, os.WriteFile(d.Path("aaaaaaaaaaaaaaaa"), []byte("garbage\n"), 0o600))
	must(t, os.Chtimes(d.Path("aaaaaaaaaaaaaaaa"), time.Time{}, time.Unix(1, 0)))
	must(t, os.WriteFile(filepath.Join(d.path, "notes.txt"), nil, 0o600))
	must(t, os.Mkdir(d.Path("bbbbbbbbbbbbbbbb"), 0o700))
	list, err := d.List()
	must(t, err)
	if len(list) != 4 || list[0].ID != ids[2] || list[1].ID != ids[1] || list[2].ID != ids[0] || !list[3].Damaged || list[0].Damaged {
		t.Fatalf("%+v", list)
	}
	if i := list[1]; i.Root != "/b" || i.Size == 0 || i.Created.IsZero() || !strings.HasPrefix(i.Title, "the 1. question \x1b é long") || len([]rune(i.Title)) != maxTitle+1 {
		t.Errorf("%+v", i)
	}
	for root, want := range map[string]string{"/a": ids[2], "/b": ids[1], "/c": "aaaaaaaaaaaaaaaa"} {
		if got, err := d.Last(root); err != nil || got != want {
			t.Errorf("%s: %s, %v", root, got, err)
		}
	}
	must(t, d.Remove(ids[2]))
	if got, _ := d.Last("/a"); got != ids[0] {
		t.Error(got)
	}
	if _, _, err := d.Resume(ids[2], none); reasonOf(err) != NotFound {
		t.Error(err)
	}
	for _, id := range []string{"../../etc/passwd", "", "aaaaaaaaaaaaaaa/", "AAAAAAAAAAAAAAAA", "aaaaaaaaaaaaaaaaa", "a\x00aaaaaaaaaaaaaa"} {
		if err := d.Remove(id); reasonOf(err) != NotFound {
			t.Errorf("%q: %v", id, err)
		}
	}
	if err := d.Remove("bbbbbbbbbbbbbbbb"); reasonOf(err) != NotATranscript { // a folder stays
		t.Error(err)
	}
}

// The end of a turn is when the disk is waited for; entries within one are not slowed.
func TestWhenItSyncs(t *testing.T) {
	t.Parallel()
	d := folder(t)
	syncs := 0
	d.sync = func(f *os.File) error { syncs++; return f.Sync() }
	tr := d.New("/")
	for range 20 {
		must(t, tr.Append(Entry{Type: User, Text: "x"}))
	}
	if syncs != 1 { // the first line
		t.Errorf("%d syncs within a turn", syncs)
	}
	must(t, tr.Turn(nil))
	if syncs != 2 {
		t.Errorf("%d syncs after a turn", syncs)
	}
	d.sync = func(*os.File) error { return os.ErrPermission }
	if err := tr.Turn(nil); reasonOf(err) != Permission {
		t.Error(err)
	}
	// The system tells of a failed write once: what works after it proves nothing.
	d.sync = func(*os.File) error { return nil }
	if err := tr.Turn(nil); reasonOf(err) != Permission {
		t.Error(err)
	}
	if err := tr.Sync(); reasonOf(err) != Permission {
		t.Error(err)
	}
	if err := tr.Close(); reasonOf(err) != Permission {
		t.Error(err)
	}
}

// The error of who reads is given back, and leaves the conversation free and unchanged.
func TestReaderStops(t *testing.T) {
	t.Parallel()
	d := folder(t)
	id := talk(t, d, 3)
	stop := errors.New("stop")
	n := 0
	if _, _, err := d.Resume(id, func(Entry) error { n++; return stop }); err != stop || n != 1 {
		t.Error(err, n)
	}
	resume(t, d, id)
}

// Where the folder cannot be made, that is what is said.
func TestNoFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	d := In(filepath.Join(file, "conversations"))
	tr := d.New("/")
	if err := tr.Append(Entry{Type: User, Text: "x"}); reasonOf(err) != IO {
		t.Error(err)
	}
	must(t, tr.Close())
	// Windows does not tell that a file is in the way.
	if _, err := d.List(); reasonOf(err) != IO && (runtime.GOOS != "windows" || err != nil) {
		t.Error(err)
	}
}

// A conversation is read while it is written, without a lock, and without what a crash left of a line.
func TestReadWhileWritten(t *testing.T) {
	t.Parallel()
	d := folder(t)
	tr := d.New("/")
	defer tr.Close()
	if err := d.Read(tr.ID(), none); reasonOf(err) != NotFound { // nothing was said
		t.Error(err)
	}
	must(t, tr.Append(Entry{Type: User, Text: "one"}))
	must(t, tr.Append(Hide(Entry{Type: Notice, Text: "two"})))
	got := ""
	each := func(e Entry) error { got += fmt.Sprint(e.Text, e.Hidden(), " "); return nil }
	must(t, d.Read(tr.ID(), each))
	if got != "onefalse twotrue " {
		t.Error(got)
	}
	f, err := os.OpenFile(d.Path(tr.ID()), os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	f.WriteString(`{"type":"user","text":"thr`)
	f.Close()
	got = ""
	if must(t, d.Read(tr.ID(), each)); got != "onefalse twotrue " {
		t.Error(got)
	}
	stop := errors.New("stop")
	if err := d.Read(tr.ID(), func(Entry) error { return stop }); err != stop {
		t.Error(err)
	}
	if err := d.Read("../../etc/passwd", none); reasonOf(err) != NotFound {
		t.Error(err)
	}
}

// TR-03: what is to be gone on with is the conversation that was used last, or an error about it,
// whatever is damaged of it: never an older one in its place.
func TestLastIsTheLast(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(raw []byte) []byte{
		"the first line": func(raw []byte) []byte { raw[30] ^= 1; return raw },
		"a later line":   func(raw []byte) []byte { raw[bytes.IndexByte(raw, '\n')+20] ^= 1; return raw },
		"line ends":      func(raw []byte) []byte { return bytes.ReplaceAll(raw, []byte("\n"), []byte("\r\n")) },
		"all of it":      func([]byte) []byte { return nil },
		"the header":     func(raw []byte) []byte { return raw[:20] },
	} {
		d := In(t.TempDir())
		var ids []string
		for i := range 2 {
			tr := d.New("/root")
			must(t, tr.Append(Entry{Type: User, Text: "one"}))
			must(t, tr.Close())
			ids = append(ids, tr.ID())
			must(t, os.Chtimes(d.Path(tr.ID()), time.Now(), time.Now().Add(time.Duration(i)*time.Hour)))
		}
		raw, err := os.ReadFile(d.Path(ids[1]))
		must(t, err)
		must(t, os.WriteFile(d.Path(ids[1]), damage(raw), 0o600))
		must(t, os.Chtimes(d.Path(ids[1]), time.Now(), time.Now().Add(time.Hour)))
		id, err := d.Last("/root")
		if err != nil || id != ids[1] {
			t.Errorf("%s: %v, %v", name, id == ids[0], err)
		}
		if tr, _, err := d.Resume(id, func(Entry) error { return nil }); err == nil {
			tr.Close()
			t.Errorf("%s: it was resumed", name)
		}
	}
}

// Try tells early what Append would say late, and leaves nothing.
func TestTry(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	d := In(filepath.Join(base, "a", "b"))
	must(t, d.Try())
	if left, err := os.ReadDir(d.path); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	file := filepath.Join(base, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for _, path := range []string{file, filepath.Join(file, "b")} {
		var e *Error
		if err := In(path).Try(); !errors.As(err, &e) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
