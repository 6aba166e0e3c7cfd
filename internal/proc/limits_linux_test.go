package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The whole suite once more as an ordinary user, where this one is root.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 || os.Getenv("BELAY_PROC_TEST_USER") != "" {
		t.Skip("is one")
	}
	if testing.Short() {
		t.Skip("short")
	}
	t.Parallel()
	dir, err := os.MkdirTemp("", "procuser")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o777)
	self, _ := os.Executable()
	bin := filepath.Join(dir, "proc.test")
	copyFile(t, self, bin, 0o755)
	tmp := filepath.Join(dir, "tmp")
	os.Mkdir(tmp, 0o777)
	os.Chmod(tmp, 0o777)
	c := exec.Command(bin, "-test.parallel=4", "-test.timeout=120s", "-test.skip=TestNoSurvivorIsMissedWhileForking|TestTerminalOutputIsComplete|TestSoak")
	c.Dir = dir
	c.Env = append(os.Environ(), "BELAY_PROC_TEST_USER=1", "TMPDIR="+tmp, "HOME="+tmp)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Setsid: true}
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func copyFile(t testing.TB, from, to string, mode os.FileMode) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	// No fork may hold the descriptor while it is open for writing.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(to, mode); err != nil {
		t.Fatal(err)
	}
}

func init() {
	helpers["become-root"] = func([]string) { // in a copy with the set-uid bit
		syscall.Setuid(0)
		fmt.Println("up")
		time.Sleep(7 * time.Second)
	}
	helpers["own-root"] = func(args []string) { // as an ordinary user: starts one that it cannot kill
		for _, argv := range [][]string{{args[0], "helper:become-root"}, {"/bin/sh", "-c", args[0] + " helper:become-root & read x; exit 3"}} {
			up := make(chan bool, 1)
			p, err := Start(context.Background(), Spec{Path: argv[0], Argv: argv, Env: os.Environ(), Dir: "/", OpenStdin: true, Mark: "x", Output: func(Stream, []byte) { up <- true }})
			if err != nil {
				fmt.Println(err)
				return
			}
			<-up
			began := time.Now()
			if argv[0] == "/bin/sh" {
				p.Write(context.Background(), []byte("\n"))
			} else {
				p.End(TERM, 0)
			}
			<-p.Done()
			e := p.Exit()
			fmt.Println(e.Code, e.Signal, e.Cleaned, len(e.Ended), len(e.Left), time.Since(began) < 15*time.Second)
			for _, m := range e.Left {
				fmt.Println("left", m.PID, m.PID == p.PID())
			}
			// It ends after all: it is reaped, and nothing is told twice.
			<-p.Exited()
			for p.keptNumber() {
				time.Sleep(time.Millisecond)
			}
		}
	}
}

// keptNumber tells whether the program is still to be reaped.
func (p *Proc) keptNumber() bool { p.mu.Lock(); defer p.mu.Unlock(); return !p.reaped }

// S5, S6: what cannot be ended is told in bounded time, and nothing is claimed.
func TestWhatCannotBeEndedIsTold(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to make a set-uid program")
	}
	t.Parallel()
	dir, err := os.MkdirTemp("", "procroot")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o755)
	self, _ := os.Executable()
	bin, root := filepath.Join(dir, "proc.test"), filepath.Join(dir, "root.test")
	copyFile(t, self, bin, 0o755)
	copyFile(t, self, root, 0o755|os.ModeSetuid)
	c := exec.Command(bin, "helper:own-root", root)
	c.Env = testEnv("none")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) == 4 {
		for _, l := range []string{lines[1], lines[3]} {
			f := strings.Fields(l)
			pid, _ := strconv.Atoi(f[1])
			defer sweep(t, pid)
		}
	}
	if len(lines) != 4 || lines[0] != "-1  false 0 1 true" || !strings.HasSuffix(lines[1], "true") || lines[2] != "3  false 0 1 true" || !strings.HasSuffix(lines[3], "false") {
		t.Errorf("%q", lines)
	}
}

// A program file that a fork in passing holds open for writing is tried again (ETXTBSY), and not
// for ever.
func TestBusyProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin := filepath.Join(dir, "true")
	src, err := Look("true", "/", os.Environ())
	if err != nil {
		t.Skip(err)
	}
	copyFile(t, src, bin, 0o755)
	f, err := os.OpenFile(bin, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := command(t, "true")
	s.Path = bin
	tries := 0
	s.Before = func() error {
		if tries++; tries == 3 {
			f.Close()
		}
		return nil
	}
	if e := run(t, s); e.Code != 0 || tries != 3 {
		// Another fork of this process may hold the copy for a moment longer.
		if e.Code != 0 || tries < 3 {
			t.Errorf("%+v after %d", e, tries)
		}
	}
	f, err = os.OpenFile(bin, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s.Before = nil
	var se *StartError
	if _, err := Start(context.Background(), s); !errors.As(err, &se) || se.Reason != Busy {
		t.Errorf("%v", err)
	}
}

// Sleeping sessions cost no threads and no buffers.
func TestSleepingSessionsAreCheap(t *testing.T) {
	threads := func() int {
		d, _ := os.ReadDir("/proc/self/task")
		return len(d)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := threads()
	var all []*Proc
	for range 100 {
		s, _ := command(t, "sleep", "300")
		all = append(all, start(t, s))
	}
	time.Sleep(100 * time.Millisecond)
	if m := threads(); m > n+10 {
		t.Errorf("%d threads before, %d now", n, m)
	}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("heap grew by %d KB", grown>>10)
	}
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(func() { p.End(TERM, time.Second); <-p.Done() })
	}
	wg.Wait()
}

