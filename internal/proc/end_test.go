//go:build linux || darwin || freebsd

package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// S2, SH-01, SH-05: what is left in the session is ended, named, and not waited for.
func TestLeftoversAreEnded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ shell, line string }{
		{"sh", "sleep 300 & echo $! > pid; echo hi"},
		{"sh", "sleep 300 >/dev/null & echo $! > pid; echo hi"},
		{"sh", "sleep 300 >/dev/null 2>&1 & echo $! > pid; echo hi"},
		{"sh", "(sleep 300 & echo $! > pid) ; echo hi"},
		{"sh", "trap '' TERM; sleep 300 & echo $! > pid; echo hi"}, // inherited: KILL it is
		{"bash", "set -m; sleep 300 >/dev/null & echo $! > pid; echo hi"},
		{"sh", "timeout 300 sleep 300 & sleep 0.1; echo $! > pid; echo hi"},
		{"bash", "set -m; (trap '' TERM; sleep 300 & echo $! > pid; wait) >/dev/null & while [ ! -s pid ]; do sleep 0.01; done; echo hi"},
		{"sh", "sleep 300 & p=$!; kill -STOP $p; echo $p > pid; echo hi"}, // stopped
	} {
		t.Run(c.line, func(t *testing.T) {
			t.Parallel()
			s, out := command(t, c.shell, "-c", c.line)
			e := run(t, s)
			if e.Code != 0 || out.stdout() != "hi\n" || !e.Cleaned || e.Left != nil {
				t.Errorf("%+v %q", e, out.stdout())
			}
			// Usually "sleep"; the name of the shell where its child had not come to the exec.
			if len(e.Ended) == 0 || e.Ended[0].Name == "" {
				t.Errorf("not named: %+v", e.Ended)
			}
			goneSoon(t, pidIn(t, s.Dir, "pid"))
		})
	}
}

// SH-03: the last stage of a process substitution has what was written, although it is ended.
func TestSubstitutionKeepsOutput(t *testing.T) {
	t.Parallel()
	s, out := command(t, "bash", "-c", "exec > >(tee -a tee.log) 2>&1; sleep 300 & echo $! > pid; echo done")
	e := run(t, s)
	if e.Code != 0 || !strings.Contains(out.stdout(), "done") || !e.Cleaned {
		t.Errorf("%+v %q", e, out.stdout())
	}
	if b, _ := os.ReadFile(filepath.Join(s.Dir, "tee.log")); string(b) != "done\n" {
		t.Errorf("tee.log %q", b)
	}
	goneSoon(t, pidIn(t, s.Dir, "pid"))
}

// S2, P4, SH-06..SH-10: End leaves nothing, whatever the tree looks like.
func TestEndEndsTheTree(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, sh := range []string{"sh", "bash"} {
		for _, l := range []string{
			"echo $$ > pid; exec sleep 300",
			"sleep 300 & echo $! > pid; wait",
			"sleep 300 & echo $! > pid; sleep 300; true",
			"(sleep 300 & echo $! > pid; wait)",
			"sleep 300 | (echo $$ > pid; cat)",
			"trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 0.2; done",
			"echo $$ > pid; kill -STOP $$; echo resumed",
			"trap '' TERM; sleep 300 & echo $! > pid; wait",
			"timeout 300 sleep 300 & echo $! > pid; wait",
		} {
			lines = append(lines, sh+"\x00"+l)
		}
	}
	lines = append(lines, "bash\x00set -m; (trap '' TERM; while :; do sleep 0.1; done) & echo $! > pid; wait")
	for _, l := range lines {
		sh, line, _ := strings.Cut(l, "\x00")
		t.Run(sh+" "+line, func(t *testing.T) {
			t.Parallel()
			s, out := command(t, sh, "-c", line)
			p := start(t, s)
			pid := pidIn(t, s.Dir, "pid")
			p.End(TERM, 200*time.Millisecond)
			e := await(t, p)
			if !e.Cleaned || e.Left != nil || e.Signal == "" && e.Code == 0 && !strings.Contains(line, "wait") {
				t.Errorf("%+v", e)
			}
			if strings.Contains(out.stdout(), "resumed") {
				t.Error("a stopped process went on")
			}
			goneSoon(t, pid)
		})
	}
}

// A program that uses its grace ends by itself, and its own exit is told.
func TestGraceIsGiven(t *testing.T) {
	t.Parallel()
	s, out := shell(t, "trap 'sleep 0.2; echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done")
	p := start(t, s)
	eventually(t, "start", func() bool { return out.stdout() == "up\n" })
	p.End(TERM, time.Minute)
	if e := await(t, p); e.Code != 3 || out.stdout() != "up\nbye\n" || !e.Cleaned {
		t.Fatalf("%+v %q", e, out.stdout())
	}
}

