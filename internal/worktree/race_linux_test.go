package worktree

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// flip calls the steps in turn as fast as it can until the test is over.
func flip(t *testing.T, steps ...func() error) (stop func(), turns *atomic.Int64) {
	ctx, cancel := context.WithCancel(bg)
	turns = new(atomic.Int64)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			for _, s := range steps {
				if err := s(); err != nil {
					t.Error("flip:", err)
					return
				}
			}
			turns.Add(1)
		}
	})
	return func() { cancel(); wg.Wait() }, turns
}

func raceCalls() (int, time.Duration) {
	if long() {
		return 200_000, 60 * time.Second
	}
	return 20_000, 2 * time.Second
}

// F1, S1: a component flips between a directory and a link out while thousands of calls run. What is outside is never read and never
// changed, and every answer is one that fits one of the two states.
func TestSwapRace_F1_S1(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, target string }{
		{"link out", "../O"}, {"absolute link out", "$/O"}, {"link to another folder inside", "c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Options{})
			withoutDisk(w.t)
			w.lay("W/a/sub/f = inside", "O/sub/f = "+secret, "O/f = "+secret, "W/c/sub/f = other")
			target := strings.ReplaceAll(c.target, "$", w.dir)
			must(t, os.Symlink(target, filepath.Join(w.in, "link")))
			stop, turns := flip(t, func() error {
				if rand.Intn(3) > 0 { // now and then at full speed, else so that a call can meet either state whole
					time.Sleep(time.Duration(rand.Intn(300)) * time.Microsecond)
				}
				return unix.Renameat2(unix.AT_FDCWD, w.in+"/a", unix.AT_FDCWD, w.in+"/link", unix.RENAME_EXCHANGE)
			})
			outside := w.names("O")
			calls, budget := raceCalls()
			start := time.Now()
			seen := map[Reason]int{}
			n := 0
			for ; n < calls && time.Since(start) < budget; n++ {
				p, err := w.t.Read(bg, page("a/sub/f"))
				seen[reasonOf(err)]++
				if strings.Contains(string(p.Content), secret) || p.SHA256 == Digest([]byte(secret)) {
					t.Fatal("the secret was read")
				}
				switch n % 32 { // mostly reads: a commit takes as long as a hundred of them
				default:
					continue
				case 0:
					_, err = w.t.Commit(bg, "a/sub/f", []byte("inside"), replacing(secret))
				case 8:
					_, err = w.t.Commit(bg, "a/sub/f", []byte(fmt.Sprint("inside", n)), Expect{SHA256: p.SHA256})
				case 16:
					_, err = w.t.Commit(bg, fmt.Sprint("a/sub/new", n), []byte("x"), Expect{Create: true, Mkdirs: n%64 == 16})
				case 24:
					var d *Dir
					if d, err = w.t.Dir("a/sub"); err == nil {
						if rerr := d.Recheck(); rerr != nil && reasonOf(rerr) != WorkDir {
							t.Error("recheck:", rerr)
						}
						inO, serr := os.Stat(filepath.Join(w.out, "sub"))
						must(t, serr)
						if fi, serr := d.File().Stat(); serr != nil || os.SameFile(fi, inO) {
							t.Fatal("a directory outside was handed out")
						}
						d.Close()
					}
				}
				switch reasonOf(err) {
				case 0, OutsideRoot, NotFound, Stale, Exists, WorkDir:
					if err != nil && reasonOf(err) == 0 {
						t.Fatal(err)
					}
				case WriteFailed, ReadFailed: // the folder moved at each of the attempts
					seen[reasonOf(err)]++
				default:
					t.Errorf("answer %v (%v)", err, causeOf(err))
				}
			}
			stop()
			if w.text("O/f") != secret || w.text("O/sub/f") != secret || w.names("O") != outside {
				t.Fatal("outside was changed:", w.names("O"))
			}
			w.noLeftovers()
			t.Logf("%d calls, %d turns, reads: %v", n, turns.Load(), seen)
		})
	}
}

