//go:build unix

package worktree

import (
	"bufio"
	"fmt"
	"math/rand"
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
	// commit-loop ROOT: replaces and creates files until it is killed; says on its output when it starts.
	helpers["commit-loop"] = func(args []string) int {
		tree, err := Open(args[0], Options{})
		if err != nil {
			return 1
		}
		fmt.Println("ready")
		for i := 0; i < 1_000_000; i++ {
			for _, name := range []string{"f", "large"} {
				p, err := tree.Read(bg, PageRequest{Name: name, Limit: 1})
				if err != nil {
					return 1
				}
				if _, err = tree.Commit(bg, name, content(name, i), Expect{SHA256: p.SHA256}); err != nil {
					return 1
				}
			}
			if _, err := tree.Commit(bg, fmt.Sprintf("new/%d/n", i%5), content("n", i), Expect{Create: true, Mkdirs: true}); err != nil && reasonOf(err) != Exists {
				return 1
			}
		}
		return 1
	}
	// increment ROOT TIMES: adds one to the number in the file, as often, whoever else does; prints how often it was late.
	helpers["increment"] = func(args []string) int {
		tree, err := Open(args[0], Options{})
		if err != nil {
			return 1
		}
		times, _ := strconv.Atoi(args[1])
		late := 0
		for done := 0; done < times; {
			p, err := tree.Read(bg, page("counter"))
			if err != nil {
				return 1
			}
			n, err := strconv.Atoi(string(p.Content))
			if err != nil {
				return 2
			}
			c, err := tree.Commit(bg, "counter", []byte(strconv.Itoa(n+1)), Expect{SHA256: p.SHA256})
			switch {
			case err == nil && c.Changed:
				done++
			case err == nil || reasonOf(err) == Stale: // somebody else was faster, perhaps with the very same content
				if late++; late > 100_000 {
					return 3
				}
			default:
				fmt.Println(err)
				return 4
			}
		}
		fmt.Println(late)
		return 0
	}
	// create-once ROOT ROUNDS: tries to create each of the files; prints which it got.
	helpers["create-once"] = func(args []string) int {
		tree, err := Open(args[0], Options{})
		if err != nil {
			return 1
		}
		rounds, _ := strconv.Atoi(args[1])
		for i := range rounds {
			_, err := tree.Commit(bg, fmt.Sprint("new", i), []byte(fmt.Sprint(os.Getpid())), creating)
			if err == nil {
				fmt.Println(i)
			} else if reasonOf(err) != Exists {
				return 4
			}
		}
		return 0
	}
}

// content is what the i-th commit writes: its length and every line tell whether it is whole.
func content(name string, i int) []byte {
	lines := map[string]int{"f": 40, "large": 20_000, "n": 10}[name]
	return []byte(strings.Repeat(fmt.Sprintf("%s %08d\n", name, i), lines))
}

func whole(name string, b []byte) bool {
	line, _, ok := strings.Cut(string(b), "\n")
	if !ok {
		return false
	}
	i, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, name)))
	return err == nil && string(b) == string(content(name, i))
}

