//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// An onscreen is belay on a real terminal.
type onscreen struct {
	*hosted
	cmd    *exec.Cmd
	master *os.File
	mu     sync.Mutex
	seen   bytes.Buffer
	read   int // of seen, by await
	over   chan struct{}
}

func (h *hosted) onTerminal(script string, args ...string) *onscreen {
	h.t.Helper()
	return h.withTerminal(h.belay(script, args...))
}

// withTerminal starts a program whose terminal is a new one, as are its streams that are not set.
func (h *hosted) withTerminal(c *exec.Cmd) *onscreen {
	h.t.Helper()
	x := &onscreen{hosted: h, cmd: c, over: make(chan struct{})}
	var err error
	if x.master, err = pty.StartWithSize(x.cmd, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		h.t.Skip("no terminal: ", err)
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
	h.t.Cleanup(func() {
		if x.cmd.ProcessState == nil {
			x.cmd.Process.Kill()
			x.cmd.Wait()
		}
		x.master.Close()
		<-x.over
	})
	return x
}

func (x *onscreen) screen() string { x.mu.Lock(); defer x.mu.Unlock(); return x.seen.String() }

// await waits for a text behind the one that was awaited before.
func (x *onscreen) await(what string) {
	x.t.Helper()
	for end := time.Now().Add(hang); ; time.Sleep(2 * time.Millisecond) {
		s := x.screen()
		if n := strings.Index(s[x.read:], what); n >= 0 {
			x.read += n + len(what)
			return
		}
		if time.Now().After(end) {
			x.t.Fatalf("%q did not come behind:\n%q", what, s[x.read:])
		}
	}
}

func (x *onscreen) types(s string) {
	x.t.Helper()
	if _, err := x.master.WriteString(s); err != nil {
		x.t.Fatal(err)
	}
}

// ends waits for the end, and wants its exit code and that nothing came that is not written by
// belay itself: no sequence but those around what is pasted.
func (x *onscreen) ends(code int) {
	x.t.Helper()
	if got := waitFor(x.t, x.cmd); got != code {
		x.t.Errorf("exit code %d, want %d:\n%q", got, code, x.screen())
	}
	select {
	case <-x.over:
	case <-time.After(hang):
		x.t.Error("somebody else has the terminal")
	}
	s := strings.NewReplacer("\x1b[?2004h", "", "\x1b[?2004l", "", "\x1b[2m", "", "\x1b[0m", "").Replace(x.screen())
	if strings.ContainsAny(s, "\x1b\u009b\u202e\x07") {
		x.t.Errorf("something else acts on the terminal:\n%q", s)
	}
	if strings.Contains(s, "goroutine") {
		x.t.Error(s)
	}
}

const stop, endOfFile = "\x03", "\x04"

// A whole conversation on a terminal: an answer with things in it that would act on the terminal, an
// approval that takes turns with the input, a change of direction, Ctrl-C that stops the model, Ctrl-C
// twice that ends belay. U3, P9, P10, HO-09.
func TestOnATerminal(t *testing.T) {
	t.Parallel()
	h := newHosted(t)
	x := h.onTerminal(`{"text":"Hel\u001b[31mlo\u001b]0;title\u0007 \u202eyou.","pieces":9,"calls":[{"name":"exec_command","args":{"cmd":"cat","stdin":"open","yield_time_ms":250}},{"name":"shell","args":{"argv":["sh","-c","exit 3"]}}]}
{"take":{"s":"session=([a-z0-9_]+)"},"text":"I ask.","calls":[{"name":"write_stdin","args":{"session_id":"${s}","chars":"first\u001b[2J\n","yield_time_ms":500}}]}
{"expect":["first"],"text":"It was sent.","calls":[{"name":"write_stdin","args":{"session_id":"${s}","chars":"second\n"}}]}
{"expect":["approval_denied"],"text":"It was not."}
{"text":"working","calls":[{"name":"exec_command","args":{"cmd":"touch w; while ! test -e steered; do sleep 0.02; done","yield_time_ms":30000}}]}
{"expect":["to the left"],"text":"turned left"}
{"text":"hanging","calls":[{"name":"exec_command","args":{"cmd":"echo $$ > pid; exec sleep 30309","yield_time_ms":30000}}]}
{"expect":["still there"],"text":"I am."}
`)
	x.await("; /help says how")
	x.types("hello\x7f\x7f\x7f\x7f\x7fhello w\u00f6rld\r")
	x.await("> hello w\u00f6rld")
	x.await("Hello <U+202E>you.")
	x.await("exec_command cat")
	x.await("exit code 3")
	x.await("I ask.")
	x.await("first\\x1b[2J\\n")
	x.await("Send it? Type yes and Enter; anything else is no: ")
	x.types("yes\r")
	x.await("It was sent.")
	x.await("second")
	x.await("anything else is no: ")
	x.types(stop) // a no, and the run goes on
	x.await("approval_denied")
	x.await("It was not.")
	x.await("tokens in,")

	x.types("work\r")
	x.await("working")
	h.exists("w")
	x.types("to the left\r")
	x.await("> to the left")
	os.WriteFile(h.dir+"/steered", nil, 0o600)
	x.await("turned left")
	x.await("tokens in,")

	x.types("hang\r")
	x.await("hanging")
	pid := h.pid("pid")
	x.types(stop)
	x.await("stopping")
	x.await("uncertain")
	h.gone(pid)
	x.types("still there\r")
	x.await("I am.")
	x.await("tokens in,")
	x.types("/ps\r")
	x.await("command=cat")
	x.types("typed and")
	x.await("typed and")
	x.types(stop)
	x.types(stop)
	x.await("Ctrl-C again")
	x.types(stop)
	x.await("belay -r ")
	x.ends(0)
	if n := strings.Count(x.screen(), "title"); n != 0 {
		t.Error("the payload of a sequence was shown")
	}
}

// What is typed at a question is the answer to it, to its last letter, and nothing else: not a
// direction for the model, and not a line for whoever has the terminal next. P9, P10.
func TestAnswersAreWhole_P9(t *testing.T) {
	t.Parallel()
	h := newHosted(t)
	x := h.onTerminal(`{"calls":[{"name":"exec_command","args":{"cmd":"cat","stdin":"open","yield_time_ms":250}}]}
{"take":{"s":"session=([a-z0-9_]+)"},"text":"I ask.","calls":[{"name":"write_stdin","args":{"session_id":"${s}","chars":"rm\n"}}]}
{"expect":["approval_denied"],"reject":["delete prod","user:"],"text":"again","calls":[{"name":"write_stdin","args":{"session_id":"${s}","chars":"rm\n"}}]}
{"expect":["approval_denied"],"reject":["user:"],"text":"and again","calls":[{"name":"write_stdin","args":{"session_id":"${s}","chars":"rm\n"}}]}
{"expect":["approval_denied"],"reject":["user:"],"text":"enough"}
{"expect":["(?m)^so$"],"reject":["delete","\\[A","200"],"text":"so it is"}
`)
	x.await("; /help says how")
	x.types("go\r")
	for _, answer := range []string{"never delete prod\r", "\x1b[A", "\x1b[200~first line\rdelete the branch\r\x1b[201~"} {
		x.await("anything else is no: ")
		for _, b := range answer {
			x.types(string(b))
			if answer[0] != 0x1b { // a key and a paste come at once
				time.Sleep(4 * time.Millisecond)
			}
		}
		x.await("Nothing was done.")
	}
	x.await("enough")
	x.await("tokens in,")
	x.types("so\r")
	x.await("so it is")
	x.types("\x04")
	x.ends(0)
}

// --color: what belay says is set off; never by escape sequences where they are not wanted.
func TestColorOnATerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		when, env string
		dim       bool
	}{{"always", "NO_COLOR=1", true}, {"never", "TERM=xterm", false}, {"auto", "NO_COLOR=1", false}, {"auto", "TERM=dumb", false}, {"auto", "TERM=xterm", true}} {
		h := newHosted(t)
		cmd := h.belay(`{"text":"Hi."}`, "--color", c.when)
		cmd.Env = append(cmd.Env, "NO_COLOR=", "TERM=xterm", c.env)
		x := h.withTerminal(cmd)
		x.await("; /help says how")
		x.types("hi\r")
		x.await("tokens in,")
		x.types("\x04")
		x.ends(0)
		if got := strings.Contains(x.screen(), "\x1b[2mbelay "); got != c.dim {
			t.Errorf("--color %s with %s: dim is %v", c.when, c.env, got)
		}
		if strings.Contains(x.screen(), "\x1b[2mHi") {
			t.Error("the model's text is set off too")
		}
	}
}

