//go:build linux || darwin || freebsd

package proc

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// S3: when the time is up before the reader came to it, what is in the pipe is still read, though
// somebody holds the other end and no end of file comes.
func TestDrainReadsWhatIsThere(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	fd, err := dupCloexec(r)
	r.Close()
	if err != nil {
		t.Fatal(err)
	}
	unix.SetNonblock(fd, true)
	if _, err := w.Write(make([]byte, 50000)); err != nil {
		t.Fatal(err)
	}
	n := 0
	s, err := newStream(os.NewFile(uintptr(fd), "pipe"), Stdout, &Spec{Output: func(_ Stream, p []byte) { n += len(p) }}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s.finish(time.Unix(1, 0))
	go s.pump()
	select {
	case <-s.done:
	case <-time.After(hang):
		t.Fatal("hangs")
	}
	s.close()
	if n != 50000 {
		t.Errorf("%d bytes", n)
	}
}
