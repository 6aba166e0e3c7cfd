package worktree

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// F2: for every content, limit and start the pages join to the file, each page advances, none splits a character, and the facts of each are right.
func FuzzPagesJoin(f *testing.F) {
	for _, c := range []string{"", "a\nb\r\nc", "\xef\xbb\xbfé日🎉", "\xe6\x97\xe6\x97\xa5\xf0\x9f\x8e", "\x00\xc3\xa9", strings.Repeat("日", 50), "\x80\x80\x80\x80", "🎉"} {
		for _, limit := range []int{1, 2, 3, 4, 7} {
			f.Add([]byte(c), limit, int64(1), int64(2))
		}
	}
	dir := f.TempDir()
	tree, err := Open(dir, Options{MaxFileBytes: 1 << 20, MaxPageBytes: 64})
	must(f, err)
	f.Cleanup(func() { tree.Close() })
	f.Fuzz(func(t *testing.T, content []byte, limit int, offset, line int64) {
		if len(content) > 400 {
			return
		}
		must(t, os.WriteFile(filepath.Join(dir, "f"), content, 0o644))
		effective := min(max(limit, 1), 64)
		if got := join(t, tree, "f", limitFor(limit)); !bytes.Equal(got, content) {
			t.Fatalf("joined %q, want %q", got, content)
		}
		// The last two as of a file that was digested long before.
		for i, r := range []PageRequest{{Name: "f", Offset: offset, Limit: limit}, {Name: "f", Line: max(line, 1), Limit: limit},
			{Name: "f", Offset: offset, Limit: limit}, {Name: "f", Line: max(line, 1), Limit: limit}} {
			if i == 2 {
				fi, err := os.Stat(filepath.Join(dir, "f"))
				must(t, err)
				if id, ok := identityAt(fi); ok {
					tree.digests.put(id, remembered{sum: Digest(content), plain: isPlain(content)}, time.Now().Add(time.Hour))
				}
			}
			p, err := tree.Read(bg, r)
			must(t, err)
			if p.Offset < 0 || p.Next > int64(len(content)) || !bytes.Equal(p.Content, content[p.Offset:p.Next]) {
				t.Fatalf("%+v of %q", p, content)
			}
			if p.SHA256 != Digest(content) || p.Changed || p.Size != int64(len(content)) || p.EOF != (p.Next == p.Size) {
				t.Fatalf("facts %+v", p)
			}
			if len(p.Content) > max(effective, utf8.UTFMax) || len(p.Content) == 0 && !p.EOF {
				t.Fatalf("%d bytes for %d, eof %v", len(p.Content), limit, p.EOF)
			}
			if p.Text != (utf8.Valid(p.Content) && bytes.IndexByte(p.Content, 0) < 0) {
				t.Fatal("text is told wrong")
			}
			// No valid character is split at the end; at the start only where the page is binary, and never where text was possible.
			if splits(content, int(p.Next)) || p.Text && splits(content, int(p.Offset)) {
				t.Fatalf("page %d..%d of %q splits a character", p.Offset, p.Next, content)
			}
			if r.Line > 0 {
				want, number := lineStart(content, r.Line)
				if p.Offset != want || p.FirstLine != number {
					t.Fatalf("line %d at %d (%d), want %d (%d)", r.Line, p.Offset, p.FirstLine, want, number)
				}
			} else if back := clampOffset(r.Offset, int64(len(content))) - p.Offset; back < 0 || back > margin || back > 0 && !p.Text {
				t.Fatalf("offset %d became %d", r.Offset, p.Offset)
			} else if back > 0 && p.Next <= p.Offset+back {
				t.Fatal("the asked byte is not in the page")
			}
			if want := naiveEnds(content, p.Offset, p.Next); p.EOL != want {
				t.Fatalf("line ends %s, want %s", p.EOL, want)
			}
		}
	})
}

func limitFor(limit int) int { return min(max(limit, 1), 64) }

func clampOffset(off, size int64) int64 {
	if off < 0 {
		off = max(0, size+off)
	}
	return min(off, size)
}

func splits(content []byte, at int) bool {
	for i := 0; i < len(content); {
		_, size := utf8.DecodeRune(content[i:])
		if i < at && at < i+size {
			return true
		}
		i += size
	}
	return false
}

func lineStart(content []byte, line int64) (offset, number int64) {
	number = 1
	for i, c := range content {
		if number == line {
			return offset, number
		}
		if c == '\n' {
			number++
			offset = int64(i + 1)
		}
	}
	if number == line {
		return offset, number
	}
	return int64(len(content)), number
}