func (h *hosted) exists(name string) {
	h.t.Helper()
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(h.dir + "/" + name); err == nil {
			return
		}
	}
	h.t.Fatalf("there is no %s", name)
}

// D1, D9: a background run wakes the idle model while nobody types; /new leaves the conversation and
// ends what it runs; a pasted text is one task; Ctrl-D ends.
func TestTerminalConversations_D1_D9(t *testing.T) {
	t.Parallel()
	h := newHosted(t)
	x := h.onTerminal(`{"calls":[{"name":"exec_command","args":{"cmd":"while ! test -e go; do sleep 0.02; done; echo fin","mode":"background","yield_time_ms":250}},{"name":"exec_command","args":{"cmd":"echo $$ > pid; exec sleep 300","mode":"service","yield_time_ms":250}}]}
{"text":"it runs"}
{"expect":["fin"],"text":"it is in"}
{"expect":["one\ntwo"],"text":"both lines"}
`)
	x.await("; /help says how")
	x.types("/help\r")
	x.await("Ctrl-C stops the model")
	x.types("/unheard\r")
	x.await("there is no command /unheard")
	x.types("begin\r")
	x.await("it runs")
	x.types("half a word")
	x.await("half a word")
	os.WriteFile(h.dir+"/go", nil, 0o600)
	time.Sleep(500 * time.Millisecond)
	if s := x.screen(); strings.Contains(s, "it is in") {
		t.Error("who typed was talked to")
	}
	x.types("\x15")
	x.await("1 of the background is in")
	x.await("it is in")
	if s := x.screen(); strings.Contains(s, "untrusted") {
		t.Error("a hidden message was shown")
	}
	pid := h.pid("pid")
	if !running(pid) {
		t.Error("the service does not run")
	}
	x.types("/new\r")
	x.await("belay: conversation ")
	h.gone(pid)
	x.types("\x1b[200~one\r\ntwo\x1b[201~")
	x.await("one⏎two")
	x.types("\r")
	x.await("both lines")
	x.types(endOfFile)
	x.ends(0)
	x.await("belay -r ")

	// It goes on where it was.
	again := h.onTerminal(`{"expect":["once more"],"text":"gladly"}`, "-c")
	again.await("> one")
	again.await("both lines")
	again.types("once\x1b\rmore") // Alt-Enter
	again.await("once⏎more")
	again.types("\x7f\x7f\x7f\x7f\x7f more\r")
	again.await("gladly")
	again.types(endOfFile)
	again.ends(0)
}

