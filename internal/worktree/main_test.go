package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// helperVariable makes the test binary one of the other processes that the tests need; see helpers.
const helperVariable = "BELAY_WORKTREE_HELPER"

// helpers are the other lives of the test binary. Their result is the exit code.
var helpers = map[string]func(args []string) int{}

func long() bool { return os.Getenv("BELAY_TEST_LONG") == "1" }

func TestMain(m *testing.M) {
	if h := os.Getenv(helperVariable); h != "" {
		os.Exit(helpers[h](os.Args[1:]))
	}
	before := openFiles()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left:", err)
			code = 1
		}
		runtime.GC()
		if after := openFiles(); len(after) > len(before) {
			fmt.Fprintln(os.Stderr, "descriptors left:", before, after)
			code = 1
		}
		if len(leases.held) != 0 {
			fmt.Fprintln(os.Stderr, "leases left:", len(leases.held))
			code = 1
		}
	}
	os.Exit(code)
}

// openFiles lists what the descriptors of this process lead to, but for the runtime's own; nil where that cannot be seen.
func openFiles() []string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "/proc/") {
			out = append(out, to)
		}
	}
	sort.Strings(out)
	return out
}

var bg = context.Background()

// world is a fresh tree W with a folder O beside it that nothing may reach.
type world struct {
	*testing.T
	dir, in, out string
	t            *Tree
}

func newWorld(t *testing.T, o Options) *world {
	t.Helper()
	w := bareWorld(t)
	w.t = openTree(t, w.in, o)
	return w
}

func bareWorld(t *testing.T) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	w := &world{T: t, dir: dir, in: filepath.Join(dir, "W"), out: filepath.Join(dir, "O")}
	must(t, os.Mkdir(w.in, 0o755))
	must(t, os.Mkdir(w.out, 0o755))
	return w
}

func openTree(t testing.TB, root string, o Options) *Tree {
	t.Helper()
	tree, err := Open(root, o)
	must(t, err)
	t.Cleanup(func() { tree.Close() })
	return tree
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err, innermost(err), causeOf(err))
	}
}

func causeOf(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e.cause
	}
	return nil
}

// lay makes a little file system below W's parent: "W/a/" is a folder, "W/l => ../O" a link, "W/f = text" a file.
func (w *world) lay(lines ...string) {
	w.Helper()
	for _, line := range lines {
		if name, target, ok := strings.Cut(line, " => "); ok {
			target = strings.ReplaceAll(target, "$", w.dir)
			w.parent(name)
			link := filepath.Join(w.dir, name)
			if err := symlink(target, link); err != nil {
				w.Skip("no symbolic links to be had here:", err)
			}
		} else if name, text, ok := strings.Cut(line, " = "); ok {
			w.parent(name)
			must(w, os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o644))
		} else {
			must(w, os.MkdirAll(filepath.Join(w.dir, line), 0o755))
		}
	}
}

// symlink makes a link and looks whether it is there: some systems only say so.
func symlink(target, link string) error {
	if err := os.Symlink(target, link); err != nil {
		return err
	}
	fi, err := os.Lstat(link)
	if err == nil && fi.Mode()&os.ModeSymlink == 0 {
		err = errors.ErrUnsupported
	}
	return err
}

// links tells whether symbolic links can be had, for tests of which only a part needs them. Where they cannot, the part shows
// as a skipped test "links".
func (w *world) links() bool {
	w.Helper()
	probe := filepath.Join(w.dir, "probe")
	err := symlink("nowhere", probe)
	if err != nil {
		w.Run("links", func(t *testing.T) { t.Skip("no symbolic links to be had here:", err) })
		return false
	}
	must(w, os.Remove(probe))
	return true
}

func (w *world) parent(name string) {
	w.Helper()
	must(w, os.MkdirAll(filepath.Dir(filepath.Join(w.dir, name)), 0o755))
}

func (w *world) text(name string) string {
	w.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	must(w, err)
	return string(b)
}

// names lists everything below the folder, links as "name@".
func (w *world) names(folder string) string {
	w.Helper()
	var out []string
	root := filepath.Join(w.dir, folder)
	must(w, filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if d.Type()&os.ModeSymlink != 0 {
			rel += "@"
		}
		out = append(out, rel)
		return nil
	}))
	return strings.Join(out, " ")
}

func (w *world) noLeftovers() {
	w.Helper()
	for _, n := range strings.Fields(w.names(".")) {
		if strings.HasPrefix(filepath.Base(n), temporaryPrefix) {
			w.Errorf("left behind: %s", n)
		}
	}
}

func reasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return 0
}

// wantReason checks reason and, where it is given, the word of an error.
func wantReason(t testing.TB, err error, reason Reason, what ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("got %v, want %v", err, reason)
		return
	}
	if e.Reason != reason || len(what) > 0 && e.What != what[0] {
		t.Errorf("got %v (%v), want %v %v", e, e.cause, reason, what)
	}
}

func page(name string) PageRequest { return PageRequest{Name: name, Limit: 1 << 20} }
