//go:build !unix

package worktree

import (
	"errors"
	"os"
	"testing"
)

func makeFIFO(string) error { return errors.ErrUnsupported }

const durableHere = false

// tempDir does not insist on being cleaned up: wine removes no file that was renamed over.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "belay-worktree-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
