package worktree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// F2, F3: the facts of whole files.
func TestReadFacts_F2_F3(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		content string
		text    bool
		eol     string
		bom     bool
	}{
		{"", true, "none", false},
		{"\n", true, "lf", false},
		{"a\nb\nc", true, "lf", false},
		{"a\r\nb\r\n", true, "crlf", false},
		{"a\r\nb\n", true, "mixed", false},
		{"a\rb\r", true, "none", false},
		{"\xef\xbb\xbfint\r\n", true, "crlf", true},
		{"caf\xe9\n", false, "lf", false},
		{"nul\x00", false, "none", false},
		{"\xff\xfeh\x00i\x00", false, "none", false},
		{"cut \xe2\x82", false, "none", false},
		{"日本語 🎉\n", true, "lf", false},
	} {
		w := newWorld(t, Options{})
		w.lay("W/f = " + c.content)
		p, err := w.t.Read(bg, page("f"))
		must(t, err)
		want := Page{Path: "f", Size: int64(len(c.content)), Next: int64(len(c.content)), EOF: true, FirstLine: 1,
			SHA256: Digest([]byte(c.content)), Text: c.text, EOL: c.eol, BOM: c.bom}
		got := p
		got.Content = nil
		if fmt.Sprint(got) != fmt.Sprint(want) || string(p.Content) != c.content {
			t.Errorf("%q:\n got %+v\nwant %+v", c.content, p, want)
		}
	}
}

// join pages through a file from the start as a caller would, and fails if a page does not advance or breaks a bound.
func join(t testing.TB, tree *Tree, name string, limit int) []byte {
	t.Helper()
	var all []byte
	for n := 0; ; n++ {
		p, err := tree.Read(bg, PageRequest{Name: name, Offset: int64(len(all)), Limit: limit})
		must(t, err)
		if p.Offset != int64(len(all)) || p.Next != p.Offset+int64(len(p.Content)) {
			t.Fatalf("page at %d: offset %d next %d content %d", len(all), p.Offset, p.Next, len(p.Content))
		}
		if len(p.Content) > max(limit, utf8.UTFMax) {
			t.Fatalf("page of %d bytes for a limit of %d", len(p.Content), limit)
		}
		if p.Text && !utf8.Valid(p.Content) {
			t.Fatal("text that is no text")
		}
		all = append(all, p.Content...)
		if p.EOF {
			if int64(len(all)) != p.Size {
				t.Fatalf("end at %d of %d", len(all), p.Size)
			}
			return all
		}
		if len(p.Content) == 0 {
			t.Fatalf("no advance at %d", len(all))
		}
	}
}

// F2, case FI-16: pages joined give the file, whatever the limit, and text never comes in halves of a character.
func TestPagesJoin_F2(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	var mix strings.Builder
	for i := range 3000 {
		end := "\r\n"
		if i%3 == 0 {
			end = "\n"
		}
		fmt.Fprintf(&mix, "%05d %s%s", i, strings.Repeat("x", i*37%900), end)
	}
	random := make([]byte, 3000)
	rand.New(rand.NewSource(1)).Read(random)
	files := map[string]string{
		"mix":    mix.String() + "no-newline-end",
		"one":    strings.Repeat("Y", 1_000_000),
		"exact":  strings.Repeat(strings.Repeat("z", 63)+"\n", 2000),
		"wide":   strings.Repeat("aé日🎉", 300),
		"binary": string(random),
		"torn":   strings.Repeat("日\xe6\x97🎉\xf0\x9f", 300),
	}
	undigested := openTree(t, w.in, Options{MaxFileBytes: 1})
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(w.in, name), []byte(content), 0o644))
		for _, limit := range []int{1, 2, 3, 4, 5, 7, 64, 1000, 4096, 32768, 1 << 20} {
			if pages := len(content) / limit; pages > 25_000 || testing.Short() && pages > 100 {
				continue
			}
			tree := w.t
			if limit < 4096 {
				tree = undigested // a file this fresh is digested for each page
			}
			if !bytes.Equal(join(t, tree, name, limit), []byte(content)) {
				t.Errorf("%s by %d does not join", name, limit)
			}
		}
	}
	for off := 0; off < len(files["wide"]); {
		p, err := w.t.Read(bg, PageRequest{Name: "wide", Offset: int64(off), Limit: 5})
		must(t, err)
		if !p.Text {
			t.Fatalf("a page of text at %d is not text", off)
		}
		off = int(p.Next)
	}
}

