//go:build linux || darwin || freebsd

package proc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func onTTY(t testing.TB, line string) (Spec, *collected) {
	s, out := shell(t, line)
	s.TTY = &Size{Cols: 80, Rows: 24}
	return s, out
}

func send(t testing.TB, p *Proc, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	if n, err := p.Write(ctx, []byte(text)); n != len(text) || err != nil {
		t.Fatalf("write: %d %v", n, err)
	}
}

func shows(t testing.TB, out *collected, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("output %q", text), func() bool { return strings.Contains(out.stdout(), text) })
}

// P3: a real terminal, controlling, of the asked size, on all three streams (SE-28).
func TestTerminalIsReal(t *testing.T) {
	t.Parallel()
	s, out := onTTY(t, "stty size; test -t 0 && test -t 1 && test -t 2 && echo three; (echo mine > /dev/tty); ps -o tty= -p $$ >/dev/null; trap 'stty size; exit 0' WINCH; echo up; while :; do sleep 0.05; done")
	p := start(t, s)
	shows(t, out, "up\r\n")
	if err := p.Resize(Size{Cols: 132, Rows: 50}); err != nil {
		t.Fatal(err)
	}
	e := await(t, p)
	if got := out.stdout(); e.Code != 0 || got != "24 80\r\nthree\r\nmine\r\nup\r\n50 132\r\n" {
		t.Fatalf("%+v %q", e, got)
	}
	if err := p.Resize(Size{Cols: 0, Rows: 50}); err != ErrBadSize {
		t.Error(err)
	}
	if err := p.Resize(Size{Cols: 1, Rows: 1}); err != ErrEnded {
		t.Error(err)
	}
	s, _ = shell(t, "true")
	q := start(t, s)
	if err := q.Resize(Size{Cols: 1, Rows: 1}); err != ErrNoTerminal {
		t.Error(err)
	}
	await(t, q)
}

// SE-24, SE-25: the end of a terminal loses nothing and is no error.
func TestTerminalOutputIsComplete(t *testing.T) {
	t.Parallel()
	rounds := 60
	if long() {
		rounds = 1000
	}
	for i := range rounds {
		s, out := onTTY(t, "head -c 20480 /dev/zero | tr '\\0' h; exit 5")
		e := run(t, s)
		if n := len(out.stdout()); n != 20480 || e.Code != 5 || !e.Cleaned {
			t.Fatalf("round %d: %d bytes, %+v", i, n, e)
		}
	}
}

// The end does not wait for a stray that holds the terminal, nor loses what came before.
func TestTerminalHeldByStray(t *testing.T) {
	t.Parallel()
	s, out := onTTY(t, "setsid sh -c 'trap \"\" HUP; echo $$ > pid; exec sleep 300' & while [ ! -s pid ]; do sleep 0.01; done; head -c 3000 /dev/zero | tr '\\0' h; exit 2")
	e := run(t, s)
	if e.Code != 2 || strings.Count(out.stdout(), "h") != 3000 {
		t.Errorf("%+v %d", e, len(out.stdout()))
	}
	sweep(t, pidIn(t, s.Dir, "pid"))
}

// A program that closed its terminal can come back to it, as one that asks for a password does.
func TestTerminalIsOpenedAgain(t *testing.T) {
	t.Parallel()
	s, out := onTTY(t, "exec </dev/null >/dev/null 2>&1; sleep 0.2; echo prompt >/dev/tty; read x </dev/tty; echo got $x >/dev/tty; exit 3")
	p := start(t, s)
	shows(t, out, "prompt")
	send(t, p, "ab\n")
	if e := await(t, p); e.Code != 3 || !strings.Contains(out.stdout(), "got ab") {
		t.Errorf("%+v %q", e, out.stdout())
	}
}

// The keys work by the line discipline: ^C reaches the foreground job, ^D ends the input.
func TestTerminalKeys(t *testing.T) {
	t.Parallel()
	s, out := onTTY(t, "trap 'echo got-int; exit 7' INT; echo up; while :; do sleep 0.05; done")
	p := start(t, s)
	shows(t, out, "up")
	send(t, p, "\x03")
	if e := await(t, p); e.Code != 7 || !strings.Contains(out.stdout(), "got-int") {
		t.Errorf("%+v %q", e, out.stdout())
	}
	s, out = onTTY(t, "stty -echo; echo up; sort")
	p = start(t, s)
	shows(t, out, "up")
	send(t, p, "b\na\n")
	send(t, p, "\x04")
	if e := await(t, p); e.Code != 0 || !strings.HasSuffix(out.stdout(), "a\r\nb\r\n") {
		t.Errorf("%+v %q", e, out.stdout())
	}
	if err := p.CloseInput(); err != ErrEnded {
		t.Error(err)
	}
}

