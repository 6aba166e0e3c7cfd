//go:build linux || darwin || freebsd

package proc

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A program file that is busy is tried again after 1, 2, 4 ... 64 ms: some other start in this
// process holds a writable descriptor between its fork and its exec.
const busyTries = 8

func (s *Spec) checkStrings() error {
	bad := func(what string) error { return &StartError{Reason: BadArgument, What: what} }
	if strings.IndexByte(s.Path, 0) >= 0 {
		return bad(Program)
	}
	if strings.IndexByte(s.Dir, 0) >= 0 {
		return bad(Directory)
	}
	for _, list := range [][]string{s.Argv, s.Env} {
		for _, a := range list {
			if strings.IndexByte(a, 0) >= 0 {
				return bad(Argument)
			}
			if stringLimit > 0 && len(a) > stringLimit {
				return &StartError{Reason: ArgumentTooLong, What: Argument, Limit: int64(stringLimit), Actual: int64(len(a))}
			}
		}
	}
	return nil
}

// plumbing is what Start opens: the child's side is closed in any case, ours if nothing was
// started.
type plumbing struct {
	child []int
	ours  []*os.File
	fds   [3]uintptr
}

func (pl *plumbing) closeChild() {
	for _, fd := range pl.child {
		unix.Close(fd)
	}
	pl.child = nil
}

func (pl *plumbing) closeOurs() {
	for _, f := range pl.ours {
		f.Close()
	}
}

// pipe makes a pipe whose end for us is non-blocking, so that it works with the runtime's poller.
func (pl *plumbing) pipe(weRead bool) (theirs int, ours *os.File, err error) {
	var fds [2]int
	if err := pipeCloexec(&fds); err != nil {
		return -1, nil, err
	}
	our, their := fds[0], fds[1]
	if !weRead {
		our, their = their, our
	}
	pl.child = append(pl.child, their)
	unix.SetNonblock(our, true)
	f := os.NewFile(uintptr(our), "pipe")
	pl.ours = append(pl.ours, f)
	return their, f, nil
}

func (p *Proc) start(ctx context.Context, s *Spec) (err error) {
	pl := &plumbing{}
	defer func() {
		pl.closeChild()
		if err != nil {
			pl.closeOurs()
		}
	}()
	p.began = time.Now()
	var feedFile *os.File
	if s.TTY != nil {
		if err := p.openTerminal(pl, s); err != nil {
			return err
		}
	} else if feedFile, err = p.openPipes(pl, s); err != nil {
		return &StartError{Reason: Resources, What: Program, cause: errnoOf(err)}
	}

	// What fits into the pipe is given at once, without a goroutine.
	rest := s.Stdin
	if feedFile != nil {
		rest = rest[prefill(feedFile, rest):]
		if len(rest) == 0 {
			feedFile.Close()
			feedFile = nil
		} else {
			rest = append([]byte(nil), rest...)
		}
	}

	onlyThreeDescriptors()
	attr := &syscall.ProcAttr{Dir: s.Dir, Env: s.Env, Files: pl.fds[:], Sys: p.sys.attr(s)}
	if attr.Env == nil {
		attr.Env = []string{}
	}
	if s.DirFile != nil {
		if d := heldDir(s.DirFile); d != "" {
			attr.Dir = d
		}
	}
	s.Keeper.expect(s.Mark)
	for try := 0; ; try++ {
		if s.Before != nil {
			if err := s.Before(); err != nil {
				s.Keeper.forget(0, s.Mark)
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			s.Keeper.forget(0, s.Mark)
			return err
		}
		p.began = time.Now()
		p.pid, err = syscall.ForkExec(s.Path, s.Argv, attr)
		if err == unix.ETXTBSY && try < busyTries-1 {
			time.Sleep(time.Millisecond << try)
			continue
		}
		if err != nil {
			s.Keeper.forget(0, s.Mark)
			return s.explain(err, attr.Dir)
		}
		break
	}
	if p.keeper != nil {
		p.sys.outputs = inodesOf(pl.fds[1], pl.fds[2])
		p.keeper.add(p.pid, p.sys.outputs)
	}
	p.sys.started()
	for _, st := range p.streams {
		st.began = p.began
	}
	if feedFile != nil {
		p.feeding = feedFile
		p.feed.Go(func() { feed(feedFile, rest) })
	}
	return nil
}

// openPipes makes the three streams of a program that has no terminal. feed is the writing end for
// Spec.Stdin.
func (p *Proc) openPipes(pl *plumbing, s *Spec) (feed *os.File, err error) {
	var in int
	switch {
	case s.OpenStdin:
		var f *os.File
		if in, f, err = pl.pipe(false); err != nil {
			return nil, err
		}
		p.input = newInput(f, false)
	case len(s.Stdin) > 0:
		if in, feed, err = pl.pipe(false); err != nil {
			return nil, err
		}
	default:
		if in, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return nil, err
		}
		pl.child = append(pl.child, in)
	}
	out, f, err := pl.pipe(true)
	if err != nil {
		return nil, err
	}
	st, err := newStream(f, Stdout, s, p.began)
	if err != nil {
		return nil, err
	}
	p.streams = append(p.streams, st)
	errFD := out
	if !s.Merge {
		if errFD, f, err = pl.pipe(true); err != nil {
			return nil, err
		}
		if st, err = newStream(f, Stderr, s, p.began); err != nil {
			return nil, err
		}
		p.streams = append(p.streams, st)
	}
	pl.fds = [3]uintptr{uintptr(in), uintptr(out), uintptr(errFD)}
	return feed, nil
}

