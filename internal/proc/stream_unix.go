//go:build linux || darwin || freebsd

package proc

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A pipe holds 64 KiB unless it was made longer, a terminal 4: more at once is rare.
const readSize = 64 << 10

// A program that fills its pipe some times in a row gets a longer one: then it goes on writing while we read, in
// place of taking turns with us, and 2 GB take half of the time. Only a flood gets it, since the pages of all pipes of
// a user are limited.
const (
	floodReads = 4
	floodPipe  = 4 * readSize
)

// ttyTail bounds what is read from a terminal after the end of its program. The kernel holds less;
// whoever keeps writing meanwhile is a stray.
const ttyTail = 1 << 20

// Buffers are taken when there is something to read, so that a silent program holds none.
var buffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// stream reads one output of one program.
type stream struct {
	file  *os.File
	raw   syscall.RawConn
	which Stream
	tty   bool
	began time.Time
	out   func(Stream, []byte) // or nil

	last atomic.Int64 // when something was read last, as the time since began
	stop atomic.Int64 // when to stop at any rate, likewise; 0 until the program has ended
	done chan struct{}
}

func newStream(f *os.File, which Stream, s *Spec, began time.Time) (*stream, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &stream{file: f, raw: raw, which: which, tty: s.TTY != nil, began: began, out: s.Output, done: make(chan struct{})}, nil
}

// pump is the goroutine of the stream. It ends at end of file or as finish says.
func (s *stream) pump() {
	defer close(s.done)
	var (
		buf   *[readSize]byte
		n     int
		err   error
		flood int // reads in a row that found much
	)
	read := func(fd uintptr) bool {
		b := buffers.Get().(*[readSize]byte)
		n, err = ignoringEINTR(func() (int, error) { return unix.Read(int(fd), b[:]) })
		if err == unix.EAGAIN {
			buffers.Put(b)
			return false
		}
		buf = b
		return true
	}
	for {
		if rerr := s.raw.Read(read); rerr != nil {
			if !errors.Is(rerr, os.ErrDeadlineExceeded) || !s.after() {
				return
			}
			continue
		}
		if n > 0 {
			s.give(buf[:n])
		}
		switch {
		case n < readSize/2:
			flood = 0
		case !s.tty:
			if flood++; flood == floodReads {
				s.raw.Control(func(fd uintptr) { lengthen(int(fd), floodPipe) })
			}
		}
		buffers.Put(buf)
		// A terminal whose other side is closed answers EIO.
		if n <= 0 || err != nil {
			return
		}
		if s.stop.Load() != 0 {
			s.again()
		}
	}
}

func (s *stream) give(p []byte) {
	s.last.Store(int64(time.Since(s.began)))
	if s.out != nil {
		s.out(s.which, p)
	}
}

// finish tells the reader that the program has ended, and that it last wrote at the given time or
// before. The reader goes on until the end of file, or until the pipe was quiet for 50 ms, or for 1
// s.
func (s *stream) finish(last time.Time) {
	select {
	case <-s.done: // the usual end; to set a deadline would wake the poller
		return
	default:
	}
	s.stop.Store(int64(time.Since(s.began) + drainTime))
	if s.tty {
		last = time.Time{} // what was written can be read now, see after
	}
	s.file.SetReadDeadline(last.Add(quiet))
}

// again waits for further 50 ms, but not past the stop.
func (s *stream) again() {
	s.file.SetReadDeadline(earlier(time.Now().Add(quiet), s.began.Add(time.Duration(s.stop.Load()))))
}

// after is called when the time is up, and tells whether to go on. The deadline and the last bytes
// race: what is in the pipe now is still read.
func (s *stream) after() (more bool) {
	if s.tty {
		s.readOut(ttyTail)
		return false
	}
	var avail int
	s.raw.Control(func(fd uintptr) { avail, _ = unix.IoctlGetInt(int(fd), inputQueue) })
	if avail <= 0 {
		return false
	}
	if s.readOut(avail) < avail {
		return false
	}
	if time.Since(s.began) >= time.Duration(s.stop.Load()) {
		return false
	}
	s.again()
	return true
}

// readOut reads at most n bytes without waiting.
func (s *stream) readOut(n int) (got int) {
	b := buffers.Get().(*[readSize]byte)
	defer buffers.Put(b)
	for got < n {
		var m int
		var err error
		cerr := s.raw.Control(func(fd uintptr) {
			m, err = ignoringEINTR(func() (int, error) { return unix.Read(int(fd), b[:min(readSize, n-got)]) })
		})
		if cerr != nil || err != nil || m <= 0 {
			break
		}
		got += m
		s.give(b[:m])
	}
	return got
}

// close is called after done.
func (s *stream) close() {
	if !s.tty { // the terminal is closed by its owner
		s.file.Close()
	}
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != unix.EINTR {
			return n, err
		}
	}
}

// feed writes all of b and then closes: the pump of Spec.Stdin. Whoever does not read it does not
// have to.
func feed(w io.WriteCloser, b []byte) {
	w.Write(b)
	w.Close()
}
