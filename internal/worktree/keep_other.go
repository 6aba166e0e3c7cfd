//go:build unix && !linux

package worktree

import "os"

// Owner, group and permission bits are kept here; extended attributes and access control lists are not.
func dropInherited(*os.File) error               { return nil }
func keepAttributes(_, _ *os.File, _ bool) error { return nil }
