//go:build !unix

package worktree

import "errors"

func makeFIFO(string) error { return errors.ErrUnsupported }

const durableHere = false

// movesInUse: Windows may refuse to move a folder that is open, or one around it.
const movesInUse = false
