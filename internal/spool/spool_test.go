package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// newDir is a Dir in a parent of its own; at the end of the test it must close
// without error and leave the parent as empty as it was.
func newDir(t *testing.T, l Limits) *Dir {
	t.Helper()
	parent := t.TempDir()
	d, err := New(parent, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if names := list(t, parent); len(names) != 0 {
			t.Errorf("left behind: %v", names)
		}
	})
	return d
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func content(t *testing.T, l *Log) string {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(l, 0, l.Len()+100))
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return string(b)
}

func reason(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return 0
}

// P6: the quotas can be lowered, not raised.
func TestP6LimitsOnlyLowered(t *testing.T) {
	t.Parallel()
	for _, l := range []Limits{{PerLog: MaxPerLog + 1}, {Total: MaxTotal + 1}, {PerLog: -1}, {Total: -1}} {
		if _, err := New(t.TempDir(), l); reason(err) != BadLimit {
			t.Errorf("%+v: %v, want BadLimit", l, err)
		}
	}
	for _, c := range []struct{ given, want Limits }{
		{Limits{}, Limits{8 << 20, 32 << 20}},
		{Limits{PerLog: 5, Total: 3}, Limits{5, 3}},
		{Limits{MaxPerLog, MaxTotal}, Limits{8 << 20, 32 << 20}},
	} {
		d, err := New(t.TempDir(), c.given)
		if err != nil || d.limits != c.want {
			t.Errorf("%+v: %+v, %v", c.given, d.limits, err)
		}
	}
}

// P6: a log keeps the first bytes, exactly as many as the quota allows, whatever
// the sizes of the writes; after it ended nothing is kept, so there is no gap.
func TestP6KeepsTheFirstBytes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		d := newDir(t, Limits{PerLog: 1 + rnd.Int64N(5000), Total: 1 + rnd.Int64N(9000)})
		want := min(d.limits.PerLog, d.limits.Total)
		l := d.Log()
		var all []byte
		var kept int64
		ended := false
		for len(all) < 12000 {
			p := make([]byte, 1+rnd.IntN(700))
			for i := range p {
				p[i] = byte('a' + rnd.IntN(26))
			}
			n := l.Write(p)
			if ended && n != 0 {
				t.Fatalf("seed %d: %d bytes kept after the end", seed, n)
			}
			ended = ended || n < len(p)
			kept += int64(n)
			all = append(all, p...)
		}
		if kept != want || l.Len() != want || content(t, l) != string(all[:want]) {
			t.Errorf("seed %d: kept %d, Len %d, want %d, content equal: %v", seed, kept, l.Len(), want, content(t, l) == string(all[:want]))
		}
	}
}

// P6: one quota for all logs of a runtime; an evicted log gives its bytes back, and
// a log that ended for want of them stays ended.
func TestP6QuotaAcrossLogs(t *testing.T) {
	t.Parallel()
	d := newDir(t, Limits{PerLog: 60, Total: 100})
	a, b, c := d.Log(), d.Log(), d.Log()
	p := bytes.Repeat([]byte("x"), 50)
	if n := a.Write(p); n != 50 {
		t.Fatalf("a kept %d", n)
	}
	if n := a.Write(p); n != 10 {
		t.Fatalf("a kept %d more, its own quota leaves 10", n)
	}
	if n := b.Write(p); n != 40 {
		t.Fatalf("b kept %d, the total leaves 40", n)
	}
	if n := c.Write(p); n != 0 || c.Len() != 0 {
		t.Fatalf("c kept %d, the total is used up", n)
	}
	a.Remove()
	if n := b.Write(p); n != 0 {
		t.Errorf("b kept %d after it had ended: that leaves a gap", n)
	}
	if n := c.Write(p); n != 0 {
		t.Errorf("c kept %d after it had ended", n)
	}
	if n := d.Log().Write(p); n != 50 {
		t.Errorf("a new log kept %d of the 60 given back", n)
	}
	if got := content(t, b); got != string(p[:40]) {
		t.Errorf("b: %q", got)
	}
	if d.used != 90 {
		t.Errorf("used %d, want 90", d.used)
	}
}

