//go:build linux || darwin || freebsd

package coding

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/belayhq/belay/tool"
)

// hang is far over what anything here takes, also on a loaded machine.
const hang = 60 * time.Second

// TestMain fails the run for what it left: goroutines, descriptors, processes, files.
// The tests sleep more than they work: more of them run at once than there are processors.
func TestMain(tests *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", strconv.Itoa(max(8, runtime.GOMAXPROCS(0))))
	temp, err := os.MkdirTemp("", "codingtest-")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Setenv("TMPDIR", temp)
	// A directory that the user of the tests may not look into hides what a name means.
	path := slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(d string) bool { _, err := os.Stat(d + "/."); return err != nil })
	os.Setenv("PATH", strings.Join(path, string(filepath.ListSeparator)))
	mark := fmt.Sprintf("BELAY_CODING_TESTS=%d", os.Getpid())
	os.Setenv("BELAY_CODING_TESTS", strconv.Itoa(os.Getpid()))
	before := descriptorsOpen()
	code := tests.Run()
	if code == 0 {
		leak := func(what string, v any) { fmt.Println("leaked", what, v); code = 1 }
		if err := goleak.Find(); err != nil {
			leak("goroutines:", err)
		}
		eventually := func(ok func() bool) bool {
			for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					return false
				}
			}
			return true
		}
		// the runtime's poller may have come
		if !eventually(func() bool { return descriptorsOpen() <= before+3 }) {
			leak("descriptors:", descriptorsOpen()-before)
		}
		if !eventually(func() bool { return len(marked(mark)) == 0 }) {
			leak("processes:", marked(mark))
		}
		if left, _ := os.ReadDir(temp); len(left) > 0 {
			leak("files:", left)
		}
	}
	os.RemoveAll(temp)
	os.Exit(code)
}

func descriptorsOpen() int {
	list, _ := os.ReadDir("/dev/fd")
	return len(list)
}

// A yard is a suite whose processes all carry a mark of their own.
type yard struct {
	*Suite
	t    *testing.T
	root string
	mark string
}

var yards atomic.Int64

func newYard(t *testing.T, change func(*Config)) *yard {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{t: t, root: root, mark: fmt.Sprintf("BELAY_CODING_TEST=%d.%d", os.Getpid(), yards.Add(1))}
	name, value, _ := strings.Cut(y.mark, "=")
	c := Config{Root: root, Shell: "/bin/sh", Env: Env{Set: map[string]string{name: value}}}
	if change != nil {
		change(&c)
	}
	if y.Suite, err = New(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := y.Close(); err != nil {
			t.Error(err)
		}
		y.gone("after the close")
	})
	return y
}

// alive lists what still runs of what the yard started.
func (y *yard) alive() []int { return marked(y.mark) }

// marked lists the other processes that have a variable.
func marked(variable string) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		env, err := os.ReadFile(d + "/environ")
		if err != nil || !bytes.Contains(append([]byte{0}, append(env, 0)...), []byte("\x00"+variable+"\x00")) {
			continue
		}
		// PID 1 reaps late on some machines: a zombie is gone
		stat, err := os.ReadFile(d + "/stat")
		pid, _ := strconv.Atoi(filepath.Base(d))
		if f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]); err == nil && len(f) > 0 && f[0][0] != 'Z' && f[0][0] != 'X' && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (y *yard) gone(when string) {
	y.t.Helper()
	if pids := y.alive(); len(pids) > 0 {
		y.t.Errorf("%s alive: %v", when, pids)
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// sweep ends what a test let escape on purpose.
func (y *yard) sweep() {
	for _, pid := range y.alive() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	for end := time.Now().Add(hang); len(y.alive()) > 0 && time.Now().Before(end); {
		time.Sleep(2 * time.Millisecond)
	}
}

// An answer is what one call gave: text, and the data of the result or the error.
type answer struct {
	text string
	data map[string]any
	err  *tool.Error
	raw  tool.Result
}

func (y *yard) call(ctx context.Context, name string, args any) answer {
	y.t.Helper()
	var raw []byte
	switch a := args.(type) {
	case string:
		raw = []byte(a)
	default:
		var err error
		if raw, err = json.Marshal(args); err != nil {
			y.t.Fatal(err)
		}
	}
	r, err := y.Call(ctx, Caller{}, tool.Call{ID: "1", Name: name, Args: raw})
	a := answer{text: r.Text, raw: r}
	value := r.Data
	if err != nil {
		if !errors.As(err, &a.err) {
			y.t.Fatalf("%s: an error of type %T", name, err)
		}
		if r.Text != "" || r.Data != nil || r.Ends != nil {
			y.t.Errorf("%s: an error and a result", name)
		}
		a.text, value = a.err.Message(), a.err
	}
	out, err := json.Marshal(value)
	if err != nil || json.Unmarshal(out, &a.data) != nil {
		y.t.Fatalf("%s: no data: %v", name, err)
	}
	return a
}

type m = map[string]any

func (y *yard) do(name string, args any) answer {
	y.t.Helper()
	return y.call(context.Background(), name, args)
}

// sh runs a line by the tool shell: a discrete argv that happens to be a shell's.
func (y *yard) sh(line string, more ...any) answer {
	y.t.Helper()
	return y.do("shell", with(m{"argv": []string{"sh", "-c", line}}, more...))
}

func (y *yard) start(line string, more ...any) answer {
	y.t.Helper()
	return y.do("exec_command", with(m{"cmd": line}, more...))
}

func with(args m, more ...any) m {
	for i := 0; i < len(more); i += 2 {
		args[more[i].(string)] = more[i+1]
	}
	return args
}

func (a answer) id() string { s, _ := a.data["session_id"].(string); return s }
func (a answer) str(name string) string {
	s, _ := a.data[name].(string)
	return s
}
func (a answer) num(name string) int64 {
	f, ok := a.data[name].(float64)
	if !ok {
		return -1
	}
	return int64(f)
}

// is holds an answer against facts: name, value, name, value…
func (y *yard) is(what string, a answer, want ...any) {
	y.t.Helper()
	for i := 0; i < len(want); i += 2 {
		got, there := a.data[want[i].(string)]
		if f, ok := got.(float64); ok {
			got = strconv.FormatFloat(f, 'f', -1, 64)
		}
		if !there || fmt.Sprint(got) != fmt.Sprint(want[i+1]) {
			y.t.Errorf("%s: %s is %v (there: %v), want %v; %.200q", what, want[i], got, there, want[i+1], a.text)
		}
	}
}

// ends polls until a session has ended.
func (y *yard) ends(id string) answer {
	y.t.Helper()
	for end := time.Now().Add(hang); ; {
		w := y.do("exec_wait", m{"session_ids": []string{id}, "timeout_ms": 5000})
		if w.err != nil || time.Now().After(end) {
			y.t.Fatalf("the session does not end: %s", w.text)
		}
		if w.data["timed_out"] == false {
			return y.do("write_stdin", m{"session_id": id})
		}
	}
}

// until waits for something that a process does.
func (y *yard) until(what string, ok func() bool) {
	y.t.Helper()
	for end := time.Now().Add(hang); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			y.t.Fatal("did not happen: ", what)
		}
	}
}

