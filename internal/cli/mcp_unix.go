//go:build unix

package cli

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// openPrivate waits for no writer of a FIFO.
func openPrivate(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, why(err)
	}
	return f, nil
}

// private wants a file that its owner alone can read and write, and that is ours or
// root's.
func private(info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 != 0 {
		return errors.New("can be read by others; make its mode 0600")
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return errors.New("belongs to another account")
	}
	return nil
}
