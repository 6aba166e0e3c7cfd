package worktree

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

func unwrapAll(err error) error { return errors.Unwrap(err) }

func appendTo(t testing.TB, name, text string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteString(text)
	must(t, err)
}

func writeAt(t testing.TB, name, text string, at int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte(text), at)
	must(t, err)
}

func timeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(bg, d)
}

// withoutDisk leaves out the waits for the disk where a test is about something else.
func withoutDisk(t *Tree) {
	t.steps.sync = func(*os.File) error { return nil }
	t.steps.syncDir = func(*os.File) error { return nil }
}