// A stopped program gets to act on TERM: it need not be killed (SH-10).
func TestStoppedProgramIsAsked(t *testing.T) {
	t.Parallel()
	s, _ := command(t, "bash", "-c", "set -m; sh -c 'kill -STOP $$' & echo $! > child; trap 'exit 9' TERM; echo $$ > pid; kill -STOP $$; sleep 300")
	p := start(t, s)
	pid := pidIn(t, s.Dir, "pid")
	child := pidIn(t, s.Dir, "child")
	if _, err := os.Stat("/proc/self/stat"); err == nil {
		eventually(t, "stop", func() bool { return state(pid) == "T" && state(child) == "T" })
	} else {
		time.Sleep(time.Second)
	}
	p.End(TERM, time.Hour)
	if e := await(t, p); e.Code != 9 || !e.Cleaned {
		t.Errorf("%+v", e)
	}
	goneSoon(t, child)
}

func init() {
	helpers["count-int"] = func([]string) {
		told := make(chan os.Signal, 10)
		signal.Notify(told, os.Interrupt)
		fmt.Println("up")
		<-told
		time.Sleep(300 * time.Millisecond)
		fmt.Println("told", 1+len(told))
	}
}

// S2: each process is asked once, also those beside the program: to many a second INT means to drop
// everything.
func TestEachIsAskedOnce(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"exec $0 helper:count-int", "$0 helper:count-int & trap : INT; wait; wait", "set -m; $0 helper:count-int & trap : INT; wait; wait"} {
		s, out := command(t, "bash", "-c", line, self)
		p := start(t, s)
		eventually(t, "start", func() bool { return out.stdout() == "up\n" })
		p.End(INT, time.Minute)
		if e := await(t, p); out.stdout() != "up\ntold 1\n" || !e.Cleaned {
			t.Errorf("%s: %+v %q", line, e, out.stdout())
		}
	}
}

// INT as the first step; KILL still follows.
func TestFirstSignal(t *testing.T) {
	t.Parallel()
	s, out := shell(t, "trap 'echo int' INT; echo up; while :; do sleep 0.05; done")
	p := start(t, s)
	eventually(t, "start", func() bool { return out.stdout() == "up\n" })
	p.End(INT, 500*time.Millisecond)
	if e := await(t, p); e.Signal != "KILL" || !strings.Contains(out.stdout(), "int") || !e.Cleaned {
		t.Fatalf("%+v %q", e, out.stdout())
	}
}

// A KILL that comes at whatever moment of an End is not lost, and does not wait for its grace.
func TestKillIsNotLost(t *testing.T) {
	t.Parallel()
	for i := range 40 {
		s, out := command(t, "bash", "-c", "(trap '' TERM; echo up; exec sleep 300) & exec sleep 300")
		p := start(t, s)
		eventually(t, "start", func() bool { return out.stdout() == "up\n" })
		p.End(TERM, time.Hour)
		<-p.Exited()
		for began := time.Now(); time.Since(began) < 20*time.Microsecond+time.Duration(i)*2*time.Microsecond; {
		}
		p.End(KILL, 0)
		if e := await(t, p); !e.Cleaned {
			t.Errorf("%+v", e)
		}
	}
}

// What shortens patience right before a wait for a member is seen by it.
func TestNudgeBeforeTheWait(t *testing.T) {
	t.Parallel()
	s, _ := command(t, "sleep", "300")
	p := start(t, s)
	m := holdMember(p.PID(), 0)
	defer m.close()
	p.nudge <- struct{}{}
	back := make(chan bool)
	go func() { back <- p.waitMember(m, time.Now().Add(hang)) }()
	select {
	case gone := <-back:
		if gone {
			t.Error("it is called gone")
		}
	case <-time.After(hang / 2):
		t.Error("the wait goes on")
		<-back
	}
}

// S2: on a terminal too what is left has its moment between TERM and HUP.
func TestLeftoverOnTerminalIsAsked(t *testing.T) {
	t.Parallel()
	for range 10 { // on a machine that is busy enough it is over too soon
		s, _ := command(t, "bash", "-c", "set -m; bash -c 'trap \"echo saved > saved; exit\" TERM; echo > up; while :; do sleep 0.01; done' & while [ ! -e up ]; do sleep 0.01; done")
		s.TTY = &Size{Cols: 80, Rows: 24}
		if e := run(t, s); !e.Cleaned || len(e.Ended) == 0 {
			t.Fatalf("%+v", e)
		}
		if _, err := os.Stat(filepath.Join(s.Dir, "saved")); err == nil {
			return
		}
	}
	t.Error("it was never saved")
}

