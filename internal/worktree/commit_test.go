package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func replacing(old string) Expect { return Expect{SHA256: Digest([]byte(old))} }

var creating = Expect{Create: true}

// F4, F5: what a commit says about itself.
func TestCommitFacts_F4_F5(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.lay("W/a/f = one")
	name := "a/f"
	if w.links() {
		w.lay("W/l => a")
		name = "l/f"
	}

	c, err := w.t.Commit(bg, name, []byte("two"), replacing("one"))
	must(t, err)
	want := Commit{Path: "a/f", SHA256: Digest([]byte("two")), Previous: Digest([]byte("one")), Size: 3,
		Changed: true, Committed: true, Durable: durableHere}
	if c != want {
		t.Errorf("replace: %+v", c)
	}
	c, err = w.t.Commit(bg, "a/new", nil, creating)
	must(t, err)
	want = Commit{Path: "a/new", SHA256: Digest(nil), Changed: true, Created: true, Committed: true, Durable: durableHere}
	if c != want {
		t.Errorf("create: %+v", c)
	}
	if w.text("W/a/f") != "two" || w.text("W/a/new") != "" {
		t.Error("wrong content")
	}
	w.noLeftovers()
}

// F4: content that is there already is a success that touches nothing, whatever was asked for.
func TestSameContentTouchesNothing_F4(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.lay("W/f = same")
	before, err := os.Stat(filepath.Join(w.in, "f"))
	must(t, err)
	folder, err := os.Stat(w.in)
	must(t, err)
	for _, e := range []Expect{replacing("same"), replacing("other"), creating, {SHA256: ""}, {Create: true, Mkdirs: true}} {
		c, err := w.t.Commit(bg, "f", []byte("same"), e)
		must(t, err)
		sum := Digest([]byte("same"))
		if want := (Commit{Path: "f", SHA256: sum, Previous: sum, Size: 4}); c != want {
			t.Errorf("%+v: %+v", e, c)
		}
	}
	c, err := w.t.Update(bg, "f", Digest([]byte("same")), func(_ string, old []byte) ([]byte, error) { return old, nil })
	if err != nil || c.Changed || c.Committed || c.Durable {
		t.Errorf("update: %+v %v", c, err)
	}
	after, err := os.Stat(filepath.Join(w.in, "f"))
	must(t, err)
	folderAfter, err := os.Stat(w.in)
	must(t, err)
	if !os.SameFile(before, after) || before.ModTime() != after.ModTime() || folder.ModTime() != folderAfter.ModTime() {
		t.Error("touched")
	}
}

// F4, cases FI-34, FI-37: every other expectation is refused with the digest in force, and nothing is touched.
func TestRefusedExpectations_F4(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{MaxFileBytes: 1000})
	w.lay("W/f = mine", "W/large = "+strings.Repeat("x", 1001))
	mine := Digest([]byte("mine"))
	w.t.steps.temp = func(*os.Root, string, os.FileMode) (*os.File, error) {
		t.Error("the folder was stirred for a commit that is refused")
		return nil, os.ErrPermission
	}
	for _, c := range []struct {
		name    string
		e       Expect
		reason  Reason
		current string
	}{
		{"f", Expect{}, Stale, mine},
		{"f", replacing("other"), Stale, mine},
		{"f", Expect{SHA256: strings.ToUpper(mine)}, Stale, mine},
		{"f", creating, Exists, mine},
		{"gone", Expect{SHA256: mine}, NotFound, ""},
		{"gone", Expect{}, NotFound, ""},
		{"large", creating, Exists, ""},
		{"large", replacing(strings.Repeat("x", 1001)), TooLarge, ""},
		{"f/child", creating, NotFound, ""},
		{"nodir/x", creating, NotFound, ""},
		{"nodir/x", replacing("x"), NotFound, ""},
		{"f/", replacing("mine"), NotFound, ""},
		{"gone/", creating, NotRegular, ""},
		{"gone/", replacing("x"), NotFound, ""},
		{".", creating, NotRegular, ""},
	} {
		_, err := w.t.Commit(bg, c.name, []byte("x"), c.e)
		wantReason(t, err, c.reason)
		var e *Error
		if errors.As(err, &e) && (e.Current != c.current || e.Path != c.name) {
			t.Errorf("%s %+v: %+v", c.name, c.e, e)
		}
	}
	_, err := w.t.Commit(bg, "f", make([]byte, 1001), replacing("mine"))
	wantReason(t, err, TooLarge, "content")
	_, err = w.t.Update(bg, "f", mine, func(string, []byte) ([]byte, error) { return make([]byte, 1001), nil })
	wantReason(t, err, TooLarge, "content")
	_, err = w.t.Update(bg, "f", Digest(nil), func(string, []byte) ([]byte, error) { t.Error("called"); return nil, nil })
	wantReason(t, err, Stale)
	if w.text("W/f") != "mine" || w.names("W") != "f large" {
		t.Error("touched:", w.names("W"))
	}
}

