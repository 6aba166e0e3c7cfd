package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/belayhq/belay/internal/osfile"
	"github.com/belayhq/belay/tool"
)

var (
	reads  = Call{ID: "r", Tool: "read", Fingerprint: strings.Repeat("a", 64), Effect: tool.ReadOnly, Replay: tool.Safe}
	writes = Call{ID: "w", Tool: "replace", Fingerprint: strings.Repeat("b", 64), Effect: tool.Mutating, Replay: tool.Idempotent}
	runs   = Call{ID: "x", Parent: "p", Tool: "shell", Fingerprint: strings.Repeat("c", 64), Effect: tool.Mutating, Replay: tool.Unsafe}
)

func openAt(t testing.TB, path string) *Journal {
	t.Helper()
	j, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func fresh(t testing.TB) (*Journal, string) {
	path := filepath.Join(t.TempDir(), "j")
	return openAt(t, path), path
}

func start(t testing.TB, j *Journal, c Call) *Entry {
	t.Helper()
	e, err := j.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func report(t testing.TB, path string) Report {
	t.Helper()
	r, err := Read(path)
	must(t, err)
	return r
}

func ids(list []State) string {
	var out []string
	for _, s := range list {
		out = append(out, s.ID)
	}
	return strings.Join(out, " ")
}

func reasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return 0
}

// C8: the three answers, for each way in which a call can have come to an end or not.
func TestThreeAnswers(t *testing.T) {
	t.Parallel()
	j, path := fresh(t)
	named := func(c Call, id string) Call { c.ID = id; return c }
	begin := func(c Call, id string) *Entry { return start(t, j, named(c, id)) }

	must(t, begin(runs, "result").End(Done, ""))
	must(t, begin(writes, "failed").End(tool.Failed, tool.WriteFailed))
	must(t, begin(runs, "unsure").End(tool.Uncertain, tool.UncertainOutcome))
	begin(reads, "reading")
	begin(writes, "writing")
	begin(runs, "running")
	must(t, begin(writes, "committed").Commit())
	e := begin(runs, "both")
	must(t, e.Commit())
	must(t, e.End(Done, ""))
	must(t, j.Refuse(named(runs, "refused"), tool.Denied))

	r := report(t, path)
	for _, c := range []struct {
		what      string
		got, want string
	}{
		{"finished", ids(r.Finished), "result failed committed both refused"},
		{"safe to repeat", ids(r.Repeat), "reading writing"},
		{"uncertain", ids(r.Uncertain), "unsure running"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
		}
	}
	if r.Torn != 0 {
		t.Error("torn:", r.Torn)
	}
	refused := r.Finished[4]
	if refused.Kind != tool.Refused || refused.Code != tool.Denied || refused.Phase != Ended || refused.Started != nil || refused.Ended == nil || refused.Tool != "shell" {
		t.Errorf("%+v", refused)
	}
	running := r.Uncertain[1]
	if running.Call != named(runs, "running") || running.Phase != Started || running.Started == nil || running.Ended != nil || running.Run == "" || running.N == 0 {
		t.Errorf("%+v", running)
	}
	if r.Finished[1].Kind != tool.Failed || r.Finished[1].Code != tool.WriteFailed || r.Finished[2].Phase != Committed {
		t.Errorf("%+v", r.Finished)
	}
}

// C5, C8: a record has its fields and no others; IDs are bounded, and no text in them can
// end a line.
func TestWhatIsRecorded(t *testing.T) {
	t.Parallel()
	j, path := fresh(t)
	odd := runs
	odd.ID, odd.Parent = "a\nb\x00\xff{\"}", strings.Repeat("\x01é", 500)
	must(t, start(t, j, odd).End(tool.Failed, tool.WriteFailed))
	raw, err := os.ReadFile(path)
	must(t, err)
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines:\n%s", len(lines), raw)
	}
	allowed := strings.Fields("v time run n phase id parent tool fingerprint effect replay kind code")
	for _, line := range lines[1:] {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil || len(line) > maxLine {
			t.Fatal(err, len(line))
		}
		for name := range fields {
			if !slices.Contains(allowed, name) {
				t.Errorf("the field %s", name)
			}
		}
	}
	got := report(t, path).Finished[0]
	if got.ID != "a\nb\x00\ufffd{\"}" || len(got.Parent) > maxID || !utf8.ValidString(got.Parent) {
		t.Errorf("%q %q", got.ID, got.Parent)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// C8: wherever a crash cuts the last line off, no start and no end is invented; the next
// writer goes on, what it writes is read, and the file only grows.
func TestTornAtEachByte(t *testing.T) {
	t.Parallel()
	j, path := fresh(t)
	must(t, start(t, j, writes).End(Done, ""))
	before, err := os.ReadFile(path)
	must(t, err)
	must(t, start(t, j, runs).End(Done, ""))
	whole, err := os.ReadFile(path)
	must(t, err)
	startEnd := len(before) + bytes.IndexByte(whole[len(before):], '\n') + 1
	dir := t.TempDir()
	for cut := len(before); cut <= len(whole); cut++ {
		path := filepath.Join(dir, "j")
		must(t, os.WriteFile(path, whole[:cut], 0o600))
		r, err := Read(path)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		want := [3]string{"w", "", ""} // finished, uncertain, and torn
		switch {
		case cut >= len(whole)-1:
			want = [3]string{"w x", "", ""}
		case cut >= startEnd-1:
			want = [3]string{"w", "x", ""}
		}
		torn := 0
		if cut != len(before) && cut < startEnd-1 || cut > startEnd && cut < len(whole)-1 {
			torn = 1
		}
		if ids(r.Finished) != want[0] || ids(r.Uncertain) != want[1] || len(r.Repeat) != 0 || r.Torn != torn {
			t.Fatalf("cut at %d of %d: %+v", cut, len(whole), r)
		}
		next := openAt(t, path)
		c := reads
		c.ID = "next"
		start(t, next, c)
		next.Close()
		after := report(t, path)
		if ids(after.Repeat) != "next" || ids(after.Finished) != want[0] || ids(after.Uncertain) != want[1] || after.Torn != torn {
			t.Fatalf("cut at %d, continued: %+v", cut, after)
		}
		grown, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(grown, whole[:cut]) {
			t.Fatalf("cut at %d: something was taken away", cut)
		}

		// and where the closing of a torn line was torn itself
		if torn == 0 || cut%60 != 0 && cut != len(before)+1 && cut != startEnd-2 {
			continue
		}
		for again := cut + 2; again < len(grown); again++ {
			must(t, os.WriteFile(path, grown[:again], 0o600))
			if r, err := Read(path); err != nil || r.Torn == 0 {
				t.Fatalf("cut at %d and %d: %+v, %v", cut, again, r, err)
			}
			next := openAt(t, path)
			start(t, next, c)
			next.Close()
			if r := report(t, path); !strings.HasSuffix(ids(r.Repeat), "next") || r.Torn == 0 {
				t.Fatalf("cut at %d and %d, continued: %+v", cut, again, r)
			}
		}
	}
}

// A journal that is being made when the crash comes is one.
func TestTornHeader(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "j")
	for cut := range len(header) + 1 {
		must(t, os.WriteFile(path, []byte(header[:cut]), 0o600))
		if r := report(t, path); len(r.Finished)+len(r.Repeat)+len(r.Uncertain)+r.Torn != 0 {
			t.Errorf("%d: %+v", cut, r)
		}
		j := openAt(t, path)
		start(t, j, runs)
		j.Close()
		if r := report(t, path); ids(r.Uncertain) != "x" {
			t.Errorf("%d: %+v", cut, r)
		}
	}
}

// C8: damage in the middle is an error that names the line.
func TestDamageIsNamed(t *testing.T) {
	t.Parallel()
	j, path := fresh(t)
	for range 3 {
		must(t, start(t, j, runs).End(Done, ""))
	}
	whole, err := os.ReadFile(path)
	must(t, err)
	lines := bytes.SplitAfter(whole, []byte("\n")) // header, 6 records, nothing
	replace := func(n int, by string) []byte {
		out := slices.Clone(lines)
		out[n-1] = []byte(by)
		return bytes.Join(out, nil)
	}
	for _, c := range []struct {
		name   string
		raw    []byte
		reason Reason
		line   int
	}{
		{"half a line", replace(3, string(lines[2][:40])+"\n"), Damaged, 3},
		{"half a line without its end", replace(3, string(lines[2][:40])), Damaged, 3},
		{"an empty line", replace(4, "\n"), Damaged, 4},
		{"junk", replace(2, "junk\n"), Damaged, 2},
		{"two junk lines", replace(2, "junk\njunk\n"), Damaged, 2},
		{"another phase", replace(3, strings.Replace(string(lines[2]), `"ended"`, `"over"`, 1)), Damaged, 3},
		{"no kind", replace(3, strings.Replace(string(lines[2]), `"kind"`, `"kinds"`, 1)), Damaged, 3},
		{"a start twice", replace(3, string(lines[1])), Damaged, 3},
		{"the last line", replace(7, "junk\n"), Damaged, 7},
		{"a mark for nothing", replace(3, `{"torn":5,"v":1,"time":"2026-01-01T00:00:00Z","run":"x"}`+"\n"), Damaged, 3},
		{"a mark of another length", replace(3, "junk\n"+`{"torn":5,"v":1,"time":"2026-01-01T00:00:00Z","run":"x"}`+"\n"), Damaged, 3},
		{"a line without end", replace(3, strings.Repeat("x", 10_000)+"\n"), Damaged, 3},
		{"a newer version", replace(3, `{"v":2}`+"\n"), TooNew, 3},
		{"a newer header", replace(1, `{"belay_journal":2}`+"\n"), TooNew, 1},
		{"no header", replace(1, ""), NotAJournal, 0},
		{"another file", []byte("package main\n"), NotAJournal, 0},
		{"another file without lines", bytes.Repeat([]byte("x"), 100_000), NotAJournal, 0},
	} {
		_, err := read(bytes.NewReader(c.raw))
		var e *Error
		if !errors.As(err, &e) || e.Reason != c.reason || e.Line != c.line {
			t.Errorf("%s: %v, want %v in line %d", c.name, err, c.reason, c.line)
		}
		if c.line > 0 && !strings.Contains(err.Error(), fmt.Sprint("line ", c.line)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A file that is no journal is never written to.
func TestOtherFilesAreLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, content := range []string{"package main", "{", "\n", strings.Repeat("x", 10_000), `{"belay_journal":2}` + "\n"} {
		path := filepath.Join(dir, "f")
		must(t, os.WriteFile(path, []byte(content), 0o644))
		j, err := Open(path)
		if err == nil { // only "{", which can be the beginning of a journal
			must(t, j.Close())
		}
		if got, _ := os.ReadFile(path); content != "{" && (reasonOf(err) != NotAJournal || string(got) != content) {
			t.Errorf("%.20q: %v, now %.20q", content, err, got)
		}
	}
	if _, err := Open(dir); reasonOf(err) != NotRegular {
		t.Error("a folder:", err)
	}
	if _, err := Open(filepath.Join(dir, "none", "j")); reasonOf(err) != NotFound {
		t.Error("no folder:", err)
	}
	if _, err := Read(filepath.Join(dir, "none")); reasonOf(err) != NotFound {
		t.Error("no file:", err)
	}
	if _, err := Read(dir); reasonOf(err) != NotRegular {
		t.Error("a folder:", err)
	}
}

// A file that was moved away gets no more records: they would be found by nobody.
func TestAMovedFileIsFollowed(t *testing.T) {
	t.Parallel()
	j, path := fresh(t)
	moved := start(t, j, runs)
	must(t, os.Rename(path, path+".1"))
	start(t, j, writes)
	must(t, moved.End(Done, ""))
	if r := report(t, path+".1"); ids(r.Uncertain) != "x" {
		t.Errorf("old: %+v", r)
	}
	r := report(t, path)
	if ids(r.Repeat) != "w" || len(r.Finished) != 1 || r.Finished[0].Kind != Done || r.Finished[0].N != 1 {
		t.Errorf("new: %+v", r)
	}
	must(t, os.Remove(path))
	start(t, j, runs)
	must(t, os.Truncate(path, 0))
	start(t, j, writes)
	if r := report(t, path); ids(r.Repeat) != "w" {
		t.Errorf("emptied: %+v", r)
	}
}

// C8: the record of a call that can change something is on the disk when Start, Commit and
// End return, and what is not there is an error; a read waits for no disk.
func TestOnTheDisk_C8(t *testing.T) {
	t.Parallel()
	j, _ := fresh(t)
	synced, fail := 0, error(nil)
	j.sync = func(f *os.File) error {
		info, err := f.Stat()
		must(t, err)
		raw := make([]byte, info.Size())
		if _, err := f.ReadAt(raw, 0); err != nil || raw[len(raw)-1] != '\n' {
			t.Error("synced before it was written", err)
		}
		synced++
		return fail
	}
	is := func(want int) {
		t.Helper()
		if synced != want {
			t.Errorf("synced %d times, want %d", synced, want)
		}
	}
	must(t, start(t, j, reads).End(Done, ""))
	must(t, j.Refuse(runs, tool.Denied))
	is(0)
	e := start(t, j, writes)
	is(1)
	must(t, e.Commit())
	is(2)
	must(t, e.End(Done, ""))
	is(3)
	e = start(t, j, runs)
	fail = os.ErrDeadlineExceeded
	if _, err := j.Start(runs); reasonOf(err) != IO {
		t.Error(err)
	}
	if err := e.End(Done, ""); reasonOf(err) != IO {
		t.Error(err)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	j, _ := fresh(t)
	e := start(t, j, runs)
	must(t, j.Close())
	must(t, j.Close())
	if _, err := j.Start(runs); reasonOf(err) != Closed {
		t.Error(err)
	}
	if err := e.End(Done, ""); reasonOf(err) != Closed {
		t.Error(err)
	}
}

// C8: several runtimes write to one file at once, and each call is found as what it is.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "j")
	var wg sync.WaitGroup
	for w := range 4 {
		j := openAt(t, path)
		for g := range 4 {
			wg.Go(func() {
				for i := range 10 {
					c := []Call{reads, writes, runs}[i%3]
					c.ID = fmt.Sprint(w, g, i)
					e, err := j.Start(c)
					if err != nil {
						t.Error(err)
						return
					}
					if i != 9 {
						if err := e.End(Done, ""); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
	}
	wg.Wait()
	r := report(t, path)
	if len(r.Finished) != 4*4*9 || len(r.Repeat) != 4*4 || len(r.Uncertain) != 0 || r.Torn != 0 {
		t.Errorf("%d finished, %d to repeat, %d uncertain, %d torn", len(r.Finished), len(r.Repeat), len(r.Uncertain), r.Torn)
	}
}

// A writer that was stopped while it held the lock does not stop the others for ever.
func TestTheLockIsNotWaitedForForever(t *testing.T) {
	t.Parallel()
	j, path := fresh(t)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	unlock, err := osfile.Lock(f, time.Second)
	must(t, err)
	if _, err := j.Start(writes); reasonOf(err) != Busy {
		t.Error(err)
	}
	unlock()
	_, err = j.Start(writes)
	must(t, err)
}

// Whatever is in the file, reading it ends in a report or a named error; and what was
// read of a prefix is never taken back by more records of other calls.
func FuzzReadIsTotal(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, "j")
	j, err := Open(path)
	if err != nil {
		f.Fatal(err)
	}
	e, _ := j.Start(runs)
	_ = e.Commit()
	_ = e.End(Done, "")
	_ = j.Refuse(writes, tool.Denied)
	j.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-10])
	f.Add(append(slices.Clone(whole[:len(whole)-10]), []byte("\n"+`{"torn":200,"v":1}`+"\n")...))
	f.Add([]byte(header + "\x00\x00"))
	f.Add([]byte(header + `{"v":1,"n":-1}` + "\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := read(bytes.NewReader(raw))
		if err != nil {
			if reasonOf(err) == 0 {
				t.Errorf("an error of type %T", err)
			}
			return
		}
		for _, s := range slices.Concat(r.Repeat, r.Uncertain) {
			if s.Phase == Ended && s.Kind != tool.Uncertain {
				t.Errorf("ended, and not finished: %+v", s)
			}
		}
		for _, s := range r.Repeat {
			if s.Replay == tool.Unsafe && s.Effect != tool.ReadOnly {
				t.Errorf("not safe to repeat: %+v", s)
			}
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	})
}

// BenchmarkCall is what the journal adds to one call: two records, on the disk where the
// call can change something.
func BenchmarkCall(b *testing.B) {
	for _, c := range []Call{reads, runs} {
		b.Run(string(c.Effect), func(b *testing.B) {
			j, _ := fresh(b)
			for b.Loop() {
				if err := start(b, j, c).End(Done, ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