// ownNumbers readies a process in a namespace of its own, see inNamespace, that has so many numbers.
func ownNumbers(n int) (die func(what string, err error)) {
	die = func(what string, err error) {
		fmt.Println("cannot:", what, err)
		os.Exit(9)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		die("private", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		die("proc", err)
	}
	if err := os.WriteFile("/proc/sys/kernel/pid_max", []byte(strconv.Itoa(n)), 0); err != nil {
		die("pid_max", err)
	}
	return die
}

// few-numbers runs in a namespace of processes that has few numbers, so that they start over all the
// time.
func init() {
	helpers["few-numbers"] = func(args []string) {
		die := ownNumbers(360)
		by := exec.Command("setsid", "sleep", "300")
		if err := by.Start(); err != nil {
			die("bystander", err)
		}
		rounds, _ := strconv.Atoi(args[0])
		bad := 0
		for i := range rounds {
			mark := fmt.Sprintf("few.%d", i)
			line := "(sleep 300 &) >/dev/null 2>&1; true | true; exit 4"
			if i%3 == 0 {
				line = "(setsid sleep 300 &) >/dev/null 2>&1; (sleep 300 &); sleep 0.01; exit 4"
			}
			p, err := Start(context.Background(), Spec{Path: "/bin/sh", Argv: []string{"sh", "-c", line}, Dir: "/", Env: append(testEnv(mark), "BELAY_SESSION="+mark), Mark: mark})
			if err != nil {
				die("start", err)
			}
			<-p.Done()
			e := p.Exit()
			left := map[int]bool{}
			for _, m := range e.Left {
				left[m.PID] = true
			}
			for _, pid := range marked(mark) {
				if !left[pid] {
					bad++
					fmt.Printf("round %d: %d alive and not told: %+v\n", i, pid, e)
				}
				unix.Kill(pid, unix.SIGKILL)
			}
			for { // number 1 reaps the strays; nothing else is a child now but the bystander
				if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != nil || pid <= 0 {
					break
				}
			}
			if e.Code != 4 || !e.Cleaned {
				bad++
				fmt.Printf("round %d: %+v\n", i, e)
			}
		}
		if !alive(by.Process.Pid) {
			bad++
			fmt.Println("the bystander was hit")
		}
		by.Process.Kill()
		if bad > 0 {
			os.Exit(1)
		}
		fmt.Println("good")
	}
}

func init() {
	helpers["ring"] = func([]string) {
		die := ownNumbers(usualNumbers)
		// Forward only, and with nobody looking: as if that much had been forked.
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(usualNumbers-15)), 0); err != nil {
			die("ns_last_pid", err)
		}
		c := &census{
			session: func(int) bool { return false },
			mark:    func(value []byte) bool { return string(value) == "ring" },
			begun:   time.Now(),
		}
		last, counted := c.list()
		// Behind the back of the look: the numbers start over, and one of ours gets a low one.
		var ours *exec.Cmd
		for i := range 40 {
			cmd := exec.Command("true")
			if i == 39 {
				ours = exec.Command("sleep", "300")
				ours.Env = []string{"BELAY_SESSION=ring"}
				ours.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				cmd = ours
			}
			if err := cmd.Start(); err != nil {
				die("start", err)
			}
			if cmd != ours {
				cmd.Wait()
			}
		}
		defer ours.Process.Kill()
		now, _ := lastPID()
		fmt.Println("counted", counted, "started over", now < last && ours.Process.Pid < last)
		fmt.Println("followed", c.follow(last))
		fmt.Println("found", len(c.found) == 1 && c.found[0].pid == ours.Process.Pid)
		// As if more had been forked than there are numbers, in a look that took long.
		c.forked, c.begun = forks()-usualNumbers, time.Now().Add(-time.Minute)
		fmt.Println("believed", c.follow(last))
		now, _ = lastPID()
		fmt.Println("believed", c.follow(now))
	}
}

