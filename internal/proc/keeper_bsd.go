//go:build darwin || freebsd

package proc

import "os"

// listen: what is told is read at once here, since a poll for a hang-up alone is not known to work.
func (k *kept) listen(*os.File) {}
