package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// MC-03: what was read before the end of the input is answered, then the server
// ends.
func TestEndOfInputAnswersWhatWasRead(t *testing.T) {
	t.Parallel()
	p := newPeer(t, newSuite())
	p.send(initialize, initialized, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, callOf("2", "write_stdin", `{"text":"last"}`), `{"jsonrpc":"2.0","id":3,"method":"ping"}`, `]`)
	p.in.Close()
	lines := p.rest()
	got := map[string]bool{}
	for _, line := range lines {
		got[string(decode(t, line).ID)] = true
	}
	if len(lines) != 5 || !got[`"init"`] || !got["1"] || !got["2"] || !got["3"] || !got["null"] {
		t.Errorf("got %.100q", lines)
	}
	p.gone()
}

// MC-03, C3: a call that still runs some time after the end of the input, and at
// once when the server is told to go, is cancelled, and its answer tells.
func TestCallsInFlightAreCancelled(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*peer){
		"end of input": func(p *peer) { p.in.Close() },
		"told to go":   func(p *peer) { p.stop() },
		"both":         func(p *peer) { p.in.Close(); p.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSuite()
			p := newPeerIn(t, s, bounds{chance: time.Millisecond, windUp: hang}).hello()
			p.send(callOf("1", "shell", `{}`))
			s.began(t)
			end(p)
			lines := p.rest()
			if len(lines) != 1 || !strings.Contains(lines[0], `"code":"uncertain"`) {
				t.Errorf("got %q", lines)
			}
			p.gone()
		})
	}
}

// MC-03: a call that ends in the time after the end of the input is answered as
// if nothing had happened.
func TestACallMayEndAfterTheInput(t *testing.T) {
	t.Parallel()
	s := newSuite()
	p := newPeer(t, s).hello()
	p.send(callOf("1", "exec_output", `{}`))
	s.began(t)
	p.in.Close()
	time.Sleep(20 * time.Millisecond) // for the server to see the end; too short proves less, and fails nothing
	close(s.release)
	if lines := p.rest(); len(lines) != 1 || !strings.Contains(lines[0], `released`) {
		t.Errorf("got %q", lines)
	}
	p.gone()
}

// MC-03: a call that heeds nothing does not hold the server, and what it says in
// the end is not written.
func TestAStuckCallDoesNotHoldTheServer(t *testing.T) {
	t.Parallel()
	s := newSuite()
	done := make(chan error, 1)
	s.onCall = func(err error) { done <- err }
	p := newPeerIn(t, s, inService).hello()
	p.send(callOf("1", "exec_wait", `{}`))
	s.began(t)
	p.in.Close()
	p.gone()
	close(s.release)
	<-done
	if lines := p.rest(); lines != nil {
		t.Errorf("written after the end: %q", lines)
	}
}

// MC-03: the same where the input cannot be interrupted, as a standard input that
// the system cannot poll: Serve returns all the same, and nothing is written
// after it.
func TestNothingIsWrittenAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := newSuite()
	done := make(chan error, 1)
	s.onCall = func(err error) { done <- err }
	inR, inW := pipe(t)
	var out atomicBuffer
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, s, Config{}, io.NopCloser(inR), &out) }()
	io.WriteString(inW, initialize+"\n"+initialized+"\n"+callOf("1", "exec_wait", `{}`)+"\n")
	s.began(t)
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	before := out.String()
	close(s.release)
	<-done
	io.WriteString(inW, `{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n")
	time.Sleep(20 * time.Millisecond) // for what would be written; too short proves less, and fails nothing
	if after := out.String(); after != before {
		t.Errorf("written after the end: %q", after[len(before):])
	}
	inW.Close()
}

type atomicBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (a *atomicBuffer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.b.Write(p)
}

func (a *atomicBuffer) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.b.String()
}

// MC-03: when nobody reads the answers any more, the server ends quietly and
// cancels what runs.
func TestClosedOutputEndsTheServer(t *testing.T) {
	t.Parallel()
	s := newSuite()
	ended := make(chan error, 2)
	s.onCall = func(err error) { ended <- err }
	p := newPeer(t, s).hello()
	p.send(callOf("1", "shell", `{}`))
	s.began(t)
	p.out.Close()
	p.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	p.gone()
	select {
	case err := <-ended:
		if err == nil || !strings.HasPrefix(err.Error(), "uncertain") {
			t.Error(err)
		}
	default:
		t.Error("the call was not waited for")
	}
}

// MC-03: a peer that stops reading does not hold a server that is told to go.
func TestAFullOutputDoesNotHoldTheServer(t *testing.T) {
	t.Parallel()
	s := newSuite()
	p := newPeerIn(t, s, inService).hello()
	large := strings.Repeat("x", 300_000)
	p.send(callOf("1", "write_stdin", `{"text":"`+large+`"}`), callOf("2", "shell", `{}`))
	s.began(t)
	p.stop()
	p.gone()
}

// A short write and a write that fails are the end, without an error.
func TestFailingOutput(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]io.Writer{
		"error": writer(func(b []byte) (int, error) { return 0, errors.New("secret-canary") }),
		"short": writer(func(b []byte) (int, error) { return len(b) - 1, nil }),
	} {
		in, peer := pipe(t)
		served := make(chan error, 1)
		go func() { served <- Serve(context.Background(), newSuite(), Config{}, in, w) }()
		io.WriteString(peer, "x\n")
		select {
		case err := <-served:
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(hang):
			t.Fatalf("%s: the server did not end", name)
		}
		peer.Close()
	}
}

// An input that fails is the end of the input.
func TestFailingInput(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"", `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n", strings.Repeat("x", maxLine+10)} {
		in := io.NopCloser(io.MultiReader(strings.NewReader(first), reader(func([]byte) (int, error) { return 0, errors.New("secret-canary") })))
		var out bytes.Buffer
		if err := Serve(context.Background(), newSuite(), Config{}, in, &out); err != nil || strings.Contains(out.String(), "canary") {
			t.Errorf("%v, %.200s", err, out.String())
		}
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

type reader func([]byte) (int, error)

func (r reader) Read(b []byte) (int, error) { return r(b) }

// command is the test binary as a server on its standard streams.
func command(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"=1")
	return cmd
}

