package worktree

import (
	"errors"
	"io/fs"
	"os"
)

// createByLink puts the new content under its name without overwriting, by a second link to it. File systems without links
// get a look and a rename: there a writer that does not take the folder's lock can slip in between, as it can for a replace.
func createByLink(dir *os.Root, from, to string) error {
	err := dir.Link(from, to)
	if err == nil {
		// The name is in place; a temporary name that stays goes with the next write to this file.
		_ = dir.Remove(from)
		return nil
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, lerr := dir.Lstat(to); lerr == nil {
		return fs.ErrExist
	} else if !errors.Is(lerr, fs.ErrNotExist) {
		return err
	}
	return dir.Rename(from, to)
}
