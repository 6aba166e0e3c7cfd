//go:build unix

package worktree

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// F5, F7: one case for each step of a commit, which fails exactly there. The old content stays whole, nothing is left behind, and
// what is reported is what happened.
func TestFaultAtEachStep_F5(t *testing.T) {
	t.Parallel()
	short := func(s *steps, err error) {
		s.write = func(f *os.File, b []byte) (int, error) {
			n, _ := f.Write(b[:len(b)/2])
			return n, err
		}
	}
	for _, c := range []struct {
		name   string
		create bool // the step belongs to a create, else to a replace
		set    func(s *steps, real steps)
		reason Reason
		what   string
	}{
		{"temp EACCES", false, func(s *steps, _ steps) { s.temp = failTemp(syscall.EACCES) }, WriteFailed, "permission"},
		{"temp EROFS", false, func(s *steps, _ steps) { s.temp = failTemp(syscall.EROFS) }, WriteFailed, "read_only"},
		{"temp ENOSPC", true, func(s *steps, _ steps) { s.temp = failTemp(syscall.ENOSPC) }, WriteFailed, "no_space"},
		{"temp EEXIST for ever", false, func(s *steps, _ steps) { s.temp = failTemp(syscall.EEXIST) }, WriteFailed, "io"},
		{"write ENOSPC at once", false, func(s *steps, _ steps) { s.write = func(*os.File, []byte) (int, error) { return 0, syscall.ENOSPC } }, WriteFailed, "no_space"},
		{"write ENOSPC half way", false, func(s *steps, _ steps) { short(s, syscall.ENOSPC) }, WriteFailed, "no_space"},
		{"write EDQUOT", true, func(s *steps, _ steps) { short(s, syscall.EDQUOT) }, WriteFailed, "no_space"},
		{"write EIO", false, func(s *steps, _ steps) { short(s, syscall.EIO) }, WriteFailed, "io"},
		{"write nothing", false, func(s *steps, _ steps) { s.write = func(*os.File, []byte) (int, error) { return 0, nil } }, WriteFailed, "io"},
		{"close EIO", false, func(s *steps, real steps) { s.close = func(f *os.File) error { real.close(f); return syscall.EIO } }, WriteFailed, "io"},
		{"close EDQUOT", true, func(s *steps, real steps) { s.close = func(f *os.File) error { real.close(f); return syscall.EDQUOT } }, WriteFailed, "no_space"},
		{"reopen EACCES", false, func(s *steps, _ steps) {
			s.reopen = func(*os.Root, string) (*os.File, error) { return nil, syscall.EACCES }
		}, WriteFailed, "permission"},
		{"keep EIO", false, func(s *steps, _ steps) { s.keep = func(_, _ *os.File) error { return syscall.EIO } }, WriteFailed, "io"},
		{"keep ENOSPC", false, func(s *steps, _ steps) { s.keep = func(_, _ *os.File) error { return syscall.ENOSPC } }, WriteFailed, "no_space"},
		{"sync EIO", false, func(s *steps, _ steps) { s.sync = func(*os.File) error { return syscall.EIO } }, WriteFailed, "io"},
		{"sync ENOSPC", true, func(s *steps, _ steps) { s.sync = func(*os.File) error { return syscall.ENOSPC } }, WriteFailed, "no_space"},
		{"rename EXDEV", false, func(s *steps, _ steps) { s.rename = func(*os.Root, string, string) error { return syscall.EXDEV } }, WriteFailed, "cross_device"},
		{"rename EACCES", false, func(s *steps, _ steps) { s.rename = func(*os.Root, string, string) error { return syscall.EACCES } }, WriteFailed, "permission"},
		{"rename EIO", false, func(s *steps, _ steps) { s.rename = func(*os.Root, string, string) error { return syscall.EIO } }, WriteFailed, "io"},
		{"create EIO", true, func(s *steps, _ steps) {
			s.create = func(*os.Root, *os.File, string, string) error { return syscall.EIO }
		}, WriteFailed, "io"},
		{"create ENOSPC", true, func(s *steps, _ steps) {
			s.create = func(*os.Root, *os.File, string, string) error { return syscall.ENOSPC }
		}, WriteFailed, "no_space"},
		{"create EEXIST for ever", true, func(s *steps, _ steps) {
			s.create = func(*os.Root, *os.File, string, string) error { return syscall.EEXIST }
		}, WriteFailed, "io"},
		{"lock and lock file fail", false, func(s *steps, _ steps) { s.lock = func(*os.File) (bool, error) { return false, syscall.EIO } }, WriteFailed, "io"},
	} {
		w := newWorld(t, Options{LockDir: t.TempDir()})
		w.lay("W/a/f = old content")
		real := w.t.steps
		c.set(&w.t.steps, real)
		name, e := "a/f", replacing("old content")
		if c.create {
			name, e = "a/b/c/new", Expect{Create: true, Mkdirs: true}
		}
		got, err := w.t.Commit(bg, name, []byte(strings.Repeat("new ", 50_000)), e)
		wantReason(t, err, c.reason, c.what)
		if got != (Commit{}) {
			t.Errorf("%s: %+v beside an error", c.name, got)
		}
		if w.text("W/a/f") != "old content" || w.names("W") != "a a/f" {
			t.Errorf("%s: left %s, %.20q", c.name, w.names("W"), w.text("W/a/f"))
		}
		// And the next try, without the fault, works.
		w.t.steps = real
		if _, err := w.t.Commit(bg, name, []byte("new"), e); err != nil {
			t.Errorf("%s: after the fault: %v", c.name, err)
		}
		w.noLeftovers()
	}
}