// A signal from outside ends it with its code, and gives the terminal back.
func TestSignalOnATerminal(t *testing.T) {
	t.Parallel()
	x := newHosted(t).onTerminal(`{"text":"x"}`)
	x.await("; /help says how")
	x.cmd.Process.Signal(os.Interrupt)
	x.ends(130)
	if !strings.Contains(x.screen(), "\x1b[?2004l") {
		t.Error("the terminal was not given back")
	}
}

// Whatever is told to the user on the terminal, and however that ends, it is as it was afterwards: with
// an echo, and line by line.
func TestTheTerminalIsAsItWas(t *testing.T) {
	t.Parallel()
	calls := strings.TrimSuffix(strings.Repeat(`{"name":"shell","args":{"argv":["true"]}},`, 16), ",")
	asks := `["sh","-c","cat >/dev/null; echo '{\"hookSpecificOutput\":{\"permissionDecision\":\"ask\"}}'"]`
	for name, c := range map[string]struct {
		guard  string
		signal bool
		args   []string
	}{
		"notices":           {`["/no/such/guard"]`, false, []string{"run", "go"}},
		"a question, INT":   {asks, true, []string{"call", "shell", `{"argv":["true"]}`}},
		"a question of run": {asks, true, []string{"run", "go"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 12 {
				h := newHosted(t)
				cmd := h.belay(`{"calls":[`+calls+`]}`+"\n"+`{"text":"done"}`, c.args...)
				cmd.Env = append(cmd.Env, "BELAY_GUARD_COMMAND="+c.guard)
				master, tty, err := pty.Open()
				if err != nil {
					t.Skip("no terminal: ", err)
				}
				var mu sync.Mutex
				var seen bytes.Buffer
				over := make(chan bool)
				go func() {
					defer close(over)
					b := make([]byte, 4096)
					for {
						n, err := master.Read(b)
						mu.Lock()
						seen.Write(b[:n])
						mu.Unlock()
						if err != nil {
							return
						}
					}
				}()
				says := func() string { mu.Lock(); defer mu.Unlock(); return seen.String() }
				cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
				cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if c.signal {
					for end := time.Now().Add(hang); !strings.Contains(says(), "Allow it?"); time.Sleep(2 * time.Millisecond) {
						if time.Now().After(end) {
							t.Fatalf("no question: %q", says())
						}
					}
					cmd.Process.Signal(os.Interrupt)
				}
				waitFor(t, cmd)
				stty := exec.Command("stty", "-a")
				stty.Stdin = tty
				out, err := stty.Output()
				if s := " " + strings.Join(strings.Fields(string(out)), " ") + " "; err != nil || !strings.Contains(s, " echo ") || !strings.Contains(s, " icanon ") {
					t.Errorf("%v %s", err, out)
				}
				tty.Close()
				master.Close()
				<-over
			}
		})
	}
}

