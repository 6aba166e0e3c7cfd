package worktree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const secret = "SECRET of O"

// F1, S1, cases FI-01, FI-03, FI-29: little file systems; every name goes through read, replace, create, update and the working
// directory. For each the reason that read, write and directory give, 0 for success.
func TestNamesStayInside_F1_S1(t *testing.T) {
	t.Parallel()
	lay := []string{
		"W/sub/deep/", "W/f = inside", "W/sub/g = inside", "O/secret = " + secret, "O/dir/", "W-evil/f = " + secret,
		"W/link => ../O", "W/leak => ../O/secret", "W/dang => ../O/newfile", "W/abs => $/O", "W/evil => $/W-evil/f",
		"W/sub/up => ../../O/secret", "W/hop => sub/up", "W/parent => ..", "W/around => ../W/f", "W/etc => /etc/passwd",
		"W/in => sub/g", "W/ind => sub", "W/abin => $/W/f", "W/abind => $/W/sub", "W/chain => in", "W/inup => sub/deep/../g",
		"W/loopa => loopb", "W/loopb => loopa", "W/self => self", "W/nowhere => missing", "W/slash => f/", "W/dirslash => sub/",
		"W/root => .", "W/absroot => $/W",
	}
	const ok = Reason(0)
	linked := map[string]bool{} // the parts of names that cannot be tried here
	if !bareWorld(t).links() {
		files := len(lay)
		for i := len(lay) - 1; i >= 0; i-- {
			if name, _, link := strings.Cut(lay[i], " => "); link {
				linked[filepath.Base(name)] = true
				files = i
			}
		}
		lay = lay[:files]
	}
	var w *world // a new one after each name that may change it
	for _, c := range []struct {
		name             string
		read, write, dir Reason
		dirWhat          string
	}{
		// Out, by text.
		{"..", OutsideRoot, OutsideRoot, OutsideRoot, ""},
		{"../O/secret", OutsideRoot, OutsideRoot, OutsideRoot, ""},
		{"sub/../../O/secret", OutsideRoot, OutsideRoot, OutsideRoot, ""},
		{"sub/deep/../../../O/secret", OutsideRoot, OutsideRoot, OutsideRoot, ""},
		{"../W/f", OutsideRoot, OutsideRoot, OutsideRoot, ""},
		{"none/../../O/secret", OutsideRoot, OutsideRoot, OutsideRoot, ""},
		{"f/../../O/secret", OutsideRoot, OutsideRoot, OutsideRoot, ""},
		{"/", OutsideRoot, OutsideRoot, OutsideRoot, ""},
		{"/etc/passwd", OutsideRoot, OutsideRoot, OutsideRoot, ""},
		{"$/O/secret", OutsideRoot, OutsideRoot, OutsideRoot, ""},
		{"$/W-evil/f", OutsideRoot, OutsideRoot, OutsideRoot, ""},
		{"$/W/../O/secret", OutsideRoot, OutsideRoot, OutsideRoot, ""},
		{"$", OutsideRoot, OutsideRoot, OutsideRoot, ""},
		// Out, by links.
		{"link/secret", OutsideRoot, OutsideRoot, WorkDir, "link"},
		{"link", OutsideRoot, OutsideRoot, WorkDir, "link"},
		{"link/dir", OutsideRoot, OutsideRoot, WorkDir, "link"},
		{"link/new.txt", OutsideRoot, OutsideRoot, WorkDir, "link"},
		{"link/a/b/new.txt", OutsideRoot, OutsideRoot, WorkDir, "link"},
		{"leak", OutsideRoot, OutsideRoot, WorkDir, "link"},
		{"sub/../leak", OutsideRoot, OutsideRoot, WorkDir, "link"},
		{"dang", OutsideRoot, OutsideRoot, WorkDir, "link"},
		{"abs/secret", OutsideRoot, OutsideRoot, WorkDir, "link"},
		{"evil", OutsideRoot, OutsideRoot, WorkDir, "link"},
		{"sub/up", OutsideRoot, OutsideRoot, WorkDir, "link"},
		{"hop", OutsideRoot, OutsideRoot, WorkDir, "link"},
		{"parent/O/secret", OutsideRoot, OutsideRoot, WorkDir, "link"},
		{"around", OutsideRoot, OutsideRoot, WorkDir, "link"}, // out and in again: the step out is refused
		{"etc", OutsideRoot, OutsideRoot, WorkDir, "link"},
		{"link/../f", OutsideRoot, OutsideRoot, WorkDir, "link"},
		// Inside.
		{"f", ok, ok, WorkDir, "not_directory"},
		{"./f", ok, ok, WorkDir, "not_directory"},
		{".//sub/./g", ok, ok, WorkDir, "not_directory"},
		{"sub/../f", ok, ok, WorkDir, "not_directory"},
		{"sub/deep/../../f", ok, ok, WorkDir, "not_directory"},
		{"ind/g", ok, ok, WorkDir, "link"},
		{"ind/../f", ok, ok, WorkDir, "link"},
		{"abind/g", ok, ok, WorkDir, "link"},
		{"root/sub/g", ok, ok, WorkDir, "link"},
		{"absroot/root/absroot/f", ok, ok, WorkDir, "link"},
		{"$/W/f", ok, ok, WorkDir, "not_directory"},
		{"$/W/sub/g", ok, ok, WorkDir, "not_directory"},
		{"$/W/sub/../f", ok, ok, WorkDir, "not_directory"},
		{"$/W/../W/f", ok, ok, WorkDir, "not_directory"},
		{"$//./W//f", ok, ok, WorkDir, "not_directory"},
		// Inside, and not to be written: the last component is a link.
		{"in", ok, NotRegular, WorkDir, "link"},
		{"chain", ok, NotRegular, WorkDir, "link"},
		{"abin", ok, NotRegular, WorkDir, "link"},
		{"inup", ok, NotRegular, WorkDir, "link"},
		{"loopa", NotRegular, NotRegular, WorkDir, "link"},
		{"self/x", NotRegular, NotRegular, WorkDir, "link"},
		{"nowhere", NotFound, NotRegular, WorkDir, "link"},
		{"slash", NotFound, NotRegular, WorkDir, "link"},
		{"dirslash", NotRegular, NotRegular, WorkDir, "link"},
		{"root", NotRegular, NotRegular, WorkDir, "link"},
		// Directories and nothing.
		{".", NotRegular, NotRegular, ok, ""},
		{"sub", NotRegular, NotRegular, ok, ""},
		{"sub/", NotRegular, NotRegular, ok, ""},
		{"sub/deep/..", NotRegular, NotRegular, ok, ""},
		{"sub/..", NotRegular, NotRegular, ok, ""},
		{"$/W", NotRegular, NotRegular, ok, ""},
		{"$/W/", NotRegular, NotRegular, ok, ""},
		{"f/", NotFound, NotFound, WorkDir, "not_directory"},
		{"f/x", NotFound, NotFound, WorkDir, "not_directory"},
		{"none/x", NotFound, NotFound, WorkDir, "missing"},
		{"none/../f", NotFound, NotFound, WorkDir, "missing"},
		{"~", NotFound, NotFound, WorkDir, "missing"},
		// Names that are none.
		{"", BadName, BadName, BadName, ""},
		{"f\x00", BadName, BadName, BadName, ""},
		{"\x00/../../O/secret", BadName, BadName, BadName, ""},
		{strings.Repeat("n", 256), BadName, BadName, BadName, ""},
		{strings.Repeat("n/", maxNameBytes), BadName, BadName, BadName, ""},
		{strings.Repeat("sub/../", maxSteps) + "f", BadName, BadName, BadName, ""},
	} {
		if testing.Short() && strings.HasPrefix(c.name, "sub/../sub/") {
			continue // thousands of steps, eight times
		}
		if slices.ContainsFunc(strings.Split(c.name, "/"), func(part string) bool { return linked[part] }) {
			continue
		}
		if w == nil {
			w = newWorld(t, Options{})
			withoutDisk(w.t)
			w.lay(lay...)
		}
		before := w.names(".")
		name := strings.ReplaceAll(c.name, "$", w.dir)
		label := fmt.Sprintf("%.60q", c.name)

		p, err := w.t.Read(bg, page(name))
		if reasonOf(err) != c.read {
			t.Errorf("read %s: %v, want %v", label, err, c.read)
		}
		if strings.Contains(string(p.Content), secret) || p.SHA256 == Digest([]byte(secret)) {
			t.Errorf("read %s: the secret is out", label)
		}
		for _, old := range []string{secret, "inside"} {
			_, err = w.t.Commit(bg, name, []byte("new "+old), replacing(old))
			want := c.write
			if want == ok && old == secret {
				want = Stale
			}
			if reasonOf(err) != want {
				t.Errorf("replace %s: %v, want %v", label, err, want)
			}
		}
		_, err = w.t.Update(bg, name, Digest([]byte(secret)), func(string, []byte) ([]byte, error) { t.Error("called"); return nil, nil })
		if c.write != ok && reasonOf(err) != c.write {
			t.Errorf("update %s: %v, want %v", label, err, c.write)
		}
		for _, mkdirs := range []bool{false, true} {
			_, err = w.t.Commit(bg, name, []byte("created"), Expect{Create: true, Mkdirs: mkdirs})
			want := c.write
			switch {
			case want == ok:
				want = Exists
			case c.name == "~", want == NotFound && mkdirs && strings.HasPrefix(c.name, "none"):
				want = reasonOf(err) // made, and checked below to be inside
				if err == nil && c.name == "~" && !mkdirs {
					must(t, os.Remove(filepath.Join(w.in, "~")))
				}
			}
			if reasonOf(err) != want {
				t.Errorf("create %s: %v, want %v", label, err, want)
			}
		}
		d, err := w.t.Dir(name)
		if reasonOf(err) != c.dir {
			t.Errorf("dir %s: %v, want %v", label, err, c.dir)
		}
		var e *Error
		if errors.As(err, &e) && c.dirWhat != "" && e.What != c.dirWhat && !(c.name == "~" || strings.HasPrefix(c.name, "none")) {
			t.Errorf("dir %s: %v, want %v", label, err, c.dirWhat)
		}
		if err == nil {
			must(t, d.Recheck())
			must(t, d.Close())
		}

		if w.text("O/secret") != secret || w.text("W-evil/f") != secret || w.names("O") != "dir secret" {
			t.Errorf("%s reached outside", label)
		}
		if after := w.names("."); after != before && c.name != "~" && !strings.HasPrefix(c.name, "none") {
			t.Errorf("%s changed the tree: %s", label, after)
		}
		w.noLeftovers()
		if c.write == ok || w.names(".") != before {
			w = nil
		}
	}
}

