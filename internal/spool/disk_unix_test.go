//go:build unix

package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// descriptors lists what this process has open, but for what the runtime keeps.
func descriptors() []string {
	dir := "/proc/self/fd"
	if _, err := os.Stat(dir); err != nil {
		dir = "/dev/fd"
	}
	entries, _ := os.ReadDir(dir)
	var out []string
	for _, e := range entries {
		target, _ := os.Readlink(filepath.Join(dir, e.Name()))
		if strings.HasPrefix(target, "anon_inode:") || strings.HasSuffix(target, "/fd") {
			continue // the poller, and the directory that is being listed
		}
		out = append(out, e.Name()+"="+target)
	}
	return out
}

// nobody is the ordinary account of these tests where they run as root.
const nobody = 65534

// helper is a command that runs a scene in its own process. With ordinary it never
// runs as root: root may write everywhere, so a check of rights would prove
// nothing. The scene has the directory work to itself.
func helper(t *testing.T, scene string, ordinary bool) (cmd *exec.Cmd, work string) {
	t.Helper()
	// Neither t.TempDir nor the place of the test binary can be entered by others.
	dir, err := os.MkdirTemp("", "spool-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	work = filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self)
	if ordinary && os.Geteuid() == 0 {
		copied := filepath.Join(dir, "test")
		if err := copyFile(copied, self); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(work, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		cmd.Path = copied
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "BELAY_SPOOL_HELPER="+scene, "TMPDIR="+work)
	cmd.WaitDelay = 10 * time.Second
	return cmd, work
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	// No other process may be forked while the copy is open for writing, or that
	// process holds it and it cannot be executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

func runScene(t *testing.T, scene string, ordinary bool) {
	t.Helper()
	cmd, _ := helper(t, scene, ordinary)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func init() {
	for _, mask := range []int{0, 0o022, 0o027, 0o077, 0o177, 0o377, 0o477, 0o777} {
		scenes[fmt.Sprintf("umask-%03o", mask)] = func() error { return underUmask(mask) }
	}
	scenes["file-size"] = fileSizeLimit
	scenes["rights"] = withoutRights
	scenes["killed"] = waitToBeKilled
	scenes["no-descriptors"] = withoutDescriptors
}

func mode(path string) (os.FileMode, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	return fi.Mode(), nil
}

// P6, B4: the directory is 0700 and the files are 0600 under every umask. One that
// takes the owner's right to read away leaves an ordinary user without logs, and
// nothing on disk.
func TestP6ModesUnderEveryUmask(t *testing.T) {
	t.Parallel()
	for name := range scenes {
		if strings.HasPrefix(name, "umask-") {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				runScene(t, name, false)
				if os.Geteuid() == 0 {
					runScene(t, name, true)
				}
			})
		}
	}
}

func underUmask(mask int) error {
	unix.Umask(mask)
	d, err := New("", Limits{})
	if err != nil {
		return err
	}
	l := d.Log()
	n := l.Write([]byte("text"))
	if mask&0o400 != 0 && os.Geteuid() != 0 {
		left, err := os.ReadDir(d.Parent())
		if n != 0 || err != nil || len(left) != 0 {
			return fmt.Errorf("kept %d, left %v, %v", n, left, err)
		}
		return d.Close()
	}
	if n != 4 {
		return fmt.Errorf("kept %d", n)
	}
	dm, err := mode(d.Path())
	if err != nil || dm.Type() != fs.ModeDir || dm.Perm() != 0o700 {
		return fmt.Errorf("directory %v, %v", dm, err)
	}
	fm, err := mode(filepath.Join(d.Path(), l.name))
	if err != nil || fm != 0o600 {
		return fmt.Errorf("file %v, %v", fm, err)
	}
	// It can be opened again, too.
	d.mu.Lock()
	f := d.detach(l)
	d.mu.Unlock()
	f.Close()
	if n := l.Write([]byte("more")); n != 4 {
		return fmt.Errorf("kept %d after opening it again", n)
	}
	return d.Close()
}

// P6: names cannot be created before us: what is there already, of whatever kind,
// is an error, never used.
func TestP6CreationIsExclusive(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	root, err := os.OpenRoot(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	outside := t.TempDir()
	os.Mkdir(filepath.Join(parent, "dir"), 0o777)
	os.Symlink(outside, filepath.Join(parent, "link"))
	os.Symlink("nowhere", filepath.Join(parent, "dangling"))
	os.WriteFile(filepath.Join(parent, "file"), nil, 0o600)
	for _, name := range []string{"dir", "link", "dangling", "file"} {
		if err := mkdir(root, name); !errors.Is(err, fs.ErrExist) {
			t.Errorf("mkdir %s: %v", name, err)
		}
	}
	seen := map[string]bool{}
	for range 1000 {
		r := random()
		if len(r) < 26 || seen[r] || strings.ToLower(r) != r || strings.ContainsAny(r, `/\.`) {
			t.Fatalf("name %q", r)
		}
		seen[r] = true
	}
}

// P6: in a parent that others can write to, the new directory can be swapped before
// it is opened. What is not ours, not empty or not what was named is not used.
func TestP6SwappedBeforeItIsOpened(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		make func(parent string) error
		want error
	}{
		"honest": {func(p string) error { return os.Mkdir(filepath.Join(p, "x"), 0o700) }, nil},
		"link": {func(p string) error {
			os.Mkdir(filepath.Join(p, "y"), 0o700)
			return os.Symlink("y", filepath.Join(p, "x"))
		}, errSwapped},
		"fifo":     {func(p string) error { return unix.Mkfifo(filepath.Join(p, "x"), 0o600) }, errSwapped},
		"occupied": {func(p string) error { return os.MkdirAll(filepath.Join(p, "x", "y"), 0o700) }, errOccupied},
		"open to all": {func(p string) error {
			os.Mkdir(filepath.Join(p, "x"), 0o700)
			return os.Chmod(filepath.Join(p, "x"), 0o777)
		}, nil}, // ours, and closed by us
	}
	if os.Geteuid() == 0 {
		cases["other account"] = struct {
			make func(parent string) error
			want error
		}{func(p string) error {
			os.Mkdir(filepath.Join(p, "x"), 0o700)
			return os.Chown(filepath.Join(p, "x"), nobody, nobody)
		}, errNotOurs}
	}
	for name, c := range cases {
		parent := t.TempDir()
		if err := c.make(parent); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(parent)
		if err != nil {
			t.Fatal(err)
		}
		h := &home{parent: root, name: "x"}
		if err := h.hold(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if m, err := mode(filepath.Join(parent, "x")); c.want == nil && (err != nil || m.Perm() != 0o700) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
		h.closeHandles()
	}
}

// P8: whatever is put in the place of the directory while the runtime lives is
// neither written into nor removed; the logs are, wherever they are.
func TestP8SwappedDirectory(t *testing.T) {
	t.Parallel()
	put := map[string]func(path, outside string) error{
		"directory with a file": func(path, _ string) error {
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(path, "canary"), []byte("theirs"), 0o600)
		},
		"empty directory": func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"file":            func(path, _ string) error { return os.WriteFile(path, nil, 0o600) },
		"link out":        func(path, outside string) error { return os.Symlink(outside, path) },
		"link to ours":    func(path, _ string) error { return os.Symlink("moved", path) },
		"nothing":         func(string, string) error { return nil },
	}
	for name, place := range put {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parent, outside := t.TempDir(), t.TempDir()
			canary := filepath.Join(outside, "canary")
			if err := os.WriteFile(canary, []byte("theirs"), 0o600); err != nil {
				t.Fatal(err)
			}
			d, _ := New(parent, Limits{})
			var logs []*Log
			for range maxOpen + 5 { // so that some have to be opened again
				l := d.Log()
				l.Write([]byte("before "))
				logs = append(logs, l)
			}
			moved := filepath.Join(parent, "moved")
			if err := os.Rename(d.Path(), moved); err != nil {
				t.Fatal(err)
			}
			if err := place(d.Path(), outside); err != nil {
				t.Fatal(err)
			}
			var before []byte
			if fi, err := os.Lstat(d.Path()); err == nil {
				before = fmt.Append(nil, fi.Mode(), fi.ModTime(), fi.Size())
			}
			for _, l := range append(logs, d.Log()) {
				l.Write([]byte("after"))
				if got := content(t, l); !strings.HasSuffix(got, "after") {
					t.Errorf("%q", got)
				}
			}
			logs[0].Remove()
			if n := len(list(t, moved)); n != maxOpen+5 {
				t.Errorf("%d files in the directory we hold", n)
			}
			err := d.Close()
			if name == "nothing" && err != nil || name != "nothing" && (reason(err) != LeftBehind || !errors.Is(err, errSwapped)) {
				t.Errorf("Close: %v", err)
			}
			if left := list(t, moved); len(left) != 0 {
				t.Errorf("logs left: %v", left)
			}
			if fi, err := os.Lstat(d.Path()); name != "nothing" && (err != nil || !bytes.Equal(fmt.Append(nil, fi.Mode(), fi.ModTime(), fi.Size()), before)) {
				t.Errorf("what was put there is not as it was: %v", err)
			}
			if b, err := os.ReadFile(canary); err != nil || string(b) != "theirs" || len(list(t, outside)) != 1 {
				t.Errorf("outside: %q, %v, %v", b, err, list(t, outside))
			}
		})
	}
}

