package proc

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// How far survivors looks.
type scope int

const (
	sessionAndMarked scope = iota // the session, and strays by their mark
	everything                    // also strays by their parents
)

// young bounds the age up to which the numbers given since the start are taken as one
// rising run. A system gives at least 32768 numbers before it starts over; that many forks take
// it seconds.
const young = 100 * time.Millisecond

// survivors lists what is alive of what p owns, the program itself left out. An error means that
// the list may be incomplete.
//
// The proof that nothing is left has to be cheap, because every short command needs it. The
// kernel tells the number it gave out last. As long as we hold the zombie of the
// program, its own number is not given again: if it is still the last one, then nothing was forked on
// this system since, and nothing of the program can be left. Otherwise, if the program was short-lived,
// only the numbers from its own to the last one can be descendants, and asking for their
// session is one short system call each. Only otherwise is /proc listed.
//
// A walk in rising order misses nothing: whoever is found dead has no fork under way, and its
// children have higher numbers, that is, they come later. What was forked
// during the walk is walked after it, until no number was given meanwhile.
func (p *Proc) survivors(want scope) ([]*member, error) {
	c := &census{p: p, want: want}
	last, counted := lastPID()
	if counted && last == p.pid {
		return nil, nil
	}
	short := want != everything && counted && last > p.pid && time.Since(p.began) < young
	const rounds = 50 // a machine that forks without pause: then the list is what was seen
	for range rounds {
		if short {
			c.walk(p.pid+1, last)
		} else {
			c.list()
		}
		for range rounds {
			now, ok := lastPID()
			if !ok || !counted {
				return c.result(!counted && c.twice())
			}
			if now == last {
				return c.result(true)
			}
			if now < last { // the numbers started over
				short = false
				break
			}
			c.walk(last+1, now)
			last = now
		}
		last, counted = lastPID()
	}
	return c.result(false)
}

type census struct {
	p      *Proc
	want   scope
	found  []*member
	seen   map[int]bool
	failed error
}

// result closes what died meanwhile: a list of the living.
func (c *census) result(complete bool) ([]*member, error) {
	list := c.found[:0]
	for _, m := range c.found {
		if m.alive() {
			list = append(list, m)
		} else {
			m.close()
		}
	}
	if !complete && c.failed == nil {
		c.failed = errIncomplete
	}
	return list, c.failed
}

// twice is for systems that do not tell the last number: a second look that finds nothing new.
func (c *census) twice() bool {
	for range 5 {
		n := len(c.found)
		c.list()
		if len(c.found) == n {
			return true
		}
	}
	return false
}

func (c *census) walk(from, to int) {
	for pid := from; pid <= to; pid++ {
		c.look(pid)
	}
}

func (c *census) list() {
	pids, err := listPIDs()
	if err != nil {
		c.failed = err
		return
	}
	for _, pid := range pids {
		c.look(pid)
	}
	if c.want == everything {
		c.children(pids)
	}
}

// look decides about one number.
func (c *census) look(pid int) {
	leader := c.p.pid
	if pid == leader || c.seen[pid] {
		return
	}
	sid, err := unix.Getsid(pid)
	if err != nil || sid == 0 { // nobody, or a thread of the kernel
		return
	}
	if sid == leader {
		c.take(pid, false, func() bool { s, err := unix.Getsid(pid); return err == nil && s == leader })
		return
	}
	if c.p.mark == "" || !mayBeStray(sid) || !hasMark(pid, c.p.mark) {
		return
	}
	c.take(pid, true, func() bool { return hasMark(pid, c.p.mark) })
}

