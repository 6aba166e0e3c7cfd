//go:build linux || darwin || freebsd

package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belayhq/belay/internal/proc"
)

// S5, P1, P4: how a session ended is told apart, and stays told.
func TestStatusTellsTheCause(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{})
	for _, c := range []struct {
		name, line string
		timeout    time.Duration
		kill       proc.Signal
		state      State
		code       int
		signal     string
	}{
		{"exit", "exit 3", 0, 0, Exited, 3, ""},
		{"exit 137 is no signal", "exit 137", 0, 0, Exited, 137, ""},
		{"its own signal", "kill -KILL $$", 0, 0, Signaled, -1, "KILL"},
		{"its own TERM", "kill -TERM $$", 0, 0, Signaled, -1, "TERM"},
		{"timeout", "sleep 300", 50 * time.Millisecond, 0, TimedOut, -1, "TERM"},
		{"timeout that is taken politely", "trap 'exit 7' TERM; sleep 300 & wait", 300 * time.Millisecond, 0, TimedOut, 7, ""},
		{"kill", "echo up; sleep 300", 0, proc.KILL, Killed, -1, "KILL"},
		{"term", "echo up; exec sleep 300", 0, proc.TERM, Killed, -1, "TERM"},
		{"int", "trap 'exit 9' INT; echo up; while :; do sleep 0.01; done", 0, proc.INT, Killed, 9, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			j := startSpec(t, tb, Spec{Proc: sh(t, c.line), Timeout: c.timeout})
			if c.kill != 0 {
				says(t, j, "up")
				if s := j.Status(); s.State != Running || s.Code != -1 || s.Signal != "" || s.Cleaned {
					t.Errorf("while it runs: %+v", s)
				}
				j.Kill(context.Background(), c.kill, time.Minute)
			}
			s := end(t, j)
			if s.State != c.state || s.Code != c.code || s.Signal != c.signal || !s.Cleaned {
				t.Errorf("%+v", s)
			}
			// an ended session stays as it is
			j.Kill(context.Background(), proc.KILL, 0)
			if again := j.Status(); again.State != s.State || again.Wall != s.Wall || tb.Find(j.ID()) != j {
				t.Errorf("%+v", again)
			}
		})
	}
}

// P4: a timeout and a natural end at the same moment are one or the other, and a
// command that ended first is never told as ended by belay.
func TestTimeoutRacesTheEnd(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{})
	rounds := 40
	if os.Getenv("BELAY_TEST_LONG") != "" {
		rounds = 1000
	}
	for i := range rounds {
		j := startSpec(t, tb, Spec{Proc: sh(t, "exit 5"), Timeout: time.Duration(1+i%4) * time.Millisecond})
		switch s := end(t, j); {
		case s.State == Exited && s.Code == 5 && s.Signal == "":
		case s.State == TimedOut && (s.Signal == "TERM" || s.Code == 5):
		default:
			t.Fatalf("%+v", s)
		}
	}
	// what is ended after the command exited by itself does not count as its end
	var s Status
	for n := 0; s.State != Exited && n < 20; n++ { // on a busy machine the time can be up before the exit
		s = end(t, startSpec(t, tb, Spec{Proc: sh(t, "trap '' TERM; sleep 300 & exit 4"), Timeout: 150 * time.Millisecond}))
	}
	if s.State != Exited || s.Code != 4 || len(s.Ended) == 0 {
		t.Errorf("%+v", s)
	}
}