// F2: an offset inside a character starts at its first byte where the page is text, and stays exact where it is binary.
func TestOffsetInsideCharacter_F2(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.lay("W/t = aé日🎉z", "W/b = \x00é日\x00")
	for _, c := range []struct {
		name         string
		off          int64
		limit        int
		offset, next int64
		text         bool
	}{
		{"t", 2, 100, 1, 11, true},
		{"t", 2, 1, 1, 3, true},
		{"t", 5, 1, 3, 6, true},
		{"t", 7, 2, 6, 10, true},
		{"t", 9, 4, 6, 10, true},
		{"t", -1, 10, 10, 11, true},
		{"t", -2, 10, 6, 11, true},
		{"t", -5, 5, 6, 11, true},
		{"t", -100, 1, 0, 1, true},
		{"t", 11, 5, 11, 11, true},
		{"t", 99, 5, 11, 11, true},
		{"b", 2, 10, 2, 7, false},
		{"b", 0, 2, 0, 1, false},
	} {
		p, err := w.t.Read(bg, PageRequest{Name: c.name, Offset: c.off, Limit: c.limit})
		must(t, err)
		if p.Offset != c.offset || p.Next != c.next || p.Text != c.text {
			t.Errorf("%s at %d by %d: got %d..%d text %v, want %d..%d %v", c.name, c.off, c.limit, p.Offset, p.Next, p.Text, c.offset, c.next, c.text)
		}
	}
}

// F2, case FI-14: lines are counted by their line feeds; behind the last there is the end.
func TestReadByLine_F2(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	long := strings.Repeat("l", 3*scratchBytes)
	w.lay("W/n = a\nb\nc", "W/y = a\nb\nc\n", "W/e = ", "W/o = \n", "W/long = "+long+"\n"+long+"\nend\n",
		"W/many = "+strings.Repeat("0123456\n", 20_000))
	for _, c := range []struct {
		name          string
		line          int64
		limit         int
		offset, first int64
		content       string
		eof           bool
	}{
		{"n", 1, 100, 0, 1, "a\nb\nc", true},
		{"n", 3, 1, 4, 3, "c", true},
		{"n", 4, 10, 5, 3, "", true},
		{"y", 3, 1, 4, 3, "c", false},
		{"y", 3, 10, 4, 3, "c\n", true},
		{"y", 4, 10, 6, 4, "", true},
		{"y", 99, 10, 6, 4, "", true},
		{"e", 1, 10, 0, 1, "", true},
		{"e", 7, 10, 0, 1, "", true},
		{"o", 2, 10, 1, 2, "", true},
		{"long", 3, 10, int64(2*len(long) + 2), 3, "end\n", true},
		{"long", 2, 3, int64(len(long) + 1), 2, "lll", false},
		{"many", 19_999, 8, 19_998 * 8, 19_999, "0123456\n", false},
		{"many", 4097, 8, 4096 * 8, 4097, "0123456\n", false},
		{"many", 4096, 16, 4095 * 8, 4096, "0123456\n0123456\n", false},
		{"many", 20_001, 8, 160_000, 20_001, "", true},
	} {
		for _, maxFile := range []int64{0, 1} { // with and without a digest in the same pass
			tree := openTree(t, w.in, Options{MaxFileBytes: maxFile})
			p, err := tree.Read(bg, PageRequest{Name: c.name, Line: c.line, Limit: c.limit})
			must(t, err)
			if p.Offset != c.offset || p.FirstLine != c.first || string(p.Content) != c.content || p.EOF != c.eof || p.Changed {
				t.Errorf("%s line %d: got %d first %d %.20q eof %v changed %v, want %+v", c.name, c.line, p.Offset, p.FirstLine, p.Content, p.EOF, p.Changed, c)
			}
			if maxFile == 0 && p.SHA256 != Digest([]byte(w.text("W/"+c.name))) {
				t.Errorf("%s line %d: wrong digest", c.name, c.line)
			}
			if p.Offset > 0 && c.line <= 1 {
				t.Error("line 1 is the start")
			}
		}
	}
	if p, err := w.t.Read(bg, PageRequest{Name: "y", Offset: 2, Limit: 9}); err != nil || p.FirstLine != 0 {
		t.Errorf("first line of an offset inside must be unknown: %+v %v", p, err)
	}
}

