package proc

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Each stream holds one buffer here, since the system writes into it while it waits.
const readSize = 16 << 10

var procPeekNamedPipe = windows.NewLazySystemDLL("kernel32.dll").NewProc("PeekNamedPipe")

// pipe makes a pipe whose end for us is overlapped, so that it has deadlines and takes no thread;
// the child's end is a plain one that it inherits.
func (pl *plumbing) pipe(weRead bool) (theirs windows.Handle, ours *os.File, err error) {
	mode, access := uint32(windows.PIPE_ACCESS_OUTBOUND), uint32(windows.GENERIC_READ)
	if weRead {
		// FILE_READ_ATTRIBUTES as an anonymous pipe gives it: some run-time libraries ask for it.
		mode, access = windows.PIPE_ACCESS_INBOUND, windows.GENERIC_WRITE|windows.FILE_READ_ATTRIBUTES
	}
	name, err := windows.UTF16PtrFromString(`\\.\pipe\belay-` + rand.Text())
	if err != nil {
		return 0, nil, err
	}
	// One instance, the first one, not for other machines: nobody else is at the other end.
	h, err := windows.CreateNamedPipe(name, mode|windows.FILE_FLAG_OVERLAPPED|windows.FILE_FLAG_FIRST_PIPE_INSTANCE,
		windows.PIPE_TYPE_BYTE|windows.PIPE_REJECT_REMOTE_CLIENTS, 1, 64<<10, 64<<10, 0, nil)
	if err != nil {
		return 0, nil, err
	}
	sa := &windows.SecurityAttributes{InheritHandle: 1}
	sa.Length = uint32(unsafe.Sizeof(*sa))
	theirs, err = windows.CreateFile(name, access, 0, sa, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		windows.CloseHandle(h)
		return 0, nil, err
	}
	pl.child = append(pl.child, theirs)
	ours = os.NewFile(uintptr(h), "pipe")
	pl.ours = append(pl.ours, ours)
	return theirs, ours, nil
}

// openPipes makes the three streams of a program that has no terminal. feed is the writing end for
// Spec.Stdin.
func (p *Proc) openPipes(pl *plumbing, s *Spec) (feed *os.File, err error) {
	switch {
	case s.OpenStdin:
		h, f, err := pl.pipe(false)
		if err != nil {
			return nil, err
		}
		pl.std[0] = h
		p.input = newInput(f, false)
	case len(s.Stdin) > 0:
		if pl.std[0], feed, err = pl.pipe(false); err != nil {
			return nil, err
		}
	default:
		name, _ := windows.UTF16PtrFromString("NUL")
		sa := &windows.SecurityAttributes{InheritHandle: 1}
		sa.Length = uint32(unsafe.Sizeof(*sa))
		h, err := windows.CreateFile(name, windows.GENERIC_READ, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE, sa, windows.OPEN_EXISTING, 0, 0)
		if err != nil {
			return nil, err
		}
		pl.child = append(pl.child, h)
		pl.std[0] = h
	}
	h, f, err := pl.pipe(true)
	if err != nil {
		return nil, err
	}
	pl.std[1], pl.std[2] = h, h
	p.streams = append(p.streams, newStream(p, f, Stdout, s))
	if !s.Merge {
		if pl.std[2], f, err = pl.pipe(true); err != nil {
			return nil, err
		}
		p.streams = append(p.streams, newStream(p, f, Stderr, s))
	}
	return feed, nil
}

// stream reads one output of one program.
type stream struct {
	proc  *Proc
	file  *os.File
	which Stream
	tty   bool
	began time.Time
	out   func(Stream, []byte) // or nil

	last atomic.Int64 // when something was read last, as the time since began
	stop atomic.Int64 // when to stop at any rate, likewise; 0 until the program has ended
	done chan struct{}
}

func newStream(p *Proc, f *os.File, which Stream, s *Spec) *stream {
	return &stream{proc: p, file: f, which: which, tty: s.TTY != nil, began: p.began, out: s.Output, done: make(chan struct{})}
}