// wait ends the process if it does not end, and wants exit code 0 and silence on
// standard error.
func wait(t *testing.T, cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	var once sync.Once
	timer := time.AfterFunc(hang, func() { once.Do(func() { cmd.Process.Kill() }) })
	defer timer.Stop()
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v, stderr %q", err, stderr.String())
	}
}

// MC-01, MC-03: as a process, with standard streams of every kind: nothing but
// protocol is written, and the end of the input is exit code 0.
func TestProcess(t *testing.T) {
	t.Parallel()
	talk := strings.Join([]string{initialize, initialized, callOf("1", "write_stdin", `{"text":"x"}`), callOf("2", "nope", `{}`), "oops", ""}, "\n")

	t.Run("nothing to read", func(t *testing.T) {
		t.Parallel()
		cmd := command(t) // stdin is the null device
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wait(t, cmd, &stderr)
		if out.Len() > 0 {
			t.Errorf("said %q", out.String())
		}
	})
	t.Run("a file", func(t *testing.T) {
		t.Parallel()
		name := t.TempDir() + "/in"
		if err := os.WriteFile(name, []byte(talk), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd := command(t)
		var out, stderr bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = f, &out, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wait(t, cmd, &stderr)
		if n := checkAnswers(t, out.String()); n != 4 {
			t.Errorf("%d answers: %s", n, out.String())
		}
	})
	t.Run("a pipe", func(t *testing.T) {
		t.Parallel()
		cmd := command(t)
		var out, stderr bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(talk), &out, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wait(t, cmd, &stderr)
		if n := checkAnswers(t, out.String()); n != 4 {
			t.Errorf("%d answers: %s", n, out.String())
		}
	})
	t.Run("a signal while nothing is sent", func(t *testing.T) {
		t.Parallel()
		cmd := command(t)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		in, err := cmd.StdinPipe() // blocking in the child: a Read cannot be interrupted there
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		io.WriteString(in, initialize+"\n"+initialized+"\n"+callOf("1", "shell", `{}`)+"\n")
		buf := make([]byte, 1<<16)
		if _, err := out.Read(buf); err != nil { // it is up
			t.Error(err)
		}
		cmd.Process.Signal(syscall.SIGTERM)
		rest, _ := io.ReadAll(out)
		if n := checkAnswers(t, string(rest)); n > 1 {
			t.Errorf("%d answers: %s", n, rest)
		}
		wait(t, cmd, &stderr)
	})
	t.Run("the reader goes away", func(t *testing.T) {
		t.Parallel()
		cmd := command(t)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out.Close()
		io.WriteString(in, initialize+"\n")
		wait(t, cmd, &stderr)
	})
}

// checkAnswers wants every byte to belong to a message, and counts them.
func checkAnswers(t *testing.T, out string) (n int) {
	t.Helper()
	if out != "" && !strings.HasSuffix(out, "\n") {
		t.Errorf("half a line: %.200q", out)
	}
	for line := range strings.Lines(out) {
		decode(t, line)
		n++
	}
	return n
}