// F3: the digest is of the whole file wherever the page is, missing over the limit, and remembered only for a settled file.
func TestDigestOfWholeFile_F3(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{MaxFileBytes: 100_000})
	content := strings.Repeat("0123456789", 10_000)
	w.lay("W/f = "+content, "W/big = "+content+"x")
	for _, off := range []int64{0, 1, 40_000, 99_999, 100_000, -1, -50_000} {
		p, err := w.t.Read(bg, PageRequest{Name: "f", Offset: off, Limit: 100})
		must(t, err)
		if p.SHA256 != Digest([]byte(content)) || p.Changed {
			t.Errorf("at %d: %+v", off, p)
		}
	}
	for id := range w.t.digests.known {
		if _, ok := w.t.digests.get(id); ok {
			t.Error("trusts a file that changed a moment ago")
		}
	}
	p, err := w.t.Read(bg, PageRequest{Name: "big", Limit: 10})
	must(t, err)
	if p.SHA256 != "" || p.Changed || p.Size != 100_001 {
		t.Errorf("over the limit: %+v", p)
	}
}

// F3: an identity that stays the same is answered from memory; any part of it that moves is not.
func TestDigestCache_F3(t *testing.T) {
	t.Parallel()
	var c digestCache
	now := time.Now()
	old := identity{device: 1, inode: 2, size: 3, modified: now.Add(-time.Hour).UnixNano(), changed: now.Add(-time.Hour).UnixNano()}
	c.put(old, remembered{sum: "sum", plain: true}, now)
	if r, ok := c.get(old); !ok || r.sum != "sum" || !r.plain {
		t.Fatal("not remembered")
	}
	for i, change := range []func(*identity){
		func(id *identity) { id.device++ }, func(id *identity) { id.inode++ }, func(id *identity) { id.size++ },
		func(id *identity) { id.modified++ }, func(id *identity) { id.changed++ },
	} {
		id := old
		change(&id)
		if _, ok := c.get(id); ok {
			t.Errorf("change %d is not seen", i)
		}
	}
	young := old
	young.changed = now.Add(-settleTime + time.Millisecond).UnixNano()
	c.put(young, remembered{sum: "x"}, now)
	future := old
	future.modified = now.Add(time.Hour).UnixNano()
	c.put(future, remembered{sum: "x"}, now)
	for _, id := range []identity{young, future} {
		if _, ok := c.get(id); ok || c.guess(id) != "x" {
			t.Error("trusts what had not settled, or forgot it")
		}
	}
	c.put(young, remembered{sum: "y"}, now.Add(time.Second))
	if r, ok := c.get(young); !ok || r.sum != "y" {
		t.Error("does not learn that it settled")
	}
	for i := range 3 * maxDigests {
		id := old
		id.inode = uint64(100 + i)
		c.put(id, remembered{sum: "x"}, now)
	}
	if len(c.known) != maxDigests {
		t.Errorf("%d entries", len(c.known))
	}
}

