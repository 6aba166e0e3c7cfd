//go:build linux || darwin || freebsd

package proc

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// clearCloexec makes a descriptor one that any child inherits, as a careless parent of ours would.
func clearCloexec(t testing.TB, f *os.File) {
	t.Helper()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
}