func naiveEnds(content []byte, from, to int64) string {
	lf, crlf := false, false
	for i := from; i < to; i++ {
		if content[i] == '\n' {
			if i > 0 && content[i-1] == '\r' {
				crlf = true
			} else {
				lf = true
			}
		}
	}
	switch {
	case lf && crlf:
		return "mixed"
	case lf:
		return "lf"
	case crlf:
		return "crlf"
	}
	return "none"
}

// F1: no name reads, writes, creates or enters anything outside the root, whatever it is made of.
func FuzzPathStaysInside(f *testing.F) {
	for _, n := range []string{
		"..", "../O/secret", "/etc/passwd", "link/secret", "leak", "sub/../../O/secret", "abs/secret", "dang", "up/O/secret", "loop", "sub/./..//..", "in/g",
		"\x00", "sub/up/../../..", "link/../O/secret", "./link/./../../O", ".git/x", "root/root/link/secret", "...", "~", "sub\\..\\..", "C:\\x", "ab/../O/secret",
	} {
		f.Add(n, false)
		f.Add(n, true)
	}
	dir, err := filepath.EvalSymlinks(f.TempDir())
	must(f, err)
	in, out := filepath.Join(dir, "W"), filepath.Join(dir, "O")
	links := true
	reset := func(t testing.TB) {
		must(t, os.RemoveAll(in))
		must(t, os.MkdirAll(filepath.Join(in, "sub", "deep"), 0o755))
		must(t, os.WriteFile(filepath.Join(in, "sub", "g"), []byte("inside"), 0o644))
		for name, target := range map[string]string{
			"link": "../O", "leak": "../O/secret", "dang": "../O/new", "abs": out, "up": "..", "loop": "loop", "in": "sub", "root": ".", "sub/up": "../..", "ab": in,
		} {
			if err := symlink(target, filepath.Join(in, name)); err != nil {
				if links {
					t.Log("without links:", err)
				}
				links = false
				break
			}
		}
	}
	must(f, os.Mkdir(out, 0o755))
	must(f, os.WriteFile(filepath.Join(out, "secret"), []byte(secret), 0o644))
	reset(f)
	f.Fuzz(func(t *testing.T, name string, dot bool) {
		if len(name) > 300 {
			return
		}
		if dot { // names made only of the parts that matter get further than random ones
			parts := []string{"..", ".", "", "link", "leak", "dang", "abs", "up", "loop", "in", "root", "sub", "deep", "g", "O", "secret", "W", "ab", in, out}
			var made []string
			for _, c := range []byte(name) {
				made = append(made, parts[int(c)%len(parts)])
			}
			name = strings.Join(made, "/")
		}
		reset(t)
		tree, err := Open(in, Options{})
		must(t, err)
		defer tree.Close()
		withoutDisk(tree)
		p, err := tree.Read(bg, page(name))
		if err == nil && string(p.Content) != "inside" {
			t.Fatalf("read %q from %q", p.Content, name)
		}
		if err == nil && (!filepath.IsLocal(filepath.FromSlash(p.Path)) || strings.Contains(p.Path, "..")) {
			t.Fatalf("path %q", p.Path)
		}
		for _, e := range []Expect{replacing(secret), replacing("inside"), creating, {Create: true, Mkdirs: true}} {
			c, err := tree.Commit(bg, name, []byte("inside"), e)
			if err == nil && !filepath.IsLocal(filepath.FromSlash(c.Path)) {
				t.Fatalf("path %q", c.Path)
			}
			if err != nil && reasonOf(err) == 0 {
				t.Fatal(err)
			}
		}
		if d, err := tree.Dir(name); err == nil {
			fi, err := d.File().Stat()
			must(t, err)
			for _, outside := range []string{out, dir, "/"} {
				if o, err := os.Stat(outside); err == nil && os.SameFile(o, fi) {
					t.Fatalf("%q enters %s", name, outside)
				}
			}
			d.Close()
		}
		entries, err := os.ReadDir(dir)
		must(t, err)
		inO, err := os.ReadDir(out)
		must(t, err)
		b, err := os.ReadFile(filepath.Join(out, "secret"))
		if err != nil || string(b) != secret || len(entries) != 2 || len(inO) != 1 {
			t.Fatalf("%q reached outside", name)
		}
	})
}
