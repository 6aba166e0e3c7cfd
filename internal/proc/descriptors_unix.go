//go:build linux || darwin || freebsd

package proc

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// markDescriptors sets close-on-exec on all descriptors above 2 that a directory of the system
// lists.
func markDescriptors(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}
