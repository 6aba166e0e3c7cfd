package worktree

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// paired runs the tree and the bare system calls that do the same to the disk in turns, so that both meet the same weather, and reports
// the quotient of their first deciles as "x-bare": what else runs on the machine only adds. The bounds to hold are 1.3 for a
// replace and 1.5 for a page of 64 KiB.
func paired(b *testing.B, tree, bare func(i int)) {
	var t, s []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		tree(i)
		middle := time.Now()
		bare(i)
		t, s = append(t, middle.Sub(start)), append(s, time.Since(middle))
	}
	slices.Sort(t)
	slices.Sort(s)
	b.ReportMetric(float64(t[len(t)/10].Nanoseconds()), "tree-ns")
	b.ReportMetric(float64(s[len(s)/10].Nanoseconds()), "bare-ns")
	b.ReportMetric(float64(t[len(t)/10])/float64(s[len(s)/10]), "x-bare")
}

func BenchmarkReplace(b *testing.B) {
	for _, size := range []int{4 << 10, 256 << 10, 1 << 20, 16 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			texts := [2][]byte{bytes.Repeat([]byte("a line of text\n"), size/15+1)[:size], bytes.Repeat([]byte("b line of text\n"), size/15+1)[:size]}
			sums := [2]string{Digest(texts[0]), Digest(texts[1])}
			dir := b.TempDir()
			tree := openTree(b, dir, Options{Protect: []string{".git", ".belay"}})
			_, err := tree.Commit(bg, "f", texts[0], creating)
			must(b, err)
			bareDir := b.TempDir()
			f, temp := filepath.Join(bareDir, "f"), filepath.Join(bareDir, "temp")
			must(b, os.WriteFile(f, texts[0], 0o644))
			d, err := os.Open(bareDir)
			must(b, err)
			defer d.Close()
			paired(b, func(i int) {
				_, err := tree.Commit(bg, "f", texts[(i+1)%2], Expect{SHA256: sums[i%2]})
				must(b, err)
			}, func(i int) {
				w, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
				must(b, err)
				_, err = w.Write(texts[(i+1)%2])
				must(b, err)
				must(b, w.Sync())
				must(b, w.Close())
				must(b, os.Rename(temp, f))
				must(b, d.Sync())
			})
		})
	}
}

var handedOut []byte

func BenchmarkPage64KiB(b *testing.B) {
	dir := b.TempDir()
	f := filepath.Join(dir, "f")
	must(b, os.WriteFile(f, bytes.Repeat([]byte("a line of text\n"), 1<<20), 0o644))
	time.Sleep(settleTime + 100*time.Millisecond)
	tree := openTree(b, dir, Options{})
	paired(b, func(i int) {
		p, err := tree.Read(bg, PageRequest{Name: "f", Offset: int64(i%200) << 16, Limit: 64 << 10})
		must(b, err)
		handedOut = p.Content
	}, func(i int) {
		r, err := os.Open(f)
		must(b, err)
		_, err = r.Stat()
		must(b, err)
		buf := make([]byte, 64<<10)
		_, err = r.ReadAt(buf, int64(i%200)<<16)
		must(b, err)
		must(b, r.Close())
		handedOut = buf
	})
}

// A page of a digested file costs the same whatever the size of the file.
func BenchmarkPageOfDigested(b *testing.B) {
	for _, size := range []int{1 << 20, 60 << 20} {
		b.Run(fmt.Sprintf("%dMiB", size>>20), func(b *testing.B) {
			dir := b.TempDir()
			must(b, os.WriteFile(filepath.Join(dir, "f"), bytes.Repeat([]byte("a line of text\n"), size/15), 0o644))
			time.Sleep(settleTime + 100*time.Millisecond)
			tree := openTree(b, dir, Options{})
			_, err := tree.Read(bg, PageRequest{Name: "f", Limit: 1})
			must(b, err)
			for b.Loop() {
				_, err := tree.Read(bg, PageRequest{Name: "f", Offset: int64(size / 2), Limit: 4 << 10})
				must(b, err)
			}
		})
	}
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
		c, err := tree.Update(bg, "f", sum, func(_ string, old []byte) ([]byte, error) {
			next := bytes.Clone(old)
			next[0]++
			return next, nil
		})
		must(b, err)
		sum = c.SHA256
	}
}
