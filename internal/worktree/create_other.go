//go:build !linux && !darwin

package worktree

import "os"

// createByRename: there is no rename here that does not overwrite.
func createByRename(dir *os.Root, _ *os.File, from, to string) error {
	return createByLink(dir, from, to)
}
