package worktree

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// createByRename uses the rename that does not overwrite, which some file systems lack.
func createByRename(dir *os.Root, handle *os.File, from, to string) error {
	fd := int(handle.Fd())
	err := unix.Renameat2(fd, from, fd, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP) {
		return createByLink(dir, from, to)
	}
	return err
}