func (y *yard) file(name string) string {
	b, _ := os.ReadFile(filepath.Join(y.root, name))
	return string(b)
}

// S1: an argv reaches the program as it is; no shell looks at it.
func TestShellRunsArgvAsItIs(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	argv := []string{"printf", "%s|", "a b", "$HOME", "*", ";exit", "`x`", "", "-n", "é", "\\"}
	y.is("argv", y.do("shell", m{"argv": argv}), "stdout", "a b|$HOME|*|;exit|`x`||-n|é|\\|", "exit_code", 0, "status", "exited", "signal", nil)
	y.is("no shell word", y.do("shell", m{"argv": []string{"exit 0"}}), "code", "start_failed", "kind", "refused", "program", "exit 0", "reason", "missing")
	y.is("stdin", y.do("shell", m{"argv": []string{"cat"}, "stdin": "given\n"}), "stdout", "given\n")
	big := strings.Repeat("0123456789\n", 30_000)
	y.is("stdin longer than a pipe", y.do("shell", m{"argv": []string{"wc", "-c"}, "stdin": big}), "stdout", "330000\n")
	y.is("stdin that nobody reads", y.do("shell", m{"argv": []string{"true"}, "stdin": big}), "exit_code", 0)
	y.is("end of file", y.do("shell", m{"argv": []string{"cat"}}), "stdout", "")
	y.is("no terminal", y.sh("exec </dev/tty"), "status", "exited", "stdout", "")
}

// S1, P1: cancelled before anything: cancelled, refused, and nothing ran.
func TestCancelledCallStartsNothing(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	late, stop := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer stop()
	for name, args := range map[string]any{"shell": m{"argv": []string{"touch", "ran"}}, "exec_command": m{"cmd": "touch ran"}} {
		a := y.call(ctx, name, args)
		if y.is(name, a, "code", "cancelled", "kind", "refused"); !errors.Is(a.err, context.Canceled) {
			t.Errorf("%s: %v", name, a.err)
		}
		a = y.call(late, name, args)
		if y.is(name, a, "code", "deadline", "kind", "refused"); !errors.Is(a.err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, a.err)
		}
	}
	if y.file("ran") != "" || len(y.do("exec_list", m{}).data["sessions"].([]any)) != 0 {
		t.Error("something ran")
	}
	if _, err := os.Stat(filepath.Join(y.root, "ran")); err == nil {
		t.Error("something ran")
	}
}

// stubborn are commands that do not end by a signal to their group, or not at all by TERM.
var stubborn = map[string]string{
	"plain":        "sleep 300 & echo up; wait",
	"job control":  "bash -c 'set -m; sleep 300 & (sleep 300; true) & echo up; wait'",
	"timeout":      "sh -c 'timeout 300 sleep 300; true' & echo up; wait",
	"ignores TERM": "trap '' TERM INT HUP; sh -c 'while :; do sleep 0.1; done' & echo up; while :; do sleep 0.1; done",
	"stopped":      "echo up; kill -STOP $$; echo resumed",
	"pipeline":     "echo up; sleep 300 | cat | cat",
	"forks":        "echo up; while :; do sleep 0.01 & wait; done",
}

