//go:build unix

package journal

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/belayhq/belay/tool"
)

func init() {
	helpers["helper:calls"] = makeCalls
	helpers["helper:full"] = fillUp
}

// makeCalls makes calls until it is killed. The effect of each is a file named for it, of
// two letters written one by one: half an effect can be seen.
func makeCalls(args []string) {
	path, dir := args[0], args[1]
	j, err := Open(path)
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			for i := range 5000 {
				c := []Call{reads, writes, runs}[i%3]
				c.ID = fmt.Sprintf("%d_%d_%d", os.Getpid(), g, i)
				e, err := j.Start(c)
				if err != nil {
					fmt.Println("start:", err)
					os.Exit(1)
				}
				if c.Effect != tool.ReadOnly {
					f, err := os.OpenFile(filepath.Join(dir, c.ID), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
					if err != nil {
						os.Exit(1)
					}
					f.WriteString("a")
					f.WriteString("b")
					f.Close()
				}
				if i%5 == 0 {
					if err := e.Commit(); err != nil {
						os.Exit(1)
					}
				}
				if err := e.End(Done, ""); err != nil {
					fmt.Println("end:", err)
					os.Exit(1)
				}
				if i == 0 && g == 0 {
					fmt.Println("going")
				}
			}
		})
	}
	wg.Wait()
}

// C8: after a SIGKILL at any moment, with several runtimes on one file, the journal tells
// the truth: what it calls finished had its whole effect, what it does not name had none, and
// what had half of one is not called finished.
func TestKilledAtAnyMoment_C8(t *testing.T) {
	t.Parallel()
	rounds := 12
	if os.Getenv("BELAY_TEST_LONG") != "" {
		rounds = 300
	}
	self, err := os.Executable()
	must(t, err)
	base := t.TempDir()
	path, dir := filepath.Join(base, "j"), filepath.Join(base, "effects")
	must(t, os.Mkdir(dir, 0o700))
	unfinished := 0
	for round := range rounds {
		var killed []*exec.Cmd
		for range 2 {
			cmd := exec.Command(self, "helper:calls", path, dir)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "going\n" {
				t.Fatalf("round %d: %q, %v", round, line, err)
			}
			killed = append(killed, cmd)
		}
		for _, cmd := range killed {
			time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond)
			must(t, cmd.Process.Kill())
			cmd.Wait()
		}
		r := report(t, path)
		effect := func(id string) string { b, _ := os.ReadFile(filepath.Join(dir, id)); return string(b) }
		known := map[string]bool{}
		for _, s := range r.Finished {
			known[s.ID] = true
			if s.Effect != tool.ReadOnly && effect(s.ID) != "ab" {
				t.Errorf("round %d: %s is called finished, with the effect %q", round, s.ID, effect(s.ID))
			}
		}
		for _, s := range r.Repeat {
			known[s.ID] = true
			if s.Replay == tool.Unsafe || s.Phase != Started {
				t.Errorf("round %d: %+v is called safe to repeat", round, s)
			}
		}
		for _, s := range r.Uncertain {
			known[s.ID] = true
			if s.Replay != tool.Unsafe || s.Phase != Started {
				t.Errorf("round %d: %+v is called uncertain", round, s)
			}
		}
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			if !known[e.Name()] {
				t.Errorf("round %d: %s had an effect, and the journal does not know it", round, e.Name())
			}
		}
		// at most one call of each goroutine can be open, in this round
		if open := len(r.Repeat) + len(r.Uncertain) - unfinished; open > 6 {
			t.Errorf("round %d: %d calls are not finished", round, open)
		}
		unfinished = len(r.Repeat) + len(r.Uncertain)
	}
	if unfinished == 0 {
		t.Error("no kill met a call: the test shows nothing")
	}
}

// fillUp makes calls on a disk that is full after so many bytes, and says what came of each.
func fillUp(args []string) {
	// The system sends this beside the error, to programs that do not ask for it.
	signal.Ignore(syscall.SIGXFSZ)
	j, err := Open(args[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	info, _ := os.Stat(args[0])
	room, _ := strconv.Atoi(args[1])
	var limit syscall.Rlimit
	setLimit(&limit.Cur, info.Size()+int64(room))
	setLimit(&limit.Max, info.Size()+int64(room))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fmt.Println(err)
		return
	}
	for i := range 20 {
		c := runs
		c.ID = fmt.Sprint(i)
		e, err := j.Start(c)
		fmt.Printf("start %d %v\n", i, err)
		if err == nil {
			fmt.Printf("end %d %v\n", i, e.End(Done, ""))
		}
	}
}

// setLimit: the numbers have a sign on some systems.
func setLimit[N int64 | uint64](n *N, value int64) { *n = N(value) }

// C8: what cannot be recorded is reported before the effect; a full disk leaves a journal
// that is whole, and that others go on with.
func TestFullDisk_C8(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	for _, room := range []string{"0", "1", "700", "900", "1111"} {
		_, path := fresh(t)
		out, err := exec.Command(self, "helper:full", path, room).CombinedOutput()
		must(t, err)
		started, ended, refused := 0, 0, 0
		for line := range bytes.Lines(out) {
			what := strings.Fields(string(line))
			ok := strings.HasSuffix(string(line), "<nil>\n")
			full := strings.Contains(string(line), NoSpace.String())
			switch {
			case what[0] == "start" && ok:
				started++
			case what[0] == "start" && full:
				refused++
			case what[0] == "end" && ok:
				ended++
			case what[0] == "end" && full:
			default:
				t.Errorf("room %s: %s", room, line)
			}
		}
		if started+refused != 20 || refused == 0 {
			t.Errorf("room %s: %d started, %d refused\n%s", room, started, refused, out)
		}
		r := report(t, path)
		if len(r.Finished) != ended || len(r.Uncertain) != started-ended || r.Torn != 0 {
			t.Errorf("room %s: %d started, %d ended, and the journal says %d finished, %d uncertain, %d torn",
				room, started, ended, len(r.Finished), len(r.Uncertain), r.Torn)
		}
		j := openAt(t, path) // there is room again
		must(t, start(t, j, writes).End(Done, ""))
		if r := report(t, path); len(r.Finished) != ended+1 {
			t.Errorf("room %s, continued: %+v", room, r)
		}
	}
}

// A journal that may not be written to is an error at the start, also for root where the
// test runs as root: then the check is made as another user.
func TestPermission(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		self, err := os.Executable()
		must(t, err)
		dir, err := os.MkdirTemp("", "journal-user-*")
		must(t, err)
		defer os.RemoveAll(dir)
		must(t, os.Chmod(dir, 0o755))
		copied := filepath.Join(dir, "test") // the test binary is in a folder of root's
		raw, err := os.ReadFile(self)
		must(t, err)
		syscall.ForkLock.RLock() // a child that is being started would hold it open for writing
		err = os.WriteFile(copied, raw, 0o755)
		syscall.ForkLock.RUnlock()
		must(t, err)
		cmd := exec.Command(copied, "-test.run=^TestPermission$")
		cmd.Dir, cmd.Env = "/", []string{"TMPDIR=/tmp"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("as another user: %v\n%s", err, out)
		}
		return
	}
	_, path := fresh(t)
	must(t, os.Chmod(path, 0o400))
	if _, err := Open(path); reasonOf(err) != Permission || strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	must(t, os.Chmod(path, 0))
	if _, err := Read(path); reasonOf(err) != Permission {
		t.Error(err)
	}
}