// P8: rmdir takes an empty directory only, also if something else was put there
// after the check.
func TestP8RmdirTakesNothingElse(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	root, err := os.OpenRoot(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	os.WriteFile(filepath.Join(parent, "file"), nil, 0o600)
	os.Mkdir(filepath.Join(parent, "empty"), 0o700)
	os.Symlink("empty", filepath.Join(parent, "link"))
	os.MkdirAll(filepath.Join(parent, "full", "x"), 0o700)
	for _, name := range []string{"file", "link", "full"} {
		if rmdir(root, name) == nil {
			t.Errorf("removed %s", name)
		}
	}
	if err := rmdir(root, "empty"); err != nil {
		t.Error(err)
	}
	if left := list(t, parent); len(left) != 3 {
		t.Errorf("%v", left)
	}
}

// P8: a file that somebody put in the place of a log is neither written, read nor
// removed, and a FIFO there hangs nobody.
func TestP8SwappedLog(t *testing.T) {
	t.Parallel()
	for kind, place := range map[string]func(path, canary string) error{
		"file":         func(path, _ string) error { return os.WriteFile(path, []byte("theirs"), 0o600) },
		"link":         func(path, canary string) error { return os.Symlink(canary, path) },
		"inner link":   func(path, canary string) error { return os.Symlink("inner", path) },
		"fifo":         func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
		"directory":    func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"hard link":    func(path, canary string) error { return os.Link(canary, path) },
		"nothing":      func(string, string) error { return nil },
		"another log":  func(path, _ string) error { return os.Link(filepath.Join(filepath.Dir(path), "inner"), path) },
		"no such link": func(path, _ string) error { return os.Symlink("nowhere", path) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			canary := filepath.Join(base, "canary")
			if err := os.WriteFile(canary, []byte("theirs"), 0o600); err != nil {
				t.Fatal(err)
			}
			d, _ := New(base, Limits{})
			l := d.Log()
			l.Write([]byte("ours"))
			os.WriteFile(filepath.Join(d.Path(), "inner"), []byte("theirs"), 0o600)
			path := filepath.Join(d.Path(), l.name)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := place(path, canary); err != nil {
				t.Fatal(err)
			}
			if got := content(t, l); got != "ours" {
				t.Errorf("the open log reads %q", got)
			}
			d.mu.Lock()
			f := d.detach(l)
			d.mu.Unlock()
			f.Close()
			if n := l.Write([]byte("x")); n != 0 {
				t.Errorf("wrote %d bytes into somebody else's file", n)
			}
			if _, err := l.ReadAt(make([]byte, 4), 0); reason(err) != Unreadable {
				t.Errorf("read: %v", err)
			}
			l.Remove()
			if d.used != 0 {
				t.Errorf("%d bytes charged for a file that is gone", d.used)
			}
			if _, err := os.Lstat(path); kind != "nothing" && err != nil {
				t.Errorf("removed what was not ours: %v", err)
			}
			if err := d.Close(); reason(err) != LeftBehind {
				t.Errorf("Close: %v", err)
			}
			for _, p := range []string{canary, filepath.Join(d.Path(), "inner")} {
				if b, err := os.ReadFile(p); err != nil || string(b) != "theirs" {
					t.Errorf("%s: %q, %v", p, b, err)
				}
			}
		})
	}
}