// F4, case FI-33: the digest decides, not times, modes or the inode.
func TestDigestDecides_F4(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.lay("W/f = v1")
	f := filepath.Join(w.in, "f")
	must(t, os.WriteFile(f+"2", []byte("v1"), 0o644))
	must(t, os.Rename(f+"2", f))
	_, err := w.t.Commit(bg, "f", []byte("v2"), replacing("v1"))
	must(t, err)

	// FI-34: the same size and times, other content.
	must(t, os.WriteFile(f, []byte("aaaa"), 0o644))
	fi, err := os.Stat(f)
	must(t, err)
	p, err := w.t.Read(bg, page("f"))
	must(t, err)
	must(t, os.WriteFile(f+"2", []byte("bbbb"), 0o644))
	must(t, os.Chtimes(f+"2", fi.ModTime(), fi.ModTime()))
	must(t, os.Rename(f+"2", f))
	_, err = w.t.Commit(bg, "f", []byte("cccc"), Expect{SHA256: p.SHA256})
	wantReason(t, err, Stale)
	if w.text("W/f") != "bbbb" {
		t.Error("overwritten")
	}
}

// F9's ground: an update sees the named content, chains, and passes on the error of its function untouched.
func TestUpdate_F4_F9(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	big := strings.Repeat("0123456789abcdef", 1<<18) // several pieces
	w.lay("W/f = " + big)
	sum := Digest([]byte(big))
	for range 3 {
		c, err := w.t.Update(bg, "f", sum, func(_ string, old []byte) ([]byte, error) {
			if Digest(old) != sum {
				t.Error("other content")
			}
			return append(old[:len(old):len(old)], '!'), nil
		})
		must(t, err)
		if c.Previous != sum || !c.Committed || c.Created {
			t.Errorf("%+v", c)
		}
		sum = c.SHA256
	}
	if w.text("W/f") != big+"!!!" {
		t.Error("wrong content")
	}
	mine := errors.New("mine")
	_, err := w.t.Update(bg, "f", sum, func(string, []byte) ([]byte, error) { return nil, mine })
	if err != mine {
		t.Errorf("got %v", err)
	}
	_, err = w.t.Update(bg, "none", sum, func(string, []byte) ([]byte, error) { return nil, mine })
	wantReason(t, err, NotFound)
	w.noLeftovers()
}

// F1, F5: folders are made only with a create, confined, and taken back when the create fails.
func TestMkdirs_F1_F5(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{Protect: []string{".git"}})
	w.lay("W/sub/f = x")
	links := w.links()
	if links {
		w.lay("W/out => ../O", "W/in => sub")
	}
	c, err := w.t.Commit(bg, "a/b/../c/new", []byte("n"), Expect{Create: true, Mkdirs: true})
	must(t, err)
	if c.Path != "a/c/new" || !c.Durable && durableHere || w.text("W/a/c/new") != "n" {
		t.Errorf("%+v", c)
	}
	if links {
		c, err = w.t.Commit(bg, "in/d/new", []byte("n"), Expect{Create: true, Mkdirs: true})
		if err != nil || c.Path != "sub/d/new" {
			t.Errorf("%+v %v", c, err)
		}
	}
	before := w.names(".")
	for name, reason := range map[string]Reason{
		"out/x/new": OutsideRoot, "../x/new": OutsideRoot, "q/../../O/x": OutsideRoot, ".git/hooks/h": Protected,
		"q/.GIT/h": Protected, "sub/f/x": NotFound, "sub/f": Exists,
		strings.Repeat("d/", maxNewDirs+1) + "x": BadName,
		"q/" + strings.Repeat("n", 300):          BadName,
	} {
		if !links && strings.HasPrefix(name, "out/") {
			continue
		}
		_, err := w.t.Commit(bg, name, []byte("n"), Expect{Create: true, Mkdirs: true})
		wantReason(t, err, reason)
		if now := w.names("."); now != before {
			t.Fatalf("%.40s left %s", name, now)
		}
	}
	_, err = w.t.Commit(bg, "q/x", []byte("n"), Expect{SHA256: Digest(nil), Mkdirs: true})
	wantReason(t, err, NotFound)
}