// S2, S5, S6, P4: timeout, cancellation, kill and shutdown end all that a command
// started, whatever it does about it, and each says what it was.
func TestEveryEndEndsEverything(t *testing.T) {
	t.Parallel()
	const soon = time.Second
	ends := map[string]func(y *yard, line string){
		"timeout of shell": func(y *yard, line string) {
			a := y.sh(line, "timeout_ms", soon.Milliseconds())
			y.is("result", a, "status", "timed_out", "stdout", "up\n", "left_behind", "[]")
			if !strings.Contains(a.text, "timeout_ms=1000") {
				y.t.Errorf("the limit is not told: %q", a.text)
			}
		},
		"cancelled shell": func(y *yard, line string) {
			ctx, cancel := context.WithCancel(context.Background())
			defer time.AfterFunc(soon, cancel).Stop()
			a := y.call(ctx, "shell", m{"argv": []string{"sh", "-c", line}})
			y.is("result", a, "kind", "uncertain", "code", "uncertain")
			if !errors.Is(a.err, context.Canceled) || strings.Contains(a.text, "up") {
				y.t.Errorf("%q, %v", a.text, a.err)
			}
		},
		"timeout of exec_command": func(y *yard, line string) {
			a := y.start(line, "timeout_ms", soon.Milliseconds(), "yield_time_ms", 30000)
			y.is("result", a, "status", "timed_out", "cleanup_completed", true, "output", "up\n")
		},
		"deadline of exec_command": func(y *yard, line string) {
			ctx, cancel := context.WithTimeout(context.Background(), soon)
			defer cancel()
			a := y.call(ctx, "exec_command", m{"cmd": line, "yield_time_ms": 30000})
			y.is("result", a, "kind", "uncertain", "code", "uncertain")
			if !errors.Is(a.err, context.DeadlineExceeded) || strings.Contains(a.text, "up") {
				y.t.Errorf("%q, %v", a.text, a.err)
			}
		},
		"kill": func(y *yard, line string) {
			a := y.start(line, "yield_time_ms", soon.Milliseconds())
			y.is("running", a, "status", "running", "output", "up\n", "cleanup_completed", nil, "exit_code", nil)
			k := y.do("exec_kill", m{"session_id": a.id(), "grace_ms": 100})
			y.is("kill", k, "status", "killed", "cleanup_completed", true, "session_id", a.id())
			y.gone("after the kill")
			y.is("a second kill", y.do("exec_kill", m{"session_id": a.id()}), "status", "killed", "output", "")
		},
		"close": func(y *yard, line string) {
			y.start(line, "yield_time_ms", soon.Milliseconds())
			if err := y.Close(); err != nil {
				y.t.Error(err)
			}
		},
	}
	// They sleep more than they work: all at once.
	var wg sync.WaitGroup
	for name, line := range stubborn {
		for end, do := range ends {
			y := newYard(t, nil)
			wg.Go(func() {
				do(y, line)
				y.gone(name + ", " + end)
			})
		}
	}
	wg.Wait()
}

// S2, S3, P4: a command that exits leaves nothing of its session behind, does not wait for it,
// and says what was ended.
func TestLeftoversAreEndedAndNamed(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	for name, line := range map[string]string{
		"holds both pipes":  "sleep 300 & echo hi",
		"holds stderr only": "sleep 300 >/dev/null & echo hi",
		"own group":         "bash -c 'set -m; sleep 300 & echo hi'",
		"ignores TERM":      "(trap '' TERM; sleep 300) & echo hi",
	} {
		a := y.sh(line)
		y.is(name, a, "status", "exited", "exit_code", 0, "stdout", "hi\n", "stderr", "")
		ended, _ := a.data["ended"].(m)
		if n, _ := ended["count"].(float64); n < 1 || !strings.Contains(fmt.Sprint(ended["names"]), "s") || !strings.Contains(a.text, "ended=") || !strings.Contains(a.text, "belay ended what") {
			t.Errorf("%s: %v, %q", name, ended, a.text)
		}
		y.gone(name)
		a = y.start(line)
		y.is(name, a, "status", "exited", "exit_code", 0, "output", "hi\n", "cleanup_completed", true)
		if ended, _ := a.data["ended"].(m); ended == nil {
			t.Errorf("%s: %q", name, a.text)
		}
		y.gone(name)
	}
	y.is("nothing left", y.sh("echo hi"), "ended", nil, "left_behind", "[]")
}

// S8: on Linux a child that left the session is named after a normal exit, and ended by
// timeout, cancellation and kill.
func TestEscapedChildren(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lets such children be found")
	}
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid")
	}
	const escape = "setsid sleep 300 & sleep 0.4; echo hi"
	y := newYard(t, nil)
	named := func(what string, a answer) {
		t.Helper()
		left, _ := a.data["left_behind"].([]any)
		pids := y.alive()
		if len(left) != 1 || len(pids) != 1 || !strings.Contains(a.text, fmt.Sprintf(`left_behind=[{"pid":%d,"name":"sleep"}]`, pids[0])) {
			t.Errorf("%s: %v, alive %v, %q", what, left, pids, a.text)
		}
		y.sweep()
	}
	a := y.sh(escape)
	y.is("shell", a, "status", "exited", "stdout", "hi\n", "ended", nil)
	named("shell", a)
	a = y.start(escape)
	y.is("exec_command", a, "status", "exited", "output", "hi\n", "cleanup_completed", true)
	named("exec_command", a)

	const stay = escape + "; sleep 300"
	y.is("timeout", y.sh(stay, "timeout_ms", 600), "status", "timed_out")
	y.gone("after the timeout")
	ctx, cancel := context.WithTimeout(context.Background(), 600*time.Millisecond)
	defer cancel()
	y.is("cancelled", y.call(ctx, "shell", m{"argv": []string{"sh", "-c", stay}}), "kind", "uncertain")
	y.gone("after the cancellation")
	a = y.start(stay, "yield_time_ms", 600)
	y.is("kill", y.do("exec_kill", m{"session_id": a.id()}), "status", "killed")
	y.gone("after the kill")
	y.start(stay, "yield_time_ms", 600)
	if err := y.Close(); err != nil {
		t.Error(err)
	}
	y.gone("after the close")
}