// P6, P5: a quota never cuts a character in two, and bytes that are no UTF-8 do not
// keep it from being used.
func TestP6CutsBetweenCharacters(t *testing.T) {
	t.Parallel()
	text := "aé€𝄞" + "zé€𝄞"
	for quota := int64(1); quota <= int64(len(text)); quota++ {
		d := newDir(t, Limits{PerLog: quota})
		l := d.Log()
		l.Write([]byte(text))
		got := content(t, l)
		if !utf8.ValidString(got) || !strings.HasPrefix(text, got) || quota-l.Len() >= utf8.UTFMax {
			t.Errorf("quota %d: %q", quota, got)
		}
	}
	for _, c := range []struct {
		p    string
		n    int
		want int
	}{
		{"abc", 0, 0}, {"abc", 2, 2}, {"abc", 3, 3},
		{"\x80\x80\x80\x80\x80", 4, 4}, {"\x80\x80\x80", 2, 2}, {"é", 1, 0},
		{"a\xff\x80b", 2, 2}, {"𝄞", 1, 0}, {"𝄞", 2, 0}, {"𝄞", 3, 0}, {"a𝄞", 4, 1}, {"\xf0\x9d", 1, 1},
	} {
		if got := whole([]byte(c.p), c.n); got != c.want {
			t.Errorf("whole(%q, %d) = %d, want %d", c.p, c.n, got, c.want)
		}
	}
}

// The directory is made by the first write, so a runtime that keeps nothing leaves
// nothing, whatever ends it.
func TestNoDirectoryBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	d := newDir(t, Limits{})
	l := d.Log()
	l.Write(nil)
	if n, err := l.ReadAt(make([]byte, 1), 0); n != 0 || err != io.EOF {
		t.Errorf("reading an empty log: %d, %v", n, err)
	}
	l.Remove()
	if d.Path() != "" || len(list(t, d.Parent())) != 0 {
		t.Errorf("path %q, %v", d.Path(), list(t, d.Parent()))
	}
	d.Log().Write([]byte("x"))
	if names := list(t, d.Parent()); len(names) != 1 || d.Path() != filepath.Join(d.Parent(), names[0]) || !strings.HasPrefix(names[0], "belay-") {
		t.Errorf("path %q, %v", d.Path(), names)
	}
}

// P8: evicting a log removes its file and no other.
func TestP8RemoveOne(t *testing.T) {
	t.Parallel()
	d := newDir(t, Limits{})
	a, b := d.Log(), d.Log()
	a.Write([]byte("first"))
	b.Write([]byte("second"))
	a.Remove()
	a.Remove()
	if names := list(t, d.Path()); len(names) != 1 {
		t.Errorf("%v", names)
	}
	if a.Len() != 0 || a.Write([]byte("again")) != 0 || content(t, a) != "" {
		t.Error("a removed log keeps something")
	}
	if content(t, b) != "second" || d.used != 6 {
		t.Errorf("b: %q, used %d", content(t, b), d.used)
	}
}

// P8: Close removes everything that this Dir made, once; what is used after keeps
// and reads nothing, and makes nothing anew.
func TestP8CloseRemovesAll(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	if err := os.WriteFile(filepath.Join(parent, "canary"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other, _ := New(parent, Limits{})
	other.Log().Write([]byte("theirs"))
	d, _ := New(parent, Limits{})
	var logs []*Log
	for i := range 3 * maxOpen {
		l := d.Log()
		l.Write(fmt.Appendf(nil, "%d", i))
		logs = append(logs, l)
	}
	fresh := d.Log()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(d.Path()); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("Close returned before it was done: %v", err)
			}
		})
	}
	wg.Wait()
	for _, l := range append(logs, fresh) {
		if l.Write([]byte("x")) != 0 {
			t.Error("kept after Close")
		}
	}
	if _, err := logs[0].ReadAt(make([]byte, 1), 0); reason(err) != Unreadable {
		t.Errorf("read after Close: %v", err)
	}
	logs[0].Remove()
	if names := list(t, parent); len(names) != 2 {
		t.Errorf("left: %v; want the canary and the other runtime's directory", names)
	}
	if err := other.Close(); err != nil || len(list(t, parent)) != 1 {
		t.Errorf("%v, %v", err, list(t, parent))
	}
}