// A later End can only bring the end nearer.
func TestEndCanBeHurried(t *testing.T) {
	t.Parallel()
	for _, hurry := range []func(p *Proc){
		func(p *Proc) { p.End(KILL, time.Hour) },
		func(p *Proc) { p.End(TERM, 0) },
		func(p *Proc) { p.End(TERM, -time.Hour) },
	} {
		s, out := shell(t, "trap '' TERM; sleep 300 & echo up; wait; wait")
		p := start(t, s)
		eventually(t, "start", func() bool { return out.stdout() == "up\n" })
		p.End(TERM, 1<<62) // no timer overflows (SH-39)
		p.End(TERM, 2*time.Hour)
		select {
		case <-p.Done():
			t.Fatalf("ended at once: %+v", p.Exit())
		case <-time.After(50 * time.Millisecond):
		}
		hurry(p)
		if e := await(t, p); e.Signal != "KILL" || !e.Cleaned {
			t.Fatalf("%+v", e)
		}
	}
	// The wait for leftovers, too, while a member is waited for and not the program.
	s, _ := shell(t, "trap '' TERM; sleep 300 & echo $! > pid")
	p := start(t, s)
	pid := pidIn(t, s.Dir, "pid")
	<-p.Exited()
	p.End(KILL, 0)
	if e := await(t, p); e.Code != 0 || !e.Cleaned {
		t.Fatalf("%+v", e)
	}
	goneSoon(t, pid)
}

// End after the end, and many at once, are harmless.
func TestEndIsIdempotent(t *testing.T) {
	t.Parallel()
	s, _ := shell(t, "exit 5")
	p := start(t, s)
	await(t, p)
	for range 3 {
		p.End(TERM, 0)
		p.End(KILL, 0)
	}
	if e := p.Exit(); e.Code != 5 {
		t.Fatalf("%+v", e)
	}
	if err := p.Signal(INT); err != ErrEnded {
		t.Fatal(err)
	}
	s, _ = shell(t, "sleep 300")
	p = start(t, s)
	for range 20 {
		go p.End(TERM, time.Second)
	}
	await(t, p)
}

// SH-13: the numbers of the program and its group are never signalled once they may belong to
// somebody else. A bystander group next to each program survives, and so do we.
func TestBystandersSurvive(t *testing.T) {
	t.Parallel()
	var others []*exec.Cmd
	for range 5 {
		c := exec.Command("sleep", "300")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		others = append(others, c)
	}
	rounds := 100
	if long() {
		rounds = 3000
	}
	for i := range rounds {
		s, _ := shell(t, "true & true")
		p, err := Start(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			p.End(TERM, 0)
		}
		await(t, p)
		p.End(KILL, 0)
		p.Signal(INT)
	}
	for _, c := range others {
		if !alive(c.Process.Pid) {
			t.Error("a bystander was ended")
		}
		c.Process.Kill()
		c.Wait()
	}
}

// SH-44: neither zombies nor descriptors stay (the descriptors: TestMain).
func TestNoZombies(t *testing.T) {
	t.Parallel()
	var pids []int
	for range 50 {
		s, _ := shell(t, "(true &); true")
		p := start(t, s)
		pids = append(pids, p.PID())
		await(t, p)
	}
	for _, pid := range pids {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && strings.Contains(string(b), fmt.Sprintf(" Z %d ", os.Getpid())) {
			t.Errorf("zombie %d", pid)
		}
	}
}

// A program that forks faster than it can be looked at is ended by its group, in one step.
func TestForkingProgramIsEnded(t *testing.T) {
	t.Parallel()
	s, _ := shell(t, "trap '' TERM; f() { sleep 0.05 & }; echo $$ > pid; while :; do f; f; f; sleep 0.01; done")
	p := start(t, s)
	pid := pidIn(t, s.Dir, "pid")
	time.Sleep(100 * time.Millisecond)
	p.End(TERM, 50*time.Millisecond)
	if e := await(t, p); !e.Cleaned || e.Signal != "KILL" {
		t.Fatalf("%+v", e)
	}
	goneSoon(t, pid)
}

func long() bool { return os.Getenv("BELAY_TEST_LONG") == "1" }