// P6, P8: somebody removes the directory while the runtime lives. Open logs are
// still read; others end or say that they cannot be read; nothing hangs or fails.
func TestP6RemovedDirectory(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	d, _ := New(parent, Limits{})
	old, last := d.Log(), d.Log()
	old.Write([]byte("old"))
	for range maxOpen {
		d.Log().Write([]byte("x"))
	}
	last.Write([]byte("last"))
	if err := os.RemoveAll(d.Path()); err != nil {
		t.Fatal(err)
	}
	if got := content(t, last); got != "last" {
		t.Errorf("%q", got)
	}
	if _, err := old.ReadAt(make([]byte, 3), 0); reason(err) != Unreadable {
		t.Errorf("read: %v", err)
	}
	if n := old.Write([]byte("x")); n != 0 {
		t.Errorf("kept %d", n)
	}
	used := d.used
	if n := d.Log().Write([]byte("x")); n != 0 || d.used != used {
		t.Errorf("kept %d, charged %d", n, d.used-used)
	}
	old.Remove()
	if err := d.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if left := list(t, parent); len(left) != 0 {
		t.Errorf("%v", left)
	}
}

// P6: the disk stops in the middle of a write: what arrived is kept and readable,
// the rest is not charged, and the log ends.
func TestP6DiskStopsInTheMiddle(t *testing.T) {
	t.Parallel()
	runScene(t, "file-size", true)
}