// P8: a file of somebody else in the directory is left alone, and said.
func TestP8ForeignFileStays(t *testing.T) {
	t.Parallel()
	d, _ := New(t.TempDir(), Limits{})
	d.Log().Write([]byte("x"))
	canary := filepath.Join(d.Path(), "canary")
	if err := os.WriteFile(canary, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Close(); reason(err) != LeftBehind || !strings.Contains(err.Error(), d.Path()) {
			t.Errorf("Close: %v", err)
		}
	}
	if names := list(t, d.Path()); len(names) != 1 || names[0] != "canary" {
		t.Errorf("%v", names)
	}
}

func TestReadAt(t *testing.T) {
	t.Parallel()
	d := newDir(t, Limits{})
	l := d.Log()
	l.Write([]byte("0123456789"))
	for _, c := range []struct {
		n    int
		off  int64
		want string
		err  error
	}{
		{4, 0, "0123", nil}, {10, 0, "0123456789", nil}, {11, 0, "0123456789", io.EOF},
		{4, 6, "6789", nil}, {4, 7, "789", io.EOF}, {4, 10, "", io.EOF}, {4, 1 << 60, "", io.EOF}, {0, 3, "", nil},
	} {
		p := make([]byte, c.n)
		n, err := l.ReadAt(p, c.off)
		if string(p[:n]) != c.want || err != c.err {
			t.Errorf("%d at %d: %q, %v", c.n, c.off, p[:n], err)
		}
	}
	if _, err := l.ReadAt(make([]byte, 1), -1); reason(err) != Unreadable {
		t.Errorf("at -1: %v", err)
	}
}

