package proc

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// strays are ways to leave the session with the mark kept.
var strays = map[string]string{
	"silent":       "setsid sh -c 'echo $$ > pid; exec sleep 300' >/dev/null 2>&1 </dev/null &",
	"holding":      "setsid sh -c 'echo $$ > pid; exec sleep 300' &",
	"double fork":  "(setsid sh -c '(echo $$ > pid; exec sleep 300) &' >/dev/null 2>&1 &) ; while [ ! -s pid ]; do sleep 0.01; done",
	"late in life": "sleep 0.2; setsid sh -c 'echo $$ > pid; exec sleep 300' >/dev/null 2>&1 &",
}

// S8: what left the session is named after a normal exit and lives on.
func TestStraysAreNamed(t *testing.T) {
	t.Parallel()
	for name, line := range strays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, out := shell(t, line+"\nwhile [ ! -s pid ]; do sleep 0.005; done; echo hi")
			e := run(t, s)
			pid := pidIn(t, s.Dir, "pid")
			defer sweep(t, pid)
			if e.Code != 0 || out.stdout() != "hi\n" || !e.Cleaned || e.Ended != nil {
				t.Errorf("%+v %q", e, out.stdout())
			}
			if name == "double fork" { // $$ is the number of the shell that ended
				if len(e.Left) != 1 {
					t.Fatalf("%+v", e)
				}
				pid = e.Left[0].PID
				defer sweep(t, pid)
			} else if len(e.Left) != 1 || e.Left[0].PID != pid {
				t.Errorf("%+v, want %d", e, pid)
			}
			if !alive(pid) {
				t.Error("it was ended")
			}
		})
	}
}

// In the middle of an exec a process has no environment to be told by.
func TestStrayInExecIsNamed(t *testing.T) {
	t.Parallel()
	rounds := 60
	if long() {
		rounds = 2000
	}
	for range rounds {
		s, _ := shell(t, "setsid sh -c 'echo $$ > pid; exec sleep 300' >/dev/null 2>&1 &\nwhile [ ! -s pid ]; do :; done")
		e := run(t, s)
		if pid := pidIn(t, s.Dir, "pid"); len(e.Left) != 1 || e.Left[0].PID != pid {
			t.Errorf("%+v, want %d", e, pid)
		}
		sweep(t, pidIn(t, s.Dir, "pid"))
	}
}

// S3: where a stray holds the pipe, what the program wrote is still read whole, also when the time
// is up before the reader came to it; and a stray that floods it does not hold the call.
func TestHeldPipeIsReadWhole(t *testing.T) {
	t.Parallel()
	s, _ := shell(t, "setsid sh -c 'echo $$ > pid; exec sleep 300' & while [ ! -s pid ]; do sleep 0.005; done; head -c 60000 /dev/zero")
	var n int
	s.Output = func(_ Stream, p []byte) {
		if n == 0 {
			time.Sleep(3 * quiet)
		}
		n += len(p)
	}
	e := run(t, s)
	sweep(t, pidIn(t, s.Dir, "pid"))
	if n != 60000 || len(e.Left) != 1 {
		t.Errorf("%d bytes, %+v", n, e)
	}
	s, _ = shell(t, "setsid sh -c 'echo $$ > pid; exec yes' & while [ ! -s pid ]; do sleep 0.005; done; exit 6")
	e = run(t, s)
	sweep(t, pidIn(t, s.Dir, "pid"))
	if e.Code != 6 || len(e.Left) != 1 {
		t.Errorf("%+v", e)
	}
}

// S8: they are ended by End.
func TestStraysAreEnded(t *testing.T) {
	t.Parallel()
	for name, line := range strays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := shell(t, line+"\nwhile [ ! -s pid ]; do sleep 0.005; done; echo > ready; sleep 300")
			p := start(t, s)
			pid := pidIn(t, s.Dir, "pid")
			eventually(t, "ready", func() bool { return exists(s.Dir, "ready") })
			p.End(TERM, time.Second)
			if e := await(t, p); !e.Cleaned || e.Left != nil {
				t.Errorf("%+v", e)
			}
			goneSoon(t, pid)
		})
	}
}

// A stray that dropped its mark is found by its parent, while that lives.
func TestUnmarkedStrayIsEndedByParent(t *testing.T) {
	t.Parallel()
	s, _ := shell(t, "env -i PATH=$PATH BELAY_PROC_TEST_MARK=$BELAY_PROC_TEST_MARK setsid sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 0.1; done' & wait")
	p := start(t, s)
	pid := pidIn(t, s.Dir, "pid")
	p.End(TERM, 100*time.Millisecond)
	if e := await(t, p); !e.Cleaned {
		t.Errorf("%+v", e)
	}
	goneSoon(t, pid)
}