// mayBeStray rules out the sessions of other programs of this process: their leaders are
// its children. A stray's leader is not, unless orphans come to us.
func mayBeStray(sid int) bool {
	if adoptive() {
		return true
	}
	err := unix.Waitid(unix.P_PID, sid, nil, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == unix.ECHILD
}

// take opens a handle and then asks again whether it is the right one: if that answer is
// yes and the handle says alive after it, it was about the process that the handle holds.
func (c *census) take(pid int, stray bool, right func() bool) {
	m := &member{pid: pid, stray: stray, fd: -1}
	fd, err := unix.PidfdOpen(pid, 0)
	switch err {
	case nil:
		unix.SetNonblock(fd, true)
		m.fd = fd
	case unix.ESRCH, unix.EINVAL, unix.ENOENT: // gone, or the number of a thread
		return
	case unix.ENOSYS, unix.EPERM: // an old kernel, or a filter
		m.birth = birthOf(pid)
	default:
		c.failed = errIncomplete
		return
	}
	if !right() || !m.alive() {
		m.close()
		return
	}
	m.name = nameOf(pid)
	if c.seen == nil {
		c.seen = map[int]bool{}
	}
	c.seen[pid] = true
	c.found = append(c.found, m)
}

// children finds strays without the mark by their parents, as long as those live.
func (c *census) children(pids []int) {
	parent := map[int]int{}
	for _, pid := range pids {
		if sid, err := unix.Getsid(pid); err == nil && sid != 0 && sid != c.p.pid {
			parent[pid] = parentOf(pid)
		}
	}
	owned := func(pid int) bool { return pid == c.p.pid || c.seen[pid] }
	for more := true; more; {
		more = false
		for pid, up := range parent {
			if c.seen[pid] || !owned(up) {
				continue
			}
			n := len(c.found)
			c.take(pid, true, func() bool { return owned(parentOf(pid)) })
			more = more || len(c.found) > n
			delete(parent, pid)
		}
	}
}

// lastPID is the number that was given last in our namespace. It is not asked of anything but
// the kernel: some containers lay a file over this one.
func lastPID() (int, bool) {
	fd, err := unix.Open("/proc/loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil || st.Type != unix.PROC_SUPER_MAGIC {
		return 0, false
	}
	var buf [128]byte
	n, err := ignoringEINTR(func() (int, error) { return unix.Read(fd, buf[:]) })
	if err != nil || n <= 0 {
		return 0, false
	}
	line := bytes.TrimRight(buf[:n], "\n")
	last, ok := number(line[bytes.LastIndexByte(line, ' ')+1:])
	return last, ok && last > 0
}

// listPIDs reads the numbers in /proc. It fails where /proc shows another namespace of processes than ours.
func listPIDs() ([]int, error) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, errIncomplete
	}
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errIncomplete
	}
	defer unix.Close(fd)
	b := buffers.Get().(*[readSize]byte)
	defer buffers.Put(b)
	pids := make([]int, 0, 256)
	for {
		n, err := ignoringEINTR(func() (int, error) { return unix.Getdents(fd, b[:]) })
		if err != nil {
			return nil, errIncomplete
		}
		if n == 0 {
			return pids, nil
		}
		for rest := b[:n]; len(rest) > 0; {
			d := (*unix.Dirent)(unsafe.Pointer(&rest[0]))
			name := rest[unsafe.Offsetof(d.Name):d.Reclen]
			if i := bytes.IndexByte(name, 0); i >= 0 {
				name = name[:i]
			}
			if pid, ok := number(name); ok {
				pids = append(pids, pid)
			}
			rest = rest[d.Reclen:]
		}
	}
}

func number(b []byte) (int, bool) {
	if len(b) == 0 || len(b) > 10 {
		return 0, false
	}
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

const markName = "BELAY_SESSION="

// hasMark looks for the mark in the environment that a process was started with. One that
// may not be read, or was overwritten, has none.
func hasMark(pid int, mark string) bool {
	want := markName + mark
	for range 3 {
		n, found := scanEnviron(pid, want)
		if n != 0 {
			return found
		}
		// Empty: either it has no variables, or it is in the middle of an exec.
		runtime.Gosched()
	}
	return false
}

// environBound is where reading an environment ends; the kernel takes no more than 6 MiB.
const environBound = 8 << 20

func scanEnviron(pid int, want string) (read int, found bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/environ", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, false
	}
	defer unix.Close(fd)
	b := buffers.Get().(*[readSize]byte)
	defer buffers.Put(b)
	b[0] = 0 // the first variable has no NUL before it
	have := 1
	for read < environBound {
		n, err := ignoringEINTR(func() (int, error) { return unix.Read(fd, b[have:]) })
		end := err != nil || n <= 0
		if end {
			b[have] = 0 // nor the last one after it, where a program wrote over it
			n = 1
		} else {
			read += n
		}
		have += n
		if containsVar(b[:have], want) {
			return read, true
		}
		if end {
			return read, false
		}
		keep := min(have, len(want)+2)
		copy(b[:], b[have-keep:have])
		have = keep
	}
	return read, false
}

// containsVar looks for NUL, want, NUL.
func containsVar(b []byte, want string) bool {
	for {
		i := bytes.Index(b, unsafe.Slice(unsafe.StringData(want), len(want)))
		if i < 0 {
			return false
		}
		after := i + len(want)
		if i > 0 && b[i-1] == 0 && after < len(b) && b[after] == 0 {
			return true
		}
		b = b[i+1:]
	}
}

// statField returns a field of /proc/pid/stat by its number in proc(5), from 3 on.
func statField(pid, field int) string {
	var buf [1024]byte
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	n, err := ignoringEINTR(func() (int, error) { return unix.Read(fd, buf[:]) })
	if err != nil || n <= 0 {
		return ""
	}
	// The name may hold blanks and brackets; the last bracket ends it.
	i := bytes.LastIndexByte(buf[:n], ')')
	f := bytes.Fields(buf[i+1 : n])
	if i < 0 || len(f) <= field-3 {
		return ""
	}
	return string(f[field-3])
}

func parentOf(pid int) int {
	n, _ := strconv.Atoi(statField(pid, 4))
	return n
}

// birthOf is the start time of a live process, "" of a zombie.
func birthOf(pid int) string {
	switch statField(pid, 3) {
	case "Z", "X", "x", "":
		return ""
	}
	return statField(pid, 22)
}

func nameOf(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return ""
	}
	return string(bytes.TrimRight(b, "\n"))
}

func uintptrOf(p *int32) uintptr { return uintptr(unsafe.Pointer(p)) }