func fileSizeLimit() error {
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1001, Max: 1001}); err != nil {
		return err
	}
	d, _ := New("", Limits{})
	defer d.Close()
	l := d.Log()
	text := strings.Repeat("é", 400) // 800 bytes
	if n := l.Write([]byte(text)); n != 800 {
		return fmt.Errorf("kept %d of 800", n)
	}
	if n := l.Write([]byte(text)); n != 200 { // the 201st byte is half a character
		return fmt.Errorf("kept %d, want 200", n)
	}
	if n := l.Write([]byte("x")); n != 0 {
		return fmt.Errorf("kept %d after the end", n)
	}
	b, err := io.ReadAll(io.NewSectionReader(l, 0, 5000))
	if err != nil || string(b) != strings.Repeat("é", 500) {
		return fmt.Errorf("%d bytes, %v", len(b), err)
	}
	if d.used != 1001 {
		return fmt.Errorf("charged %d", d.used)
	}
	if n := d.Log().Write([]byte("another")); n != 7 {
		return fmt.Errorf("another log kept %d", n)
	}
	return d.Close()
}

// P6, P8, as an ordinary user: no right to write in the parent or in the directory.
func TestP6WithoutRights(t *testing.T) {
	t.Parallel()
	runScene(t, "rights", true)
}

func withoutRights() error {
	work, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := os.Chmod(work, 0o500); err != nil {
		return err
	}
	d, _ := New("", Limits{})
	if n := d.Log().Write([]byte("x")); n != 0 {
		return fmt.Errorf("kept %d in a parent that cannot be written", n)
	}
	os.Chmod(work, 0o700)
	l := d.Log()
	if n := l.Write([]byte("text")); n != 4 {
		return fmt.Errorf("kept %d", n)
	}
	if err := os.Chmod(d.Path(), 0o500); err != nil {
		return err
	}
	if n := d.Log().Write([]byte("x")); n != 0 {
		return fmt.Errorf("kept %d in a directory that cannot be written", n)
	}
	if n := l.Write([]byte("more")); n != 4 {
		return fmt.Errorf("the open log kept %d", n)
	}
	l.Remove() // cannot be unlinked: still charged
	if d.used != 8 || len(d.logs) != 1 {
		return fmt.Errorf("charged %d for %d files", d.used, len(d.logs))
	}
	os.Chmod(d.Path(), 0o700)
	if err := d.Close(); err != nil {
		return err
	}
	// And a directory that cannot be removed is said.
	d, _ = New("", Limits{})
	d.Log().Write([]byte("x"))
	os.Chmod(work, 0o500)
	if err := d.Close(); reason(err) != LeftBehind {
		return fmt.Errorf("Close: %v", err)
	}
	os.Chmod(work, 0o700)
	left, err := os.ReadDir(d.Path())
	if err != nil || len(left) != 0 {
		return fmt.Errorf("files left: %v, %v", left, err)
	}
	return os.Remove(d.Path())
}

