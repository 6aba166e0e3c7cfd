package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { scenes["full-disk"] = fullDisk }

// P6: a disk that is really full: a small tmpfs in a mount namespace of the helper's
// own, so that the machine sees nothing of it. Root, or a user who may make user
// namespaces.
func TestP6FullDisk(t *testing.T) {
	t.Parallel()
	cmd, _ := helper(t, "full-disk", false)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
	}
	out, err := cmd.CombinedOutput()
	if cmd.Process == nil || bytes.Contains(out, []byte("cannot mount")) {
		t.Skipf("no small tmpfs on this machine: %v %s", err, out)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func fullDisk() error {
	work, err := os.Getwd()
	if err != nil {
		return err
	}
	// Private first: nothing of this may reach the machine's own mounts.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot mount: %w", err)
	}
	if err := unix.Mount("spool-test", work, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=256k,nr_inodes=6"); err != nil {
		return fmt.Errorf("cannot mount: %w", err)
	}
	defer unix.Unmount(work, unix.MNT_DETACH)
	d, err := New(work, Limits{})
	if err != nil {
		return err
	}
	a := d.Log()
	text := strings.Repeat("0123456789", 40_000)
	if n := a.Write([]byte(text)); n == 0 || n > 256<<10 {
		return fmt.Errorf("kept %d of %d on 256 KiB", n, len(text))
	}
	if n := a.Write([]byte("x")); n != 0 {
		return fmt.Errorf("kept %d after the disk was full", n)
	}
	if d.used != a.Len() {
		return fmt.Errorf("charged %d for %d bytes", d.used, a.Len())
	}
	got, err := io.ReadAll(io.NewSectionReader(a, 0, 1<<20))
	if err != nil || string(got) != text[:a.Len()] {
		return fmt.Errorf("read %d of %d bytes back, %v", len(got), a.Len(), err)
	}
	// Another log ends as well, and once the first is evicted there is room.
	b := d.Log()
	if n := b.Write([]byte("b")); n != 0 {
		return fmt.Errorf("b kept %d on a full disk", n)
	}
	a.Remove()
	c := d.Log()
	if n := c.Write([]byte("c")); n != 1 {
		return fmt.Errorf("c kept %d after an eviction", n)
	}
	// Out of inodes: root of the mount, directory, b and c are four of six.
	var kept int
	for range 5 {
		kept += d.Log().Write([]byte("e"))
	}
	if kept != 2 {
		return fmt.Errorf("%d logs where there are inodes for 2", kept)
	}
	if err := d.Close(); err != nil {
		return err
	}
	// Full before the directory is made.
	if err := os.WriteFile(filepath.Join(work, "fill"), make([]byte, 300<<10), 0o600); !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("the disk is not full: %v", err)
	}
	d, _ = New(work, Limits{})
	if n := d.Log().Write([]byte("x")); n != 0 {
		return fmt.Errorf("kept %d on a full disk", n)
	}
	if err := d.Close(); err != nil {
		return err
	}
	left, err := os.ReadDir(work)
	if err != nil || len(left) != 1 {
		return fmt.Errorf("left %v, %v", left, err)
	}
	return nil
}