// F5: a SIGKILL at any moment leaves the old or the new content, and nothing that the next write to the file does not sweep.
func TestKilledAtAnyMoment_F5(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	must(t, os.WriteFile(w.in+"/f", content("f", 0), 0o644))
	must(t, os.WriteFile(w.in+"/large", content("large", 0), 0o644))
	rounds, budget := 250, 5*time.Second
	if long() {
		rounds, budget = 5000, 3*time.Minute
	}
	random := rand.New(rand.NewSource(time.Now().UnixNano()))
	start := time.Now()
	kills, leftovers := 0, 0
	for ; kills < rounds && time.Since(start) < budget; kills++ {
		cmd := helper("commit-loop", w.in)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatal("helper:", line, err)
		}
		time.Sleep(time.Duration(random.Intn(8000)) * time.Microsecond)
		must(t, cmd.Process.Kill())
		err = cmd.Wait()
		if st, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !st.Signaled() {
			t.Fatal("the helper ended by itself:", err)
		}

		for _, name := range []string{"f", "large"} {
			b, err := os.ReadFile(filepath.Join(w.in, name))
			if err != nil || !whole(name, b) {
				t.Fatalf("kill %d: %s is neither old nor new: %d bytes, %.40q, %v", kills, name, len(b), b, err)
			}
		}
		made, _ := filepath.Glob(w.in + "/new/*/n")
		for _, name := range made {
			if b, err := os.ReadFile(name); err != nil || !whole("n", b) {
				t.Fatalf("kill %d: created half: %.40q %v", kills, b, err)
			}
		}
		for _, n := range strings.Fields(w.names("W")) {
			base := filepath.Base(n)
			if !strings.HasPrefix(base, temporaryPrefix) {
				continue
			}
			leftovers++
			for _, target := range []string{"f", "large", "n"} {
				if base != temporary(target) {
					continue
				}
				name := filepath.ToSlash(filepath.Join(filepath.Dir(n), target))
				p, err := w.t.Read(bg, page(name))
				e := Expect{SHA256: p.SHA256}
				if reasonOf(err) == NotFound {
					e = creating
				}
				_, err = w.t.Commit(bg, name, content(target, 1_000_000+kills), e)
				must(t, err)
			}
		}
		w.noLeftovers()
		must(t, os.RemoveAll(w.in+"/new"))
	}
	t.Logf("%d kills, %d of them left a temporary file to sweep", kills, leftovers)
	if kills < 20 {
		t.Errorf("only %d kills in %v", kills, budget)
	}
}

// F6: no update is lost between processes: as many increments are in the file as were reported done.
func TestProcessesLoseNoUpdate_F6(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.lay("W/counter = 0")
	const processes, each = 4, 25
	var cmds []*exec.Cmd
	for range processes {
		cmd := helper("increment", w.in, fmt.Sprint(each))
		must(t, cmd.Start())
		cmds = append(cmds, cmd)
	}
	for i := 0; i < 10; { // and this process beside them
		p, err := w.t.Read(bg, page("counter"))
		must(t, err)
		n, err := strconv.Atoi(string(p.Content))
		must(t, err)
		c, err := w.t.Commit(bg, "counter", []byte(strconv.Itoa(n+1)), Expect{SHA256: p.SHA256})
		if c.Changed {
			i++
		} else if err != nil && reasonOf(err) != Stale {
			t.Fatal(err)
		}
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if got := w.text("W/counter"); got != fmt.Sprint(processes*each+10) {
		t.Errorf("%s increments are left of %d", got, processes*each+10)
	}
	w.noLeftovers()
}

// F4, F6: of several processes that create one file exactly one does.
func TestProcessesCreateOnce_F6(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	const rounds = 60
	outs := make(chan string, 3)
	for range 3 {
		go func() {
			out, err := helper("create-once", w.in, fmt.Sprint(rounds)).Output()
			if err != nil {
				t.Error(err)
			}
			outs <- string(out)
		}()
	}
	winners := map[string]int{}
	for range 3 {
		for _, i := range strings.Fields(<-outs) {
			winners[i]++
		}
	}
	for i := range rounds {
		if winners[fmt.Sprint(i)] != 1 {
			t.Errorf("file %d was created %d times", i, winners[fmt.Sprint(i)])
		}
	}
	w.noLeftovers()
}

// F6: a lock that is held elsewhere is waited for, as long as the caller wants.
func TestLockIsWaitedFor_F6_F7(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.lay("W/f = old")
	held, err := os.Open(w.in)
	must(t, err)
	defer held.Close()
	if ok, err := tryLock(held); !ok {
		t.Fatal("lock:", err)
	}
	ctx, cancel := timeout(50 * time.Millisecond)
	defer cancel()
	_, err = w.t.Commit(ctx, "f", []byte("new"), replacing("old"))
	wantReason(t, err, Cancelled)
	done := make(chan error)
	go func() {
		_, err := w.t.Commit(bg, "f", []byte("new"), replacing("old"))
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatal("did not wait:", err)
	case <-time.After(50 * time.Millisecond):
	}
	// A second waiter in this process ends with its own context.
	ctx, cancel = timeout(20 * time.Millisecond)
	defer cancel()
	_, err = w.t.Commit(ctx, "g", []byte("new"), creating)
	wantReason(t, err, Cancelled)
	unlock(held)
	must(t, <-done)
	if w.text("W/f") != "new" {
		t.Error("not written")
	}
}
