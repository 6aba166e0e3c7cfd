package proc

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// young bounds the age up to which the numbers given since the start are taken as one rising run: a
// system with at least usualNumbers forks for longer before it starts over. The same holds for the
// time of one look.
const (
	young        = 100 * time.Millisecond
	usualNumbers = 32768
)

// fewForks is how many forks of the whole system leave no doubt that the numbers given in that time
// are one rising run: half of what there are at least. In a namespace there are only fewer.
const fewForks = usualNumbers / 2

// shortRun is the longest run of numbers that is asked one by one, each for a third of a microsecond:
// beyond that a list of /proc costs less.
const shortRun = 1024

// forks is how many processes and threads the system has made since it booted, 0 where it does not
// tell.
func forks() uint64 {
	fd, err := unix.Open("/proc/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	b := buffers.Get().(*[readSize]byte)
	defer buffers.Put(b)
	n := 0
	for n < len(b) {
		got, err := ignoringEINTR(func() (int, error) { return unix.Read(fd, b[n:]) })
		if err != nil || got <= 0 {
			break
		}
		n += got
	}
	_, rest, ok := bytes.Cut(b[:n], []byte("\nprocesses "))
	if !ok {
		return 0
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	count, err := strconv.ParseUint(string(line), 10, 64)
	if err != nil {
		return 0
	}
	return count
}

// lastForks is a reading of forks that serves the starts of a second: an older one only makes the
// forks since then more.
var lastForks struct {
	sync.Mutex
	at    time.Time
	count uint64
}

func forksBefore() uint64 {
	lastForks.Lock()
	defer lastForks.Unlock()
	if now := time.Now(); now.Sub(lastForks.at) > time.Second {
		lastForks.at, lastForks.count = now, forks()
	}
	return lastForks.count
}

// oneRun tells whether the numbers given since the program was started are a rising run from its own
// on.
func (p *Proc) oneRun() bool {
	if !rising() {
		return false
	}
	if time.Since(p.began) < young {
		return true
	}
	now := uint64(0)
	if p.sys.forks > 0 {
		now = forks()
	}
	return now >= p.sys.forks && now > 0 && now-p.sys.forks < fewForks
}

// rising tells whether numbers are that many. If not, only lists are believed.
var rising = sync.OnceValue(func() bool { return numbers() >= usualNumbers })

// numbers is how many there are, at least, before they start over; 0 is unknown.
func numbers() int {
	b, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return 0
	}
	n, _ := number(bytes.TrimSpace(b))
	return n
}

// survivors lists what is alive of what p owns, the program itself left out. An error means that
// the list may be incomplete.
//
// The proof that nothing is left has to be cheap, because every short command needs it. The kernel
// tells the number it gave out last. As long as we hold the zombie of the program, its own number
// is not given again: if it is still the last one, then nothing was forked on this system since,
// and nothing of the program can be left. Otherwise, if not much was forked since, only the
// numbers from its own to the last one can be descendants, and asking for their session is one
// short system call each. Only otherwise is /proc listed.
func (p *Proc) survivors(want scope) ([]*member, error) {
	last, counted := lastPID()
	if counted && last == p.pid {
		return nil, nil
	}
	c := &census{
		leader:  p.pid,
		session: func(sid int) bool { return sid == p.pid },
		parents: want == everything,
	}
	if p.mark != "" {
		c.mark = func(value []byte) bool { return string(value) == p.mark }
	}
	if want != everything && counted && last > p.pid && last-p.pid <= shortRun && p.oneRun() {
		c.from, c.forked = p.pid+1, p.sys.forks
	} else {
		c.born = statOf(p.pid).start
	}
	return c.take(last, counted)
}

// census looks for the living members of sessions and the bearers of marks.
type census struct {
	leader  int                     // left out, but its children count; 0 is none
	session func(sid int) bool      // is it one of ours
	mark    func(value []byte) bool // is it one of ours; nil finds none
	parents bool                    // also strays without a mark, by their parents
	forked  uint64                  // forks of the whole system before the walk was begun; 0 is unknown
	begun   time.Time               // when that was
	from    int                     // the first number that can be a member or its session; 0 means that any can
	born    uint64                  // start time of the program, in ticks; 0 is unknown

	found  []*member
	seen   map[int]bool
	failed error

	fresh    bool         // what is walked now was forked during the look
	adopters map[int]bool // see mayBeChild
}

// take makes the list. last is the number given last, known if counted.
//
// A walk in rising order misses nothing: whoever is found dead has no fork under way, and its
// children have higher numbers, that is, they come later. What was forked during the walk is walked
// after it, until no number was given meanwhile. A snapshot is such a walk. Where the numbers start
// over in its middle, which the last number shows, they are a ring: the walk goes on to their end,
// and from their beginning. Once round at most: with more forks than numbers all begins anew.
//
// On a machine that forks all the time the last number never stands still. What could still be
// missed after some walks is a process that each time forked and ended between two system calls of
// ours; that is not waited for.
func (c *census) take(last int, counted bool) ([]*member, error) {
	const rounds, fewRounds = 50, 4
	began := time.Now()
	for n := range rounds {
		// A machine that forks without pause: then the list is what was seen. But where we only get no processor
		// time has passed without a look.
		if n >= fewRounds && time.Since(began) > lookTime {
			break
		}
		c.fresh, c.begun = false, time.Now()
		if c.from > 0 {
			c.walk(c.from, last)
		} else {
			last, counted = c.list()
			if n == 0 {
				began = time.Now() // waiting for the first snapshot is not looking
			}
		}
		switch {
		case !counted:
			if c.twice() {
				return c.result(nil)
			}
			return c.result(errBusy)
		case c.follow(last):
			return c.result(nil)
		}
		c.from, c.born = 0, statOf(c.leader).start
	}
	return c.result(errBusy)
}

// follow walks what was forked since the list or walk that began after last was given. It tells
// whether the whole is one walk: it is not where the numbers started over in a way that cannot be
// followed.
func (c *census) follow(last int) bool {
	const walks = 20
	for range walks {
		now, counted := lastPID()
		switch {
		case !counted:
			return false
		case now == last:
			return !c.wentRound()
		case !rising():
			return false
		case now > last:
			c.fresh = true
			c.walk(last+1, now)
		default: // the numbers started over
			n := numbers()
			if c.from > 0 || c.forked == 0 || n < usualNumbers || last > n || c.wentRound() {
				return false
			}
			c.fresh = true
			c.walk(last+1, n)
			c.walk(1, now)
		}
		last = now
	}
	return !c.wentRound()
}

// wentRound tells whether so much was forked since the walk was begun that numbers may have been given
// out more than once. A quarter is left for those in use, which are passed over, and for the first
// 300, which are given out only once. It is not asked about a walk that was too short for that.
func (c *census) wentRound() bool {
	if c.forked == 0 || time.Since(c.begun) < young {
		return false
	}
	return forks()-c.forked >= uint64(numbers()/4*3)
}

// lookTime bounds one look. It is a small part of the time for the proof.
const lookTime = 100 * time.Millisecond

// result closes what died meanwhile: a list of the living.
func (c *census) result(err error) ([]*member, error) {
	list := c.found[:0]
	for _, m := range c.found {
		if m.alive() {
			list = append(list, m)
		} else {
			m.bury()
			m.close()
		}
	}
	if c.failed != nil {
		err = c.failed
	}
	return list, err
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

// list goes by a snapshot, and tells the last number from before it.
func (c *census) list() (last int, counted bool) {
	s := takeSnapshot(c.born)
	c.forked = s.forked
	if s.err != nil {
		c.failed = s.err
		return s.last, s.counted
	}
	if c.leader != 0 {
		for _, pid := range s.session[c.leader] {
			c.look(pid)
		}
	} else {
		for sid, pids := range s.session {
			if c.session(sid) {
				for _, pid := range pids {
					c.look(pid)
				}
			}
		}
	}
	for _, o := range s.outside {
		if c.mark == nil || c.seen[o.pid] || o.stat.start < c.born || c.session(o.sid) {
			continue
		}
		if slices.ContainsFunc(o.marks, func(m string) bool { return c.mark([]byte(m)) }) {
			c.open(o.pid, true, func() bool { return hasMark(o.pid, c.mark) })
		}
	}
	if c.parents {
		c.children(s.outside)
	}
	return s.last, s.counted
}

// look decides about one number.
func (c *census) look(pid int) {
	if pid == c.leader || c.seen[pid] {
		return
	}
	sid, err := unix.Getsid(pid)
	if err != nil && err != unix.ESRCH {
		c.failed = errIncomplete
	}
	if err != nil || sid == 0 { // nobody, or a thread of the kernel
		return
	}
	if c.session(sid) {
		c.open(pid, false, func() bool { s, err := unix.Getsid(pid); return err == nil && s == sid })
		return
	}
	// Reading an environment waits for an exec of that process, so those that cannot be strays are
	// ruled out first: a stray's session is younger than the program.
	if c.mark == nil || sid < c.from || otherProgram(sid) || c.fresh && !c.mayBeChild(pid) {
		return
	}
	if hasMark(pid, c.mark) {
		c.open(pid, true, func() bool { return hasMark(pid, c.mark) })
	}
}

// mayBeChild rules out what was forked during the look by somebody that is not ours: its parent is
// alive, was looked at before it, and is not one to whom orphans come, which are our own ancestors.
func (c *census) mayBeChild(pid int) bool {
	if c.adopters == nil {
		c.adopters = map[int]bool{1: true}
		for up := os.Getpid(); up > 1 && !c.adopters[up]; up = statOf(up).parent {
			c.adopters[up] = true
		}
	}
	parent := statOf(pid).parent
	return parent == c.leader || c.seen[parent] || c.adopters[parent]
}

// otherProgram tells the sessions of other programs of this process: their leaders are its
// children. A stray's leader is not, unless orphans come to us.
func otherProgram(sid int) bool {
	if adoptive() {
		return false
	}
	err := unix.Waitid(unix.P_PID, sid, nil, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err != unix.ECHILD
}

// open opens a handle and then asks again whether it is the right one: if that answer is yes and
// the handle says alive after it, it was about the process that the handle holds.
func (c *census) open(pid int, stray bool, right func() bool) {
	if pid == os.Getpid() {
		return
	}
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
	if !right() {
		m.close()
		return
	}
	if !m.alive() {
		m.bury()
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

// children finds strays without the mark by their parents, as long as those live. The zombie of the
// program has no children any more.
func (c *census) children(outside []outsider) {
	if len(c.found) == 0 && (c.leader == 0 || statOf(c.leader).state == 'Z') {
		return
	}
	owned := func(pid int) bool { return pid == c.leader && pid != 0 || c.seen[pid] }
	for more := true; more; {
		more = false
		for _, o := range outside {
			if c.seen[o.pid] || !owned(o.stat.parent) {
				continue
			}
			n := len(c.found)
			c.open(o.pid, true, func() bool { return owned(statOf(o.pid).parent) })
			more = more || len(c.found) > n
		}
	}
}

// loadavg is /proc/loadavg, opened once: each reading from its start is made anew. -1 where there is none, or where
// something else is mounted over it.
var loadavg = sync.OnceValue(func() int {
	fd, err := unix.Open("/proc/loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil || st.Type != unix.PROC_SUPER_MAGIC {
		unix.Close(fd)
		return -1
	}
	return fd
})

// lastPID is the number that was given last in our namespace. It is not asked of anything but the
// kernel: some containers lay a file over this one.
func lastPID() (int, bool) {
	fd := loadavg()
	if fd < 0 {
		return 0, false
	}
	var buf [128]byte
	n, err := ignoringEINTR(func() (int, error) { return unix.Pread(fd, buf[:], 0) })
	if err != nil || n <= 0 {
		return 0, false
	}
	line := bytes.TrimRight(buf[:n], "\n")
	last, ok := number(line[bytes.LastIndexByte(line, ' ')+1:])
	return last, ok && last > 0
}

// listPIDs reads the numbers in /proc. It fails where /proc shows another namespace of processes
// than ours.
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

// hasMark looks for a mark in the environment that a process was started with. One that may not be
// read, or was overwritten, has none.
func hasMark(pid int, ours func(value []byte) bool) bool {
	var e execWait
	for {
		n, found := scanEnviron(pid, ours)
		if n != 0 || !e.again(pid) {
			return found
		}
		time.Sleep(time.Millisecond)
	}
}

// execWait tells how often a process without an environment is asked again, a millisecond apart. In
// the middle of an exec the old one is gone and the new one is not there yet; nor are the
// arguments, which come a moment before it. A program always has an argument, a zombie never.
type execWait struct{ bare, calm int }

func (e *execWait) again(pid int) bool {
	if birthOf(pid) == 0 {
		return false
	}
	if hasArguments(pid) {
		e.calm++
	} else {
		e.bare++
	}
	return e.calm <= 3 && e.bare <= 50
}

func hasArguments(pid int) bool {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/cmdline", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var b [1]byte
	n, _ := ignoringEINTR(func() (int, error) { return unix.Read(fd, b[:]) })
	return n > 0
}

// environBound is where reading an environment ends; the kernel takes no more than 6 MiB.
const environBound = 8 << 20

func scanEnviron(pid int, ours func(value []byte) bool) (read int, found bool) {
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
		if containsMark(b[:have], ours) {
			return read, true
		}
		if end {
			return read, false
		}
		keep := min(have, len(markName)+maxMark+2)
		copy(b[:], b[have-keep:have])
		have = keep
	}
	return read, false
}

// containsMark looks for a whole variable, from NUL to NUL.
func containsMark(b []byte, ours func(value []byte) bool) bool {
	for {
		i := bytes.Index(b, []byte("\x00"+markName))
		if i < 0 {
			return false
		}
		b = b[i+1+len(markName):]
		if end := bytes.IndexByte(b, 0); end >= 0 && ours(b[:end]) {
			return true
		}
	}
}

// stat is what /proc/pid/stat says; zero if there is no such process.
type stat struct {
	state  byte
	parent int
	start  uint64 // ticks since the boot
}

func statOf(pid int) (x stat) {
	var buf [1024]byte
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return x
	}
	defer unix.Close(fd)
	n, err := ignoringEINTR(func() (int, error) { return unix.Read(fd, buf[:]) })
	if err != nil || n <= 0 {
		return x
	}
	// The name may hold blanks and brackets; the last bracket ends it. State, parent and start are
	// the fields 3, 4 and 22 of proc(5).
	i := bytes.LastIndexByte(buf[:n], ')')
	f := bytes.Fields(buf[i+1 : n])
	if i < 0 || len(f) < 20 {
		return x
	}
	x.state = f[0][0]
	x.parent, _ = number(f[1])
	x.start, _ = strconv.ParseUint(string(f[19]), 10, 64)
	return x
}

// birthOf is the start time of a live process, 0 of a zombie.
func birthOf(pid int) uint64 {
	x := statOf(pid)
	if x.state == 'Z' || x.state == 'X' || x.state == 'x' {
		return 0
	}
	return x.start
}

func nameOf(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return ""
	}
	return string(bytes.TrimRight(b, "\n"))
}

func uintptrOf(p *int32) uintptr { return uintptr(unsafe.Pointer(p)) }

// keptAlive lists what the keeper owns.
func keptAlive(ours func(sid int) bool, mark func(value []byte) bool) ([]*member, error) {
	c := &census{session: ours, mark: mark, parents: true}
	return c.take(lastPID())
}

// holdMember opens a handle to a process by its number. One that is gone already is held as dead:
// its session may live. So is one that started after until, in ticks since the boot, unless that is 0: the number
// is somebody else's already.
func holdMember(pid int, until uint64) *member {
	m := &member{pid: pid, fd: -1}
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		if until > 0 && birthOf(pid) > until {
			unix.Close(fd)
			return m
		}
		unix.SetNonblock(fd, true)
		m.fd = fd
	} else if err != unix.ESRCH {
		m.birth = birthOf(pid)
	}
	return m
}

// takenOver tells whether a number has a live process. It is asked about numbers whose own process
// is known to have ended.
func takenOver(pid int) bool { return birthOf(pid) != 0 }

// discardOutput reads what a process writes into pipes that lost their reader, until this process
// ends. They are known by their inode, so that a pipe between two programs is never robbed.
func discardOutput(pid int, ours map[string]bool) {
	for _, n := range []string{"1", "2"} {
		name := "/proc/" + strconv.Itoa(pid) + "/fd/" + n
		link, err := os.Readlink(name)
		inode, isPipe := strings.CutPrefix(link, "pipe:[")
		inode = strings.TrimSuffix(inode, "]")
		if err != nil || !isPipe || !ours[inode] {
			continue
		}
		if f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
			delete(ours, inode) // once is enough
			go io.Copy(io.Discard, f)
		}
	}
}
