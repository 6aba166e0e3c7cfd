package coding

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belayhq/belay/tool"
)

// S2, S8, P4, P5, P6, P8: after thousands of commands that flood, fork, ignore
// SIGTERM, close and hold their pipes, with random kills and cancellations, nothing
// is left: no process, zombie, descriptor, goroutine or file; and every byte was
// delivered, retained or counted as omitted. 160 commands and 20 sessions, or
// 10,000 and 200 with BELAY_TEST_LONG=1.
//
// It counts what the process holds, so it runs on its own.
func TestSoak(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("no /proc to count with")
	}
	commands, sessions := 160, 20
	if os.Getenv("BELAY_TEST_LONG") != "" {
		commands, sessions = 10_000, 200
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	mark := fmt.Sprintf("BELAY_SOAK=%d.%d", os.Getpid(), rand.Uint64())
	name, value, _ := strings.Cut(mark, "=")

	// what a process opens once and for good: the poller of the runtime, a file of the system's
	warm := on(t, nil)
	for _, line := range short[:8] {
		do(t, warm, "shell", map[string]any{"argv": []string{"/bin/sh", "-c", line}})
	}
	warm.Close()

	fds, routines := descriptors(t), runtime.NumGoroutine()
	s, err := New(Config{
		Root: t.TempDir(), Shell: "/bin/sh",
		Limits: Limits{MaxSessions: 4096, MaxFinished: 4096},
		Env:    Env{Set: map[string]string{name: value}},
	})
	if err != nil {
		t.Fatal(err)
	}

	var uncertain, done atomic.Int64
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(worker)))
			for range commands / 8 {
				ctx, cancel := context.WithCancel(context.Background())
				if r.IntN(10) == 0 {
					cancel = sync.OnceFunc(cancel)
					time.AfterFunc(time.Duration(r.IntN(30))*time.Millisecond, cancel)
				}
				args, _ := json.Marshal(map[string]any{"argv": []string{"/bin/sh", "-c", short[r.IntN(len(short))]}, "timeout_ms": 200 + r.IntN(500)})
				_, err := s.Call(ctx, Caller{}, tool.Call{Name: "shell", Args: args})
				cancel()
				var e *tool.Error
				switch {
				case err == nil:
					done.Add(1)
				case errors.As(err, &e) && (e.Code == tool.UncertainOutcome || e.Code == tool.Cancelled) && errors.Is(err, context.Canceled):
					uncertain.Add(1)
				default:
					t.Errorf("%s: %v", args, err)
				}
			}
		})
	}
	for i := range sessions {
		all.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(i)))
			n := 1000 + r.IntN(200_000)
			finite := i%2 == 0
			cmd := long[r.IntN(len(long))]
			if finite {
				cmd = fmt.Sprintf("seq 1 %d", n)
			}
			_, data, e := do(t, s, "exec_command", map[string]any{"cmd": cmd, "yield_time_ms": 250, "max_output_tokens": 50 + r.IntN(2000)})
			if e != nil {
				t.Errorf("%s: %v", cmd, e)
				return
			}
			id := data["session_id"].(string)
			seen := delivered(data)
			for range 200 {
				if !finite && r.IntN(3) == 0 || data["status"] != "running" {
					break
				}
				_, data, e = do(t, s, "write_stdin", map[string]any{"session_id": id, "yield_time_ms": 250, "max_output_tokens": 50 + r.IntN(2000)})
				if e != nil {
					t.Errorf("%s: %v", cmd, e)
					return
				}
				seen += delivered(data)
			}
			switch {
			case finite:
				var want bytes.Buffer
				for k := 1; k <= n; k++ {
					fmt.Fprintln(&want, k)
				}
				if data["exit_code"] != float64(0) || data["output_bytes"] != float64(want.Len()) || seen != int64(want.Len()) {
					t.Errorf("%s: exit code %v, %v bytes observed, %d delivered or omitted, %d printed", cmd, data["exit_code"], data["output_bytes"], seen, want.Len())
				}
				s.checkLog(t, id, want.Bytes())
			case r.IntN(2) == 0:
				if _, data, e = do(t, s, "exec_kill", map[string]any{"session_id": id, "grace_ms": r.IntN(300)}); e != nil || data["cleanup_completed"] != true {
					t.Errorf("killing %s: %v %v", cmd, e, data)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d commands gave a result, %d were cancelled", done.Load(), uncertain.Load())
	if done.Load() == 0 {
		t.Error("not one command gave a result")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}

	settled(t, "process", func() string { return carrying(mark) })
	settled(t, "descriptor", func() string {
		if n := descriptors(t); n > fds {
			return fmt.Sprintf("%d, %d before", n, fds)
		}
		return ""
	})
	settled(t, "goroutine", func() string {
		if n := runtime.NumGoroutine(); n > routines {
			return fmt.Sprintf("%d, %d before", n, routines)
		}
		return ""
	})
	settled(t, "zombie", ownZombies)
	settled(t, "file", func() string {
		left, _ := filepath.Glob(filepath.Join(temp, "*"))
		return strings.Join(left, " ")
	})
}

var short = []string{
	"true", "echo hi", "exit 3", "kill -9 $$", "sleep 300 &", "sleep 300 >/dev/null 2>&1 & echo $!",
	"(trap '' TERM; sleep 300) & exit 0", "yes | head -c 300000", "sh -c 'sh -c \"sleep 300 & wait\" & wait' & echo tree",
	"exec >&- 2>&-; sleep 0.05", "sleep 300", "trap '' TERM; while :; do sleep 0.02; done", "set -m; sleep 300 & echo job",
	"cat", "printf '\\xe2\\x82'", "timeout 200 sleep 300 & echo t", "kill -STOP $$",
}

var long = []string{
	"exec yes 0123456789", "trap '' TERM HUP INT; while :; do echo alive; sleep 0.01; done", "exec sleep 300",
	"exec >&- 2>&-; exec sleep 300", "i=0; while [ $i -lt 20 ]; do (sleep 300) & i=$((i+1)); done; wait",
	"set -m; sleep 300 & sleep 300 & wait", "while :; do (true &) ; echo x; sleep 0.005; done", "kill -STOP $$; echo resumed",
}

var note = regexp.MustCompile(`(?m)^\[\.\.\. \d+ bytes omitted;[^\n]*\]\n`)

// delivered is what a reply delivers or counts as omitted, of output that is lines
// of plain text.
func delivered(data map[string]any) int64 {
	output := data["output"].(string)
	if data["omitted_bytes"] == float64(0) {
		return int64(len(output))
	}
	whole := int64(len(output)) - int64(len(note.FindString(output)))
	// The cut may have parted a line, which the note then ends with a line feed of
	// its own.
	if at := note.FindStringIndex(output); at != nil && at[0] > 0 {
		if head := output[:at[0]]; !strings.HasSuffix(head, "\n") {
			whole-- // never: FindString starts at a line
		}
	}
	return whole + int64(data["omitted_bytes"].(float64))
}

// checkLog holds that what is kept of a session's output is where it should be.
func (s *Suite) checkLog(t *testing.T, id string, want []byte) {
	t.Helper()
	seen := int64(0)
	for range 1000 {
		_, data, e := do(t, s, "exec_output", map[string]any{"session_id": id, "cursor": seen, "max_output_tokens": 11250})
		if e != nil {
			t.Errorf("exec_output: %v", e)
			return
		}
		at, next := int64(data["cursor"].(float64)), int64(data["next_cursor"].(float64))
		if at+int64(len(data["output"].(string))) != next || string(want[at:next]) != data["output"] || at-seen != int64(data["omitted_bytes"].(float64)) {
			t.Errorf("the page at %d (asked for %d) to %d is not what was printed", at, seen, next)
			return
		}
		if data["eof"] == true {
			return
		}
		seen = next
	}
	t.Error("the log has no end")
}

// settled waits until nothing is left of a kind.
func settled(t *testing.T, what string, left func() string) {
	t.Helper()
	for range 200 {
		if left() == "" {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Errorf("%s left: %s", what, left())
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// carrying lists the living processes with a variable in their environment.
func carrying(variable string) string {
	var found []string
	list, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range list {
		env, err := os.ReadFile(file) // empty for a zombie
		if err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+variable+"\x00")) {
			comm, _ := os.ReadFile(filepath.Dir(file) + "/comm")
			found = append(found, filepath.Base(filepath.Dir(file))+" "+strings.TrimSpace(string(comm)))
		}
	}
	return strings.Join(found, ", ")
}

// ownZombies lists children of this process that nobody reaped.
func ownZombies() string {
	var found []string
	list, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range list {
		stat, err := os.ReadFile(file)
		if _, rest, ok := bytes.Cut(stat, []byte(") ")); err == nil && ok {
			if f := bytes.Fields(rest); string(f[0]) == "Z" && string(f[1]) == fmt.Sprint(os.Getpid()) {
				found = append(found, filepath.Base(filepath.Dir(file)))
			}
		}
	}
	return strings.Join(found, ", ")
}