// F3: a file that changes while it is read is told from one that does not.
func TestChangedWhileRead_F3(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	f := filepath.Join(w.in, "f")
	must(t, os.WriteFile(f, bytes.Repeat([]byte("a"), 6*scratchBytes), 0o644))
	for name, change := range map[string]func(*testing.T){
		"append": func(t *testing.T) { appendTo(t, f, "b") },
		"write":  func(t *testing.T) { writeAt(t, f, "c", 5*scratchBytes) },
		"shrink": func(t *testing.T) { must(t, os.Truncate(f, 3*scratchBytes)) },
		"rename": func(t *testing.T) {
			must(t, os.WriteFile(f+"2", bytes.Repeat([]byte("d"), 6*scratchBytes), 0o644))
			if err := os.Rename(f+"2", f); err != nil {
				t.Skip("an open file cannot be renamed over here:", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, os.WriteFile(f, bytes.Repeat([]byte("a"), 6*scratchBytes), 0o644))
			must(t, os.Chtimes(f, time.Unix(1, 0), time.Unix(1, 0)))
			time.Sleep(15 * time.Millisecond) // a tick of the file system's clock
			for _, r := range []PageRequest{{Name: "f", Limit: 10}, {Name: "f", Offset: 6*scratchBytes - 1000, Limit: 10}, {Name: "f", Line: 2, Limit: 10}} {
				ctx := &hookContext{Context: bg, at: 4, do: func() { change(t) }} // in the middle of the way through the file
				p, err := w.t.Read(ctx, r)
				must(t, err)
				if ctx.n < 5 {
					t.Fatalf("%s: the change did not happen within the read", name)
				}
				if !p.Changed || p.SHA256 != "" {
					t.Errorf("%s: %+v", name, p)
				}
				if fi, err := os.Stat(f); name != "rename" && (err != nil || p.Size != max(fi.Size(), p.Next) || p.EOF != (p.Next == p.Size)) {
					t.Errorf("%s: size %d eof %v, now %d bytes", name, p.Size, p.EOF, fi.Size())
				}
				if name == "shrink" {
					break
				}
			}
		})
	}
}

// hookContext does something at the n-th look at it.
type hookContext struct {
	context.Context
	n, at int
	do    func()
}

func (c *hookContext) Err() error {
	if c.n++; c.n == c.at {
		c.do()
	}
	return c.Context.Err()
}

// F2, case FI-11: what is not a regular file is refused at once, also through a link.
func TestSpecialFilesRefused_F2(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.lay("W/di/")
	specials := map[string]string{"di": "directory", ".": "directory", "di/..": "directory"}
	links := w.links()
	if links {
		w.lay("W/ld => di")
		specials["ld"] = "directory"
	}
	if makeFIFO(filepath.Join(w.in, "ff")) == nil {
		specials["ff"] = "fifo"
		if links {
			w.lay("W/lf => ff")
			specials["lf"] = "fifo"
		}
	}
	if l, err := net.Listen("unix", filepath.Join(w.in, "so")); err == nil {
		defer l.Close()
		if runtime.GOOS != "windows" {
			specials["so"] = "socket"
		}
	}
	for name, what := range specials {
		start := time.Now()
		_, err := w.t.Read(bg, page(name))
		wantReason(t, err, NotRegular, what)
		if !strings.HasPrefix(name, "l") {
			_, err = w.t.Commit(bg, name, []byte("x"), Expect{SHA256: Digest(nil)})
			wantReason(t, err, NotRegular, what)
			_, err = w.t.Commit(bg, name, []byte("x"), Expect{Create: true})
			wantReason(t, err, NotRegular, what)
		}
		if time.Since(start) > 5*time.Second {
			t.Errorf("%s waited", name)
		}
	}
	w.noLeftovers()
}