// The strays of one program are not those of another.
func TestStraysOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	a, _ := shell(t, strays["silent"]+"\nsleep 300")
	b, _ := shell(t, strays["silent"]+"\nsleep 300")
	pa, pb := start(t, a), start(t, b)
	stray, other := pidIn(t, a.Dir, "pid"), pidIn(t, b.Dir, "pid")
	pa.End(TERM, time.Second)
	await(t, pa)
	goneSoon(t, stray)
	if !alive(other) || !alive(pb.PID()) {
		t.Error("another program was hit")
	}
	pb.End(TERM, time.Second)
	await(t, pb)
	goneSoon(t, other)
}

// The proof by the last number holds also while the machine forks: a member that daemonizes twice
// in the moment of the exit is not missed.
func TestNoSurvivorIsMissedWhileForking(t *testing.T) {
	t.Parallel()
	rounds := 30
	if long() {
		rounds = 1000
	}
	noise, _ := shell(t, "while :; do /bin/true; done")
	n := start(t, noise)
	for range rounds {
		s, _ := shell(t, "(setsid sh -c 'sleep 300 &') >/dev/null 2>&1 </dev/null; (sleep 300 &) >/dev/null 2>&1; exit 0")
		e := run(t, s)
		var left []int
		for _, m := range e.Left {
			left = append(left, m.PID)
		}
		if now := marked(s.Mark); len(e.Ended) == 0 || !slices.Equal(now, left) {
			t.Errorf("%+v, alive %v", e, now)
		}
		for _, pid := range left {
			sweep(t, pid)
		}
	}
	n.End(KILL, 0)
	await(t, n)
}

// A look that was done the short way finds what a look at everything finds.
func TestShortLookIsWholeLook(t *testing.T) {
	t.Parallel()
	for range 20 {
		s, _ := shell(t, "sleep 300 & setsid sleep 300 & (set -m; sleep 300 &) ; echo $$ > pid; wait")
		p := start(t, s)
		pidIn(t, s.Dir, "pid")
		time.Sleep(2 * time.Millisecond)
		count := func() int {
			l, err := p.survivors(sessionAndMarked)
			if err != nil {
				t.Fatal(err)
			}
			defer closeMembers(l)
			return len(l)
		}
		eventually(t, "three survivors", func() bool { return count() == 3 })
		p.mu.Lock()
		p.began = p.began.Add(-time.Hour)
		p.mu.Unlock()
		if n := count(); n != 3 {
			t.Fatalf("%d by the list", n)
		}
		p.End(KILL, 0)
		await(t, p)
	}
}

// What was forked during a look is looked at after it: here all of it, since the look is told that
// the program's own number was the last.
func TestLookGoesOnWithWhatWasForked(t *testing.T) {
	t.Parallel()
	s, _ := shell(t, "sleep 300 & setsid sleep 300 & echo $$ > pid; wait")
	p := start(t, s)
	pidIn(t, s.Dir, "pid")
	eventually(t, "two members, by session and by mark", func() bool {
		c := &census{
			leader:  p.pid,
			session: func(sid int) bool { return sid == p.pid },
			mark:    func(value []byte) bool { return string(value) == s.Mark },
			from:    p.pid + 1,
		}
		list, err := c.take(p.pid, true)
		defer closeMembers(list)
		in, out := split(list)
		return err == nil && len(in) == 1 && len(out) == 1
	})
}

// S3: who is at work on the last output is told from who sleeps, by all threads.
func TestAtWork(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hold := func(argv ...string) []*member {
		s, _ := command(t, argv...)
		m := holdMember(start(t, s).PID(), 0)
		t.Cleanup(m.close)
		return []*member{m}
	}
	asleep := hold("sleep", "300")
	eventually(t, "sleep", func() bool { return !atWork(asleep, []time.Duration{0}, time.Hour) })
	for range 20 {
		if atWork(asleep, []time.Duration{0}, time.Hour) {
			t.Error("one that sleeps")
		}
	}
	for _, busy := range [][]*member{hold("sh", "-c", "while :; do :; done"), hold(self, "helper:second-thread")} {
		eventually(t, "work", func() bool { return atWork(busy, []time.Duration{0}, time.Hour) })
		eventually(t, "work that is counted", func() bool {
			had, _ := busy[0].processor()
			return had > 100*time.Millisecond || !countsWork()
		})
	}
}

// countsWork tells whether this kernel counts the time on a processor.
func countsWork() bool {
	b, err := os.ReadFile("/proc/self/schedstat")
	return err == nil && !strings.HasPrefix(string(b), "0 ")
}

func init() {
	helpers["second-thread"] = func([]string) { // works in one that is not the first
		var work func()
		work = func() {
			runtime.LockOSThread()
			if unix.Gettid() == os.Getpid() {
				go work()
				select {}
			}
			for n := new(atomic.Uint64); ; n.Add(1) {
			}
		}
		work()
	}
}
