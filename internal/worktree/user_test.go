//go:build unix

package worktree

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const ordinary = 65534

// asOrdinaryUser tells whether the test may go on here. For the superuser, whom permissions do not stop, it runs the same test
// again in a child of another user and reports what came of it.
func asOrdinaryUser(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	dir, err := os.MkdirTemp("", "belay-worktree-user-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	binary := filepath.Join(dir, "worktree.test")
	copySelf(t, binary)
	tmp := filepath.Join(dir, "tmp")
	must(t, os.Mkdir(tmp, 0o700))
	must(t, os.Chown(tmp, ordinary, ordinary))

	ctx, cancel := context.WithTimeout(bg, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	cmd.Dir = tmp
	cmd.Env = []string{"TMPDIR=" + tmp, "HOME=" + tmp, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as uid %d: %v\n%s", ordinary, err, out)
	} else if !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as uid %d nothing ran:\n%s", ordinary, out)
	}
	return false
}

func copySelf(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	in, err := os.Open(self)
	must(t, err)
	defer in.Close()
	// As in the package: no child may inherit the writable handle.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	must(t, err)
	_, err = io.Copy(out, in)
	must(t, err)
	must(t, out.Close())
}

// F5, cases FI-27, FI-32: what permissions forbid is refused as such, for an ordinary user.
func TestPermissions_F5(t *testing.T) {
	if !asOrdinaryUser(t) {
		return
	}
	w := newWorld(t, Options{})
	w.lay("W/ro/f = v1", "W/f444 = v1", "W/f244 = v1", "W/f044 = v1", "W/f577 = v1", "W/closed/f = v1", "W/noexec/", "W/isdir/", "W/file = x")
	mode := func(name string, m os.FileMode) { must(t, os.Chmod(filepath.Join(w.in, name), m)) }
	mode("ro", 0o555)
	mode("f444", 0o444)
	mode("f244", 0o244)
	mode("f044", 0o044)
	mode("f577", 0o577)
	mode("closed", 0)
	mode("noexec", 0o644)
	t.Cleanup(func() { mode("ro", 0o755); mode("closed", 0o755); mode("noexec", 0o755) })

	for name, want := range map[string]Error{
		"ro/f":       {Reason: WriteFailed, What: "permission"},
		"f444":       {Reason: WriteFailed, What: "read_only"},
		"f244":       {Reason: ReadFailed, What: "permission"},
		"f044":       {Reason: ReadFailed, What: "permission"},
		"f577":       {Reason: WriteFailed, What: "permission"},
		"closed/f":   {Reason: WriteFailed, What: "permission"},
		"isdir":      {Reason: NotRegular, What: "directory"},
		"file/child": {Reason: NotFound, What: "not_directory"},
	} {
		_, err := w.t.Commit(bg, name, []byte("v2"), replacing("v1"))
		wantReason(t, err, want.Reason, want.What)
	}
	for name, want := range map[string]Error{
		"ro/new":       {Reason: WriteFailed, What: "permission"},
		"ro/a/b/new":   {Reason: WriteFailed, What: "permission"},
		"closed/new":   {Reason: WriteFailed, What: "permission"},
		"closed/d/new": {Reason: WriteFailed, What: "permission"},
	} {
		_, err := w.t.Commit(bg, name, []byte("v2"), Expect{Create: true, Mkdirs: true})
		wantReason(t, err, want.Reason, want.What)
	}
	for _, name := range []string{"f244", "closed/f"} {
		_, err := w.t.Read(bg, page(name))
		wantReason(t, err, ReadFailed, "permission")
	}
	for _, name := range []string{"closed", "noexec", "closed/x"} {
		_, err := w.t.Dir(name)
		wantReason(t, err, WorkDir, "permission")
	}
	mode("closed", 0o755)
	if w.text("W/ro/f") != "v1" || w.text("W/closed/f") != "v1" || w.text("W/f444") != "v1" {
		t.Error("written")
	}
	w.noLeftovers()
}

// F5, case FI-27: permission bits are kept, group-writable too; set-user-ID and set-group-ID are dropped; 0444 is refused.
func TestModeIsKept_F5(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	for _, m := range []os.FileMode{0o755, 0o644, 0o600, 0o640, 0o664, 0o666, 0o777, 0o700, 0o620} {
		must(t, os.WriteFile(w.in+"/f", []byte("v1"), 0o600))
		must(t, os.Chmod(w.in+"/f", m))
		_, err := w.t.Commit(bg, "f", []byte("v2"), replacing("v1"))
		must(t, err)
		fi, err := os.Stat(w.in + "/f")
		must(t, err)
		if fi.Mode() != m || w.text("W/f") != "v2" {
			t.Errorf("%v became %v", m, fi.Mode())
		}
	}
	for _, m := range []os.FileMode{os.ModeSetuid | 0o755, os.ModeSetgid | 0o755, os.ModeSetuid | os.ModeSetgid | 0o711} {
		must(t, os.WriteFile(w.in+"/f", []byte("v1"), 0o600))
		must(t, os.Chmod(w.in+"/f", m))
		_, err := w.t.Commit(bg, "f", []byte("v2"), replacing("v1"))
		must(t, err)
		if fi, err := os.Stat(w.in + "/f"); err != nil || fi.Mode() != m.Perm() {
			t.Errorf("%v became %v", m, fi.Mode())
		}
	}
	must(t, os.WriteFile(w.in+"/f", []byte("v1"), 0o600))
	must(t, os.Chmod(w.in+"/f", 0o444))
	_, err := w.t.Commit(bg, "f", []byte("v2"), replacing("v1"))
	wantReason(t, err, WriteFailed, "read_only")
	if fi, err := os.Stat(w.in + "/f"); err != nil || fi.Mode() != 0o444 || w.text("W/f") != "v1" {
		t.Error("touched")
	}
}

// F5: a new file and new folders get what the umask leaves. The umask is the process's own, so the test has a process to itself.
func TestUmask_F5(t *testing.T) {
	for mask, want := range map[string][2]os.FileMode{"022": {0o644, 0o755}, "077": {0o600, 0o700}, "002": {0o664, 0o775}, "027": {0o640, 0o750}} {
		w := bareWorld(t)
		out, err := helper("umask", mask, w.in).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		f, err := os.Stat(w.in + "/d/new")
		must(t, err)
		d, err := os.Stat(w.in + "/d")
		must(t, err)
		if f.Mode().Perm() != want[0] || d.Mode().Perm() != want[1] {
			t.Errorf("umask %s: file %v, folder %v", mask, f.Mode(), d.Mode())
		}
	}
}

func init() {
	helpers["umask"] = func(args []string) int {
		mask := 0
		for _, c := range args[0] {
			mask = mask*8 + int(c-'0')
		}
		syscall.Umask(mask)
		tree, err := Open(args[1], Options{})
		if err == nil {
			_, err = tree.Commit(bg, "d/new", []byte("x"), Expect{Create: true, Mkdirs: true})
		}
		if err != nil {
			os.Stderr.WriteString(err.Error())
			return 1
		}
		return 0
	}
}

// helper is the test binary in another life; see helpers.
func helper(name string, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), helperVariable+"="+name)
	return cmd
}