// F2: a FIFO, a directory and a link that take the place of the file again and again never make a call wait.
func TestSpecialSwappedIn_F2(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.lay("W/f = text", "W/dir/", "O/v = "+secret, "W/link => ../O/v")
	must(t, makeFIFO(w.in+"/fifo"))
	f := w.in + "/f"
	var steps []func() error
	for _, other := range []string{"fifo", "dir", "link"} {
		o := filepath.Join(w.in, other)
		steps = append(steps,
			func() error { return os.Rename(f, w.in+"/parked") },
			func() error { return os.Rename(o, f) },
			func() error { return os.Rename(f, o) },
			func() error { return os.Rename(w.in+"/parked", f) })
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		stop, _ := flip(t, steps...)
		defer stop()
		calls, budget := raceCalls()
		for n, start := 0, time.Now(); n < calls && time.Since(start) < budget/2; n++ {
			p, err := w.t.Read(bg, page("f"))
			if err == nil && string(p.Content) != "text" {
				t.Errorf("read %q", p.Content)
			}
			_, werr := w.t.Commit(bg, "f", []byte("x"), replacing("other"))
			for _, err := range []error{err, werr} {
				switch reasonOf(err) {
				case NotFound, NotRegular, OutsideRoot, Stale:
				default:
					if err != nil || werr == nil {
						t.Errorf("answer %v (%v)", err, causeOf(err))
					}
				}
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("a call waits")
	}
	if w.text("O/v") != secret {
		t.Error("outside was changed")
	}
	w.noLeftovers()
}

// F2: what was looked at is what is opened, or it is not opened: deterministically, with the swap between the two.
func TestOpenIsWhatWasSeen_F2(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(w *world) error{
		"fifo":        func(w *world) error { return makeFIFO(w.in + "/f") },
		"link inside": func(w *world) error { return os.Symlink("g", w.in+"/f") },
		"link out":    func(w *world) error { return os.Symlink("../O/v", w.in+"/f") },
		"device":      func(w *world) error { return os.Symlink("/dev/zero", w.in+"/f") },
		"directory":   func(w *world) error { return os.Mkdir(w.in+"/f", 0o755) },
		"other file":  func(w *world) error { return os.Rename(w.in+"/g", w.in+"/f") },
		"nothing":     func(w *world) error { return nil },
	} {
		w := newWorld(t, Options{})
		w.lay("W/f = text", "W/g = other", "W/d/", "O/v = "+secret)
		p, err := w.t.walk("f", toRead, false)
		must(t, err)
		d, err := w.t.walk("d", toRead, false)
		must(t, err)
		must(t, os.Rename(w.in+"/f", w.in+"/old"))
		must(t, put(w))
		done := make(chan error, 1)
		go func() {
			f, _, err := w.t.openEntry(p)
			if err == nil {
				f.Close()
			}
			done <- err
		}()
		select {
		case err = <-done:
			if err == nil {
				t.Errorf("%s was opened", name)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the open waits", name)
		}
		// The same for a directory on the way.
		must(t, os.Rename(w.in+"/d", w.in+"/e"))
		must(t, os.Symlink("e/..", w.in+"/d"))
		if r, err := openSame(d.dir, "d", d.info); err == nil {
			t.Error("another directory was opened")
			r.Close()
		}
		must(t, os.Remove(w.in+"/d"))
		must(t, makeFIFO(w.in+"/d"))
		go func() {
			r, err := openSame(d.dir, "d", d.info)
			if err == nil {
				r.Close()
			}
			done <- err
		}()
		select {
		case err = <-done:
			if err == nil {
				t.Error("a FIFO was opened")
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the open of a FIFO waits")
		}
		p.close()
		d.close()
	}
}

// F3, F4: beside a writer that replaces the file all the time a digest is always that of one of its contents, or the read says changed.
func TestReadBesideWriter_F3(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	texts := [2][]byte{[]byte(strings.Repeat("a\n", 40_000)), []byte(strings.Repeat("b\n", 50_000))}
	sums := map[string]bool{Digest(texts[0]): true, Digest(texts[1]): true}
	must(t, os.WriteFile(w.in+"/f", texts[0], 0o644))
	stop, _ := flip(t,
		func() error { _, err := w.t.Commit(bg, "f", texts[1], replacing(string(texts[0]))); return err },
		func() error { _, err := w.t.Commit(bg, "f", texts[0], replacing(string(texts[1]))); return err })
	defer stop()
	reader := openTree(t, w.in, Options{})
	calls, budget := raceCalls()
	for n, start := 0, time.Now(); n < calls && time.Since(start) < budget/2; n++ {
		p, err := reader.Read(bg, PageRequest{Name: "f", Limit: 100, Offset: int64(n%100) * 100})
		must(t, err)
		if p.Changed != (p.SHA256 == "") || !p.Changed && !sums[p.SHA256] {
			t.Fatalf("%+v", p)
		}
	}
}

// Scope of issue: a script that was just replaced can be executed at once while other processes are being started ("text file busy").
func TestReplacedScriptRuns_F5(t *testing.T) {
	if testing.Short() {
		t.Skip("starts some hundred processes")
	}
	t.Parallel()
	w := newWorld(t, Options{})
	rounds, budget := 200, 3*time.Second
	if long() {
		rounds, budget = 5000, 3*time.Minute
	}
	withoutDisk(w.t) // a sync would give the other children the time to let go of the handle
	w.lay("W/s = #!/bin/sh\nexit 0\n")
	must(t, os.Chmod(w.in+"/s", 0o755))
	ctx, cancel := context.WithCancel(bg)
	var wg sync.WaitGroup
	for range 4 { // the other processes
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = exec.Command("/bin/true").Run()
			}
		})
	}
	defer wg.Wait()
	defer cancel()
	old, padding := "#!/bin/sh\nexit 0\n", strings.Repeat("# so that the handle is open for a while\n", 2000)
	n := 0
	for start := time.Now(); n < rounds && time.Since(start) < budget; n++ {
		next := fmt.Sprintf("#!/bin/sh\n# %d\nexit %d\n%s", n, n%7, padding)
		_, err := w.t.Commit(bg, "s", []byte(next), replacing(old))
		must(t, err)
		err = exec.Command(w.in + "/s").Run()
		code := 0
		if exit, ok := err.(*exec.ExitError); ok {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatalf("round %d: %v (busy: %v)", n, err, strings.Contains(err.Error(), syscall.ETXTBSY.Error()))
		}
		if code != n%7 {
			t.Fatalf("round %d: exit %d", n, code)
		}
		old = next
	}
	t.Logf("%d rounds", n)
}
