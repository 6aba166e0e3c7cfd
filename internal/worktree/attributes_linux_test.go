package worktree

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// F2: files of the kernel, which claim to be empty or of another size, are read in bounded pages to their end.
func TestKernelFiles_F2(t *testing.T) {
	t.Parallel()
	proc := openTree(t, "/proc", Options{})
	p, err := proc.Read(bg, PageRequest{Name: "self/status", Limit: 100})
	if reasonOf(err) == NotFound || reasonOf(err) == NotRegular {
		t.Skip("no /proc")
	}
	must(t, err)
	if len(p.Content) != 100 || p.EOF || !p.Changed || p.SHA256 != "" || !bytes.HasPrefix(p.Content, []byte("Name:")) {
		t.Errorf("%+v", p)
	}
	var all []byte
	for range 1000 {
		p, err := proc.Read(bg, PageRequest{Name: "version", Offset: int64(len(all)), Limit: 7})
		must(t, err)
		all = append(all, p.Content...)
		if p.EOF {
			break
		}
		if len(p.Content) == 0 {
			t.Fatal("no advance")
		}
	}
	want, err := os.ReadFile("/proc/version")
	must(t, err)
	if !bytes.Equal(all, want) {
		t.Errorf("%q", all)
	}
	if p, err := proc.Read(bg, PageRequest{Name: "version", Line: 2, Limit: 7}); err != nil || !p.EOF || len(p.Content) != 0 {
		t.Errorf("%+v %v", p, err)
	}
	if sys, err := Open("/sys/kernel", Options{}); err == nil {
		defer sys.Close()
		p, err := sys.Read(bg, PageRequest{Name: "uevent_seqnum", Limit: 4096}) // claims 4096 bytes
		if err == nil && (!p.EOF || p.Size != int64(len(p.Content)) || len(p.Content) == 0) {
			t.Errorf("%+v", p)
		}
	}
	// The links of /proc that are no links: they lead out, or to what is no file.
	for _, name := range []string{"self/root/etc/passwd", "self/cwd", "self/exe", "self/fd/0"} {
		if _, err := proc.Read(bg, page(name)); err == nil {
			t.Errorf("%s can be read", name)
		}
	}
	if _, err := proc.Dir("self"); err == nil {
		t.Error("self is a link")
	}
}

func userAttributes(t *testing.T, dir string) {
	t.Helper()
	probe := filepath.Join(dir, "probe")
	must(t, os.WriteFile(probe, nil, 0o644))
	defer os.Remove(probe)
	if err := unix.Setxattr(probe, "user.probe", []byte("x"), 0); err != nil {
		t.Skip("no extended attributes here:", err)
	}
}

// acl is an access control list in the kernel's form: the entries user::, user:uid, group::, mask and other.
func acl(uid uint32, user, named, group, mask, other byte) []byte {
	b := []byte{2, 0, 0, 0}
	entry := func(tag, perm byte, id uint32) {
		b = append(b, tag, 0, perm, 0, byte(id), byte(id>>8), byte(id>>16), byte(id>>24))
	}
	const none = 0xffffffff
	entry(1, user, none)
	entry(2, named, uid)
	entry(4, group, none)
	entry(0x10, mask, none)
	entry(0x20, other, none)
	return b
}

func attribute(t *testing.T, file, name string) []byte {
	t.Helper()
	b := make([]byte, 4096)
	n, err := unix.Getxattr(file, name, b)
	if err == unix.ENODATA || err == unix.ENOTSUP {
		return nil
	}
	must(t, err)
	return b[:n]
}

// F5: where the group cannot be kept, another one gets no more than everybody, also by a list.
func TestForeignGroupByList_F5(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs the superuser to lay out files of two users")
	}
	dir, err := os.MkdirTemp("", "belay-worktree-list-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o777))
	userAttributes(t, dir)
	binary := filepath.Join(dir, "worktree.test")
	copySelf(t, binary)
	for _, c := range []struct {
		gid         int
		other, want byte // what the list gives everybody, and then the group
	}{{4321, 0, 0}, {4321, 4, 4}, {777, 0, 6}} {
		root := filepath.Join(dir, "root")
		must(t, os.Mkdir(root, 0o777))
		must(t, os.Chmod(root, 0o777))
		f := filepath.Join(root, "f")
		must(t, os.WriteFile(f, []byte("v1"), 0o600))
		must(t, os.Chown(f, 1234, c.gid))
		if err := unix.Setxattr(f, accessList, acl(ordinary, 6, 6, 6, 6, c.other), 0); err != nil {
			t.Skip("no access control lists here: ", err)
		}
		cmd := exec.Command(binary, root)
		cmd.Env = []string{helperVariable + "=replace-v1"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary, Groups: []uint32{777}}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := attribute(t, f, accessList); !bytes.Equal(got, acl(ordinary, 6, 6, c.want, 6, c.other)) {
			t.Errorf("group %d, others %d: %v", c.gid, c.other, got)
		}
		must(t, os.RemoveAll(root))
	}
}

