package proc

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const inputQueue = unix.TIOCINQ

// lineLimit is N_TTY_BUF_SIZE less the byte for the end of the line.
const lineLimit = 4095

// stringLimit is the kernel's MAX_ARG_STRLEN, 32 pages, less the closing NUL.
var stringLimit = 32*os.Getpagesize() - 1

// totalLimit is what the kernel takes for all arguments and variables with their pointers: a
// quarter of the stack limit, at least 128 KiB, at most 6 MiB.
func totalLimit() int64 {
	const most = 6 << 20
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_STACK, &r) != nil {
		return 0
	}
	return int64(max(min(r.Cur/4, most), 128<<10))
}

func pipeCloexec(fds *[2]int) error { return unix.Pipe2(fds[:], unix.O_CLOEXEC) }

// lengthen makes a pipe hold more; where the user has too many pages in pipes already it stays as it is.
func lengthen(fd, size int) { unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, size) }

// capacity is what a pipe holds: less than 64 KiB where its user has too many pages in pipes.
func capacity(fd int) int {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		return 4 << 10
	}
	return n
}

// onlyThreeDescriptors marks what this process inherited, or what somebody opened without
// close-on-exec. Go's own descriptors have the mark already.
func onlyThreeDescriptors() {
	if unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC) != nil { // before Linux 5.11
		markDescriptors("/proc/self/fd")
	}
}

// heldDir names a directory by its handle: in the child the name leads to the inherited copy of the
// descriptor, before that is closed.
func heldDir(f *os.File) (name string) {
	raw, err := f.SyscallConn()
	if err != nil {
		return ""
	}
	raw.Control(func(fd uintptr) { name = "/proc/self/fd/" + strconv.Itoa(int(fd)) })
	if unix.Faccessat(unix.AT_FDCWD, name, unix.F_OK, 0) != nil {
		return "" // no /proc here
	}
	return name
}

// system is what Linux needs of a Proc.
type system struct {
	fd    int      // pidfd from the start; -1 where the kernel gives none
	pidfd *os.File // the same for the poller, or nil
	forks uint64   // of the whole system, as of some moment before the start; 0 is unknown

	outputs string // for the keeper: the pipes that the program writes into
}

func (y *system) attr(s *Spec) *syscall.SysProcAttr {
	y.fd, y.forks = -1, forksBefore()
	return &syscall.SysProcAttr{Setsid: true, Setctty: s.TTY != nil, PidFD: &y.fd}
}

func (y *system) started() {
	if y.fd < 0 || unix.SetNonblock(y.fd, true) != nil {
		return
	}
	y.pidfd = os.NewFile(uintptr(y.fd), "pidfd")
}

// awaitExit returns when the program is a zombie. It is not reaped. The wait is the runtime's: no
// thread is held.
func (p *Proc) awaitExit() {
	if p.sys.pidfd != nil {
		raw, err := p.sys.pidfd.SyscallConn()
		if err == nil {
			err = raw.Read(func(fd uintptr) bool { return ended(unix.P_PIDFD, int(fd), unix.WNOHANG) })
		}
		if err == nil {
			return
		}
	}
	ended(unix.P_PID, p.pid, 0) // an old kernel: a thread waits
}

// ended looks at a child without reaping it. A child that somebody else reaped has ended too.
func ended(kind, id, how int) bool {
	var si unix.Siginfo
	for {
		err := unix.Waitid(kind, id, &si, unix.WEXITED|unix.WNOWAIT|how, nil)
		if err == unix.EINTR {
			continue
		}
		return err != nil || si.Signo != 0
	}
}

func (p *Proc) release() {
	if p.sys.pidfd != nil {
		p.sys.pidfd.Close()
	} else if p.sys.fd >= 0 {
		unix.Close(p.sys.fd)
	}
}

// member is a live process that belongs to a program, other than the program itself, held by a
// pidfd: whatever becomes of its number, signals reach it or nobody.
type member struct {
	pid   int
	name  string
	stray bool     // it left the session
	fd    int      // pidfd, non-blocking; -1 on kernels without (before 5.3)
	birth uint64   // then: start time, which tells a successor of the number
	file  *os.File // fd for the poller, made by the first wait
}

func (m *member) close() {
	if m.file != nil {
		m.file.Close()
	} else if m.fd >= 0 {
		unix.Close(m.fd)
	}
	m.fd, m.file = -1, nil
}

// bury reaps a dead member whose parent ended before it, where orphans come to this process: nobody
// else would. It is asked for by its handle, so that no other child is ever taken.
func (m *member) bury() {
	if m.fd >= 0 && adoptive() {
		unix.Waitid(unix.P_PIDFD, m.fd, nil, unix.WEXITED|unix.WNOHANG, nil)
	}
}

// alive: a pidfd is readable when all threads have ended, be it a zombie or reaped.
func (m *member) alive() bool {
	if m.fd < 0 {
		return m.birth != 0 && birthOf(m.pid) == m.birth
	}
	pfd := []unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLIN}}
	n, err := ignoringEINTR(func() (int, error) { return unix.Poll(pfd, 0) })
	return err == nil && n == 0
}

// processor tells how long the threads of a process were on a processor, 0 where the kernel does not
// count, and whether one of them wants one now, be it for a page that is being read.
func (m *member) processor() (had time.Duration, wanted bool) {
	dir := "/proc/" + strconv.Itoa(m.pid) + "/task/"
	threads, _ := os.ReadDir(dir)
	for _, thread := range threads {
		b, _ := os.ReadFile(dir + thread.Name() + "/schedstat")
		ns, _, _ := bytes.Cut(b, []byte(" "))
		n, _ := strconv.ParseInt(string(ns), 10, 64)
		had += time.Duration(n)
		tid, _ := number([]byte(thread.Name()))
		state := statOf(tid).state
		wanted = wanted || state == 'R' || state == 'D'
	}
	return had, wanted
}

func (m *member) send(sig Signal) { m.kill(sig.unix()) }

// resume makes a stopped process act on what it was sent.
func (m *member) resume() { m.kill(unix.SIGCONT) }

func (m *member) kill(sig unix.Signal) {
	if m.fd >= 0 {
		unix.PidfdSendSignal(m.fd, sig, nil, 0)
	} else if m.alive() {
		unix.Kill(m.pid, sig)
	}
}

func (p *Proc) setWake(f func()) {
	p.mu.Lock()
	p.wake = f
	p.mu.Unlock()
}

// waitMember waits for the end of a member and tells whether it came. Like waitExit it returns
// early when patience was shortened.
func (p *Proc) waitMember(m *member, until time.Time) bool {
	if m.fd < 0 {
		return p.waitPolling(m, until)
	}
	if m.file == nil {
		m.file = os.NewFile(uintptr(m.fd), "pidfd")
	}
	raw, err := m.file.SyscallConn()
	if err != nil || m.file.SetReadDeadline(until) != nil {
		return p.waitPolling(m, until)
	}
	p.setWake(func() { m.file.SetReadDeadline(time.Unix(1, 0)) })
	defer p.setWake(nil)
	select {
	case <-p.nudge: // from before it could wake
		return false
	default:
	}
	return raw.Read(func(uintptr) bool { return !m.alive() }) == nil
}

// adoptive tells whether orphans become children of this process: then a child of ours may be a
// stray.
var adoptive = sync.OnceValue(func() bool {
	if os.Getpid() == 1 {
		return true
	}
	var on int32
	return unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptrOf(&on), 0, 0, 0) != nil || on != 0
})
