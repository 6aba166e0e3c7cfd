//go:build linux || darwin || freebsd

package proc

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func init() {
	helpers["keeper"] = func([]string) { RunKeeper(os.Stdin) }
	helpers["patient-keeper"] = func([]string) { runKeeper(os.Stdin, time.Minute) }
	helpers["host"] = host
}

// host is a program that owns others and is then killed: args are a directory and the shell lines.
func host(args []string) {
	self, _ := os.Executable()
	dir, keeper := args[0], args[1]
	k, err := StartKeeper([]string{self, "helper:" + keeper})
	if err != nil {
		fmt.Println("keeper:", err)
		os.Exit(1)
	}
	sh, _ := Look("sh", "/", os.Environ())
	for i, line := range args[2:] {
		mark := fmt.Sprintf("host%d.%d", os.Getpid(), i)
		env := append(os.Environ(), "BELAY_SESSION="+mark)
		s := Spec{Path: sh, Argv: []string{"sh", "-c", line}, Env: env, Dir: dir, Mark: mark, Keeper: k}
		if strings.HasPrefix(line, ": tty;") {
			s.TTY = &Size{80, 24}
		}
		p, err := Start(context.Background(), s)
		if err != nil {
			fmt.Println("start:", err)
			os.Exit(1)
		}
		if strings.HasSuffix(line, "# wait") {
			<-p.Done()
		}
		if strings.HasSuffix(line, "# then much else") { // five times what the pipe holds
			for i := range 4000 {
				k.expect(fmt.Sprintf("host%d.else%d", os.Getpid(), i))
				k.forget(0, fmt.Sprintf("host%d.else%d", os.Getpid(), i))
				if i%100 == 0 {
					time.Sleep(10 * time.Millisecond)
				}
			}
			if !k.Alive() {
				fmt.Println("the keeper was lost")
				os.Exit(1)
			}
		}
	}
	fmt.Println("ready", k.proc.pid)
	select {}
}

func startHost(t *testing.T, args ...string) (c *exec.Cmd, keeper int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c = exec.Command(self, append([]string{"helper:host"}, args...)...)
	c.Env = append(os.Environ(), "BELAY_PROC_TEST_MARK="+testMark)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	n, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if !ok {
		t.Fatalf("host: %q", line)
	}
	keeper, _ = strconv.Atoi(n)
	return c, keeper
}

func ignoresTERM(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		time.Sleep(time.Second)
		return true
	}
	_, rest, _ := strings.Cut(string(b), "SigIgn:\t")
	line, _, _ := strings.Cut(rest, "\n")
	mask, _ := strconv.ParseUint(line, 16, 64)
	return mask&(1<<(uint(syscall.SIGTERM)-1)) != 0
}

// P4, S8: after a SIGKILL of the host everything that it owned ends, and then the keeper.
func TestKeeperEndsAllAfterKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lines := []string{
		"echo $$ > p0; exec sleep 300",
		"trap '' TERM HUP INT; echo $$ > p1; while :; do sleep 0.1; done",
		"sleep 300 & echo $! > p2; wait",
		"timeout 300 sleep 300 & echo $! > p3; wait",
		": tty; trap '' HUP; echo $$ > p4; sleep 300; sleep 300",
		"echo $$ > p5; kill -STOP $$; sleep 300",
	}
	if _, err := os.Stat("/proc/self/environ"); err == nil {
		lines = append(lines,
			"setsid sh -c 'echo $$ > p6; exec sleep 300' >/dev/null 2>&1 & sleep 300",
			"setsid sh -c 'trap \"\" TERM; echo $$ > p7; while :; do sleep 0.1; done' & sleep 300",
		)
	}
	c, keeper := startHost(t, append([]string{dir, "keeper"}, lines...)...)
	var pids []int
	for i := range lines {
		pids = append(pids, pidIn(t, dir, "p"+strconv.Itoa(i)))
	}
	// A signal that is sent along does not stop the keeper, once it has come to its first line.
	eventually(t, "keeper", func() bool { return ignoresTERM(keeper) })
	syscall.Kill(keeper, syscall.SIGTERM)
	syscall.Kill(keeper, syscall.SIGHUP)
	time.Sleep(20 * time.Millisecond)
	began := time.Now()
	c.Process.Kill()
	for i, pid := range pids {
		eventually(t, "end of "+lines[i], func() bool { return !alive(pid) })
	}
	t.Logf("all gone %v after the kill", time.Since(began).Round(time.Millisecond))
	eventually(t, "end of the keeper", func() bool { return !alive(keeper) })
}

