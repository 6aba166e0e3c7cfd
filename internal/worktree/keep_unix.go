//go:build unix

package worktree

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// settle closes the new content for writing and does the rest by a handle that cannot write: metadata, sync.
func (t *Tree) settle(dir *os.Root, temp string, f *os.File, written os.FileInfo, old *target, allowForks func()) error {
	if err := t.steps.close(f); err != nil {
		f.Close()
		return err
	}
	allowForks()
	r, err := t.steps.reopen(dir, temp)
	if err != nil {
		return err
	}
	defer r.Close()
	again, err := r.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(again, written) {
		return errAgain // somebody took our file away: not for us to sync theirs
	}
	if old != nil {
		if err := t.steps.keep(r, old.f); err != nil {
			return err
		}
	}
	return t.steps.sync(r)
}

// keep gives f the metadata of old, by handles. The order matters: a change of owner clears mode bits, a change of mode
// rewrites the mask of an access control list, and a list, which is an extended attribute, says more than the mode.
func keep(f, old *os.File) error {
	var have, want unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &have); err != nil {
		return err
	}
	if err := unix.Fstat(int(old.Fd()), &want); err != nil {
		return err
	}
	foreign := false                  // the group is another
	mode := uint32(want.Mode) & 0o777 // set-user-ID, set-group-ID and sticky are dropped
	if have.Uid != want.Uid {
		// Owner and group apart: an ordinary user may give the file to another group of theirs, not to another user.
		if err := chown(f, int(want.Uid), -1); err != nil {
			return err
		}
	}
	if have.Gid != want.Gid {
		if err := chown(f, -1, int(want.Gid)); err != nil {
			return err
		}
		if err := unix.Fstat(int(f.Fd()), &have); err != nil {
			return err
		}
		if have.Gid != want.Gid {
			// Another group gets no more than everybody.
			foreign = true
			mode = mode&^0o070 | mode&0o007<<3
		}
	}
	if err := dropInherited(f); err != nil {
		return err
	}
	if err := unix.Fchmod(int(f.Fd()), mode); err != nil {
		return err
	}
	return keepAttributes(f, old, foreign)
}

// chown takes a refusal for an answer: the owner is kept where the process may.
func chown(f *os.File, uid, gid int) error {
	err := unix.Fchown(int(f.Fd()), uid, gid)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil // EINVAL: an owner that does not exist in this user namespace
	}
	return err
}
