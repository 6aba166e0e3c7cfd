//go:build linux || darwin || freebsd

package proc

import (
	"os"
	"path/filepath"
	"testing"
)

// A directory of PATH that may not be searched hides what is in it, and nothing more: a
// program that is nowhere else is missing, not forbidden. (Root may search everything.)
func TestLookPassesOverClosedDirectories(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("TestAsOrdinaryUser runs it")
	}
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	_, err := Look("no-such-program", "/", []string{"PATH=" + closed + ":/usr/bin:/bin"})
	if e, ok := err.(*StartError); !ok || e.Reason != Missing {
		t.Errorf("got %v", err)
	}
	if _, err := Look("sh", "/", []string{"PATH=" + closed + ":/usr/bin:/bin"}); err != nil {
		t.Error(err)
	}
}
