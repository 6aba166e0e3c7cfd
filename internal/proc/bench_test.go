//go:build linux || darwin || freebsd

package proc

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// against measures two ways turn by turn, so that a loaded machine loads both, and reports the
// medians and their ratio. What each function returns is the time that counts.
func against(b *testing.B, bare, ours func() time.Duration) {
	var x, y []time.Duration
	bare()
	ours()
	for b.Loop() {
		x = append(x, bare())
		y = append(y, ours())
	}
	slices.Sort(x)
	slices.Sort(y)
	mx, my := float64(x[len(x)/2]), float64(y[len(y)/2])
	b.ReportMetric(mx, "bare-ns")
	b.ReportMetric(my, "ours-ns")
	b.ReportMetric(my/mx, "ratio")
}

func timed(f func()) func() time.Duration {
	return func() time.Duration {
		began := time.Now()
		f()
		return time.Since(began)
	}
}

// The bare way has its own session, too: Linux shares the processors out by session (autogroup), so
// on a loaded machine a child in ours would be measured by other rules.
var ownSession = &syscall.SysProcAttr{Setsid: true}

// bareRun is the least with os/exec: two pipes, in a session of its own.
func bareRun(b *testing.B, argv ...string) func() {
	return func() {
		var o, e bytes.Buffer
		c := exec.Command(argv[0], argv[1:]...)
		c.Env, c.Dir = testEnv("x"), "/"
		c.SysProcAttr = ownSession
		c.Stdout, c.Stderr = &o, &e
		if err := c.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func ourRun(b *testing.B, k *Keeper, argv ...string) func() {
	return func() {
		var o, e bytes.Buffer
		s := Spec{Path: argv[0], Argv: argv, Env: testEnv("bench"), Dir: "/", Mark: "bench", Keeper: k, Output: func(s Stream, p []byte) {
			if s == Stdout {
				o.Write(p)
			} else {
				e.Write(p)
			}
		}}
		p, err := Start(context.Background(), s)
		if err != nil {
			b.Fatal(err)
		}
		<-p.Done()
		if x := p.Exit(); x.Code != 0 || !x.Cleaned {
			b.Fatalf("%+v", x)
		}
	}
}

func BenchmarkTrue(b *testing.B) {
	against(b, timed(bareRun(b, "/bin/true")), timed(ourRun(b, nil, "/bin/true")))
}

// With a keeper that is told of each program.
func BenchmarkTrueKept(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	k, err := StartKeeper([]string{self, "helper:keeper"})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	against(b, timed(bareRun(b, "/bin/true")), timed(ourRun(b, k, "/bin/true")))
}

// A program that forks: the proof has to look.
func BenchmarkForking(b *testing.B) {
	argv := []string{"/bin/sh", "-c", "/bin/true; /bin/true"}
	against(b, timed(bareRun(b, argv...)), timed(ourRun(b, nil, argv...)))
}

// Eight at once, as a client sends them.
func BenchmarkParallel(b *testing.B) {
	eight := func(f func()) func() time.Duration {
		return timed(func() {
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(f)
			}
			wg.Wait()
		})
	}
	against(b, eight(bareRun(b, "/bin/true")), eight(ourRun(b, nil, "/bin/true")))
}

type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }

func flood(b *testing.B, bare func(w io.Writer), argv []string, tty *Size, n int) {
	b.SetBytes(int64(2 * n))
	check := func(got int) {
		if got != n {
			b.Fatalf("%d bytes of %d", got, n)
		}
	}
	against(b,
		timed(func() { w := &counter{}; bare(w); check(w.n) }),
		timed(func() {
			w := &counter{}
			p, err := Start(context.Background(), Spec{Path: argv[0], Argv: argv, Env: testEnv("bench"), Dir: "/", Mark: "bench", TTY: tty, Output: func(_ Stream, p []byte) { w.Write(p) }})
			if err != nil {
				b.Fatal(err)
			}
			<-p.Done()
			check(w.n)
		}))
}