// S2, S5: where the numbers start over in the middle of a look what came after that is found; where
// they can have come round once the look is not believed.
func TestNumbersStartOver(t *testing.T) {
	t.Parallel()
	out := inNamespace(t, "helper:ring")
	if want := "counted true started over true\nfollowed true\nfound true\nbelieved false\nbelieved false\n"; out != want {
		t.Errorf("%s", out)
	}
}

// inNamespace runs a helper that has the numbers of processes for itself, and skips where there is
// no such thing.
func inNamespace(t *testing.T, args ...string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root for a namespace of processes")
	}
	var u unix.Utsname
	var major, minor int
	unix.Uname(&u)
	fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	if major < 6 || major == 6 && minor < 14 {
		t.Skip("before Linux 6.14 how many numbers there are is one setting for the whole system")
	}
	self, _ := os.Executable()
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), "BELAY_PROC_TEST_MARK="+testMark)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	if c.ProcessState == nil || c.ProcessState.ExitCode() == 9 {
		t.Skipf("%s", out)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

// SH-13: in a small space of numbers, where each is used again at once, nobody else is hit and
// nothing is missed. This process is also number 1 there, to which orphans come.
func TestFewNumbers(t *testing.T) {
	t.Parallel()
	rounds := 30
	if long() {
		rounds = 5000
	}
	if out := inNamespace(t, "helper:few-numbers", strconv.Itoa(rounds)); !strings.Contains(out, "good") {
		t.Errorf("%s", out)
	}
}

func init() {
	helpers["slow-look"] = func([]string) {
		// A look that does not end: as on a machine where it takes many seconds.
		orders.Lock()
		orders.busy = true
		orders.Unlock()
		for _, end := range []func(p *Proc, asked chan bool){
			func(p *Proc, asked chan bool) { p.End(TERM, 250*time.Millisecond) },
			func(p *Proc, asked chan bool) { p.End(KILL, 0) },
			func(p *Proc, asked chan bool) { p.End(TERM, time.Hour); <-asked; p.End(TERM, 0) },
			func(p *Proc, asked chan bool) { p.End(TERM, time.Hour); <-asked; p.End(KILL, 0) },
		} {
			up, asked := make(chan bool, 1), make(chan bool, 1)
			p, err := Start(context.Background(), Spec{Path: "/bin/sh", Argv: []string{"sh", "-c", "trap 'echo asked' TERM; (:); echo up; while :; do sleep 0.01; done"},
				Dir: "/", Env: os.Environ(), Mark: "slow", Output: func(_ Stream, b []byte) {
					if strings.Contains(string(b), "up") {
						up <- true
					}
					if strings.Contains(string(b), "asked") {
						asked <- true
					}
				}})
			if err != nil {
				fmt.Println(err)
				return
			}
			<-up
			end(p, asked)
			select {
			case <-p.Exited():
				fmt.Println("killed while the look goes on")
			case <-time.After(20 * time.Second):
				fmt.Println("KILL waits for the look")
			}
			go fillOrders()
			<-p.Done()
			fmt.Println("cleaned", p.Exit().Cleaned)
			orders.Lock()
			for orders.busy { // fillOrders ends
				orders.Unlock()
				time.Sleep(time.Millisecond)
				orders.Lock()
			}
			orders.busy = true
			orders.Unlock()
		}
	}
	helpers["blind-keeper"] = func([]string) {
		self, _ := os.Executable()
		runtime.LockOSThread() // the namespace is that of a thread, until there is only one
		if unix.Unshare(unix.CLONE_NEWNS) != nil || unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") != nil ||
			unix.Mount("none", "/proc", "tmpfs", 0, "") != nil {
			os.Exit(9)
		}
		syscall.Exec(self, []string{self, "helper:keeper"}, os.Environ())
	}
}

// S2: signals come in their time although the look for those who are to have them takes long.
func TestSignalsDoNotWaitForTheLook(t *testing.T) {
	t.Parallel()
	self, _ := os.Executable()
	c := exec.Command(self, "helper:slow-look")
	c.Env = append(os.Environ(), "BELAY_PROC_TEST_MARK="+testMark)
	out, err := c.CombinedOutput()
	if want := strings.Repeat("killed while the look goes on\ncleaned true\n", 4); err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}

// P4: a keeper that can list no processes ends at least those that it was told of.
func TestBlindKeeper(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root for a namespace of mounts")
	}
	dir := t.TempDir()
	c, keeper := startHost(t, dir, "blind-keeper", "echo $$ > p0; exec sleep 300", "trap '' TERM; echo $$ > p1; while :; do sleep 0.1; done")
	first, second := pidIn(t, dir, "p0"), pidIn(t, dir, "p1")
	if !alive(keeper) {
		t.Skip("no namespace of mounts")
	}
	c.Process.Kill()
	eventually(t, "end of the first", func() bool { return !alive(first) })
	eventually(t, "end of the second", func() bool { return !alive(second) })
	eventually(t, "end of the keeper", func() bool { return !alive(keeper) })
}
