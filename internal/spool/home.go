package spool

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
)

var (
	errSwapped     = errors.New("another file is in the place of the one that was made")
	errOccupied    = errors.New("the new directory is not empty")
	errNoDirectory = errors.New("the parent is not a directory")
)

// home is the directory on disk. It holds three descriptors for as long as it
// lives: parent and self, so that neither is looked up by a path again, and lock.
type home struct {
	parent *os.Root
	self   *os.Root
	name   string      // in parent
	info   os.FileInfo // identity; its inode cannot be used again while self is open
	// lock is a shared flock on the directory, by which cleaners that ask (as
	// systemd-tmpfiles does) see that it is in use, however old its files are.
	lock *os.File
}

// makeHome makes a directory that is empty, ours, and closed to other accounts, or
// leaves nothing behind.
func makeHome(parent string) (*home, error) {
	// OpenRoot would wait for a writer where parent is a FIFO.
	if fi, err := os.Stat(parent); err != nil {
		return nil, err
	} else if !fi.IsDir() {
		return nil, errNoDirectory
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return nil, err
	}
	h := &home{parent: root, name: "belay-" + random()}
	// No second try for a name that exists: with 130 random bits it does not, and
	// if it does, somebody knows what we draw.
	if err := mkdir(h.parent, h.name); err != nil {
		h.closeHandles()
		return nil, err
	}
	if err := h.hold(); err != nil {
		// An empty directory at most; if it was swapped for one that is not
		// empty, rmdir leaves that alone.
		rmdir(h.parent, h.name)
		h.closeHandles()
		return nil, err
	}
	return h, nil
}

// hold opens the directory just made and checks that it is the one: in a parent
// that others can write to and that is not sticky it can be swapped at once.
func (h *home) hold() (err error) {
	// As a file first: that needs only the right to read it, which leaves a umask
	// that took the owner's other rights away to be mended by handle.
	if h.lock, err = h.parent.OpenFile(h.name, os.O_RDONLY|noWait, 0); err != nil {
		return err
	}
	if h.info, err = h.lock.Stat(); err != nil {
		return err
	}
	if !h.info.IsDir() {
		return errSwapped
	}
	if err := h.inPlace(); err != nil {
		return err
	}
	if err := ensureMode(h.lock, 0o700); err != nil {
		return err
	}
	if _, err := h.lock.ReadDir(1); !errors.Is(err, io.EOF) {
		return errOccupied
	}
	if h.self, err = h.parent.OpenRoot(h.name); err != nil {
		return err
	}
	if now, err := h.self.Stat("."); err != nil {
		return err
	} else if !os.SameFile(now, h.info) {
		return errSwapped
	}
	announce(h.lock)
	return nil
}

// inPlace says whether the name in parent still stands for the directory held.
func (h *home) inPlace() error {
	now, err := h.parent.Lstat(h.name)
	if err != nil {
		return err
	}
	if !os.SameFile(now, h.info) {
		return errSwapped
	}
	return nil
}

// create makes a new log file and stores its name and identity.
func (h *home) create(name *string, info *os.FileInfo) (*os.File, error) {
	n := random() + ".log"
	f, err := h.self.OpenFile(n, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = ensureMode(f, 0o600)
	var fi os.FileInfo
	if err == nil {
		fi, err = f.Stat()
	}
	if err != nil {
		f.Close()
		h.self.Remove(n)
		return nil, err
	}
	*name, *info = n, fi
	return f, nil
}

// open opens a log file again, if it is still the one that was made, to write on
// from end.
func (h *home) open(name string, info os.FileInfo, end int64) (*os.File, error) {
	f, err := h.self.OpenFile(name, os.O_RDWR|noWait, 0)
	if err != nil {
		return nil, err
	}
	now, err := f.Stat()
	if err == nil && !os.SameFile(now, info) {
		err = errSwapped
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// unlink removes a log file if it is still the one that was made. One that is gone,
// or that has another in its place, is no error: ours is not there any more.
func (h *home) unlink(name string, info os.FileInfo) error {
	now, err := h.self.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !os.SameFile(now, info):
		return nil
	}
	if err := h.self.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// remove removes the directory, if it is in its place and empty, and gives up the
// handles. Gone from its place is no error, since whoever removed or renamed it
// took it over; something else in its place is one, and so are files in it that
// are not ours.
func (h *home) remove() error {
	defer h.closeHandles()
	if err := h.inPlace(); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	// Before the removal: Windows keeps a directory with open handles, and rmdir
	// needs a descriptor where there may be none left.
	h.lock.Close()
	h.self.Close()
	if err := rmdir(h.parent, h.name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (h *home) closeHandles() {
	if h.lock != nil {
		h.lock.Close()
	}
	if h.self != nil {
		h.self.Close()
	}
	h.parent.Close()
}

// random is a name of 26 characters with 130 random bits, lower-case because some
// file systems do not tell the cases apart.
func random() string { return strings.ToLower(rand.Text()) }
