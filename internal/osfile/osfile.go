// Package osfile is what the systems do each in its own way about a file that several programs
// append to: the lock of its writer, that its name survives a loss of power, and the errors of a
// disk that takes nothing.
package osfile

import (
	"errors"
	"os"
	"time"
)

// ErrBusy says that another opening of the file held the lock all the time.
var ErrBusy = errors.New("osfile: another one holds the lock")

// Lock keeps all others who ask for it from the file until unlock, in this process too. It waits no
// longer than patience. It goes with the opening: a writer that is killed gives it back, at once, or
// when a child that it was just starting has come so far as to close its copy. A file system without
// locks is taken as one where nobody else comes.
//
// unlock says so rather than leave it to the close, for the same child's sake.
func Lock(f *os.File, patience time.Duration) (unlock func(), err error) {
	end := time.Now().Add(patience)
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		unlock, err := tryLock(f)
		if err != ErrBusy || time.Now().After(end) {
			return unlock, err
		}
		time.Sleep(pause)
	}
}