// S4: the two streams stay apart, head and tail of each are kept, every byte is delivered or counted, and the
// budget is shared so that a flood on one leaves the other whole.
func TestStreamsAreBoundedAndCounted(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	y.is("apart", y.sh("printf out; printf err >&2; exit 4"), "stdout", "out", "stderr", "err", "stdout_bytes", 3, "stderr_bytes", 3,
		"stdout_omitted", 0, "stderr_omitted", 0, "exit_code", 4, "status", "exited")
	const seq = "seq 1 200000" // 1,288,895 bytes
	delivered := func(text string) int64 {
		return int64(len(regexp.MustCompile(`(?m)^\[\.\.\. \d+ bytes omitted \.\.\.\]\n`).ReplaceAllString(text, "")))
	}
	for _, c := range []struct {
		line     string
		tokens   int
		out, err int64 // bytes
	}{
		{seq, 250, 1_288_895, 0},
		{seq + " >&2", 250, 0, 1_288_895},
		{seq + "; " + seq + " >&2", 2500, 1_288_895, 1_288_895},
		{seq + "; echo FINAL >&2", 250, 1_288_895, 6},
		{"echo FIRST; " + seq + " >&2", 250, 6, 1_288_895},
		{seq + "; " + seq + " >&2", 11250, 1_288_895, 1_288_895},
		{seq, 1, 1_288_895, 0},
		{"echo short; echo too >&2", 1, 6, 4},
	} {
		a := y.sh(c.line, "max_output_tokens", c.tokens)
		out, errs := a.str("stdout"), a.str("stderr")
		y.is(c.line, a, "stdout_bytes", c.out, "stderr_bytes", c.err, "exit_code", 0)
		if delivered(out)+a.num("stdout_omitted") != c.out || delivered(errs)+a.num("stderr_omitted") != c.err {
			t.Errorf("%s: %d+%d of %d, %d+%d of %d", c.line, delivered(out), a.num("stdout_omitted"), c.out, delivered(errs), a.num("stderr_omitted"), c.err)
		}
		if len(out)+len(errs) > 4*c.tokens || len(a.text) >= 45_000 {
			t.Errorf("%s: %d+%d bytes for %d tokens, %d in all", c.line, len(out), len(errs), c.tokens, len(a.text))
		}
		if c.tokens < 100 {
			continue
		}
		for _, s := range []struct {
			text  string
			bytes int64
		}{{out, c.out}, {errs, c.err}} {
			switch {
			case s.bytes < 100 && int64(len(s.text)) != s.bytes:
				t.Errorf("%s: a short stream is cut: %q", c.line, s.text)
			case s.bytes > 100 && (!strings.HasPrefix(s.text, "1\n2\n3\n") || !strings.HasSuffix(s.text, "\n199999\n200000\n")):
				t.Errorf("%s: head and tail are %.20q…%.20q", c.line, s.text, s.text[max(0, len(s.text)-20):])
			case s.bytes > 100 && len(s.text) < 4*c.tokens/2-200-4*c.tokens/10:
				t.Errorf("%s: a stream got %d bytes of %d tokens", c.line, len(s.text), c.tokens)
			}
		}
	}
}

// S5: what ended a command is told apart.
func TestOutcomesAreToldApart(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	for _, c := range []struct {
		line, status string
		code, signal any
	}{
		{"true", "exited", 0, nil}, {"exit 3", "exited", 3, nil}, {"exit 137", "exited", 137, nil}, {"exit 255", "exited", 255, nil},
		{"kill -KILL $$", "signaled", nil, "KILL"}, {"command kill -40 $$", "signaled", nil, "40"}, {"kill -TERM $$", "signaled", nil, "TERM"}, {"kill -USR1 $$", "signaled", nil, "USR1"},
	} {
		a := y.sh("echo before; " + c.line)
		y.is(c.line, a, "status", c.status, "exit_code", c.code, "signal", c.signal, "stdout", "before\n", "guard", "none")
		a = y.start("echo before; " + c.line)
		y.is(c.line, a, "status", c.status, "exit_code", c.code, "signal", c.signal, "output", "before\n", "guard", "none", "written_bytes", 0)
	}
	os.WriteFile(filepath.Join(y.root, "text"), []byte("no program"), 0o644)
	os.WriteFile(filepath.Join(y.root, "script"), []byte("#!/no/such/interpreter\n"), 0o755)
	for _, c := range []struct{ program, reason string }{
		{"no-such-program", "missing"}, {"./none", "missing"}, {"./text", "not_executable"}, {"./", "not_executable"}, {"./script", "missing"},
	} {
		y.is(c.program, y.do("shell", m{"argv": []string{c.program}}), "code", "start_failed", "kind", "refused", "program", c.program, "reason", c.reason)
		y.is(c.program, y.start("true", "shell", c.program), "code", "start_failed", "kind", "refused", "program", c.program, "reason", c.reason)
	}
}

// S2: what ends a command and what follows its end are two things: a time limit or a
// cancellation that comes after the exit changes nothing of how it ended.
func TestLateTimeoutChangesNothing(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	// The exit comes at once; its leftovers take the whole grace of 250 ms, and the time
	// is up meanwhile. On a busy machine it can be up before the exit: then it is tried again.
	const line = "(trap '' TERM; while :; do sleep 0.05; done) & echo hi; exit 6"
	for what, run := range map[string]func() answer{
		"shell":        func() answer { return y.sh(line, "timeout_ms", 200) },
		"exec_command": func() answer { return y.start(line, "timeout_ms", 200, "yield_time_ms", 30000) },
	} {
		a := run()
		for n := 0; a.str("signal") == "TERM" && n < 20; n++ {
			a = run()
		}
		y.is(what, a, "status", "exited", "exit_code", 6)
	}
}

