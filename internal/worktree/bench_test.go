package worktree

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The benchmarks come in pairs: the tree, and the bare system calls that do the same to the disk. The bounds to hold are
// 1.3 times for a replace and 1.5 times for a page of 64 KiB.

func BenchmarkReplace(b *testing.B) {
	for _, size := range []int{4 << 10, 256 << 10, 1 << 20} {
		a, c := bytes.Repeat([]byte("a line of text\n"), size/15+1)[:size], bytes.Repeat([]byte("b line of text\n"), size/15+1)[:size]
		sums := [2]string{Digest(a), Digest(c)}
		b.Run(fmt.Sprintf("%dKiB/tree", size>>10), func(b *testing.B) {
			tree := openTree(b, b.TempDir(), Options{Protect: []string{".git", ".belay"}})
			_, err := tree.Commit(bg, "f", a, creating)
			must(b, err)
			for i := 0; b.Loop(); i++ {
				next := [2][]byte{c, a}[i%2]
				_, err := tree.Commit(bg, "f", next, Expect{SHA256: sums[i%2]})
				must(b, err)
			}
		})
		b.Run(fmt.Sprintf("%dKiB/bare", size>>10), func(b *testing.B) {
			dir := b.TempDir()
			f, temp := filepath.Join(dir, "f"), filepath.Join(dir, "temp")
			must(b, os.WriteFile(f, a, 0o644))
			d, err := os.Open(dir)
			must(b, err)
			defer d.Close()
			for i := 0; b.Loop(); i++ {
				next := [2][]byte{c, a}[i%2]
				w, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
				must(b, err)
				_, err = w.Write(next)
				must(b, err)
				must(b, w.Sync())
				must(b, w.Close())
				must(b, os.Rename(temp, f))
				must(b, d.Sync())
			}
		})
	}
}

var handedOut []byte

func BenchmarkPage64KiB(b *testing.B) {
	dir := b.TempDir()
	f := filepath.Join(dir, "f")
	must(b, os.WriteFile(f, bytes.Repeat([]byte("a line of text\n"), 1<<20), 0o644))
	time.Sleep(settleTime + 100*time.Millisecond)
	b.Run("tree", func(b *testing.B) {
		tree := openTree(b, dir, Options{})
		for i := 0; b.Loop(); i++ {
			_, err := tree.Read(bg, PageRequest{Name: "f", Offset: int64(i%200) << 16, Limit: 64 << 10})
			must(b, err)
		}
	})
	b.Run("bare", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			r, err := os.Open(f)
			must(b, err)
			_, err = r.Stat()
			must(b, err)
			buf := make([]byte, 64<<10)
			handedOut = buf // as a page is
			_, err = r.ReadAt(buf, int64(i%200)<<16)
			must(b, err)
			must(b, r.Close())
		}
	})
}

func BenchmarkFirstPageOf50MB(b *testing.B) {
	dir := b.TempDir()
	must(b, os.WriteFile(filepath.Join(dir, "f"), bytes.Repeat([]byte("a line of text\n"), 50<<20/15), 0o644))
	tree := openTree(b, dir, Options{})
	for b.Loop() {
		tree.digests = digestCache{}
		_, err := tree.Read(bg, PageRequest{Name: "f", Limit: 32 << 10})
		must(b, err)
	}
}

func BenchmarkUpdate50MB(b *testing.B) {
	dir := b.TempDir()
	content := bytes.Repeat([]byte("a line of text\n"), 50<<20/15)
	must(b, os.WriteFile(filepath.Join(dir, "f"), content, 0o644))
	tree := openTree(b, dir, Options{})
	sum := Digest(content)
	for b.Loop() {
		c, err := tree.Update(bg, "f", sum, func(old []byte) ([]byte, error) {
			next := bytes.Clone(old)
			next[0]++
			return next, nil
		})
		must(b, err)
		sum = c.SHA256
	}
}