// F1, case FI-06: the root is a link, and the path comes by either name.
func TestRootThroughLink_F1(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"alias", "real", "alias/", "x/../alias", "far"} {
		w := bareWorld(t)
		w.lay("real/f = hi", "alias => real", "far => $/alias", "x/")
		tree := openTree(t, filepath.Join(w.dir, root), Options{})
		if root == "alias/" || root == "x/../alias" {
			tree = openTree(t, w.dir+"/"+root, Options{})
		}
		if tree.Root() != filepath.Join(w.dir, "real") {
			t.Errorf("%s: root %s", root, tree.Root())
		}
		names := []string{"f", w.dir + "/real/f"}
		if root != "real" && root != "far" {
			names = append(names, w.dir+"/alias/f")
		}
		for _, name := range names {
			if _, err := tree.Read(bg, page(name)); err != nil {
				t.Errorf("%s: %s: %v", root, name, err)
			}
		}
		if _, err := tree.Commit(bg, names[len(names)-1], []byte("ho"), replacing("hi")); err != nil {
			t.Errorf("%s: %v", root, err)
		}
		if w.text("real/f") != "ho" {
			t.Error("not replaced")
		}
		if fi, err := os.Lstat(filepath.Join(w.dir, "alias")); err != nil || fi.Mode()&os.ModeSymlink == 0 {
			t.Error("the link is gone")
		}
	}
}