// S7: shell gets the allowlist, exec_command what the host has, neither the token.
func TestEnvironmentsOfTheTools(t *testing.T) {
	t.Parallel()
	y := newYard(t, func(c *Config) {
		c.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=/h", "LC_TIME=C", "SOME_API_KEY=s3cr3t", "BELAY_HTTP_TOKEN=t0ken"}
		c.Env.Set["EDITOR"] = "mine"
		c.Env.Set["BELAY_HTTP_TOKEN"] = "t0ken"
	})
	env := y.sh("env; cat /proc/self/environ 2>/dev/null | tr '\\0' '\\n'").str("stdout")
	for _, want := range []string{"HOME=/h\n", "LC_TIME=C\n", "EDITOR=mine\n", "BELAY=1\n", "AI_AGENT=belay\n", "TERM=dumb\n", "PWD=" + y.root + "\n"} {
		if !strings.Contains(env, want) {
			t.Errorf("shell: no %q", want)
		}
	}
	for _, not := range []string{"s3cr3t", "t0ken"} {
		if strings.Contains(env, not) {
			t.Errorf("shell: %s", not)
		}
	}
	env = y.start("env").str("output")
	if !strings.Contains(env, "SOME_API_KEY=s3cr3t\n") || !strings.Contains(env, "EDITOR=mine\n") || strings.Contains(env, "t0ken") {
		t.Errorf("exec_command: %q", env)
	}
	y = newYard(t, func(c *Config) {
		c.Environ = []string{"PATH=" + os.Getenv("PATH"), "SOME_API_KEY=s3cr3t", "MINE=1"}
		c.Env.Exec, c.Env.Allow = "allowlist", []string{"PATH", "MI*"}
	})
	for _, line := range []answer{y.start("env"), y.start("env", "tty", true)} {
		if env := line.str("output"); strings.Contains(env, "s3cr3t") || !strings.Contains(env, "MINE=1") {
			t.Errorf("allowlist for exec_command: %q", env)
		}
	}
}

// P1: a call returns at the end or at the yield time, with a session to go on with.
func TestExecCommandYields(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	a := y.start("echo hi", "yield_time_ms", 30000)
	y.is("a short one", a, "status", "exited", "exit_code", 0, "output", "hi\n", "output_bytes", 3, "cursor", 3, "omitted_bytes", 0)
	if a.num("wall_ms") > 20_000 || len(a.raw.Ends) != 1 || a.raw.Ends[0] != a.id() {
		t.Errorf("%q, ends %v", a.text, a.raw.Ends)
	}
	a = y.start("echo ready; read x; echo \"got $x\"; sleep 300", "yield_time_ms", 1000)
	y.is("a long one", a, "status", "running", "output", "ready\ngot \n")
	if a.raw.Ends != nil {
		t.Errorf("ends %v", a.raw.Ends)
	}
	b := y.do("write_stdin", m{"session_id": a.id(), "yield_time_ms": 250})
	y.is("a poll", b, "status", "running", "output", "", "cursor", 11, "output_bytes", 11)
	y.is("it is listed", answer{data: y.do("exec_list", m{}).data["sessions"].([]any)[0].(m)}, "session_id", a.id(), "status", "running", "mode", "default", "tty", false)
	y.do("exec_kill", m{"session_id": a.id(), "signal": "KILL"})
}

// P1, P2, SE-11, P12: an ended session answers until it is evicted; polls consume,
// exec_output does not, and nobody is told anything by itself.
func TestEndedSessionsAnswer(t *testing.T) {
	t.Parallel()
	y := newYard(t, func(c *Config) { c.Limits.MaxFinished = 2 })
	a := y.start("echo b''ye; exit 3")
	for range 2 {
		y.is("poll", y.do("write_stdin", m{"session_id": a.id(), "yield_time_ms": 300000}), "status", "exited", "exit_code", 3, "output", "", "cursor", 4)
		y.is("output", y.do("exec_output", m{"session_id": a.id()}), "status", "exited", "exit_code", 3, "output", "bye\n",
			"cursor", 0, "next_cursor", 4, "end_cursor", 4, "omitted_bytes", 0, "eof", true)
	}
	y.is("wait", y.do("exec_wait", m{"session_ids": []string{a.id()}}), "timed_out", false)
	y.is("Ctrl-C after the end is a poll", y.do("write_stdin", m{"session_id": a.id(), "chars": "\x03"}), "status", "exited", "exit_code", 3)
	y.is("input after the end", y.do("write_stdin", m{"session_id": a.id(), "chars": "x\n"}), "code", "session_ended", "kind", "refused", "status", "exited", "exit_code", 3)
	y.is("Ctrl-C with close after the end", y.do("write_stdin", m{"session_id": a.id(), "chars": "\x03", "close": true}), "code", "session_ended")
	before := y.do("exec_list", m{}).text
	if after := y.do("exec_list", m{}).text; after != before || strings.Contains(before, "bye") {
		t.Errorf("%q, then %q", before, after)
	}
	y.start("true")
	y.start("true")
	for _, name := range []string{"write_stdin", "exec_output", "exec_kill"} {
		y.is("evicted", y.do(name, m{"session_id": a.id()}), "code", "unknown_session", "kind", "refused")
	}
}

// P9: input to a running session is refused as long as nobody can be asked; a poll is not.
func TestInputNeedsSomebodyToAsk(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	a := y.start("cat > got; echo end", "stdin", "open", "yield_time_ms", 250)
	for _, args := range []m{{"chars": "x\n"}, {"chars": "\x03"}, {"chars": "\x04"}, {"close": true}, {"chars": "x", "close": true}} {
		args["session_id"] = a.id()
		y.is(fmt.Sprint(args), y.do("write_stdin", args), "code", "approval_unavailable", "kind", "refused")
	}
	y.is("poll", y.do("write_stdin", m{"session_id": a.id(), "yield_time_ms": 250}), "status", "running", "output", "")
	if got := y.file("got"); got != "" {
		t.Errorf("written: %q", got)
	}
	y.do("exec_kill", m{"session_id": a.id()})
}

