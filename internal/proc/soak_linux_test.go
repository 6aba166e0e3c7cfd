package proc

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The soak (BELAY_TEST_LONG=1): short commands and long sessions at once, of every bad kind, with
// random ends. Nothing may stay, and no output may be missing. Descriptors, goroutines and
// processes are checked by TestMain, zombies here. The plain mode runs a small part of it.
func TestSoak(t *testing.T) {
	commands, sessions := 150, 20
	if long() {
		commands, sessions = 10000, 200
	}
	kinds := []string{
		"seq 1 20000",                                // floods
		"true",                                       // ends at once
		"sleep 300 & echo $!",                        // leaves something
		"sleep 300 >/dev/null 2>&1 &",                // in silence
		"trap '' TERM; sleep 300 & echo x",           // that is stubborn
		"for i in 1 2 3 4 5; do (true &) ; done",     // forks
		"(set -m; sleep 300 & ) 2>/dev/null; exit 3", // in a group of its own
		"exec 1>&- 2>&-; sleep 0.01",                 // closes its pipes
		"kill -KILL $$",
	}
	stubborn := []string{
		"yes flood",
		"trap '' TERM INT HUP; while :; do sleep 0.3; done",
		"while :; do sleep 0.05 & sleep 0.02; done",
		"sleep 300 & sleep 300 & wait",
		"setsid sh -c 'trap \"\" TERM; sleep 300' & wait",
		"kill -STOP $$",
		"cat >/dev/null; exec 1>&-; sleep 300",
	}
	var running sync.WaitGroup
	var failed atomic.Int32
	complain := func(format string, a ...any) {
		if failed.Add(1) < 20 {
			t.Errorf(format, a...)
		}
	}
	check := func(line string, mark string, e Exit) {
		if !e.Cleaned {
			complain("%s: %+v", line, e)
		}
	}
	slots := make(chan bool, sessions)
	for i := range sessions * 2 {
		slots <- true
		running.Go(func() {
			defer func() { <-slots }()
			line := stubborn[i%len(stubborn)]
			s, _ := shell(t, line)
			s.OpenStdin = rand.IntN(2) == 0
			if rand.IntN(3) == 0 {
				s.OpenStdin, s.TTY = false, &Size{80, 24}
			}
			p, err := Start(context.Background(), s)
			if err != nil {
				complain("%v", err)
				return
			}
			time.Sleep(time.Duration(rand.IntN(800)) * time.Millisecond)
			p.End([]Signal{TERM, INT, KILL, HUP}[rand.IntN(4)], time.Duration(rand.IntN(300))*time.Millisecond)
			if rand.IntN(2) == 0 {
				p.End(KILL, 0)
			}
			<-p.Done()
			check(line, s.Mark, p.Exit())
			if pids := marked(s.Mark); len(pids) > 0 {
				complain("%s: alive %v", line, pids)
			}
		})
	}
	four := make(chan bool, 4)
	for i := range commands {
		four <- true
		running.Go(func() {
			defer func() { <-four }()
			line := kinds[i%len(kinds)]
			s, out := shell(t, line)
			p, err := Start(context.Background(), s)
			if err != nil {
				complain("%v", err)
				return
			}
			if i%7 == 0 {
				p.End(TERM, time.Duration(rand.IntN(100))*time.Millisecond)
			}
			<-p.Done()
			e := p.Exit()
			check(line, s.Mark, e)
			if i%len(kinds) == 0 && e.Code == 0 && (out.out.Len() != 108894 || !bytes.HasSuffix(out.out.Bytes(), []byte("\n20000\n"))) {
				complain("seq: %d bytes", out.out.Len())
			}
		})
	}
	running.Wait()
	if pids := zombies(); len(pids) > 0 {
		t.Errorf("zombies %v", pids)
	}
}

// zombies lists the unreaped children of this process.
func zombies() (pids []int) {
	list, _ := listPIDs()
	for _, pid := range list {
		if x := statOf(pid); x.state == 'Z' && x.parent == os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Many at once: the largest number of sessions that the contract allows (4096), each asleep and
// then ended.
func TestManySessions(t *testing.T) {
	if !long() {
		t.Skip("long")
	}
	var all []*Proc
	for i := range 4096 {
		p, err := Start(context.Background(), Spec{Path: "/bin/sleep", Argv: []string{"sleep", "300"}, Env: testEnv(fmt.Sprint("many.", i)), Dir: "/", Mark: fmt.Sprint("many.", i)})
		if err != nil {
			t.Errorf("%d: %v", i, err)
			break
		}
		all = append(all, p)
	}
	began := time.Now()
	for _, p := range all {
		p.End(TERM, time.Second)
	}
	for _, p := range all {
		<-p.Done()
		if e := p.Exit(); !e.Cleaned || e.Signal == "" {
			t.Fatalf("%+v", e)
		}
	}
	t.Logf("%d ended in %v", len(all), time.Since(began))
}