// F5: extended attributes of users and access control lists are kept; a list that only the folder hands out is not forced on an old
// file, and a new file gets it; capabilities go as set-user-ID does.
func TestAttributesAreKept_F5(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	userAttributes(t, w.in)
	w.lay("W/f = v1", "W/plain = v1")
	f := filepath.Join(w.in, "f")
	must(t, unix.Setxattr(f, "user.note", []byte("kept"), 0))
	must(t, unix.Setxattr(f, "user.empty", nil, 0))
	must(t, unix.Setxattr(f, "user.large", bytes.Repeat([]byte("x"), 2000), 0))
	list := acl(1234, 6, 7, 4, 7, 0)
	lists := unix.Setxattr(f, accessList, list, 0) == nil
	if lists {
		must(t, unix.Setxattr(w.in, "system.posix_acl_default", acl(77, 7, 7, 7, 7, 7), 0))
	}
	capable := unix.Setxattr(f, "security.capability", []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0) == nil
	must(t, os.Chmod(filepath.Join(w.in, "plain"), 0o640))

	for _, name := range []string{"f", "plain"} {
		_, err := w.t.Commit(bg, name, []byte("v2"), replacing("v1"))
		must(t, err)
	}
	if string(attribute(t, f, "user.note")) != "kept" || len(attribute(t, f, "user.large")) != 2000 || attribute(t, f, "user.empty") == nil {
		t.Error("attributes are lost")
	}
	if capable && attribute(t, f, "security.capability") != nil {
		t.Error("a capability was given to other content")
	}
	if !lists {
		t.Log("no access control lists here")
		return
	}
	if !bytes.Equal(attribute(t, f, accessList), list) {
		t.Errorf("list %x", attribute(t, f, accessList))
	}
	fi, err := os.Stat(filepath.Join(w.in, "plain"))
	must(t, err)
	if fi.Mode() != 0o640 || attribute(t, filepath.Join(w.in, "plain"), accessList) != nil {
		t.Errorf("a list was forced on a file that had none: %v", fi.Mode())
	}
	_, err = w.t.Commit(bg, "new", []byte("v1"), creating)
	must(t, err)
	if attribute(t, filepath.Join(w.in, "new"), accessList) == nil {
		t.Error("the folder's default list does not reach a new file")
	}
}

// F5, case FI-30: a full disk.
func TestFullDisk_F5(t *testing.T) {
	t.Parallel()
	w := bareWorld(t)
	disk := filepath.Join(w.dir, "disk")
	must(t, os.Mkdir(disk, 0o755))
	if err := unix.Mount("belay-test", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("no small disk to be had here (needs the superuser):", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error("still mounted:", err)
		}
	})
	must(t, os.WriteFile(disk+"/f", []byte("KEEP"), 0o644))
	must(t, os.WriteFile(disk+"/fill", make([]byte, 900<<10), 0o644))
	tree, err := Open(disk, Options{})
	must(t, err)
	defer tree.Close()
	_, err = tree.Commit(bg, "f", make([]byte, 500_000), replacing("KEEP"))
	wantReason(t, err, WriteFailed, "no_space")
	_, err = tree.Commit(bg, "a/b/new", make([]byte, 500_000), Expect{Create: true, Mkdirs: true})
	wantReason(t, err, WriteFailed, "no_space")
	if w.text("disk/f") != "KEEP" || w.names("disk") != "f fill" {
		t.Error("left:", w.names("disk"))
	}

	must(t, unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, err = tree.Commit(bg, "f", []byte("x"), replacing("KEEP"))
	wantReason(t, err, WriteFailed, "read_only")
	_, err = tree.Commit(bg, "new", []byte("x"), creating)
	wantReason(t, err, WriteFailed, "read_only")
	_, err = tree.Commit(bg, "a/new", []byte("x"), Expect{Create: true, Mkdirs: true})
	wantReason(t, err, WriteFailed, "read_only")
	if c, err := tree.Commit(bg, "f", []byte("KEEP"), creating); err != nil || c.Changed {
		t.Errorf("content that is there needs no disk: %+v %v", c, err)
	}
}

// F4: a create without the rename that does not overwrite.
func TestCreateByLink_F4(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.t.steps.create = func(dir *os.Root, _ *os.File, from, to string) error { return createByLink(dir, from, to) }
	_, err := w.t.Commit(bg, "new", []byte("x"), creating)
	must(t, err)
	_, err = w.t.Commit(bg, "new", []byte("y"), creating)
	wantReason(t, err, Exists)
	if w.text("W/new") != "x" || w.names("W") != "new" {
		t.Error(w.names("W"))
	}
	// The name is taken between the look and the commit.
	for name, put := range map[string]func(string){
		"file": func(n string) { must(t, os.WriteFile(n, []byte("theirs"), 0o644)) },
		"link": func(n string) { must(t, os.Symlink("../O/v", n)) },
		"dir":  func(n string) { must(t, os.Mkdir(n, 0o755)) },
	} {
		for _, create := range []func(*os.Root, *os.File, string, string) error{createByRename, func(dir *os.Root, _ *os.File, from, to string) error { return createByLink(dir, from, to) }} {
			w := newWorld(t, Options{})
			w.t.steps.create = func(dir *os.Root, h *os.File, from, to string) error {
				put(filepath.Join(w.in, "new"))
				return create(dir, h, from, to)
			}
			_, err := w.t.Commit(bg, "new", []byte("mine"), creating)
			want := map[string]Reason{"file": Exists, "link": OutsideRoot, "dir": NotRegular}[name]
			wantReason(t, err, want)
			if w.names("W") != strings.TrimSpace("new"+map[string]string{"link": "@"}[name]) || w.names("O") != "" {
				t.Errorf("%s: %s", name, w.names("."))
			}
		}
	}
}
