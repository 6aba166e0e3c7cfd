//go:build unix

package worktree

import (
	"syscall"
	"testing"
)

func makeFIFO(path string) error { return syscall.Mkfifo(path, 0o644) }

const durableHere = true

func tempDir(t testing.TB) string { return t.TempDir() }