// A cancelled poll or wait ends only the wait, and consumes nothing.
func TestCancelledWaitsConsumeNothing(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	a := y.start("while [ ! -e go ]; do sleep 0.01; done; echo late; sleep 300", "yield_time_ms", 250)
	os.WriteFile(filepath.Join(y.root, "go"), nil, 0o600)
	y.until("output", func() bool { return y.do("exec_output", m{"session_id": a.id()}).str("output") == "late\n" })
	for name, args := range map[string]m{
		"write_stdin": {"session_id": a.id(), "yield_time_ms": 300000},
		"exec_wait":   {"session_ids": []string{a.id()}, "timeout_ms": 300000},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		y.is(name, y.call(ctx, name, args), "code", "deadline", "kind", "refused")
		cancel()
	}
	w := y.do("exec_wait", m{"until": "output"})
	if s, _ := w.data["sessions"].([]any); w.data["timed_out"] != false || len(s) != 1 || s[0].(m)["output"] != "late\n" {
		t.Errorf("%q", w.text)
	}
	y.is("the poll after that", y.do("write_stdin", m{"session_id": a.id(), "yield_time_ms": 250}), "status", "running", "output", "late\n")
	y.is("a look", y.do("exec_wait", m{"until": "output", "timeout_ms": 0}), "timed_out", true)
	y.do("exec_kill", m{"session_id": a.id()})
	y.is("nothing runs", y.do("exec_wait", m{}), "timed_out", false, "sessions", "[]")
}

// The wait for several sessions: any, all; each with its own end and output.
func TestExecWait(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	var ids []string
	for i := range 4 {
		a := y.start(fmt.Sprintf("while [ ! -e go%d ]; do sleep 0.01; done; echo out%d; exit %d", i, i, i), "yield_time_ms", 250)
		ids = append(ids, a.id())
	}
	open := func(i int) { os.WriteFile(filepath.Join(y.root, fmt.Sprintf("go%d", i)), nil, 0o600) }
	y.is("too early", y.do("exec_wait", m{"timeout_ms": 50}), "timed_out", true)
	time.AfterFunc(100*time.Millisecond, func() { open(2) })
	w := y.do("exec_wait", m{})
	s, _ := w.data["sessions"].([]any)
	if w.data["timed_out"] != false || len(s) != 4 || s[0].(m)["session_id"] != ids[2] || s[0].(m)["output"] != "out2\n" || s[0].(m)["exit_code"] != 2.0 || s[1].(m)["status"] != "running" {
		t.Errorf("%q", w.text)
	}
	if len(w.raw.Ends) != 1 || w.raw.Ends[0] != ids[2] {
		t.Errorf("ends %v", w.raw.Ends)
	}
	time.AfterFunc(100*time.Millisecond, func() { open(0); open(1); open(3) })
	w = y.do("exec_wait", m{"session_ids": append(ids, ids[0]), "until": "all"})
	if s, _ = w.data["sessions"].([]any); w.data["timed_out"] != false || len(s) != 4 || len(w.raw.Ends) != 4 {
		t.Errorf("%q", w.text)
	}
	for i, id := range ids {
		y.is("it consumed nothing", y.do("write_stdin", m{"session_id": id}), "output", fmt.Sprintf("out%d\n", i), "exit_code", i)
	}
}

// P5: what a result shows is inert, on pipes and on a terminal.
func TestOutputIsInert(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	const line = `printf '10%%\r20%%\r100%%\n\033]52;c;aGk=\007A\033[2JB\302\2331mC\342\200\256D\000\n\377'`
	for what, got := range map[string]string{
		"shell": y.sh(line).str("stdout"), "exec_command": y.start(line).str("output"), "terminal": y.start(line, "tty", true).str("output"),
	} {
		if got != "100%\nABC<U+202E>D\n\ufffd" {
			t.Errorf("%s: %q", what, got)
		}
	}
}

// P6, P7, SE-06: everything can be read by cursor, from disk and memory, after the replies were cut.
func TestAllOutputCanBeReadByCursor(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	a := y.start("seq 1 100000", "max_output_tokens", 250, "yield_time_ms", 30000)
	a = y.ends(a.id())
	var got strings.Builder
	for cursor, n := int64(0), 0; ; n++ {
		p := y.do("exec_output", m{"session_id": a.id(), "cursor": cursor, "max_output_tokens": 11250})
		y.is("page", p, "omitted_bytes", 0, "cursor", cursor, "end_cursor", 588_895)
		if len(p.text) >= 45_000 || n > 100 {
			t.Fatalf("%d bytes", len(p.text))
		}
		got.WriteString(p.str("output"))
		if cursor = p.num("next_cursor"); p.data["eof"] == true {
			break
		}
	}
	var want strings.Builder
	for i := 1; i <= 100_000; i++ {
		fmt.Fprintln(&want, i)
	}
	if got.String() != want.String() {
		t.Errorf("%d bytes of %d", got.Len(), want.Len())
	}
}

// C6, P6, P7: what a session keeps can be lowered, not raised; a value out of range is named.
func TestKeptOutputCanOnlyBeLowered(t *testing.T) {
	t.Parallel()
	for setting, l := range map[string][]Limits{
		"limits.log_bytes_per_process": {{LogBytesPerProcess: 8<<20 + 1}, {LogBytesPerProcess: -1}},
		"limits.log_bytes_total":       {{LogBytesTotal: 32<<20 + 1}, {LogBytesTotal: 10}},
		"limits.tail_bytes":            {{TailBytes: 64_001}, {TailBytes: 1}},
	} {
		for _, limits := range l {
			var e *ConfigError
			if s, err := New(Config{Root: t.TempDir(), Limits: limits}); !errors.As(err, &e) || e.Setting != setting || s != nil {
				t.Errorf("%+v: %v", limits, err)
			}
		}
	}
	y := newYard(t, func(c *Config) { c.Limits.TailBytes, c.Limits.LogBytesPerProcess = 2000, 3000 })
	a := y.ends(y.start("seq 1 10000", "max_output_tokens", 100).id())
	p := y.do("exec_output", m{"session_id": a.id(), "cursor": 2990, "max_output_tokens": 11250})
	y.is("up to the gap", p, "cursor", 2990, "omitted_bytes", 0, "next_cursor", 3000)
	p = y.do("exec_output", m{"session_id": a.id(), "cursor": 3000, "max_output_tokens": 11250})
	y.is("behind the gap", p, "cursor", 46_894, "omitted_bytes", 43_894, "next_cursor", 48_894, "eof", true)
}

