//go:build darwin || freebsd

package proc

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const inputQueue = 0x4004667f // FIONREAD, _IOR('f', 127, int)

// lineLimit is TTYHOG, 1024, less the end of the line. FreeBSD takes more, but promises less.
const lineLimit = 1023

// stringLimit: one argument may be as long as all together.
const stringLimit = 0

const getTermios = unix.TIOCGETA

// lengthen: the system does that by itself.
func lengthen(fd, size int) {}

// capacity is the least that a pipe holds.
func capacity(int) int { return 16 << 10 }

// interruptTerminal: there is no such step here; the group is asked for and signalled.
func interruptTerminal(int) bool { return false }

// editUTF8: these systems know it for themselves, or not at all.
func editUTF8(int) {}

// totalLimit is what all arguments and variables may take.
func totalLimit() int64 {
	n, err := unix.SysctlUint32("kern.argmax")
	if err != nil {
		return 0
	}
	return int64(n)
}

var markedOnce sync.Once

// onlyThreeDescriptors marks what this process inherited, once: whatever Go opens later has the
// mark already.
func onlyThreeDescriptors() {
	markedOnce.Do(func() {
		markDescriptors("/dev/fd")
		// Without fdescfs that directory shows three. 4096 is more than a parent leaves open.
		for fd := 3; fd < 4096; fd++ {
			unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
		}
	})
}

// heldDir: a program cannot be started in a directory by handle here.
func heldDir(*os.File) string { return "" }

// system is what these systems need of a Proc: a kernel queue that tells the end.
type system struct {
	queue   int    // -1 if there is none
	outputs string // for the keeper: the pipes that the program writes into
}

func (y *system) attr(s *Spec) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Setctty: s.TTY != nil}
}

func (y *system) started() {
	y.queue = -1
	q, err := unix.Kqueue()
	if err != nil {
		return
	}
	unix.CloseOnExec(q)
	y.queue = q
}

// awaitExit returns when the program is a zombie, or will be one in a moment. It is not reaped. A
// thread waits for each program.
func (p *Proc) awaitExit() {
	if p.sys.queue >= 0 && p.awaitEvent() {
		return
	}
	// No event to be had, for want of memory or descriptors. A child that is neither reaped nor
	// listed alive has ended.
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		list, err := processes()
		if err == nil {
			live := false
			for _, x := range list {
				live = live || x.pid == p.pid
			}
			if !live {
				return
			}
		}
		time.Sleep(pause)
	}
}

func (p *Proc) awaitEvent() bool {
	change := make([]unix.Kevent_t, 1)
	unix.SetKevent(&change[0], p.pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	change[0].Fflags = unix.NOTE_EXIT
	event := make([]unix.Kevent_t, 1)
	for {
		n, err := unix.Kevent(p.sys.queue, change, event, nil)
		switch {
		case err == unix.EINTR:
			// Adding it again is no harm.
		case err == unix.ESRCH:
			return true // a child of ours that is not found is a zombie
		case err != nil:
			return false
		case n == 1 && event[0].Flags&unix.EV_ERROR != 0:
			return unix.Errno(event[0].Data) == unix.ESRCH
		case n == 1:
			return true
		}
	}
}

func (p *Proc) release() {
	if p.sys.queue >= 0 {
		unix.Close(p.sys.queue)
	}
}

// member is a live process of the session of a program. There are no handles here: the number is
// signalled directly after its start time was compared.
type member struct {
	pid   int
	name  string
	stray bool
	birth int64 // start time, in microseconds
}

func (m *member) close() {}

func (m *member) bury() {} // orphans are not adopted by a program here

func (m *member) alive() bool {
	x, ok := processOf(m.pid)
	return ok && x.birth == m.birth && m.birth != 0
}

// processor: what a process wants is not asked here.
func (m *member) processor() (had time.Duration, wanted bool) { return 0, false }

func (m *member) send(sig Signal) { m.kill(sig.unix()) }

// resume makes a stopped process act on what it was sent.
func (m *member) resume() { m.kill(unix.SIGCONT) }

func (m *member) kill(sig unix.Signal) {
	if m.alive() {
		unix.Kill(m.pid, sig)
	}
}

func (p *Proc) waitMember(m *member, until time.Time) bool { return p.waitPolling(m, until) }

// How far survivors looks: here no further than the session.
type scope int

const (
	sessionAndMarked scope = iota
	everything
)

// process is a live process of this system.
type process struct {
	pid   int
	name  string
	birth int64
}

// survivors lists what is alive of the session, the program itself left out.
func (p *Proc) survivors(scope) ([]*member, error) {
	return sessionMembers(func(sid int) bool { return sid == p.pid }, p.pid)
}

// sessionMembers lists the living members of sessions. What is forked while the system makes its
// list can be missed by one look: two must agree.
func sessionMembers(ours func(sid int) bool, leader int) ([]*member, error) {
	var last []*member
	for try := range 10 {
		list, err := processes()
		if err != nil {
			return nil, err
		}
		var found []*member
		for _, x := range list {
			if x.pid == leader {
				continue
			}
			if sid, err := unix.Getsid(x.pid); err == nil && ours(sid) {
				found = append(found, &member{pid: x.pid, name: x.name, birth: x.birth})
			}
		}
		if try > 0 && sameMembers(found, last) {
			return found, nil
		}
		last = found
	}
	return last, errBusy
}

func sameMembers(a, b []*member) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].pid != b[i].pid || a[i].birth != b[i].birth {
			return false
		}
	}
	return true
}

func nameOf(pid int) string {
	x, _ := processOf(pid)
	return x.name
}

// keptAlive lists what the keeper owns. Marks cannot be read here.
func keptAlive(ours func(sid int) bool, mark func(value []byte) bool) ([]*member, error) {
	return sessionMembers(ours, 0)
}

// holdMember notes a process by its number and its start.
func holdMember(pid int, _ uint64) *member {
	x, _ := processOf(pid)
	return &member{pid: pid, name: x.name, birth: x.birth}
}

// takenOver tells whether a number has a live process. It is asked about numbers whose own process
// is known to have ended.
func takenOver(pid int) bool {
	_, ok := processOf(pid)
	return ok
}

// discardOutput: a pipe cannot be opened by name here. A program that writes after its reader is
// gone gets SIGPIPE, within its grace or not.
func discardOutput(pid int, ours map[string]bool) {}