// Without a terminal belay says what is for that.
func TestInteractiveNeedsATerminal(t *testing.T) {
	t.Parallel()
	c := newHosted(t).belay(`{"text":"x"}`)
	out, err := c.CombinedOutput()
	if err == nil || c.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "belay run") || !strings.Contains(string(out), "belay rpc") {
		t.Errorf("%v: %s", err, out)
	}
}

// P11: a question about a process that has ended goes away, and the model is told why.
func TestQuestionGoesWithItsProcess_P11(t *testing.T) {
	t.Parallel()
	h := newHosted(t)
	x := h.onTerminal(`{"calls":[{"name":"exec_command","args":{"cmd":"while ! test -e go; do sleep 0.02; done","stdin":"open","yield_time_ms":250}}]}
{"take":{"s":"session=([a-z0-9_]+)"},"calls":[{"name":"write_stdin","args":{"session_id":"${s}","chars":"x\n"}}]}
{"expect":["tool failed:\nsession_ended"],"text":"It is gone."}
`)
	x.await("; /help says how")
	x.types("go\r")
	x.await("anything else is no: ")
	os.WriteFile(h.dir+"/go", nil, 0o600)
	x.await("the process has ended; this question is void")
	x.await("It is gone.")
	x.types(endOfFile)
	x.ends(0)
}

// P9: run asks on the terminal that it was started from, wherever its output goes: yes sends, no is exit
// 5, Ctrl-C at the question is that of the program. The output has nothing of the question.
func TestRunAsksOnTheTerminal_P9(t *testing.T) {
	t.Parallel()
	script := `{"calls":[{"name":"exec_command","args":{"cmd":"cat > got","stdin":"open","yield_time_ms":250}}]}
{"take":{"s":"session=([a-z0-9_]+)"},"calls":[{"name":"write_stdin","args":{"session_id":"${s}","chars":"sent\n","yield_time_ms":300}}]}
{"text":"So it is."}
`
	for _, c := range []struct {
		name, key string
		code      int
		got       string
	}{
		{"yes", "yes\r", 0, "sent\n"},
		{"no", "no\r", 5, ""},
		{"Ctrl-C", stop, 130, ""},
	} {
		for _, form := range []string{"print", "json"} {
			t.Run(c.name+" "+form, func(t *testing.T) {
				t.Parallel()
				h := newHosted(t)
				args := []string{"run", "go"}
				if form == "json" {
					args = []string{"run", "--json", "go"}
				}
				run := h.belay(script, args...)
				out, err := os.Create(h.t.TempDir() + "/out")
				if err != nil {
					t.Fatal(err)
				}
				defer out.Close()
				run.Stdout = out
				x := h.withTerminal(run)
				if form == "print" {
					x.await("belay: write_stdin") // what led to the question is above it
				}
				x.await("anything else is no: ")
				x.types(c.key)
				x.ends(c.code)
				if b, _ := os.ReadFile(h.dir + "/got"); string(b) != c.got {
					t.Errorf("the process got %q", b)
				}
				b, err := os.ReadFile(out.Name())
				if err != nil || strings.Contains(string(b), "anything else") || form == "print" && c.code != 130 && string(b) != "So it is.\n" {
					t.Errorf("%v, %q", err, b)
				}
			})
		}
	}
}