// F2, case FI-13: a sparse file of 64 GiB is paged anywhere; memory stays with the page.
func TestHugeSparseFile_F2(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	f, err := os.Create(filepath.Join(w.in, "big"))
	must(t, err)
	const size = 64 << 30
	if err := f.Truncate(size); err != nil {
		t.Skip("no sparse files here:", err)
	}
	_, err = f.WriteAt([]byte("end\n"), size-4)
	must(t, err)
	f.Close()
	for _, off := range []int64{0, 1, size / 2, -4} {
		p, err := w.t.Read(bg, PageRequest{Name: "big", Offset: off, Limit: 10})
		must(t, err)
		if p.Size != size || p.SHA256 != "" || p.Changed {
			t.Errorf("at %d: %+v", off, p)
		}
		if off == -4 && (string(p.Content) != "end\n" || !p.EOF) {
			t.Errorf("end: %+v", p)
		}
	}
	// By line the whole would have to be searched; it ends with the caller.
	ctx, cancel := context.WithTimeout(bg, 50*time.Millisecond)
	defer cancel()
	_, err = w.t.Read(ctx, PageRequest{Name: "big", Line: 2, Limit: 10})
	wantReason(t, err, Cancelled)
	if !isDeadline(err) {
		t.Error("the deadline is not to be seen")
	}
}

// F2: what a read allocates is the page and a fixed amount, whatever the file claims.
func TestReadMemory_F2(t *testing.T) {
	w := newWorld(t, Options{})
	must(t, os.WriteFile(filepath.Join(w.in, "f"), bytes.Repeat([]byte("line of text\n"), 1<<20), 0o644))
	for _, r := range []PageRequest{
		{Name: "f", Limit: 1000}, {Name: "f", Offset: 5 << 20, Limit: 1000}, {Name: "f", Line: 500_000, Limit: 1000},
		{Name: "f", Limit: 256 << 10}, {Name: "f", Offset: -10, Limit: 1 << 30},
	} {
		limit := uint64(min(r.Limit, DefaultPageBytes))
		got := uint64(math.MaxUint64)
		for range 8 { // the pool has a buffer to give, sooner or later
			var a, b runtime.MemStats
			runtime.ReadMemStats(&a)
			_, err := w.t.Read(bg, r)
			must(t, err)
			runtime.ReadMemStats(&b)
			got = min(got, b.TotalAlloc-a.TotalAlloc)
		}
		if got+scratchBytes > limit+64<<10 {
			t.Errorf("%+v allocated %d", r, got)
		}
	}
}

func isDeadline(err error) bool {
	return strings.Contains(fmt.Sprint(unwrapAll(err)), context.DeadlineExceeded.Error())
}

// F5: a page of a file that was digested before is told as it is told the first time, whatever is in the file.
func TestPageOfKnownFile_F5(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a line of text\n", 3*scratchBytes/15)
	for name, content := range map[string]string{
		"plain": long, "empty": "", "one line": "text", "only line feeds": "\n\n\n", "control": "a\x01\x7f\n",
		"crlf": strings.ReplaceAll(long, "\n", "\r\n"), "one carriage return, late": long + "\r\n", "NUL, late": long + "\x00",
		"a character, late": long + "é", "half a character, late": long + "\xc3", "a character on a border": long[:scratchBytes-1] + "é" + long,
		"bom": bom + long,
	} {
		read := func(s pass, r PageRequest, limit int) Page {
			s.ctx, s.f, s.size = bg, strings.NewReader(content), int64(len(content))
			p, err := s.page(r, limit)
			must(t, err)
			return p
		}
		whole := pass{ctx: bg, f: strings.NewReader(content), size: int64(len(content)), sum: sha256.New(), plain: true}
		_, err := whole.page(PageRequest{}, 1)
		must(t, err)
		if len(content) > 0 && whole.plain != isPlain([]byte(content)) {
			t.Errorf("%s: found plain: %v", name, whole.plain)
		}
		for _, limit := range []int{1, 7, 1000, scratchBytes, len(content) + 1} {
			for _, at := range []int64{0, 1, scratchBytes - 1, scratchBytes, int64(len(content)) - 3, int64(len(content))} {
				r := PageRequest{Offset: max(0, at)}
				if first, again := read(pass{}, r, limit), read(pass{plain: whole.plain}, r, limit); !reflect.DeepEqual(first, again) {
					t.Errorf("%s: %d bytes at %d: the first time %v %s, then %v %s", name, limit, r.Offset, first.Text, first.EOL, again.Text, again.EOL)
				}
			}
		}
	}
}