// Signal goes to the foreground job, in a shell with job control not to the shell.
func TestTerminalSignalIsForTheForeground(t *testing.T) {
	t.Parallel()
	s, out := command(t, "bash", "-c", "set -m; trap 'echo shell-int' INT; sh -c 'trap \"echo job-int; exit 4\" INT; echo up; while :; do sleep 0.05; done'; echo rc=$?; exit 0")
	s.TTY = &Size{Cols: 80, Rows: 24}
	p := start(t, s)
	shows(t, out, "up")
	if err := p.Signal(INT); err != nil {
		t.Fatal(err)
	}
	await(t, p)
	if got := out.stdout(); !strings.Contains(got, "job-int") || !strings.Contains(got, "rc=4") || strings.Contains(got, "shell-int") {
		t.Errorf("%q", got)
	}
}

// SE-22: a line that the terminal would cut is refused whole; one that it takes arrives.
func TestTerminalLongLine(t *testing.T) {
	t.Parallel()
	s, out := onTTY(t, "stty -echo; echo up; cat > canon.out")
	p := start(t, s)
	shows(t, out, "up")
	ctx := context.Background()
	var le *LineError
	if n, err := p.Write(ctx, []byte(strings.Repeat("x", lineLimit+1)+"\n")); n != 0 || !errors.As(err, &le) || le.Limit != lineLimit || le.Actual != lineLimit+1 {
		t.Errorf("%d %v", n, err)
	}
	send(t, p, strings.Repeat("a", lineLimit)+"\n")
	// In pieces it is the same line.
	send(t, p, strings.Repeat("b", lineLimit-5))
	if n, err := p.Write(ctx, []byte("123456")); n != 0 || !errors.As(err, &le) {
		t.Errorf("%d %v", n, err)
	}
	send(t, p, "12345\n")
	send(t, p, "\x04")
	await(t, p)
	b, _ := os.ReadFile(filepath.Join(s.Dir, "canon.out"))
	if want := strings.Repeat("a", lineLimit) + "\n" + strings.Repeat("b", lineLimit-5) + "12345\n"; string(b) != want {
		t.Errorf("%d bytes arrived, not %d", len(b), len(want))
	}
}

// SE-23: long input that is read slowly arrives whole and in order.
func TestTerminalLongInput(t *testing.T) {
	t.Parallel()
	s, out := onTTY(t, "stty raw -echo; echo READY; dd bs=512 count=200 iflag=fullblock 2>/dev/null > got; wc -c < got")
	p := start(t, s)
	shows(t, out, "READY")
	line := strings.Repeat("abcdefghij", 10)[:99] + "\n"
	in := strings.Repeat(line, 1024) // 102400 bytes
	send(t, p, in)
	await(t, p)
	b, _ := os.ReadFile(filepath.Join(s.Dir, "got"))
	if sha256.Sum256(b) != sha256.Sum256([]byte(in)) {
		t.Errorf("%d bytes arrived", len(b))
	}
	// In line mode as well, where the terminal holds only 4096 bytes.
	s, out = onTTY(t, "stty -echo; echo READY; sleep 0.3; cat > got")
	p = start(t, s)
	shows(t, out, "READY")
	send(t, p, in)
	send(t, p, "\x04")
	await(t, p)
	if b, _ = os.ReadFile(filepath.Join(s.Dir, "got")); string(b) != in {
		t.Errorf("%d bytes arrived", len(b))
	}
}

// End on a terminal: an interactive shell ignores TERM, but not the hang-up.
func TestTerminalHangUp(t *testing.T) {
	t.Parallel()
	s, out := command(t, "bash", "--norc", "--noprofile", "-i")
	s.TTY = &Size{Cols: 80, Rows: 24}
	p := start(t, s)
	eventually(t, "prompt", func() bool { return len(out.stdout()) > 0 })
	send(t, p, "sleep 300 & echo $! > pid; echo o''k\n")
	shows(t, out, "ok\r\n")
	pid := pidIn(t, s.Dir, "pid")
	p.End(TERM, 5*time.Second)
	if e := await(t, p); !e.Cleaned || e.Signal == "KILL" {
		t.Errorf("%+v", e)
	}
	goneSoon(t, pid)
}

// A terminal that nobody reads from does not hold a Write for longer than its context, and End gets
// through.
func TestTerminalFullInput(t *testing.T) {
	t.Parallel()
	s, out := onTTY(t, "stty raw -echo; echo READY; sleep 300")
	p := start(t, s)
	shows(t, out, "READY")
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	n, err := p.Write(ctx, make([]byte, 1<<20))
	if n <= 0 || n >= 1<<20 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d %v", n, err)
	}
	got := make(chan error, 1)
	go func() { _, err := p.Write(context.Background(), make([]byte, 1<<20)); got <- err }()
	time.Sleep(50 * time.Millisecond)
	p.End(TERM, time.Second)
	await(t, p)
	if err := <-got; err != ErrEnded {
		t.Error(err)
	}
}