// pump is the goroutine of the stream. It ends at end of file or as finish says.
func (s *stream) pump() {
	defer close(s.done)
	buf := make([]byte, readSize)
	for {
		n, err := s.file.Read(buf)
		if n > 0 {
			s.give(buf[:n])
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if !s.after(buf) {
				return
			}
		case err != nil: // end of file, too
			return
		case s.stop.Load() != 0 && !s.tty:
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
// s. A terminal ends when its console is closed, which first writes out what it holds.
func (s *stream) finish(last time.Time) {
	s.stop.Store(int64(time.Since(s.began) + drainTime))
	if s.tty {
		s.proc.closeConsole()
		s.file.SetReadDeadline(time.Now().Add(drainTime))
		return
	}
	s.file.SetReadDeadline(last.Add(quiet))
}

// again waits for further 50 ms, but not past the stop.
func (s *stream) again() {
	s.file.SetReadDeadline(earlier(time.Now().Add(quiet), s.began.Add(time.Duration(s.stop.Load()))))
}

// after is called when the time is up, and tells whether to go on. The deadline and the last bytes
// race: what is in the pipe now is still read.
func (s *stream) after(buf []byte) (more bool) {
	avail := s.available()
	for avail > 0 {
		s.file.SetReadDeadline(time.Now().Add(drainTime)) // the bytes are there: this does not wait
		n, err := s.file.Read(buf[:min(len(buf), avail)])
		if n > 0 {
			s.give(buf[:n])
		}
		if n <= 0 || err != nil {
			return false
		}
		more = true
		avail -= n
	}
	if !more || s.tty || time.Since(s.began) >= time.Duration(s.stop.Load()) {
		return false
	}
	s.again()
	return true
}

func (s *stream) available() (n int) {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) {
		var avail uint32
		if r, _, _ := procPeekNamedPipe.Call(fd, 0, 0, 0, uintptr(unsafe.Pointer(&avail)), 0); r != 0 {
			n = int(avail)
		}
	})
	return n
}

// close is called after done.
func (s *stream) close() {
	if !s.tty { // the terminal is closed by its owner
		s.file.Close()
	}
}

// feed writes all of b and then closes: the pump of Spec.Stdin. Whoever does not read it does not
// have to.
func feed(w io.WriteCloser, b []byte) {
	w.Write(b)
	w.Close()
}

// A console does not cut lines.
const lineLimit = 0

func editsLines(*os.File) bool { return false }

// openTerminal makes a pseudo-console. Systems before Windows 10 1809 have none: NoTerminal.
func (p *Proc) openTerminal(pl *plumbing, s *Spec) error {
	if err := windows.NewLazySystemDLL("kernel32.dll").NewProc("CreatePseudoConsole").Find(); err != nil {
		return syscall.Errno(windows.ERROR_NOT_SUPPORTED)
	}
	read, in, err := pl.pipe(false)
	if err != nil {
		return err
	}
	write, out, err := pl.pipe(true)
	if err != nil {
		return err
	}
	if err := windows.CreatePseudoConsole(coord(*s.TTY), read, write, 0, &p.sys.console); err != nil {
		return err
	}
	p.tty = out
	p.input = newInput(in, true)
	p.streams = append(p.streams, newStream(p, out, Stdout, s))
	return nil
}

func coord(s Size) windows.Coord {
	const most = 32767
	return windows.Coord{X: int16(min(s.Cols, most)), Y: int16(min(s.Rows, most))}
}

// closeConsole hangs up. The system tells every program of the console and, in older versions,
// waits until all output was read: that is why it has its own goroutine.
func (p *Proc) closeConsole() {
	p.sys.mu.Lock()
	defer p.sys.mu.Unlock()
	if p.sys.console == 0 || p.sys.closed {
		return
	}
	p.sys.closed = true
	console := p.sys.console
	go windows.ClosePseudoConsole(console)
}

// Resize gives the terminal another size. 32767 cells are the most here.
func (p *Proc) Resize(s Size) error {
	if p.tty == nil {
		return ErrNoTerminal
	}
	if !s.valid() {
		return ErrBadSize
	}
	p.sys.mu.Lock()
	defer p.sys.mu.Unlock()
	if p.sys.closed || windows.ResizePseudoConsole(p.sys.console, coord(s)) != nil {
		return p.endedOr(ErrNoTerminal)
	}
	return nil
}