// P4, S8: a keeper that reads what it is told only now and then misses nothing of it.
func TestKeeperCatchesUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, keeper := startHost(t, dir, "keeper", "echo $$ > p0; exec sleep 300 # then much else", "echo $$ > p1; exec sleep 300")
	first, last := pidIn(t, dir, "p0"), pidIn(t, dir, "p1")
	c.Process.Kill()
	eventually(t, "end of the first", func() bool { return !alive(first) })
	eventually(t, "end of the last", func() bool { return !alive(last) })
	eventually(t, "end of the keeper", func() bool { return !alive(keeper) })
}

// What a finished program left on purpose is not the keeper's (S8).
func TestKeeperForgetsWhatEnded(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no marks here")
	}
	dir := t.TempDir()
	c, keeper := startHost(t, dir, "keeper",
		"setsid sh -c 'echo $$ > p0; exec sleep 300' >/dev/null 2>&1 & while [ ! -s p0 ]; do sleep 0.01; done # wait",
		"echo $$ > p1; exec sleep 300")
	daemon, running := pidIn(t, dir, "p0"), pidIn(t, dir, "p1")
	c.Process.Kill()
	eventually(t, "end of the running one", func() bool { return !alive(running) })
	eventually(t, "end of the keeper", func() bool { return !alive(keeper) })
	if !alive(daemon) {
		t.Error("the daemon was ended")
	}
	sweep(t, daemon)
}

// P4: a program gets its grace to end in its own way, although its host is gone and nobody reads what
// it says.
func TestKeeperGivesGrace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, keeper := startHost(t, dir, "patient-keeper", "trap 'sleep 0.3; echo shutting down; echo now >&2; sleep 0.3; echo done > done; exit' TERM; echo $$ > p0; while :; do sleep 0.05; done")
	pid := pidIn(t, dir, "p0")
	c.Process.Kill()
	eventually(t, "end", func() bool { return !alive(pid) })
	_, err := os.Stat("/proc/self/fd")
	if _, derr := os.Stat(filepath.Join(dir, "done")); err == nil && derr != nil {
		t.Error("it was killed within its grace")
	}
	eventually(t, "end of the keeper", func() bool { return !alive(keeper) })
}

// A keeper with nothing to do goes at once; one that does not read holds nobody up and does no
// harm.
func TestKeeperLife(t *testing.T) {
	t.Parallel()
	self, _ := os.Executable()
	argv := []string{self, "helper:keeper"}
	k, err := StartKeeper(argv)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := shell(t, "exit 3")
	s.Keeper = k
	if e := run(t, s); e.Code != 3 || !k.Alive() {
		t.Fatalf("%+v", e)
	}
	s.Path = "/no/such/program"
	if _, err := Start(context.Background(), s); err == nil {
		t.Fatal("started")
	}
	k.Close()
	k.Close()
	select {
	case <-k.gone:
	case <-time.After(hang):
		t.Fatal("the keeper stays")
	}
	if k.Alive() {
		t.Fatal("alive")
	}

	k, err = StartKeeper(argv)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	syscall.Kill(k.proc.pid, syscall.SIGSTOP)
	for i := 0; k.Alive(); i++ {
		if i > 1_000_000 {
			t.Fatal("a full pipe is not noticed")
		}
		k.add(1<<30, "")
	}
	s, _ = shell(t, "exit 3") // goes on without
	s.Keeper = k
	if e := run(t, s); e.Code != 3 {
		t.Fatalf("%+v", e)
	}
	<-k.gone

	if _, err := StartKeeper([]string{"/no/such/program"}); err == nil {
		t.Fatal("started")
	}
	if _, err := StartKeeper(nil); err == nil {
		t.Fatal("started")
	}
	var none *Keeper
	none.Close()
	if none.Alive() {
		t.Fatal("nobody is alive")
	}
}
