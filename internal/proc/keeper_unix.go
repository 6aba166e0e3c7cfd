//go:build linux || darwin || freebsd

package proc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keeperGrace is what programs get between TERM and KILL when this process is gone: all is to be
// over within a second.
const keeperGrace = leftoverGrace

// Keeper is a side process that ends our programs when this process is gone, even by SIGKILL. It is
// told of each program before and after its start and at its end; when the pipe to it closes, which
// the kernel does, it ends what it was not told the end of: the sessions, and on Linux whatever
// carries their marks. It is in a session of its own and takes no signal that a terminal or a
// parent sends along.
//
// It cannot help where it is killed too, nor against a loss of power. One Keeper serves any number
// of programs.
type Keeper struct {
	mu   sync.Mutex
	pipe *os.File // non-blocking; nil after Close or a failure
	told int      // bytes since it was last woken to read them

	// wakeAt is how many bytes are told before that: an eighth of what the pipe holds, which is some
	// hundred programs. A keeper that woke for each record would take a tenth of the time of a short
	// command.
	wakeAt int

	proc *Proc // the keeper itself, for its signal and its end
	gone chan struct{}
}

// StartKeeper starts a keeper: argv is a program, by its absolute path, that calls RunKeeper with
// its standard input and does nothing else. It runs in / with an empty environment.
func StartKeeper(argv []string) (*Keeper, error) {
	bad := func(what string, err error) (*Keeper, error) {
		return nil, &StartError{Reason: Resources, What: what, cause: errnoOf(err)}
	}
	s := &Spec{Argv: argv, Dir: "/", Env: []string{}}
	if len(argv) > 0 {
		s.Path = argv[0]
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	pl := &plumbing{}
	defer pl.closeChild()
	in, pipe, err := pl.pipe(false)
	if err != nil {
		return bad(Program, err)
	}
	null, err := unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		pl.closeOurs()
		return bad(Program, err)
	}
	pl.child = append(pl.child, null)
	onlyThreeDescriptors()
	room := capacity(in)
	p := &Proc{exited: make(chan struct{})}
	attr := &syscall.ProcAttr{Dir: s.Dir, Env: s.Env, Files: []uintptr{uintptr(in), uintptr(null), uintptr(null)}, Sys: p.sys.attr(s)}
	if p.pid, err = syscall.ForkExec(s.Path, s.Argv, attr); err != nil {
		pl.closeOurs()
		return nil, s.explain(err, s.Dir)
	}
	p.sys.started()
	k := &Keeper{pipe: pipe, wakeAt: room / 8, proc: p, gone: make(chan struct{})}
	go func() {
		p.awaitExit()
		p.mu.Lock()
		p.gone = true
		p.mu.Unlock()
		p.reap()
		p.release()
		close(k.gone)
	}()
	return k, nil
}

// Alive tells whether the keeper is there and was told of everything so far.
func (k *Keeper) Alive() bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.gone:
		return false
	default:
		return k.pipe != nil
	}
}

// Close lets the keeper go. It ends what it was not told the end of. Close waits for it, but no
// longer than a second.
func (k *Keeper) Close() {
	if k == nil {
		return
	}
	k.mu.Lock()
	if k.pipe != nil {
		k.pipe.Close()
		k.pipe = nil
	}
	k.mu.Unlock()
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-k.gone:
	case <-t.C:
	}
}

// Keep tells another keeper of a program that runs, in place of one that was lost. It was told
// already: that is no harm.
func (p *Proc) Keep(k *Keeper) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keeper == k {
		return
	}
	if p.gone { // its end is told by whoever cleans up, who reads keeper from here on
		return
	}
	p.keeper = k
	k.expect(p.mark)
	k.add(p.pid, p.sys.outputs)
}

// expect announces a program: it may be running when we get to tell its number.
func (k *Keeper) expect(mark string) {
	if mark != "" {
		k.tell("e 0 " + mark + "\n")
	}
}

// add tells the number of a program that was announced. With it go the pipes that it writes into.
func (k *Keeper) add(pid int, outputs string) { k.tell(fmt.Sprintf("a %d%s\n", pid, outputs)) }