func failTemp(err error) func(*os.Root, string, os.FileMode) (*os.File, error) {
	return func(*os.Root, string, os.FileMode) (*os.File, error) { return nil, err }
}

// F5: a failed sync of the folder is committed and not durable; of a folder that was made on the way, too.
func TestFolderSyncFails_F5(t *testing.T) {
	t.Parallel()
	for fail := range 4 {
		w := newWorld(t, Options{})
		w.lay("W/f = old")
		n := 0
		w.t.steps.syncDir = func(d *os.File) error {
			if n++; n-1 == fail {
				return syscall.EIO
			}
			return d.Sync()
		}
		if fail == 3 {
			fail, n = 0, 0
			c, err := w.t.Commit(bg, "f", []byte("new"), replacing("old"))
			if err != nil || !c.Committed || c.Durable || w.text("W/f") != "new" {
				t.Errorf("replace: %+v %v", c, err)
			}
			continue
		}
		c, err := w.t.Commit(bg, "a/b/new", []byte("new"), Expect{Create: true, Mkdirs: true})
		if err != nil || !c.Committed || c.Durable || !c.Created || w.text("W/a/b/new") != "new" {
			t.Errorf("%d: %+v %v", fail, c, err)
		}
		w.noLeftovers()
	}
}

// C3: a rename that fails and happened all the same is committed; one of which nothing can be seen any more is unconfirmed.
func TestAmbiguousRename_C3_F5(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.lay("W/f = old")
	real := w.t.steps
	w.t.steps.rename = func(dir *os.Root, from, to string) error {
		must(t, real.rename(dir, from, to))
		return syscall.ETIMEDOUT
	}
	c, err := w.t.Commit(bg, "f", []byte("new"), replacing("old"))
	if err != nil || !c.Committed || w.text("W/f") != "new" {
		t.Errorf("%+v %v", c, err)
	}
	w.t.steps.rename = func(dir *os.Root, _, _ string) error { dir.Close(); return syscall.EIO }
	w.lay("W/a/f = old")
	_, err = w.t.Commit(bg, "a/f", []byte("new"), replacing("old"))
	wantReason(t, err, Unconfirmed, "io")
}

