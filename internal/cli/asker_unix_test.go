//go:build unix

package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/belayhq/belay/tool"
)

func init() { helpers["ask"] = askOnTerminal }

// askOnTerminal asks on the terminal that it runs on, and says what came of it in a file.
func askOnTerminal(args []string) {
	result := args[0]
	a := (&program{}).asker()
	if a == nil {
		os.WriteFile(result, []byte("none"), 0o600)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if len(args) > 1 {
		d, err := time.ParseDuration(args[1])
		if err != nil {
			panic(err)
		}
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	fmt.Println("about to ask")
	shown := `ls\n`
	switch {
	case slices.Contains(args, "slow"): // what is typed now is too early
		time.Sleep(time.Second)
	case slices.Contains(args, "long"):
		shown = strings.Repeat("x", 1800) // two pages
	}
	yes, err := a.Ask(ctx, tool.Prompt{Reason: "input", SessionID: "s_1", Title: "cat", Shown: shown, Bytes: 3})
	os.WriteFile(result, fmt.Appendf(nil, "%v %v", yes, err), 0o600)
}

// A terminal is a real one, with a program on it.
type terminal struct {
	master *os.File
	cmd    *exec.Cmd
	result string
	mu     sync.Mutex
	seen   bytes.Buffer
	over   chan struct{}
}

func onTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{result: t.TempDir() + "/result", over: make(chan struct{})}
	x.cmd = exec.Command(self, append([]string{"helper:ask", x.result}, args...)...)
	if x.master, err = pty.StartWithSize(x.cmd, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		t.Skip("no terminal: ", err)
	}
	go func() {
		defer close(x.over)
		b := make([]byte, 4096)
		for {
			n, err := x.master.Read(b)
			x.mu.Lock()
			x.seen.Write(b[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		x.cmd.Process.Kill()
		x.cmd.Wait()
		x.master.Close()
		<-x.over
	})
	return x
}

func (x *terminal) screen() string { x.mu.Lock(); defer x.mu.Unlock(); return x.seen.String() }

// end waits for the end of the program and of what it wrote.
func (x *terminal) end(t *testing.T) string {
	t.Helper()
	x.cmd.Wait()
	select {
	case <-x.over:
	case <-time.After(patience):
		t.Fatal("the terminal does not end")
	}
	return x.screen()
}

const patience = 30 * time.Second

func (x *terminal) await(t *testing.T, what string) {
	t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(x.screen(), what); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q did not come:\n%q", what, x.screen())
		}
	}
}

func (x *terminal) typed(t *testing.T, s string) {
	t.Helper()
	if _, err := x.master.WriteString(s); err != nil {
		t.Fatal(err)
	}
}

func (x *terminal) came(t *testing.T) string {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if b, err := os.ReadFile(x.result); err == nil && len(b) > 0 {
			return string(b)
		}
		if time.Now().After(end) {
			t.Fatalf("no result:\n%q", x.screen())
		}
	}
}

// P9, P10: on a real terminal: yes is yes, what was typed ahead is thrown away, controls are
// not echoed, a question that is void is withdrawn, and the terminal is as it was.
func TestAskOnARealTerminal(t *testing.T) {
	t.Parallel()
	const prompt = "anything else is no: "
	echoes := func(x *terminal) bool {
		was, err := unix.IoctlGetTermios(int(x.master.Fd()), getTermios)
		return err == nil && was.Lflag&unix.ECHO != 0 && was.Lflag&unix.ICANON != 0
	}
	t.Run("yes", func(t *testing.T) {
		t.Parallel()
		x := onTerminal(t)
		x.await(t, prompt)
		if !strings.Contains(x.screen(), `  | ls\n`) || !strings.Contains(x.screen(), "3 bytes") {
			t.Errorf("%q", x.screen())
		}
		x.typed(t, "yes\r")
		if got := x.came(t); got != "true <nil>" {
			t.Errorf("%s\n%q", got, x.screen())
		}
		if _, echo, _ := strings.Cut(x.end(t), prompt); strings.TrimSpace(echo) != "yes" {
			t.Errorf("echoed %q", echo)
		}
		if !echoes(x) {
			t.Error("the terminal is not as it was")
		}
	})
	t.Run("controls", func(t *testing.T) {
		t.Parallel()
		x := onTerminal(t)
		x.await(t, prompt)
		x.typed(t, "y\x1b[31m\x07yes\r")
		if got := x.came(t); got != "false <nil>" || strings.ContainsAny(x.end(t), "\x1b\x07^") {
			t.Errorf("%s\n%q", got, x.screen())
		}
	})
	t.Run("typed ahead", func(t *testing.T) {
		t.Parallel()
		x := onTerminal(t, "30s", "slow")
		x.await(t, "about to ask")
		x.typed(t, "yes\ryes\r")
		x.await(t, prompt)
		time.Sleep(200 * time.Millisecond)
		if b, err := os.ReadFile(x.result); err == nil {
			t.Fatalf("what was typed ahead answered: %s", b)
		}
		x.typed(t, "no\r")
		if got := x.came(t); got != "false <nil>" {
			t.Error(got)
		}
	})
	t.Run("typed ahead of the last page", func(t *testing.T) {
		t.Parallel()
		x := onTerminal(t, "30s", "long")
		x.await(t, "lines more")
		x.typed(t, "\ryes\r")
		x.await(t, prompt)
		time.Sleep(200 * time.Millisecond)
		if b, err := os.ReadFile(x.result); err == nil {
			t.Fatalf("what was typed ahead answered: %s", b)
		}
		x.typed(t, "no\r")
		if got := x.came(t); got != "false <nil>" {
			t.Error(got)
		}
	})
	t.Run("void", func(t *testing.T) {
		t.Parallel()
		x := onTerminal(t, "300ms")
		x.await(t, prompt)
		x.await(t, "this question is void")
		if got := x.came(t); got != "false context deadline exceeded" {
			t.Error(got)
		}
		x.cmd.Wait()
		if !echoes(x) {
			t.Error("the terminal is not as it was")
		}
	})
	t.Run("hung up", func(t *testing.T) {
		t.Parallel()
		x := onTerminal(t)
		x.await(t, prompt)
		x.typed(t, "\x04") // Ctrl-D
		if got := x.came(t); got != "false <nil>" {
			t.Error(got)
		}
	})
}

// AP-07: without a terminal there is nobody to ask, and that is known at once.
func TestNoTerminalNobodyToAsk(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	result := t.TempDir() + "/result"
	cmd := exec.Command(self, "helper:ask", result)
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	if b, err := os.ReadFile(result); err != nil || string(b) != "none" {
		t.Errorf("%s %v", b, err)
	}
}