// F5: owner and group are kept where the process may, and a group that cannot be kept gets no more than everybody.
func TestOwnerIsKept_F5(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only the superuser can give files away; the rest is proved by TestForeignGroup")
	}
	w := newWorld(t, Options{})
	w.lay("W/f = v1")
	must(t, os.Chown(w.in+"/f", 1234, 4321))
	must(t, os.Chmod(w.in+"/f", 0o640))
	_, err := w.t.Commit(bg, "f", []byte("v2"), replacing("v1"))
	must(t, err)
	fi, err := os.Stat(w.in + "/f")
	must(t, err)
	st := fi.Sys().(*syscall.Stat_t)
	if st.Uid != 1234 || st.Gid != 4321 || fi.Mode() != 0o640 {
		t.Errorf("owner %d:%d mode %v", st.Uid, st.Gid, fi.Mode())
	}
}

// F5: an ordinary user replaces a file of another owner and group that they may write: it becomes theirs, and their group gets no
// more than others had.
func TestForeignGroup_F5(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs the superuser to lay out files of two users")
	}
	dir, err := os.MkdirTemp("", "belay-worktree-group-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o777))
	binary := filepath.Join(dir, "worktree.test")
	copySelf(t, binary)
	for _, c := range []struct {
		uid, gid   int
		mode, want os.FileMode
		wantGid    uint32
	}{
		{1234, 4321, 0o666, 0o666, ordinary},
		{1234, 4321, 0o676, 0o666, ordinary},
		{1234, 4321, 0o662, 0o622, ordinary},
		{1234, 777, 0o660, 0o660, 777}, // one of the user's own groups
		{ordinary, 4321, 0o660, 0o600, ordinary},
	} {
		root := filepath.Join(dir, "root")
		must(t, os.Mkdir(root, 0o777))
		must(t, os.Chmod(root, 0o777))
		f := filepath.Join(root, "f")
		must(t, os.WriteFile(f, []byte("v1"), 0o600))
		must(t, os.Chown(f, c.uid, c.gid))
		must(t, os.Chmod(f, c.mode))
		cmd := exec.Command(binary, root)
		cmd.Env = []string{helperVariable + "=replace-v1"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary, Groups: []uint32{777}}}
		out, err := cmd.CombinedOutput()
		readable := c.mode&0o044 == 0o044 || c.uid == ordinary || c.gid == 777
		if (err == nil) != readable {
			t.Errorf("%+v: %v\n%s", c, err, out)
		}
		if err == nil {
			fi, err := os.Stat(f)
			must(t, err)
			st := fi.Sys().(*syscall.Stat_t)
			if fi.Mode() != c.want || st.Uid != ordinary || st.Gid != c.wantGid {
				t.Errorf("%+v: became %d:%d %v", c, st.Uid, st.Gid, fi.Mode())
			}
		}
		must(t, os.RemoveAll(root))
	}
}

func init() {
	helpers["replace-v1"] = func(args []string) int {
		tree, err := Open(args[0], Options{})
		if err == nil {
			_, err = tree.Commit(bg, "f", []byte("v2"), replacing("v1"))
		}
		if err != nil {
			os.Stderr.WriteString(err.Error())
			return 1
		}
		return 0
	}
}

// Documented, case FI-08: a replace breaks a hard link and leaves the other name as it is.
func TestHardLinkIsBroken_F1(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.lay("O/s = "+secret, "O/v = victim", "W/f = one")
	must(t, os.Link(w.out+"/s", w.in+"/h"))
	for _, n := range []string{".f.tmp", "f.tmp", "f~", ".f.swp", "tmp", ".tmp"} {
		w.lay("W/" + n + " => ../O/v")
	}
	before := w.names("W")
	_, err := w.t.Commit(bg, "h", []byte("new"), replacing(secret))
	must(t, err)
	_, err = w.t.Commit(bg, "f", []byte("two"), replacing("one"))
	must(t, err)
	if w.text("O/s") != secret || w.text("O/v") != "victim" || w.text("W/h") != "new" || w.text("W/f") != "two" || w.names("W") != before {
		t.Error("reached outside, or moved something")
	}
}
