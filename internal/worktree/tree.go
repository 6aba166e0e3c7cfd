// Package worktree keeps files under one root: it reads them in bounded pages, replaces them whole, and never leaves the root.
//
// What it promises. A [Tree] is opened once and every name is resolved below the held root by handles ([os.Root]), one
// component at a time; a name, or a link met on the way, that would step outside is refused even while another program
// swaps the components. A read holds at most the page that was asked for and [scratchBytes] more, and never waits on a
// file that is not regular. A commit is all or nothing: the content the caller expected is replaced by the new one in a
// single rename, or the old content stays whole and nothing else is left behind.
//
// What it does not promise. It is no sandbox: it has the authority of the user. Writers other than this package can still
// change a file between the last check of its digest and the rename. A hard link to a file outside the root is a regular
// file of this tree: it is read as such, and replacing it breaks the link and leaves the other name alone. A bind mount
// below the root is part of the tree. A program that writes through a shared memory mapping may change content without
// changing the times of the file: pages and their digests can miss that, a commit cannot, since it reads the file again.
// A file system that hangs blocks the call; nothing can cancel that.
//
// All methods of a Tree may be called from any number of goroutines. Writers into one directory take turns, also
// with other processes of the same user that use this package.
package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

const (
	// DefaultPageBytes bounds one page where [Options] does not. A page is in memory several times on its way to a client.
	DefaultPageBytes = 256 << 10
	// DefaultFileBytes bounds what is digested, replaced or edited where [Options] does not. SHA-256 of it takes some 40 ms.
	DefaultFileBytes = 64 << 20

	minPageBytes = 4 // the longest UTF-8 sequence: a smaller page could not hold every character
)

// Options are the limits of a [Tree]. The zero value is usable.
type Options struct {
	// MaxPageBytes is the most content that one page carries; 0 means [DefaultPageBytes]. Less than 4 counts as 4.
	MaxPageBytes int64
	// MaxFileBytes is the size of the largest file that is digested, replaced or edited, and of the largest new content;
	// 0 means [DefaultFileBytes]. Larger files can still be read in pages, without a digest.
	MaxFileBytes int64
	// Protect lists names, such as ".git", that no write may reach: not the entry itself and nothing below it, at any
	// depth, in any spelling (letter case, trailing dots and blanks, invisible characters) and also through links.
	// Reading is not restricted. It is a guard against accidents, not a boundary.
	Protect []string
	// LockDir is where lock files live on systems and file systems that cannot lock a directory itself (Windows, some
	// network file systems). It must be outside the tree. "" means belay/locks in the user's cache directory.
	LockDir string
}

// Tree is one open root. Make it with [Open].
type Tree struct {
	root    *os.Root
	dir     *os.File // the same, for processes that start in it
	path    string   // absolute, links resolved when opened
	aliases []rooted // the root as given and as resolved, for absolute names
	escapes error    // what os.Root answers when a name leaves the root; it exports no name for it
	o       Options
	protect []string // folded
	digests digestCache
	steps   steps // the effects of a commit, one field each, so that a test can fail exactly one
}

// Open opens the tree below root, which must be the absolute path of a directory. A root that is a link is resolved now
// and never again: if the directory is moved afterwards, the tree moves with it. The error is an [*Error].
func Open(root string, o Options) (*Tree, error) {
	if !filepath.IsAbs(root) {
		return nil, &Error{Reason: BadName, Path: root, What: "not_absolute"}
	}
	given := filepath.Clean(root)
	resolved, err := filepath.EvalSymlinks(given)
	if err != nil {
		return nil, rootError(given, err)
	}
	// With the slash the system takes nothing but a directory: a FIFO would be waited for.
	r, err := os.OpenRoot(strings.TrimRight(resolved, "/") + "/")
	if err != nil {
		return nil, rootError(given, err)
	}
	if o.MaxPageBytes <= 0 {
		o.MaxPageBytes = DefaultPageBytes
	}
	o.MaxPageBytes = max(o.MaxPageBytes, minPageBytes)
	if o.MaxFileBytes <= 0 {
		o.MaxFileBytes = DefaultFileBytes
	}
	t := &Tree{root: r, path: resolved, o: o, steps: realSteps()}
	for _, alias := range []string{given, resolved} {
		t.aliases = append(t.aliases, rootedAt(localRules, alias))
	}
	for _, name := range o.Protect {
		t.protect = append(t.protect, fold(name))
	}
	_, err = r.Lstat("..")
	if err == nil {
		r.Close()
		return nil, &Error{Reason: ReadFailed, Path: given, What: "io"} // this os.Root does not confine
	}
	t.escapes = innermost(err)
	if t.dir, err = r.Open("."); err != nil {
		r.Close()
		return nil, rootError(given, err)
	}
	return t, nil
}

func rootError(path string, err error) *Error {
	e := &Error{Reason: WorkDir, Path: path, What: "missing", cause: err}
	switch {
	case errors.Is(err, os.ErrPermission):
		e.What = "permission"
	case !errors.Is(err, os.ErrNotExist):
		e.What = "not_directory"
	}
	return e
}

// Root returns the absolute path of the root as resolved when the tree was opened.
func (t *Tree) Root() string { return t.path }

// Close lets go of the root. Calls that are under way may finish or fail; none acts outside the tree.
func (t *Tree) Close() error {
	t.dir.Close()
	return t.root.Close()
}