// F4: what changes between the first look and the commit is seen by the check right before it.
func TestRecheckBeforeCommit_F4(t *testing.T) {
	t.Parallel()
	for _, size := range []int{3, keepBytes + 1} {
		old := strings.Repeat("o", size)
		for name, c := range map[string]struct {
			change func(w *world)
			reason Reason
			text   string
		}{
			"written": {func(w *world) { writeAt(t, w.in+"/a/f", "X", 0) }, Stale, "X" + old[1:]},
			"grown":   {func(w *world) { appendTo(t, w.in+"/a/f", "X") }, Stale, old + "X"},
			"cut":     {func(w *world) { must(t, os.Truncate(w.in+"/a/f", 1)) }, Stale, "o"},
			"swapped": {func(w *world) {
				must(t, os.WriteFile(w.in+"/a/g", []byte("other"), 0o644))
				must(t, os.Rename(w.in+"/a/g", w.in+"/a/f"))
			}, Stale, "other"},
			"removed":           {func(w *world) { must(t, os.Remove(w.in+"/a/f")) }, NotFound, ""},
			"a link":            {func(w *world) { must(t, os.Remove(w.in+"/a/f")); w.lay("W/a/f => ../../O/v") }, OutsideRoot, "victim"},
			"a dir":             {func(w *world) { must(t, os.Remove(w.in+"/a/f")); w.lay("W/a/f/") }, NotRegular, ""},
			"folder a link out": {func(w *world) { must(t, os.Rename(w.in+"/a", w.out+"/a")); w.lay("W/a => ../O/a") }, OutsideRoot, old},
			"folder moved":      {func(w *world) { must(t, os.Rename(w.in+"/a", w.in+"/b")) }, NotFound, ""},
			"folder gone":       {func(w *world) { must(t, os.RemoveAll(w.in+"/a")) }, NotFound, ""},
			"new mode":          {func(w *world) { must(t, os.Chmod(w.in+"/a/f", 0o751)) }, 0, "new"},
			"same again": {func(w *world) {
				must(t, os.WriteFile(w.in+"/a/g", []byte(old), 0o700))
				must(t, os.Rename(w.in+"/a/g", w.in+"/a/f"))
			}, 0, "new"},
			"new already": {func(w *world) { must(t, os.WriteFile(w.in+"/a/f", []byte("new"), 0o644)) }, 0, "new"},
		} {
			w := newWorld(t, Options{})
			w.lay("W/a/f = "+old, "O/v = victim")
			var once atomic.Bool
			real := w.t.steps.sync
			w.t.steps.sync = func(f *os.File) error {
				if once.CompareAndSwap(false, true) {
					c.change(w)
				}
				return real(f)
			}
			if size > 10 { // let the guess be right, so that the digest is still on its way
				_, err := w.t.Read(bg, PageRequest{Name: "a/f", Limit: 1})
				must(t, err)
			}
			got, err := w.t.Commit(bg, "a/f", []byte("new"), replacing(old))
			if reasonOf(err) != c.reason {
				t.Errorf("%s: %v (%v), want %v", name, err, causeOf(err), c.reason)
			}
			var e *Error
			if errors.As(err, &e) && e.Reason == Stale && e.Current != Digest([]byte(c.text)) {
				t.Errorf("%s: wrong current digest", name)
			}
			if c.text != "" {
				b, err := os.ReadFile(w.in + "/a/f")
				if err != nil || string(b) != c.text {
					t.Errorf("%s: content %.20q %v", name, b, err)
				}
			}
			fi, _ := os.Stat(w.in + "/a/f")
			switch name {
			case "new mode":
				if fi.Mode().Perm() != 0o751 {
					t.Errorf("mode %v: the newest was to be kept", fi.Mode())
				}
			case "same again":
				if fi.Mode().Perm() != 0o700 {
					t.Errorf("mode %v: the newest was to be kept", fi.Mode())
				}
			case "new already":
				if got.Changed {
					t.Error("changed what was there already")
				}
			}
			if b, err := os.ReadFile(w.out + "/v"); err == nil && string(b) != "victim" {
				t.Errorf("%s: reached outside", name)
			}
			w.noLeftovers()
		}
	}
}

// F4: a wrong guess about the digest never lets a commit through.
func TestGuessIsOnlyAGuess_F4(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.lay("W/f = truth")
	p, err := w.t.Read(bg, page("f"))
	must(t, err)
	lie := Digest([]byte("lie"))
	for id := range w.t.digests.known {
		w.t.digests.known[id] = remembered{sum: lie, settled: true}
	}
	_, err = w.t.Commit(bg, "f", []byte("new"), Expect{SHA256: lie})
	wantReason(t, err, Stale)
	var e *Error
	if errors.As(err, &e) && e.Current != p.SHA256 {
		t.Error("wrong current digest")
	}
	if w.text("W/f") != "truth" {
		t.Error("overwritten")
	}
	w.noLeftovers()
}

// F6: where a folder cannot be locked a file outside the tree stands for it, and still only one wins.
func TestLockFileStandsIn_F6(t *testing.T) {
	t.Parallel()
	locks := t.TempDir()
	w := newWorld(t, Options{LockDir: locks})
	second := openTree(t, w.in, Options{LockDir: locks})
	w.lay("W/f = 0")
	var folders atomic.Int32
	for _, tree := range []*Tree{w.t, second} {
		tree.steps.lock = func(f *os.File) (bool, error) {
			if fi, err := f.Stat(); err == nil && fi.IsDir() {
				folders.Add(1)
				return false, syscall.ENOLCK
			}
			return tryLock(f)
		}
	}
	for i := range 20 {
		was, next := []byte{byte('0' + i)}, []byte{byte('1' + i)}
		errs := make(chan error, 2)
		for _, tree := range []*Tree{w.t, second} {
			go func() {
				_, err := tree.Commit(bg, "f", append(next, map[bool]byte{true: 'a', false: 'b'}[tree == second]), Expect{SHA256: Digest(was)})
				errs <- err
			}()
		}
		a, b := <-errs, <-errs
		if (a == nil) == (b == nil) {
			t.Fatalf("round %d: %v, %v", i, a, b)
		}
		must(t, os.WriteFile(w.in+"/f", next, 0o644))
	}
	if entries, err := os.ReadDir(locks); err != nil || len(entries) != 1 || folders.Load() == 0 {
		t.Errorf("lock files: %v %v", entries, err)
	}
	w.noLeftovers()
}
