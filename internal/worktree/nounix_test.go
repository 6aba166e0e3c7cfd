//go:build !unix

package worktree

import "errors"

func makeFIFO(string) error { return errors.ErrUnsupported }

const durableHere = false
