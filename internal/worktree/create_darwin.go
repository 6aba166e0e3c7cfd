package worktree

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// createByRename uses the rename that does not overwrite, which some file systems lack.
func createByRename(dir *os.Root, handle *os.File, from, to string) error {
	fd := int(handle.Fd())
	err := unix.RenameatxNp(fd, from, fd, to, unix.RENAME_EXCL)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP) {
		return createByLink(dir, from, to)
	}
	return err
}