// F1: the root is the directory that was opened, wherever it is moved.
func TestRootRenamedInUse_F1(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.lay("W/a/f = one")
	err := os.Rename(w.in, w.in+"2")
	if err != nil && !movesInUse {
		t.Skip("nobody moves an open root here:", err)
	}
	must(t, err)
	w.lay("W/a/f = another tree")
	p, err := w.t.Read(bg, page("a/f"))
	must(t, err)
	if string(p.Content) != "one" {
		t.Errorf("read %q", p.Content)
	}
	_, err = w.t.Commit(bg, "a/f", []byte("two"), replacing("one"))
	must(t, err)
	_, err = w.t.Commit(bg, "a/g", []byte("new"), creating)
	must(t, err)
	if w.text("W2/a/f") != "two" || w.text("W/a/f") != "another tree" || w.text("W2/a/g") != "new" {
		t.Error("wrong tree")
	}
}

func TestOpenErrors_F1(t *testing.T) {
	t.Parallel()
	w := bareWorld(t)
	w.lay("W/f = x")
	behindFile := "not_directory"
	if localRules == windowsRules {
		behindFile = "missing"
	}
	for root, want := range map[string]Error{
		"relative":         {Reason: BadName, What: "not_absolute"},
		"":                 {Reason: BadName, What: "not_absolute"},
		w.in + "/none":     {Reason: WorkDir, What: "missing"},
		w.in + "/f":        {Reason: WorkDir, What: "not_directory"},
		w.in + "/f/deeper": {Reason: WorkDir, What: behindFile},
	} {
		_, err := Open(root, Options{})
		wantReason(t, err, want.Reason, want.What)
	}
	tree, err := Open(w.in, Options{})
	must(t, err)
	must(t, tree.Close())
	_, err = tree.Read(bg, page("f"))
	wantReason(t, err, ReadFailed)
	_, err = tree.Commit(bg, "f", nil, replacing("x"))
	wantReason(t, err, WriteFailed)
	_, err = tree.Dir(".")
	if err == nil {
		t.Error("a closed tree gives directories")
	}
}