// C6: max_sessions counts the commands of both tools.
func TestSessionLimit(t *testing.T) {
	t.Parallel()
	y := newYard(t, func(c *Config) { c.Limits.MaxSessions = 2 })
	a := y.start("sleep 300", "yield_time_ms", 250)
	y.start("sleep 300", "yield_time_ms", 250)
	for _, b := range []answer{y.start("true"), y.sh("true")} {
		y.is("a third", b, "code", "limit", "kind", "refused", "what", "sessions", "limit", 2, "actual", 2)
	}
	y.do("exec_kill", m{"session_id": a.id(), "signal": "KILL"})
	y.is("a free place", y.sh("echo hi"), "stdout", "hi\n")
}

// C6: every text stays under what clients let through, however much there is to tell.
func TestTextsAreBounded(t *testing.T) {
	t.Parallel()
	y := newYard(t, func(c *Config) { c.Limits.MaxFinished = 300 })
	var last string
	const n = 200
	for i := range n {
		if i%10 == 0 { // a few with much to show
			last = y.start("seq 1 20000").id()
			continue
		}
		last = y.start(": "+strings.Repeat("\u202e'\\", 60)+" "+fmt.Sprint(i), "shell", "true").id()
	}
	a := y.do("exec_list", m{})
	sessions, _ := a.data["sessions"].([]any)
	if len(a.text) >= 45_000 || len(sessions) < 50 || a.num("omitted_sessions") != int64(n-len(sessions)) || !strings.Contains(a.text, "session="+last) {
		t.Errorf("%d bytes for %d sessions, %d left out", len(a.text), len(sessions), a.num("omitted_sessions"))
	}
	var ids []string
	for _, s := range sessions {
		if c := []rune(s.(m)["command"].(string)); len(c) > 160 {
			t.Errorf("a preview of %d characters", len(c))
		}
		ids = append(ids, s.(m)["session_id"].(string))
	}
	for _, tokens := range []int{1, 6000, 11250} {
		a = y.do("exec_wait", m{"session_ids": ids, "until": "all", "max_output_tokens": tokens})
		if len(a.text) >= 45_000 || a.data["timed_out"] != false {
			t.Errorf("exec_wait: %d bytes", len(a.text))
		}
		output := 0
		for _, s := range a.data["sessions"].([]any) {
			output += len(s.(m)["output"].(string))
		}
		if output > 4*tokens {
			t.Errorf("exec_wait: %d bytes of output for %d tokens", output, tokens)
		}
	}
	for _, tokens := range []int{1, 2, 30, 11250} {
		a := y.start("seq 1 20000", "max_output_tokens", tokens)
		if len(a.str("output")) > 4*tokens || len(a.text) >= 45_000 || a.num("omitted_bytes") == 0 {
			t.Errorf("%d bytes for %d tokens, %d in all", len(a.str("output")), tokens, len(a.text))
		}
		p := y.do("exec_output", m{"session_id": a.id(), "max_output_tokens": tokens})
		if len(p.str("output")) > 4*tokens || len(p.text) >= 45_000 || p.num("next_cursor") == 0 {
			t.Errorf("%d bytes for %d tokens, %d in all", len(p.str("output")), tokens, len(p.text))
		}
	}
}

// parse reads a header line back.
func parse(t *testing.T, line string) map[string]any {
	t.Helper()
	facts := map[string]any{}
	for line != "" {
		name, rest, ok := strings.Cut(line, "=")
		if !ok || strings.ContainsAny(name, ` "`) || name == "" {
			t.Fatalf("no fact: %q", line)
		}
		var value any
		switch rest[0] {
		case '"', '[', '{':
			dec := json.NewDecoder(strings.NewReader(rest))
			if err := dec.Decode(&value); err != nil {
				t.Fatalf("%q: %v", rest, err)
			}
			rest = rest[dec.InputOffset():]
		default:
			var word string
			word, rest, _ = strings.Cut(rest, " ")
			rest = " " + rest
			if json.Unmarshal([]byte(word), &value) != nil {
				value = word
			}
		}
		if _, twice := facts[name]; twice {
			t.Errorf("%s twice in %q", name, line)
		}
		facts[name] = value
		line = strings.TrimPrefix(rest, " ")
	}
	return facts
}

// The header line of a result says the same as its data, by the names of the contract.
func TestHeadersSayWhatTheDataSays(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	running := y.start("printf 'no line end'; sleep 300", "yield_time_ms", 250)
	done := y.start("sleep 300 & seq 1 30000; exit 2", "max_output_tokens", 100)
	for name, a := range map[string]answer{
		"shell":            y.sh("seq 1 30000; seq 1 30000 >&2; sleep 300 & exit 3", "max_output_tokens", 100),
		"shell, timeout":   y.sh("echo a; sleep 300", "timeout_ms", 100),
		"shell, signal":    y.sh("kill -USR1 $$"),
		"shell, quiet":     y.sh("true"),
		"running":          running,
		"done":             done,
		"poll":             y.do("write_stdin", m{"session_id": running.id(), "yield_time_ms": 250}),
		"output":           y.do("exec_output", m{"session_id": done.id(), "cursor": -7}),
		"output, running":  y.do("exec_output", m{"session_id": running.id()}),
		"kill":             y.do("exec_kill", m{"session_id": running.id()}),
		"kill, once again": y.do("exec_kill", m{"session_id": running.id()}),
	} {
		header, content, _ := strings.Cut(a.text, "\n\n")
		if strings.Contains(header, "\n") {
			t.Errorf("%s: %q", name, header)
		}
		facts := parse(t, header)
		for fact, value := range facts {
			if fact == "timeout_ms" {
				continue
			}
			key := fact
			if fact == "session" {
				key = "session_id"
			}
			got := a.data[key]
			if key == "exit_code" && got == nil && facts["signal"] != nil {
				continue
			}
			if key == "signal" && strings.HasPrefix(name, "output") {
				continue // the contract has no such data there
			}
			if fmt.Sprint(got) != fmt.Sprint(value) {
				t.Errorf("%s: header %s=%v, data %v", name, fact, value, got)
			}
		}
		if _, has := facts["session"]; has != (a.id() != "") {
			t.Errorf("%s: session in %q", name, header)
		}
		for _, s := range []string{a.str("output"), a.str("stdout"), a.str("stderr")} {
			if s != "" && !strings.Contains(content, s) {
				t.Errorf("%s: the text has not the content of the data", name)
			}
		}
	}
}