// Descriptors: three for the directory and at most maxOpen for logs between calls,
// however many logs there are.
func TestDescriptorsAreBounded(t *testing.T) {
	// Not parallel: it counts the descriptors of the process.
	d := newDir(t, Limits{})
	before := len(descriptors())
	var logs []*Log
	for i := range 1000 {
		l := d.Log()
		l.Write(fmt.Appendf(nil, "log %d", i))
		logs = append(logs, l)
	}
	for i, l := range logs {
		if got := content(t, l); got != fmt.Sprintf("log %d", i) {
			t.Fatalf("log %d: %q", i, got)
		}
	}
	if n := len(descriptors()) - before; n > maxOpen+3 {
		t.Errorf("%d descriptors for 1000 logs", n)
	}
	for _, l := range logs {
		l.Remove()
	}
	if n := len(descriptors()) - before; n > 3 {
		t.Errorf("%d descriptors after the last log was removed", n)
	}
}

// With no descriptor to be had a log ends, and Close still removes everything.
func TestNoDescriptorLeft(t *testing.T) {
	t.Parallel()
	runScene(t, "no-descriptors", false)
}

func withoutDescriptors() error {
	d, _ := New("", Limits{})
	var logs []*Log
	for range 2 * maxOpen {
		l := d.Log()
		l.Write([]byte("x"))
		logs = append(logs, l)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	var hog []int
	for { // ends with EMFILE
		fd, err := unix.Dup(int(null.Fd()))
		if err != nil {
			break
		}
		hog = append(hog, fd)
		if len(hog) == 1 {
			// Bounded in any case, and fast.
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 200, Max: 200}); err != nil {
				return err
			}
		}
	}
	// A log that is opened again takes the place of another one.
	for _, l := range logs {
		if n := l.Write([]byte("y")); n != 1 {
			return fmt.Errorf("kept %d where a descriptor could be given up", n)
		}
	}
	if err := d.Close(); err != nil {
		return err
	}
	if left, err := os.ReadDir(d.Parent()); err == nil && len(left) != 0 {
		return fmt.Errorf("left %v", left)
	}
	_ = hog
	null.Close()
	return nil
}

// B5: after a SIGKILL the directory stays, and no other runtime touches it.
func TestB5KilledRuntimeLeavesItsDirectory(t *testing.T) {
	t.Parallel()
	cmd, work := helper(t, "killed", false)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, 6)
	if _, err := io.ReadFull(out, ready); err != nil || string(ready) != "ready\n" {
		t.Errorf("%q, %v", ready, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	left := list(t, work)
	if len(left) != 1 {
		t.Fatalf("%v", left)
	}
	d, _ := New(work, Limits{})
	d.Log().Write([]byte("x"))
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if now := list(t, work); len(now) != 1 || now[0] != left[0] || len(list(t, filepath.Join(work, left[0]))) != 1 {
		t.Errorf("%v", now)
	}
}

func waitToBeKilled() error {
	d, _ := New("", Limits{})
	d.Log().Write([]byte("output"))
	fmt.Println("ready")
	time.Sleep(time.Minute) // killed long before
	return errors.New("was not killed")
}

// A cleaner that asks by a lock sees that the directory is in use, and after Close
// or the death of the runtime that it is not.
func TestDirectoryIsAnnounced(t *testing.T) {
	t.Parallel()
	d := newDir(t, Limits{})
	d.Log().Write([]byte("x"))
	f, err := os.Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		t.Errorf("a cleaner's lock: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

// A FIFO as the parent hangs nobody.
func TestParentIsFIFO(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(parent, 0o600); err != nil {
		t.Fatal(err)
	}
	d, _ := New(parent, Limits{})
	if n := d.Log().Write([]byte("x")); n != 0 {
		t.Errorf("kept %d", n)
	}
}