// F1, case FI-10: names are bytes; no cleaning up leads to another file.
func TestExactNames_F1(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{Protect: []string{".git", ".belay"}})
	withoutDisk(w.t)
	names := []string{"v 1.txt", "v\u00a01.txt", "caf\u00e9", "-n", "a\nb", "~", "back\\slash", "not\xffutf8", " lead", "trail ", "dots...", "c:x", "nul", "*", "..."}
	if caseAndFormKept(t, w.dir) {
		names = append(names, "cafe\u0301", "CAF\u00c9")
	}
	for i, n := range names {
		if localRules.badPart(n) != "" || os.WriteFile(filepath.Join(w.in, n), []byte(fmt.Sprint(i)), 0o644) != nil {
			continue
		}
		p, err := w.t.Read(bg, page(n))
		must(t, err)
		if string(p.Content) != fmt.Sprint(i) || p.Path != n {
			t.Errorf("%q: %q at %q", n, p.Content, p.Path)
		}
		_, err = w.t.Commit(bg, n, []byte(fmt.Sprint(i, "!")), Expect{SHA256: p.SHA256})
		must(t, err)
	}
	for i, n := range names {
		if b, err := os.ReadFile(filepath.Join(w.in, n)); err == nil && localRules.badPart(n) == "" && string(b) != fmt.Sprint(i, "!") {
			t.Errorf("%q is %q", n, b)
		}
	}
	_, err := w.t.Read(bg, page("v\u202f1.txt"))
	wantReason(t, err, NotFound)
}

func caseAndFormKept(t testing.TB, dir string) bool {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, "caf\u00e9"), nil, 0o644))
	_, a := os.Lstat(filepath.Join(dir, "cafe\u0301"))
	_, b := os.Lstat(filepath.Join(dir, "CAF\u00c9"))
	return a != nil && b != nil
}