// C5: nothing of what a call carries gets into an error string, and nothing of contents,
// lines, values or output into what the model is told of an error.
func TestErrorsCarryNothing(t *testing.T) {
	t.Parallel()
	const canary = "C4N4RY"
	y := newYard(t, func(c *Config) {
		c.Env.Set["SECRET"] = canary
		c.Limits.MaxSessions = 3
	})
	os.WriteFile(filepath.Join(y.root, "f"), []byte(canary), 0o644)
	long := canary + strings.Repeat("x", 200_000)
	running := y.start("echo "+canary+"; sleep 300", "yield_time_ms", 250)
	ended := y.start("echo " + canary)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	for i, a := range []answer{
		y.do("shell", m{"argv": []string{"/none", canary}}),
		y.do("shell", m{"argv": []string{"true", long}}),
		y.do("shell", m{"argv": []string{"true", "\x00" + canary}}),
		y.do("shell", m{"argv": []string{"true"}, "stdin": canary, "workdir": "none"}),
		y.do("shell", m{"argv": []string{"true"}, "stdin": canary, "timeout_ms": -1}),
		y.do("shell", `{"argv":["true"],"stdin":"`+canary+`\ud800"}`),
		y.do("shell", `{"argv":["true"],"stdin":"`+canary+`"`),
		y.do("shell", `{"argv":"`+canary+`"}`),
		y.do("exec_command", m{"cmd": long}),
		y.do("exec_command", m{"cmd": canary + "\x00"}),
		y.do("exec_command", m{"cmd": canary, "workdir": "f"}),
		y.do("exec_command", m{"cmd": canary, "yield_time_ms": "soon"}),
		y.do("exec_command", m{"cmd": canary, "shell": "/none"}),
		y.do("write_stdin", m{"session_id": running.id(), "chars": canary}),
		y.do("write_stdin", m{"session_id": running.id(), "chars": strings.Repeat(canary, 1000)}),
		y.do("write_stdin", m{"session_id": ended.id(), "chars": canary}),
		y.do("write_stdin", m{"session_id": canary, "chars": "x"}),
		y.do("exec_output", m{"session_id": running.id(), "cursor": canary}),
		y.do("exec_kill", m{"session_id": running.id(), "signal": canary}),
		y.do("exec_wait", m{"session_ids": []string{canary}}),
		y.do("replace", m{"path": "f", "content": canary + "2", "expected_sha256": strings.Repeat("0", 64)}),
		y.do("replace", m{"path": "f", "content": canary, "create": true, "encoding": canary}),
		y.do("edit", m{"path": "f", "expected_sha256": strings.Repeat("0", 64), "edits": []m{{"old_text": canary, "new_text": canary}}}),
		y.call(ctx, "shell", m{"argv": []string{"sh", "-c", "echo " + canary + "; echo " + canary + " >&2; sleep 300"}, "stdin": canary}),
		y.call(ctx, "exec_command", m{"cmd": "echo " + canary + "; sleep 300"}),
		y.do(canary, m{}),
	} {
		if a.err == nil {
			t.Errorf("call %d did not fail: %.100q", i, a.text)
			continue
		}
		out, _ := json.Marshal(a.err)
		if s := a.err.Error() + a.text + string(out); strings.Contains(s, canary) {
			t.Errorf("call %d: %.200q", i, s)
		}
		if len(a.err.Error()) > 512 || len(a.text) > 4096 {
			t.Errorf("call %d: %d bytes", i, len(a.text))
		}
	}
}

// C5: nor does the program itself say anything: this test runs the one above in a process of its own and looks at its streams.
func TestNothingIsPrinted(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestErrorsCarryNothing$", "-test.count=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 || strings.TrimSpace(string(out)) != "PASS" {
		t.Errorf("%v: %q, %q", err, out, stderr.String())
	}
}

// P4: Close is bounded, ends calls that are under way, and everything after it is refused.
func TestCloseEndsCallsUnderWay(t *testing.T) {
	t.Parallel()
	y := newYard(t, nil)
	answers := make(chan answer, 3)
	go func() { answers <- y.sh("trap '' TERM; echo $$ > a; while :; do sleep 0.1; done") }()
	go func() {
		answers <- y.start("trap '' TERM; echo $$ > b; while :; do sleep 0.1; done", "yield_time_ms", 30000)
	}()
	y.until("both run", func() bool { return y.file("a") != "" && y.file("b") != "" })
	go func() { answers <- y.do("exec_wait", m{}) }()
	began := time.Now()
	if err := y.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	y.gone("after the close")
	for range 3 {
		a := <-answers
		if a.err == nil {
			if a.data["timed_out"] != false { // a wait may have seen the ends
				t.Errorf("%q", a.text)
			}
			continue
		}
		if a.err.Kind != tool.Uncertain && a.err.Code != tool.Cancelled {
			t.Errorf("%q", a.text)
		}
	}
	for _, a := range []answer{y.sh("true"), y.start("true"), y.do("exec_list", m{})} {
		y.is("afterwards", a, "code", "cancelled", "kind", "refused")
	}
	if err := y.Close(); err != nil {
		t.Error(err)
	}
}
