//go:build unix

package journal

import "os"

// openToAppend makes the file where there is none. It can be moved away and removed meanwhile.
func openToAppend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
}