// F1 (protect): no write reaches a protected place, by no spelling and through no link; reading is free.
func TestProtectedPlaces_F1(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{Protect: []string{".git", ".belay"}})
	w.lay("W/.git/config = c", "W/.git/hooks/h = h", "W/src/f = f", "W/vendor/.git = gitdir: x", "W/nested/.GIT/config = c",
		"W/.belay/config.jsonc = {}", "W/meta/hooks/h = h", "W/.gitignore = i", "W/.github/w = w", "W/x.git/config = c", "W/git/f = f")
	links := w.links()
	if links {
		w.lay("W/.git/out => ../src", "W/alias => .git", "W/hooks => .git/hooks", "W/sep/.git => ../meta")
	}
	linked := func(name string) bool {
		return strings.HasPrefix(name, "alias/") || strings.HasPrefix(name, "hooks/") || strings.HasPrefix(name, "sep/") || strings.HasPrefix(name, ".git/out/")
	}
	for _, name := range []string{
		".git/config", ".git/hooks/h", ".git/hooks/new", ".git/new", ".git", "./.git/config", "src/../.git/config", ".GIT/config", ".Git/new",
		"nested/.GIT/config", "nested/.git/new", "vendor/.git", "vendor/.git/x", ".belay/config.jsonc", ".BELAY/new", "src/.belay/x",
		"alias/config", "alias/new", "hooks/h", "hooks/new", "sep/.git/hooks/h", ".git.", ".git ", ".g\u200cit/config", ".git. ./x",
		".git/none/x", "$/W/.git/config", "src/.git/f", ".belay-0123456789abcdef.tmp",
	} {
		name = strings.ReplaceAll(name, "$", w.dir)
		if localRules == windowsRules && (strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") || strings.Contains(name, " .")) {
			continue // refused as names
		}
		if !links && linked(name) {
			continue
		}
		before := w.names("W")
		for _, e := range []Expect{creating, {Create: true, Mkdirs: true}, replacing("c"), replacing("h"), replacing("gitdir: x")} {
			_, err := w.t.Commit(bg, name, []byte("x"), e)
			wantReason(t, err, Protected)
			if err == nil {
				t.Fatalf("%q written", name)
			}
		}
		if w.names("W") != before {
			t.Errorf("%q changed the tree", name)
		}
	}
	// The place that a ".git" link leads to is that same place.
	if links {
		_, err := w.t.Commit(bg, "sep/.git/hooks/h", []byte("x"), replacing("h"))
		wantReason(t, err, Protected)
	}
	for _, name := range []string{".gitignore", ".github/w", "x.git/config", "git/f", "src/f", ".git/../src/f", "alias/../src/f", ".git/out/f"} {
		if !links && linked(name) {
			continue
		}
		p, err := w.t.Read(bg, page(name))
		must(t, err)
		if _, err := w.t.Commit(bg, name, append(p.Content, '+'), Expect{SHA256: p.SHA256}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{".git/config", "alias/hooks/h", ".belay/config.jsonc", "vendor/.git"} {
		if !links && linked(name) {
			continue
		}
		if _, err := w.t.Read(bg, page(name)); err != nil {
			t.Errorf("read %s: %v", name, err)
		}
	}
	// A protected entry that is a directory by another name in the same folder.
	if links {
		w.lay("W/two/real/f = f", "W/two/.git => real")
		_, err := w.t.Commit(bg, "two/real/f", []byte("x"), replacing("f"))
		wantReason(t, err, Protected)
	}
}

// S1: the directory is held; a swap is seen right before the start.
func TestDirRecheck_S1(t *testing.T) {
	t.Parallel()
	for name, swap := range map[string]func(w *world) error{
		"link out": func(w *world) error {
			return errors.Join(os.Rename(w.in+"/a", w.in+"/b"), symlink("../O", w.in+"/a"))
		},
		"link to itself": func(w *world) error {
			return errors.Join(os.Rename(w.in+"/a", w.in+"/b"), symlink("b", w.in+"/a"))
		},
		"removed": func(w *world) error { return os.RemoveAll(w.in + "/a") },
		"other": func(w *world) error {
			return errors.Join(os.Rename(w.in+"/a", w.in+"/b"), os.MkdirAll(w.in+"/a/b", 0o755))
		},
		"file": func(w *world) error { return errors.Join(os.RemoveAll(w.in+"/a"), os.WriteFile(w.in+"/a", nil, 0o644)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{})
			w.lay("W/a/b/")
			if strings.HasPrefix(name, "link") && !w.links() {
				return
			}
			d, err := w.t.Dir("a/b")
			must(t, err)
			defer d.Close()
			if d.Name() != "a/b" || d.Path() != filepath.Join(w.in, "a", "b") {
				t.Errorf("%s at %s", d.Name(), d.Path())
			}
			must(t, d.Recheck())
			if err := swap(w); err != nil && !movesInUse {
				t.Skip("nobody moves a folder in use here:", err)
			} else {
				must(t, err)
			}
			wantReason(t, d.Recheck(), WorkDir)
			must(t, d.Close())
		})
	}
}

// S1: nothing starts in a root that was removed, also where a new one has its name.
func TestRemovedRoot_S1(t *testing.T) {
	t.Parallel()
	if !movesInUse {
		t.Skip("a directory that is held cannot be removed here")
	}
	w := newWorld(t, Options{})
	d, err := w.t.Dir(".")
	must(t, err)
	defer d.Close()
	must(t, d.Recheck())
	must(t, os.RemoveAll(w.in))
	for range 2 {
		wantReason(t, d.Recheck(), WorkDir)
		_, err = w.t.Dir(".")
		wantReason(t, err, WorkDir)
		_ = os.Mkdir(w.in, 0o755)
	}
}
