package worktree

import (
	"crypto/sha256"
	"errors"
	"hash"
	"os"
	"testing"
)

func newHash() hash.Hash { return sha256.New() }

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
