//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// F1: a root that is no directory is refused, and a FIFO not waited for.
func TestRootThatIsAFIFO(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(root, 0o600); err != nil {
		t.Skip(err)
	}
	for _, args := range [][]string{{"call", "read", `{"path":"x"}`}, {"mcp"}, {"doctor"}, {"tools"}} {
		cmd := belay(t, append(args, "--root", root)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if code := waitFor(t, cmd); code != 3 && args[0] != "tools" {
			t.Errorf("%s: exit code %d", args[0], code)
		}
	}
}

// P4: a signal ends a call and what it started, with the grace of a shutdown and not with that of a
// cancellation; a second one takes it.
func TestSignalsEndACall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		work   string // after TERM, in seconds
		code   int
	}{
		{"shell, TERM", syscall.SIGTERM, "1.9", 143},
		{"exec_command, INT", syscall.SIGINT, "1.9", 130},
		{"shell, HUP twice", syscall.SIGHUP, "300", 143},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			line := "trap 'sleep " + c.work + "; echo > finished' TERM; echo $$ > pid.new; mv pid.new pid; while :; do sleep 0.05; done"
			name, rest, _ := strings.Cut(c.name, ",")
			args := map[string]any{"argv": []string{"sh", "-c", line}}
			if name == "exec_command" {
				args = map[string]any{"cmd": line, "yield_time_ms": 30000}
			}
			raw, _ := json.Marshal(args)
			cmd := belay(t, "call", name, string(raw))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pid := 0
			for end := time.Now().Add(time.Minute); pid == 0; time.Sleep(5 * time.Millisecond) {
				if b, err := os.ReadFile(filepath.Join(cmd.Dir, "pid")); err == nil {
					pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
				}
				if time.Now().After(end) {
					t.Fatal("the command did not start")
				}
			}
			cmd.Process.Signal(c.signal)
			if strings.HasSuffix(rest, "twice") {
				time.Sleep(10 * time.Millisecond)
				cmd.Process.Signal(c.signal)
			}
			if code := waitFor(t, cmd); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if running(pid) {
				t.Error("the command lives on")
			}
			if _, err := os.Stat(filepath.Join(cmd.Dir, "finished")); err == nil {
				t.Error("it had two seconds")
			}
		})
	}
}