// P2: an ID has 80 random bits in [a-z0-9_], and names nothing but a session of this table.
func TestIDsAreRandomAndItsOwn(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[a-z2-7]{16}$`)
	seen := map[string]bool{}
	for range 2000 {
		id := randomID()
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("%q", id)
		}
		seen[id] = true
	}
	tb, other := table(t, Limits{}), table(t, Limits{})
	j := start(t, tb, "exit 0")
	if tb.Find(j.ID()) != j || other.Find(j.ID()) != nil {
		t.Error("found where it is not, or not where it is")
	}
	for _, id := range []string{"", "1", "-1", "0", fmt.Sprint(os.Getpid()), "../" + j.ID(), strings.ToUpper(j.ID()), j.ID() + "\x00"} {
		if tb.Find(id) != nil {
			t.Errorf("%q is a session", id)
		}
	}
	end(t, j)
}

// P2, S8: each process has a mark of its own that begins with that of the table, and
// none of a belay around it.
func TestMarksAreTheirOwn(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{})
	seen := map[string]bool{}
	for range 3 {
		s := sh(t, "")
		s.Path, s.Argv = "/usr/bin/env", []string{"env"} // a shell would drop the second of two
		s.Env = []string{"BELAY_SESSION=outer", testMark}
		j := startSpec(t, tb, Spec{Proc: s})
		end(t, j)
		mark := strings.Replace(j.Poll(1000).Text, testMark+"\n", "", 1)
		if !strings.HasPrefix(mark, "BELAY_SESSION="+tb.mark+"_") || strings.Count(mark, "\n") != 1 || seen[mark] {
			t.Errorf("%q", mark)
		}
		seen[mark] = true
	}
}

// C6: at most so many run at once, those without an ID counted.
func TestMaxSessions(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{MaxSessions: 3})
	a, b := start(t, tb, "sleep 300"), start(t, tb, "sleep 300")
	p, err := tb.Launch(context.Background(), sh(t, "sleep 300"))
	if err != nil {
		t.Fatal(err)
	}
	full := func() {
		t.Helper()
		var e *FullError
		if _, err := tb.Start(context.Background(), Spec{Proc: sh(t, "exit 0")}); !errors.As(err, &e) || *e != (FullError{3, 3}) {
			t.Errorf("a fourth: %v", err)
		}
		if _, err := tb.Launch(context.Background(), sh(t, "exit 0")); !errors.As(err, &e) {
			t.Errorf("a fourth without an ID: %v", err)
		}
	}
	full()
	b.Kill(context.Background(), proc.KILL, 0)
	b = start(t, tb, "sleep 300")
	full()
	p.End(proc.KILL, 0)
	<-p.Done()
	if !soon(func() bool { tb.mu.Lock(); defer tb.mu.Unlock(); return len(tb.owned) == 2 }) {
		t.Error("the end of a launch is not noted")
	}
	c := start(t, tb, "sleep 300")
	full()
	for _, j := range []*Job{a, b, c} {
		j.Kill(context.Background(), proc.KILL, 0)
	}

	// a start that fails gives its place back
	tb = table(t, Limits{MaxSessions: 1})
	bad := sh(t, "")
	bad.Path = "/does/not/exist"
	for range 3 {
		var e *proc.StartError
		if _, err := tb.Start(context.Background(), Spec{Proc: bad}); !errors.As(err, &e) || len(tb.Jobs()) != 0 {
			t.Fatalf("%v, %d sessions", err, len(tb.Jobs()))
		}
	}
	end(t, start(t, tb, "exit 0"))
}

// C6: the limit holds for starts at once.
func TestMaxSessionsHoldsForStartsAtOnce(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{MaxSessions: 5})
	var wg sync.WaitGroup
	var mu sync.Mutex
	started := 0
	for range 30 {
		wg.Go(func() {
			if _, err := tb.Start(context.Background(), Spec{Proc: sh(t, "sleep 300")}); err == nil {
				mu.Lock()
				defer mu.Unlock()
				started++
			}
		})
	}
	wg.Wait()
	if started != 5 {
		t.Errorf("%d run, not 5", started)
	}
}

// P8, SE-11: finished sessions stay answerable until more than the limit have ended; the
// oldest end goes first, and what runs is never evicted.
func TestEviction(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{MaxFinished: 3})
	running := start(t, tb, "sleep 300")
	late := start(t, tb, "sleep 300") // the first to start and the last to end
	var ended []*Job
	for i := range 5 {
		j := start(t, tb, fmt.Sprintf("echo %d; exit %d", i, i))
		end(t, j)
		ended = append(ended, j)
	}
	late.Kill(context.Background(), proc.KILL, 0)
	ended = append(ended, late)
	for i, j := range ended {
		if kept := i >= len(ended)-3; (tb.Find(j.ID()) == j) != kept {
			t.Errorf("session %d: kept is %v", i, !kept)
		}
	}
	if tb.Find(running.ID()) != running {
		t.Error("a running session was evicted")
	}
	if got := tb.Jobs(); !slices.Equal(got, []*Job{running, late, ended[3], ended[4]}) {
		t.Errorf("%d sessions listed, or out of order", len(got))
	}
	for range 2 {
		if s := ended[4].Status(); s.State != Exited || s.Code != 4 {
			t.Errorf("%+v", s)
		}
		if p := ended[4].Page(0, 100); p.Text != "4\n" {
			t.Errorf("%+v", p)
		}
	}
}

// P4: Close ends everything in bounded time, children that ignore TERM, that are
// stopped and that are in groups of their own among it; twice is once.
func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	tb, err := New(Limits{})
	if err != nil {
		t.Fatal(err)
	}
	mark := fmt.Sprintf("BELAY_JOBS_CLOSE=%d", time.Now().UnixNano())
	var list []*Job
	for _, line := range []string{
		"echo up; sleep 300",
		"trap '' TERM INT HUP; echo up; while :; do sleep 0.1; done",
		"echo up; kill -STOP $$; sleep 300",
		"set -m; sleep 300 & sleep 300 & echo up; wait",
		"echo up; sh -c 'timeout 300 sleep 300; true'",
	} {
		s := sh(t, line)
		s.Env = append(s.Env, mark)
		j := startSpec(t, tb, Spec{Proc: s})
		says(t, j, "up")
		list = append(list, j)
	}
	s := sh(t, "trap '' TERM; echo up; sleep 300 & wait; wait")
	s.Env = append(s.Env, mark)
	launched, err := tb.Launch(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if err := tb.Close(ctx); err != nil {
				t.Errorf("close: %v", err)
			}
			for _, j := range list {
				if s := j.Status(); s.State != Killed || !s.Cleaned {
					t.Errorf("after the close: %+v", s)
				}
			}
			select {
			case <-launched.Done():
			default:
				t.Error("a launch outlived the close")
			}
		})
	}
	wg.Wait()
	if left := marked(mark); len(left) > 0 {
		t.Errorf("alive: %v", left)
	}
	if _, err := tb.Start(context.Background(), Spec{Proc: sh(t, "exit 0")}); !errors.Is(err, ErrClosed) {
		t.Errorf("a start after the close: %v", err)
	}
	if _, err := tb.Launch(context.Background(), sh(t, "exit 0")); !errors.Is(err, ErrClosed) {
		t.Errorf("a launch after the close: %v", err)
	}
	if err := tb.Close(ctx); err != nil {
		t.Errorf("a further close: %v", err)
	}
}

// P4: Close says that it did not see the end if its context is over first, and the end comes all the same.
func TestCloseIsBoundedByItsContext(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{})
	j := start(t, tb, "trap '' TERM; echo up; sleep 300")
	says(t, j, "up")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := tb.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	if s := end(t, j); s.State != Killed {
		t.Errorf("%+v", s)
	}
}

// P4: whatever starts while Close goes by is refused or ended.
func TestStartsRaceTheClose(t *testing.T) {
	t.Parallel()
	for range 5 {
		tb, err := New(Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var (
			wg   sync.WaitGroup
			mu   sync.Mutex
			list []*Job
			once = make(chan struct{}, 100)
		)
		for range 4 {
			wg.Go(func() {
				for {
					j, err := tb.Start(context.Background(), Spec{Proc: sh(t, "trap '' TERM; sleep 300")})
					once <- struct{}{}
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Errorf("start: %v", err)
						}
						return
					}
					mu.Lock()
					list = append(list, j)
					n := len(list)
					mu.Unlock()
					if n > 40 {
						return
					}
				}
			})
		}
		<-once
		<-once
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		if err := tb.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		cancel()
		wg.Wait()
		for _, j := range list {
			if s := end(t, j); s.State != Killed || !s.Cleaned {
				t.Errorf("%+v", s)
			}
		}
	}
}

// S1, P1: the context and the caller's last check count right before the start, and
// then nothing ran.
func TestNothingRunsAfterARefusal(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{})
	file := filepath.Join(t.TempDir(), "ran")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := tb.Start(ctx, Spec{Proc: sh(t, "touch "+file)}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	s := sh(t, "touch "+file)
	s.Before = func() error { cancel(); return nil } // cancelled in the last moment
	if _, err := tb.Start(ctx, Spec{Proc: s}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled in the last moment: %v", err)
	}
	no := errors.New("no")
	s.Before = func() error { return no }
	if _, err := tb.Start(context.Background(), Spec{Proc: s}); !errors.Is(err, no) {
		t.Errorf("refused: %v", err)
	}
	if _, err := os.Stat(file); err == nil || len(tb.Jobs()) != 0 {
		t.Error("something ran, or is listed")
	}
	// once started, the context means nothing
	ctx, cancel = context.WithCancel(context.Background())
	j, err := tb.Start(ctx, Spec{Proc: sh(t, "sleep 0.1; exit 6")})
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	if s := end(t, j); s.State != Exited || s.Code != 6 {
		t.Errorf("%+v", s)
	}
}

// S3, P5, SH-27: when the end is told, all that was written before it is there.
func TestEndHasAllOutput(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{})
	for range 20 {
		j := start(t, tb, "seq 1 10000")
		<-j.Done()
		s, p := j.Status(), j.Poll(45_000)
		if s.Observed != 48894 || p.Cursor != 48894 || !strings.HasSuffix(p.Text, "\n10000\n") || p.Omitted == 0 {
			t.Fatalf("%d bytes, cursor %d, omitted %d", s.Observed, p.Cursor, p.Omitted)
		}
	}
}

// SH-31: so is a character that was not finished.
func TestEndFinishesTheLastCharacter(t *testing.T) {
	t.Parallel()
	j := start(t, table(t, Limits{}), `printf 'ok\342\202'`)
	end(t, j)
	if p := j.Poll(100); p.Text != "ok\ufffd" || p.Cursor != 5 {
		t.Errorf("%+v", p)
	}
}

// Until: a wait for several sessions ends with the first end, with the last one, or
// with output, sleeps until then, and misses nothing that came before it.
func TestAwait(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{})
	ctx := context.Background()
	in := func(line string) *Job {
		s := sh(t, line)
		s.OpenStdin = true
		return startSpec(t, tb, Spec{Proc: s})
	}
	a, b := in("read x; echo a"), in("read x; echo b; read x; exit 3")
	both := []*Job{a, b}
	for _, u := range []Until{AnyEnd, AllEnds, Output} {
		if Await(ctx, both, u, 30*time.Millisecond) {
			t.Errorf("%s came without a reason", u)
		}
		if !Await(ctx, nil, u, hang) {
			t.Errorf("%s of nothing is waited for", u)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if Await(gone, both, u, hang) {
			t.Errorf("%s came with a cancellation", u)
		}
	}
	write := func(j *Job) {
		t.Helper()
		if _, err := j.proc.Write(ctx, []byte("x\n")); err != nil {
			t.Fatal(err)
		}
	}
	result := func(u Until) <-chan bool {
		c := make(chan bool)
		go func() { c <- Await(ctx, both, u, hang) }()
		return c
	}
	got := func(name string, c <-chan bool) {
		t.Helper()
		if !<-c {
			t.Errorf("%s did not come", name)
		}
	}
	output, anyEnd, all := result(Output), result(AnyEnd), result(AllEnds)
	write(b)
	got("output", output)
	if !Await(ctx, both, Output, 0) {
		t.Error("output that was not polled is no news any more")
	}
	b.Poll(100)
	if Await(ctx, both, Output, 10*time.Millisecond) {
		t.Error("output that was polled is news")
	}
	output = result(Output)
	write(a)
	got("output", output)
	got("any", anyEnd)
	got("any, afterwards", result(AnyEnd))
	select {
	case <-all:
		t.Error("all before b has ended")
	case <-time.After(20 * time.Millisecond):
	}
	write(b)
	got("all", all)
	for _, j := range both {
		if n := len(j.output.watchers); n != 0 {
			t.Errorf("%d still watch", n)
		}
	}
}

// P6, P8: a short command touches no disk; a long one's first bytes are in a private directory,
// which shrinks with an eviction and is removed by Close; nothing else in its parent is touched.
func TestLogIsPrivateAndGoes(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	bystander := filepath.Join(parent, "belay-bystander")
	if err := os.WriteFile(bystander, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	tb := table(t, Limits{MaxFinished: 2, LogParent: parent})
	logs := func() (files []string) {
		dirs, _ := filepath.Glob(filepath.Join(parent, "belay-*", "*"))
		return dirs
	}
	end(t, start(t, tb, "seq 1 10000")) // 48,894 bytes: memory has them
	if got, _ := os.ReadDir(parent); len(got) != 1 {
		t.Fatalf("a short command made %v", got)
	}
	j := start(t, tb, "seq 1 100000") // 588,895
	end(t, j)
	files := logs()
	if len(files) != 1 {
		t.Fatalf("files: %v", files)
	}
	if fi, err := os.Stat(files[0]); err != nil || fi.Mode().Perm() != 0o600 || fi.Size() != 588_895 {
		t.Errorf("%v %v", fi, err)
	}
	if fi, err := os.Stat(filepath.Dir(files[0])); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", fi, err)
	}
	if p := j.Page(0, 20); p.Text != "1\n2\n3\n4\n5\n6\n7\n8\n9\n" || p.Omitted != 0 {
		t.Errorf("%+v", p)
	}
	if p := j.Page(300_000, 45_000); p.Omitted != 0 || len(p.Text) < 40_000 {
		t.Errorf("from the middle: %d bytes, omitted %d", len(p.Text), p.Omitted)
	}
	end(t, start(t, tb, "exit 0"))
	end(t, start(t, tb, "exit 0"))
	if !soon(func() bool { return len(logs()) == 0 }) {
		t.Errorf("after the eviction: %v", logs())
	}
	end(t, start(t, tb, "seq 1 100000"))
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	if err := tb.Close(ctx); err != nil {
		t.Error(err)
	}
	if got, _ := os.ReadDir(parent); len(got) != 1 || got[0].Name() != "belay-bystander" {
		t.Errorf("left: %v", got)
	}
}

// P6: over the quota, and where the disk fails, the command runs on to its end and
// what is not kept is counted.
func TestLogGivesOutAndTheCommandRunsOn(t *testing.T) {
	t.Parallel()
	const total = 588_895
	for _, c := range []struct {
		name    string
		limits  Limits
		kept    int64 // of the start
		running func(t *testing.T, parent string)
	}{
		{"quota of a log", Limits{LogBytes: 100_000}, 100_000, nil},
		{"quota of all", Limits{LogTotal: 70_000}, 70_000, nil},
		{"no directory", Limits{LogParent: "/dev/null/none"}, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tb := table(t, c.limits)
			j := start(t, tb, "seq 1 100000; exit 8")
			if s := end(t, j); s.State != Exited || s.Code != 8 || s.Observed != total {
				t.Fatalf("%+v", s)
			}
			j.Poll(0)
			p := j.Page(0, 20)
			if (p.Text == "1\n2\n3\n4\n5\n6\n7\n8\n9\n") != (c.kept > 0) {
				t.Errorf("the start: %+v", p)
			}
			p = j.Page(c.kept+10, 45_000)
			if p.Cursor != total-64_000 || p.Omitted != p.Cursor-c.kept-10 || p.End != total {
				t.Errorf("the gap: cursor %d omitted %d", p.Cursor, p.Omitted)
			}
			p = j.Page(-7, 100)
			if p.Text != "100000\n" || p.Next != total {
				t.Errorf("the end: %+v", p)
			}
		})
	}
}

// P5, SH-21, SE-31: a flood keeps memory bounded and is counted to the last byte.
func TestFloodKeepsMemoryBounded(t *testing.T) {
	size := int64(256 << 20)
	if os.Getenv("BELAY_TEST_LONG") != "" {
		size = 1 << 30
	}
	tb := table(t, Limits{})
	j := start(t, tb, fmt.Sprintf("yes 0123456789 | head -c %d", size))
	var most, before runtime.MemStats
	runtime.ReadMemStats(&before)
	for ended := false; !ended; {
		ended = Await(context.Background(), []*Job{j}, AnyEnd, 50*time.Millisecond)
		var m runtime.MemStats
		if runtime.ReadMemStats(&m); m.HeapInuse > most.HeapInuse {
			most = m
		}
		j.Page(-10_000, 10_000)
	}
	s, p := j.Status(), j.Poll(45_000)
	if s.Observed != size || p.Cursor != size || p.Omitted < size-45_000 {
		t.Errorf("%d of %d bytes, %d omitted", s.Observed, size, p.Omitted)
	}
	if grown := int64(most.HeapInuse) - int64(before.HeapInuse); grown > 32<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
	page := j.Page(8<<20, 1000)
	if page.Omitted != size-64_000-8<<20 {
		t.Errorf("the gap is %d bytes", page.Omitted)
	}
}

// P7: a session that was told its end and its output holds little.
func TestIdleSessionsHoldLittle(t *testing.T) {
	tb := table(t, Limits{})
	const n = 30
	var list []*Job
	for range n {
		list = append(list, start(t, tb, "echo é; sleep 300"))
	}
	for _, j := range list {
		says(t, j, "é")
		j.Poll(100)
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if each := int64(m.HeapAlloc) / n; each > 200<<10 {
		t.Errorf("%d KB each", each>>10)
	}
	for _, j := range list {
		if c := cap(j.output.head); c > 4<<10 {
			t.Errorf("head of %d bytes", c)
		}
	}
}

// Everything at once, for the race detector.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{MaxSessions: 12, MaxFinished: 5, TailBytes: 2000, LogBytes: 5000})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 12 {
				line := []string{"seq 1 3000; sleep 300", "seq 1 3000", "exit 3", "trap '' TERM; seq 1 100; sleep 300"}[(w+i)%4]
				j, err := tb.Start(context.Background(), Spec{Proc: sh(t, line), Timeout: []time.Duration{0, 20 * time.Millisecond}[i%2]})
				var full *FullError
				if errors.As(err, &full) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond)
				j.Wait(ctx, time.Second)
				cancel()
				j.Poll(300)
				j.Page(0, 300)
				j.Status()
				if i%3 == 0 {
					Await(context.Background(), tb.Jobs(), Output, 5*time.Millisecond)
				}
				j.Kill(context.Background(), proc.TERM, 10*time.Millisecond)
				if s := j.Status(); s.State == Running {
					t.Error("it runs after the kill")
				}
				tb.Find(j.ID())
			}
		})
	}
	wg.Wait()
}