// F7: cancelled before the commit nothing happened; cancelled later the result stands.
func TestCancellation_F7(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.lay("W/f = old")
	done, cancel := context.WithCancel(bg)
	cancel()
	_, err := w.t.Commit(done, "f", []byte("new"), replacing("old"))
	wantReason(t, err, Cancelled)
	if !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Error("the cancellation is not to be seen")
	}
	_, err = w.t.Read(done, page("f"))
	wantReason(t, err, Cancelled)

	// Just before: in the last step ahead of the commit.
	ctx, cancel := context.WithCancel(bg)
	real := w.t.steps.sync
	w.t.steps.sync = func(f *os.File) error { cancel(); return real(f) }
	_, err = w.t.Commit(ctx, "f", []byte("new"), replacing("old"))
	wantReason(t, err, Cancelled)
	ctx, cancel = context.WithCancel(bg)
	_, err = w.t.Commit(ctx, "q/f", []byte("new"), Expect{Create: true, Mkdirs: true})
	wantReason(t, err, Cancelled)
	if w.text("W/f") != "old" || w.names("W") != "f" {
		t.Error("something happened:", w.names("W"))
	}

	// In the commit itself: it wins.
	ctx, cancel = context.WithCancel(bg)
	w.t.steps.sync = real
	rename := w.t.steps.rename
	w.t.steps.rename = func(dir *os.Root, from, to string) error { cancel(); return rename(dir, from, to) }
	c, err := w.t.Commit(ctx, "f", []byte("new"), replacing("old"))
	must(t, err)
	if !c.Committed || c.Durable != durableHere || w.text("W/f") != "new" {
		t.Errorf("%+v", c)
	}
	w.noLeftovers()
}

// F4, F6, case FI-37: of many writers with the same expectation at most one wins, in one tree and in several.
func TestOneWinner_F4_F6(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	second := openTree(t, w.in, Options{})
	w.lay("W/f = 0")
	current := "0"
	for round := range 40 {
		var mu sync.Mutex
		var wg sync.WaitGroup
		winners, creators := []string{}, 0
		for i := range 8 {
			wg.Go(func() {
				tree := w.t
				if i%2 == 1 {
					tree = second
				}
				mine := fmt.Sprintf("%d by %d", round, i)
				_, err := tree.Commit(bg, "f", []byte(mine), replacing(current))
				_, cerr := tree.Commit(bg, fmt.Sprint("new", round), []byte(mine), creating)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					winners = append(winners, mine)
				} else {
					wantReason(t, err, Stale)
				}
				if cerr == nil {
					creators++
				} else {
					wantReason(t, cerr, Exists)
				}
			})
		}
		wg.Wait()
		if len(winners) != 1 || w.text("W/f") != winners[0] || creators != 1 {
			t.Fatalf("round %d: winners %q, creators %d, content %q", round, winners, creators, w.text("W/f"))
		}
		current = winners[0]
	}
	w.noLeftovers()
}

// F5: a temporary file that a killed writer left is taken away by the next write to that file, and only by it.
func TestLeftoverIsSwept_F5(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	temp := temporary("f")
	w.lay("W/f = one", "W/"+temp+" = half", "W/g = one", "O/v = victim")
	_, err := w.t.Commit(bg, "g", []byte("two"), replacing("one"))
	must(t, err)
	if w.text("W/"+temp) != "half" {
		t.Error("another file's leftover is gone")
	}
	_, err = w.t.Commit(bg, "f", []byte("two"), replacing("one"))
	must(t, err)
	w.noLeftovers()

	// FI-08: a planted link is removed, not followed.
	if w.links() {
		w.lay("W/" + temp + " => ../O/v")
		_, err = w.t.Commit(bg, "f", []byte("three"), replacing("two"))
		must(t, err)
		if w.text("O/v") != "victim" || w.text("W/f") != "three" {
			t.Error("the link was followed")
		}
		w.noLeftovers()
	}

	// And nobody writes to a temporary name.
	_, err = w.t.Commit(bg, temp, []byte("x"), creating)
	wantReason(t, err, Protected)
}