func BenchmarkFlood(b *testing.B) {
	argv := []string{"/bin/sh", "-c", "exec head -c 209715200 /dev/zero"}
	flood(b, func(w io.Writer) {
		c := exec.Command(argv[0], argv[1:]...)
		c.SysProcAttr = ownSession
		r, _ := c.StdoutPipe()
		c.Start()
		io.CopyBuffer(w, struct{ io.Reader }{r}, make([]byte, 64<<10))
		c.Wait()
	}, argv, nil, 209715200)
}

func BenchmarkFloodTerminal(b *testing.B) {
	argv := []string{"/bin/sh", "-c", "stty raw; exec head -c 20971520 /dev/zero"}
	flood(b, func(w io.Writer) {
		c := exec.Command(argv[0], argv[1:]...)
		f, err := pty.Start(c)
		if err != nil {
			b.Fatal(err)
		}
		io.CopyBuffer(w, struct{ io.Reader }{f}, make([]byte, 64<<10))
		c.Wait()
		f.Close()
	}, argv, &Size{80, 24}, 20971520)
}

// From the start to the first byte.
var greeter = []string{"/bin/sh", "-c", "echo hi; exec sleep 300"}

func ourFirst(b *testing.B, tty *Size) func() time.Duration {
	return func() time.Duration {
		first := make(chan time.Time, 1)
		s := Spec{Path: greeter[0], Argv: greeter, Env: testEnv("bench"), Dir: "/", Mark: "bench", TTY: tty, Output: func(Stream, []byte) {
			select {
			case first <- time.Now():
			default:
			}
		}}
		began := time.Now()
		p, err := Start(context.Background(), s)
		if err != nil {
			b.Fatal(err)
		}
		d := (<-first).Sub(began)
		p.End(KILL, 0)
		<-p.Done()
		return d
	}
}

func BenchmarkFirstByte(b *testing.B) {
	against(b, func() time.Duration {
		began := time.Now()
		c := exec.Command(greeter[0], greeter[1:]...)
		c.Env, c.Dir, c.SysProcAttr = testEnv("x"), "/", ownSession
		r, _ := c.StdoutPipe()
		c.Start()
		r.Read(make([]byte, 10))
		d := time.Since(began)
		c.Process.Kill()
		c.Wait()
		return d
	}, ourFirst(b, nil))
}

func BenchmarkFirstByteTerminal(b *testing.B) {
	against(b, func() time.Duration {
		began := time.Now()
		c := exec.Command(greeter[0], greeter[1:]...)
		c.Env, c.Dir = testEnv("x"), "/"
		f, err := pty.Start(c)
		if err != nil {
			b.Fatal(err)
		}
		f.Read(make([]byte, 10))
		d := time.Since(began)
		c.Process.Kill()
		c.Wait()
		f.Close()
		return d
	}, ourFirst(b, &Size{80, 24}))
}

// From the end of a program that was asked to end, to the proof.
func BenchmarkEnd(b *testing.B) {
	argv := []string{"/bin/sh", "-c", "sleep 300 & echo hi; wait"}
	against(b, func() time.Duration {
		c := exec.Command(argv[0], argv[1:]...)
		c.SysProcAttr = ownSession
		r, _ := c.StdoutPipe()
		c.Start()
		r.Read(make([]byte, 10))
		began := time.Now()
		syscall.Kill(-c.Process.Pid, syscall.SIGTERM)
		c.Wait()
		return time.Since(began)
	}, func() time.Duration {
		first := make(chan bool, 1)
		p, err := Start(context.Background(), Spec{Path: argv[0], Argv: argv, Env: testEnv("bench"), Dir: "/", Mark: "bench", Output: func(Stream, []byte) { first <- true }})
		if err != nil {
			b.Fatal(err)
		}
		<-first
		began := time.Now()
		p.End(TERM, time.Second)
		<-p.Done()
		return time.Since(began)
	})
}