// inodesOf names those of the descriptors that are pipes.
func inodesOf(fds ...uintptr) (list string) {
	for _, fd := range fds {
		var st unix.Stat_t
		if unix.Fstat(int(fd), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO {
			list += fmt.Sprintf(" %d", st.Ino)
		}
	}
	return list
}

// forget tells the end of a program, or with 0 that it was not started. It comes before the
// reaping, so that the keeper never holds a number that may be somebody else's.
func (k *Keeper) forget(pid int, mark string) { k.tell(fmt.Sprintf("f %d %s\n", pid, mark)) }

// tell writes one record, whole or not at all: it is shorter than PIPE_BUF. A keeper that does not
// read or is gone never holds anybody up. One that missed a record would act on numbers that are no
// longer ours: it is ended.
func (k *Keeper) tell(record string) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pipe == nil {
		return
	}
	raw, err := k.pipe.SyscallConn()
	if err == nil {
		cerr := raw.Control(func(fd uintptr) {
			_, err = ignoringEINTR(func() (int, error) { return unix.Write(int(fd), []byte(record)) })
		})
		if err == nil {
			err = cerr
		}
	}
	if err == nil {
		if k.told += len(record); k.told >= k.wakeAt {
			k.told = 0
			k.wake()
		}
		return
	}
	k.proc.mu.Lock()
	if !k.proc.reaped {
		unix.Kill(k.proc.pid, unix.SIGKILL)
	}
	k.proc.mu.Unlock()
	k.pipe.Close()
	k.pipe = nil
}

// wake has the keeper read what it was told. Called with mu.
func (k *Keeper) wake() {
	k.proc.mu.Lock()
	defer k.proc.mu.Unlock()
	if !k.proc.reaped {
		unix.Kill(k.proc.pid, keeperWake)
	}
}

// kept is what the keeper knows.
type kept struct {
	leaders map[int]*member  // by number; the handle was opened when the number was told
	pipes   map[int][]string // of each leader, by inode
	marks   map[string]int   // how many programs run with it
	grace   time.Duration
	until   uint64 // when the host was seen to be gone, in ticks since the boot; 0 before
}

// keeperWake does nothing to a keeper that does not listen for it yet.
const keeperWake = unix.SIGWINCH

// RunKeeper is the keeper: it reads what a Keeper tells until the end, ends what is left and
// returns. It is all that its process does: signals that would end it are ignored for good.
func RunKeeper(stdin io.Reader) { runKeeper(stdin, keeperGrace) }

func runKeeper(stdin io.Reader, grace time.Duration) {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	k := &kept{leaders: map[int]*member{}, pipes: map[int][]string{}, marks: map[string]int{}, grace: grace}
	if f, ok := stdin.(*os.File); ok {
		k.listen(f)
	}
	in := bufio.NewReader(stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break
		}
		k.note(line)
	}
	k.end()
}

func (k *kept) note(line string) {
	f := strings.Fields(line)
	if len(f) < 2 {
		return
	}
	n, err := strconv.Atoi(f[1])
	if err != nil {
		return
	}
	mark := ""
	if len(f) > 2 {
		mark = f[2]
	}
	switch f[0] {
	case "e":
		k.marks[mark]++
	case "a":
		k.leaders[n] = holdMember(n, k.until)
		k.pipes[n] = f[2:]
	case "f":
		if m := k.leaders[n]; m != nil {
			m.close()
			delete(k.leaders, n)
			delete(k.pipes, n)
		}
		if mark != "" {
			if k.marks[mark]--; k.marks[mark] <= 0 {
				delete(k.marks, mark)
			}
		}
	}
}

// keeperLooks is how often the keeper looks at least before it gives up.
const keeperLooks = 10

// end ends everything that is registered: TERM, the grace, KILL, until nothing is found.
func (k *kept) end() {
	if len(k.leaders) == 0 && len(k.marks) == 0 {
		return
	}
	var mark func(value []byte) bool
	if len(k.marks) > 0 {
		mark = func(value []byte) bool { return k.marks[string(value)] > 0 }
	}
	look := func() ([]*member, error) {
		// A number whose process is not the one that we hold is somebody else's by now.
		for pid, m := range k.leaders {
			if !m.alive() && takenOver(pid) {
				m.close()
				delete(k.leaders, pid)
			}
		}
		list, err := keptAlive(func(sid int) bool { return k.leaders[sid] != nil }, mark)
		if err != nil { // it may lack even those that we hold
			for pid, held := range k.leaders {
				m := holdMember(pid, k.until)
				if has(list, pid) || !held.alive() {
					m.close()
					continue
				}
				list = append(list, m)
			}
		}
		return list, err
	}
	told, _ := look()
	// Nobody reads their output any more: a last word would be their death by SIGPIPE.
	ours := map[string]bool{}
	for _, list := range k.pipes {
		for _, inode := range list {
			ours[inode] = true
		}
	}
	for _, m := range told {
		discardOutput(m.pid, ours)
	}
	for _, m := range told {
		m.send(TERM)
		m.resume()
	}
	for until := time.Now().Add(k.grace); firstAlive(told) != nil && time.Now().Before(until); {
		time.Sleep(2 * time.Millisecond)
	}
	// Where a look takes long the time is no bound for what was not looked for yet.
	for giveUp, n := time.Now().Add(proofTime), 0; time.Now().Before(giveUp) || n < keeperLooks; n++ {
		list, err := look()
		told = merge(list, told)
		if len(told) == 0 && err == nil {
			return
		}
		for _, m := range told {
			m.send(KILL)
		}
		time.Sleep(time.Millisecond)
	}
}
