//go:build unix

package worktree

import "syscall"

func makeFIFO(path string) error { return syscall.Mkfifo(path, 0o644) }

const durableHere = true

// movesInUse: an open folder can be moved as any other.
const movesInUse = true