// prefill writes what goes without waiting.
func prefill(f *os.File, b []byte) (n int) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) {
		for n < len(b) {
			m, err := ignoringEINTR(func() (int, error) { return unix.Write(int(fd), b[n:]) })
			if m <= 0 || err != nil {
				return
			}
			n += m
		}
	})
	return n
}

// explain turns the one error number of a failed start, which may be about the directory, the
// program or the interpreter of a script, into what is wrong.
func (s *Spec) explain(err error, dir string) error {
	e := &StartError{Reason: IO, What: Program, cause: errnoOf(err)}
	errno, ok := err.(syscall.Errno)
	if !ok {
		return e
	}
	switch errno {
	case unix.E2BIG:
		e.Reason, e.What = ArgumentTooLong, Argument
		e.Limit, e.Actual = totalLimit(), s.argumentBytes()
		return e
	case unix.ETXTBSY:
		e.Reason = Busy
		return e
	case unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE:
		e.Reason = Resources
		return e
	case unix.ENOEXEC:
		e.Reason = NotExecutable
		return e
	}
	if de := checkDir(dir); de != nil {
		return de
	}
	pe := checkProgram(s.Path)
	switch {
	case pe != nil:
		return pe
	case errno == unix.ENOENT || errno == unix.ENOTDIR:
		e.Reason, e.What = Missing, Interpreter
	case errno == unix.ELOOP:
		e.Reason = Link
	case errno == unix.EACCES || errno == unix.EPERM:
		e.Reason = Permission
	}
	return e
}

func checkDir(dir string) *StartError {
	e := &StartError{What: Directory}
	var st unix.Stat_t
	err := unix.Stat(dir, &st)
	if err == nil {
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			e.Reason = NotDirectory
			return e
		}
		err = unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS)
	}
	if err == nil {
		return nil
	}
	e.Reason, e.cause = reasonOf(err), errnoOf(err)
	return e
}

func checkProgram(file string) *StartError {
	e := &StartError{What: Program}
	var st unix.Stat_t
	err := unix.Stat(file, &st)
	if err == nil {
		if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o111 == 0 {
			e.Reason = NotExecutable
			return e
		}
		err = unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS)
	}
	if err == nil {
		return nil
	}
	e.Reason, e.cause = reasonOf(err), errnoOf(err)
	return e
}

func reasonOf(err error) Reason {
	switch err {
	case unix.ENOENT, unix.ENOTDIR:
		return Missing
	case unix.EACCES, unix.EPERM:
		return Permission
	case unix.ELOOP:
		return Link
	}
	return IO
}

// errnoOf keeps the number of an error and drops whatever path is around it.
func errnoOf(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return nil
}

func (s *Spec) argumentBytes() (n int64) {
	for _, list := range [][]string{s.Argv, s.Env} {
		for _, a := range list {
			n += int64(len(a)) + 1 + 8 // its end and its pointer
		}
	}
	return n
}

// reap takes the exit status. The number of the program is anybody's afterwards.
func (p *Proc) reap() (code int, signal string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ws syscall.WaitStatus
	_, err := ignoringEINTR(func() (int, error) { return syscall.Wait4(p.pid, &ws, 0, nil) })
	p.reaped = true
	switch {
	case err != nil: // somebody else took it
		return -1, ""
	case ws.Signaled():
		return -1, signalName(ws.Signal())
	}
	return ws.ExitStatus(), ""
}

// signalName is the name of a signal without SIG; of one without a name, which those for real time
// are, its number.
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return strconv.Itoa(int(s))
}

func (s Signal) unix() unix.Signal {
	switch s {
	case INT:
		return unix.SIGINT
	case HUP:
		return unix.SIGHUP
	case KILL:
		return unix.SIGKILL
	}
	return unix.SIGTERM
}

// canAsk tells whether there is a first step before KILL.
func (p *Proc) canAsk() bool { return true }

// sendGroup signals the group of the program. CONT after it, so that a stopped process acts on it;
// KILL needs none.
func (p *Proc) sendGroup(sig Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return ErrEnded
	}
	if err := unix.Kill(-p.pid, sig.unix()); err != nil {
		return err
	}
	if sig != KILL {
		unix.Kill(-p.pid, unix.SIGCONT)
	}
	return nil
}

// inGroup tells whether a member has what the group is sent.
func (p *Proc) inGroup(m *member) bool {
	group, err := unix.Getpgid(m.pid)
	return err == nil && group == p.pid
}

// Signal sends a signal to the group of the program; on a terminal to the foreground group, as the
// key for it would. It is for INT in the first place: nothing follows it. ErrEnded after the end of
// the program; ErrSignal if the system refuses.
func (p *Proc) Signal(sig Signal) error {
	if err := p.endedOr(nil); err != nil {
		return err
	}
	if p.tty != nil {
		if sent := p.sendForeground(sig); sent {
			return nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone || p.reaped {
		return ErrEnded
	}
	if unix.Kill(-p.pid, sig.unix()) != nil {
		return ErrSignal
	}
	return nil
}
