//go:build !windows

package cli

import (
	"errors"
	"syscall"
)

// readerLeft tells whether a write failed because nobody reads any more.
func readerLeft(err error) bool { return errors.Is(err, syscall.EPIPE) }