// What was kept and is gone is an error, never a short page that looks complete.
func TestCutFileIsNoShortPage(t *testing.T) {
	t.Parallel()
	d := newDir(t, Limits{})
	l := d.Log()
	l.Write([]byte("0123456789"))
	if err := os.Truncate(filepath.Join(d.Path(), list(t, d.Path())[0]), 4); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 20)
	if n, err := l.ReadAt(p, 0); n != 4 || reason(err) != Unreadable {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := l.ReadAt(p[:3], 0); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestNilDirKeepsNothing(t *testing.T) {
	t.Parallel()
	var d *Dir
	l := d.Log()
	if l.Write([]byte("x")) != 0 || l.Len() != 0 || d.Path() != "" || d.Parent() != "" || d.Close() != nil {
		t.Error("a nil Dir kept something")
	}
	if _, err := l.ReadAt(make([]byte, 1), 0); err != io.EOF {
		t.Error(err)
	}
	l.Remove()
}

// P6: no trouble with the parent reaches the writer, and the next log tries again.
func TestP6ParentMissingThenThere(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "later")
	d, err := New(parent, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	l := d.Log()
	if l.Write([]byte("x")) != 0 || l.Len() != 0 || d.used != 0 || d.Path() != "" {
		t.Errorf("kept something in a directory that is not there, or charged it: %d", d.used)
	}
	if err := os.WriteFile(parent, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if d.Log().Write([]byte("x")) != 0 {
		t.Error("kept something in a file")
	}
	os.Remove(parent)
	if err := os.Mkdir(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	if l.Write([]byte("x")) != 0 {
		t.Error("a log that had ended kept something")
	}
	if n := d.Log().Write([]byte("x")); n != 1 {
		t.Errorf("kept %d once the parent was there", n)
	}
	if err := d.Close(); err != nil || len(list(t, parent)) != 0 {
		t.Errorf("%v, %v", err, list(t, parent))
	}
}

func TestRelativeParentIsFixedAtNew(t *testing.T) {
	parent := t.TempDir()
	t.Chdir(parent)
	d, err := New("", Limits{})
	if err != nil || !filepath.IsAbs(d.Parent()) {
		t.Errorf("%q, %v", d.Parent(), err)
	}
	if d, err = New(".", Limits{}); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	d.Log().Write([]byte("x"))
	if len(list(t, parent)) != 1 {
		t.Errorf("not in the directory that New was given: %s", d.Path())
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// P6: many logs at once, more than descriptors are kept, with evictions, and the
// Dir closed under them: every log is a prefix of what it was given, the charge is
// what is kept, the quota holds, and nothing is left. Meant for the race detector.
func TestP6ManyLogsAtOnce(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	d, _ := New(parent, Limits{PerLog: 3000, Total: 120_000})
	const workers = 3 * maxOpen
	var wg, half sync.WaitGroup
	half.Add(workers)
	for w := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 2))
			l, fill := d.Log(), byte('A'+w%26)
			for round := range 200 {
				if round == 100 {
					half.Done()
				}
				switch rnd.IntN(10) {
				case 0:
					l.Remove()
					l = d.Log()
				case 1, 2, 3:
					p := make([]byte, 1+rnd.IntN(200))
					off := rnd.Int64N(l.Len() + 1)
					n, err := l.ReadAt(p, off)
					if reason(err) == Unreadable {
						if round < 100 {
							t.Errorf("worker %d: %v", w, err)
						}
					} else if err != nil && err != io.EOF {
						t.Errorf("worker %d: %v", w, err)
					} else if int64(n) != min(int64(len(p)), l.Len()-off) || bytes.Count(p[:n], []byte{fill}) != n {
						t.Errorf("worker %d: %d bytes at %d of %d: %q", w, n, off, l.Len(), p[:n])
					}
				default:
					l.Write(bytes.Repeat([]byte{fill}, 1+rnd.IntN(100)))
				}
				if l.Len() > 3000 {
					t.Errorf("worker %d: %d bytes", w, l.Len())
				}
			}
		})
	}
	// Close comes while the second half of the rounds is still going on.
	wg.Go(func() {
		half.Wait()
		d.mu.Lock()
		var sum int64
		for l := range d.logs {
			sum += l.charged
		}
		if d.used > 120_000 || sum > d.used || len(d.open) > workers {
			t.Errorf("used %d, charged %d, %d open", d.used, sum, len(d.open))
		}
		d.mu.Unlock()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	if names := list(t, parent); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}

// A descriptor that is in use is not taken away, and more than maxOpen are held only
// for as long as that.
func TestDescriptorInUseIsNotTaken(t *testing.T) {
	t.Parallel()
	d := newDir(t, Limits{})
	var logs []*Log
	for range maxOpen + 3 {
		l := d.Log()
		if _, err := d.take(l); err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	for i, l := range logs {
		if _, err := l.file.Write([]byte("x")); err != nil {
			t.Errorf("log %d: %v", i, err)
		}
	}
	for _, l := range logs {
		d.give(l)
	}
	if len(d.open) != maxOpen {
		t.Errorf("%d descriptors held between calls", len(d.open))
	}
}

// Errors have no content in them (C5) and keep the cause for the developer.
func TestErrorText(t *testing.T) {
	t.Parallel()
	for r := BadLimit; r <= LeftBehind; r++ {
		e := &Error{Reason: r, Path: "/p", cause: io.ErrUnexpectedEOF}
		if strings.Contains(e.Error(), "unknown") || !errors.Is(e, io.ErrUnexpectedEOF) {
			t.Errorf("%d: %v", r, e)
		}
	}
	if s := (&Error{}).Error(); !strings.Contains(s, "unknown") {
		t.Error(s)
	}
}

func BenchmarkWrite4K(b *testing.B) {
	for _, logs := range []int{1, 2 * maxOpen} { // within and beyond the kept descriptors
		b.Run(fmt.Sprintf("logs=%d", logs), func(b *testing.B) {
			d, _ := New(b.TempDir(), Limits{})
			defer d.Close()
			p := make([]byte, 4096)
			ls := make([]*Log, logs)
			for i := range ls {
				ls[i] = d.Log()
			}
			b.SetBytes(4096)
			for i := 0; b.Loop(); i++ {
				l := ls[i%logs]
				if l.Write(p) != len(p) {
					l.Remove()
					ls[i%logs] = d.Log()
				}
			}
		})
	}
	b.Run("bare", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "f"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		p := make([]byte, 4096)
		b.SetBytes(4096)
		for i := 0; b.Loop(); i++ {
			f.WriteAt(p, int64(i%2048)*4096)
		}
	})
}
