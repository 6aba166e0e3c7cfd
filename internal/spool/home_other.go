//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package spool

import (
	"errors"
	"os"
)

const noWait = 0

// mkdir refuses: that a directory is private cannot be checked here, so there are
// no logs.
func mkdir(*os.Root, string) error { return errors.ErrUnsupported }

func rmdir(*os.Root, string) error { return errors.ErrUnsupported }

func ensureMode(*os.File, os.FileMode) error { return errors.ErrUnsupported }

func announce(*os.File) {}
