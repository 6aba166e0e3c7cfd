//go:build !linux

package worktree

import "os"

// recheckPath compares what the absolute path leads to: processes start by path here.
func recheckPath(d *Dir) error {
	fi, err := os.Stat(d.Path())
	if err != nil || !os.SameFile(fi, d.info) {
		return &Error{Reason: WorkDir, Path: d.name, What: "missing", cause: err}
	}
	return nil
}
