//go:build linux || darwin || freebsd

package proc

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// SE-19, P11: input arrives, its end too, and after that nothing is taken.
func TestWriteAndClose(t *testing.T) {
	t.Parallel()
	s, out := command(t, "sort")
	s.OpenStdin = true
	p := start(t, s)
	send(t, p, "b\n")
	send(t, p, "a\n")
	if err := p.CloseInput(); err != nil {
		t.Fatal(err)
	}
	p.CloseInput()
	if n, err := p.Write(context.Background(), []byte("x")); n != 0 || err != ErrInputClosed && err != ErrEnded {
		t.Fatalf("%d %v", n, err)
	}
	if e := await(t, p); e.Code != 0 || out.stdout() != "a\nb\n" {
		t.Fatalf("%+v %q", e, out.stdout())
	}
	if _, err := p.Write(context.Background(), []byte("x")); err != ErrEnded {
		t.Fatal(err)
	}
	s, _ = shell(t, "sleep 300")
	p = start(t, s)
	if _, err := p.Write(context.Background(), []byte("x")); err != ErrInputClosed {
		t.Fatal(err)
	}
	if err := p.CloseInput(); err != ErrInputClosed {
		t.Fatal(err)
	}
}

// SE-20: a program that does not read does not hold anybody; what was taken is told.
func TestWriteIsBounded(t *testing.T) {
	t.Parallel()
	s, _ := shell(t, "sleep 300")
	s.OpenStdin = true
	p := start(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	n, err := p.Write(ctx, make([]byte, 1<<20))
	if n <= 0 || n >= 1<<20 || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%d %v", n, err)
	}
	if n, err := p.Write(ctx, []byte("x")); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%d %v", n, err)
	}
	// A Write that waits for another one is bounded, too.
	first := make(chan error, 1)
	long, release := context.WithCancel(context.Background())
	go func() { _, err := p.Write(long, make([]byte, 1<<20)); first <- err }()
	eventually(t, "a Write under way", func() bool { return len(p.input.writing) == 1 })
	short, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	if n, err := p.Write(short, []byte("x")); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%d %v", n, err)
	}
	release()
	if err := <-first; err != context.Canceled {
		t.Fatal(err)
	}
	// A blocked Write ends with the program, and with CloseInput.
	for _, release := range []func(){func() { p.CloseInput() }, func() {}} {
		got := make(chan error, 1)
		go func() { _, err := p.Write(context.Background(), make([]byte, 1<<20)); got <- err }()
		time.Sleep(20 * time.Millisecond)
		release()
		select {
		case err := <-got:
			if err != ErrInputClosed {
				t.Fatal(err)
			}
		case <-time.After(hang):
			t.Fatal("hangs")
		}
	}
}

// SE-13: a program that closed its input is no accident for us.
func TestWriteToClosedInput(t *testing.T) {
	t.Parallel()
	s, out := shell(t, "exec 0<&-; echo up; sleep 300")
	s.OpenStdin = true
	p := start(t, s)
	eventually(t, "start", func() bool { return out.stdout() == "up\n" })
	if _, err := p.Write(context.Background(), make([]byte, 70000)); err != ErrInputClosed {
		t.Fatal(err)
	}
}

// Input stops with the program, also where a stray keeps the pipe open and reads (P11).
func TestWriteEndsWithTheProgram(t *testing.T) {
	t.Parallel()
	s, _ := shell(t, "exec 3<&0; setsid sh -c 'echo $$ > pid; exec sleep 300' <&3 >/dev/null 2>&1 & while [ ! -s pid ]; do sleep 0.01; done; sleep 0.1")
	s.OpenStdin = true
	p := start(t, s)
	_, err := p.Write(context.Background(), make([]byte, 1<<20))
	if err != ErrEnded {
		t.Error(err)
	}
	await(t, p)
	sweep(t, pidIn(t, s.Dir, "pid"))
}

// SE-17: INT reaches a program on pipes, and its own exit is what is told.
func TestSignalOnPipes(t *testing.T) {
	t.Parallel()
	s, out := shell(t, "trap 'echo got-int; exit 7' INT; echo up; while :; do sleep 0.05; done")
	p := start(t, s)
	eventually(t, "start", func() bool { return out.stdout() == "up\n" })
	if err := p.Signal(INT); err != nil {
		t.Fatal(err)
	}
	if e := await(t, p); e.Code != 7 || !strings.Contains(out.stdout(), "got-int") {
		t.Fatalf("%+v %q", e, out.stdout())
	}
}
