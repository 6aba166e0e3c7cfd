//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hang is far over what anything here takes, also on a loaded machine.
const hang = 60 * time.Second

// A hosted is belay with a scripted model, in a folder and a home of its own.
type hosted struct {
	t         *testing.T
	dir, home string
}

func newHosted(t *testing.T) *hosted {
	t.Helper()
	return &hosted{t: t, dir: t.TempDir(), home: t.TempDir()}
}

// belay is a command line with a script as its model.
func (h *hosted) belay(script string, args ...string) *exec.Cmd {
	h.t.Helper()
	f, err := os.CreateTemp(h.t.TempDir(), "script")
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := f.WriteString(script); err != nil {
		h.t.Fatal(err)
	}
	f.Close()
	c := belay(h.t, args...)
	c.Dir = h.dir
	c.Env = append(c.Env, "BELAY_HOME="+h.home, "BELAY_MODEL=scripted/"+f.Name())
	return c
}

// pid is the process id that a command wrote into a file, when it has.
func (h *hosted) pid(name string) int {
	h.t.Helper()
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if b, _ := os.ReadFile(filepath.Join(h.dir, name)); bytes.HasSuffix(b, []byte("\n")) {
			n, err := strconv.Atoi(strings.TrimSpace(string(b)))
			if err != nil {
				h.t.Fatal(err)
			}
			return n
		}
	}
	h.t.Fatalf("%s was not written", name)
	return 0
}

// gone waits until a process is.
func (h *hosted) gone(pid int) {
	h.t.Helper()
	for end := time.Now().Add(10 * time.Second); running(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Errorf("process %d lives on", pid)
			syscall.Kill(pid, syscall.SIGKILL)
			return
		}
	}
}

// waitFor waits for a program that has to end, and gives its exit code.
func waitFor(t *testing.T, c *exec.Cmd) int {
	t.Helper()
	ended := make(chan struct{})
	go func() { c.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(hang):
		c.Process.Kill()
		<-ended
		t.Error("belay does not end")
	}
	return c.ProcessState.ExitCode()
}

// long is a script whose command writes its id and does not let itself be ended by a signal
// that can be caught; its child neither.
const long = `{"text":"I begin.","calls":[{"name":"exec_command","args":{"cmd":"trap '' INT TERM; sh -c 'echo $$ > child; while :; do sleep 1; done' & echo $$ > pid; wait","yield_time_ms":30000},"id":"c1"}]}
{"text":"never asked for"}
`

// transcriptOf is the one conversation that is stored: each line is JSON.
func (h *hosted) transcript() (entries []map[string]any) {
	h.t.Helper()
	files, _ := filepath.Glob(filepath.Join(h.home, "conversations", "*.jsonl"))
	if len(files) != 1 {
		h.t.Fatalf("%d conversations", len(files))
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		h.t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			h.t.Fatalf("%q is no JSON", line)
		}
		entries = append(entries, m)
	}
	return entries
}

// HO-09, P4: the first signal stops a run in order, with the code of the signal: its processes are
// gone, the transcript has the result of the call. A second one takes the grace.
func TestSignalsEndARun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		args  []string
		first os.Signal
		code  int
	}{
		{"print, INT", []string{"run", "go"}, os.Interrupt, 130},
		{"json, TERM", []string{"run", "--json", "go"}, syscall.SIGTERM, 143},
		{"json, HUP", []string{"run", "--json", "go"}, syscall.SIGHUP, 143},
		{"twice INT", []string{"run", "go"}, os.Interrupt, 130},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHosted(t)
			run := h.belay(long, c.args...)
			var out, stderr bytes.Buffer
			run.Stdout, run.Stderr = &out, &stderr
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			pid, child := h.pid("pid"), h.pid("child")
			run.Process.Signal(c.first)
			if strings.HasPrefix(c.name, "twice") {
				time.Sleep(10 * time.Millisecond)
				run.Process.Signal(c.first)
			}
			if code := waitFor(t, run); code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, stderr.String())
			}
			if running(pid) || running(child) {
				t.Error("a process lives on")
				h.gone(pid)
				h.gone(child)
			}
			if strings.Contains(stderr.String(), "goroutine") {
				t.Error(stderr.String())
			}
			result := ""
			for _, e := range h.transcript() {
				if e["type"] == "assistant" && e["text"] == "never asked for" {
					t.Error("the model was asked after the end")
				}
				if e["type"] == "result" && e["call_id"] == "c1" {
					result = fmt.Sprint(e["kind"])
				}
			}
			if result != "uncertain" {
				t.Errorf("the result of the call is %q", result)
			}
			if c.args[1] != "--json" {
				want := regexp.MustCompile(`(?m)^  I begin\.\nbelay: exec_command trap .*`)
				end := regexp.MustCompile(`belay: exec_command trap .* -> uncertain\nbelay: ended with the run: [a-z2-7]+ trap .*\nbelay: stopped by SIGINT\nbelay: belay -r [a-z2-7]{16} goes on with this conversation; .*\n$`)
				if s := stderr.String(); !want.MatchString(s) || !end.MatchString(s) || out.Len() > 0 {
					t.Errorf("%s%s", out.String(), s)
				}
			}
			if strings.HasPrefix(c.name, "json") {
				for line := range bytes.Lines(out.Bytes()) {
					if !json.Valid(line) {
						t.Errorf("%q is no JSON", line)
					}
				}
				if !strings.Contains(out.String(), `"type":"tool_end","call_id":"c1","kind":"uncertain"`) {
					t.Errorf("the end of the call was not told: %s", out.String())
				}
				name := map[os.Signal]string{syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP"}[c.first]
				if end := `{"type":"error","code":"stopped","message":"stopped by ` + name + `"}` + "\n" + `{"type":"settled"}` + "\n"; !strings.HasSuffix(out.String(), end) {
					t.Errorf("it cannot be told from a crash: %s", out.String())
				}
			}
		})
	}
}

// A standard error that nobody reads does not keep belay from ending.
func TestUnreadErrorsDoNotHoldTheEnd(t *testing.T) {
	t.Parallel()
	h := newHosted(t)
	run := h.belay(`{"text":"`+strings.Repeat("long ", 50_000)+`","calls":[{"name":"shell","args":{"argv":["true"]}}]}`+"\n"+`{"text":"done"}`, "run", "go")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	run.Stderr = w
	err = run.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 16<<10)); err != nil { // it has begun to speak; the rest fills the pipe
		t.Fatal(err)
	}
	run.Process.Signal(syscall.SIGTERM)
	if code := waitFor(t, run); code != 143 {
		t.Errorf("exit code %d", code)
	}
}

// HO-03: when the reader of the events leaves, belay ends without a word: children are ended and
// the transcript is saved.
func TestTheReaderLeaves(t *testing.T) {
	t.Parallel()
	// idle waits for a run in the background.
	const idle = `{"calls":[{"name":"exec_command","args":{"cmd":"sh -c 'echo $$ > child; exec sleep 300' & echo $$ > pid; wait","mode":"background","yield_time_ms":250}}]}
{"text":"It runs."}
{"text":"never asked for"}
`
	for name, c := range map[string]struct {
		script string
		args   []string
		code   int
	}{
		"run":       {long, []string{"run", "--json", "go"}, 1},
		"run, idle": {idle, []string{"run", "--json", "go"}, 1},
		"rpc":       {long, []string{"rpc"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHosted(t)
			run := h.belay(c.script, c.args...)
			var stderr bytes.Buffer
			run.Stderr = &stderr
			in, err := run.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			out, err := run.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			io.WriteString(in, `{"id":1,"type":"prompt","text":"go"}`+"\n")
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil || !strings.Contains(line, `"hello"`) {
				t.Fatalf("%q, %v", line, err)
			}
			pid := h.pid("pid")
			for end := time.Now().Add(hang); name == "run, idle"; time.Sleep(5 * time.Millisecond) {
				if len(h.transcript()) >= 6 { // the turn after the call is over
					break
				}
				if time.Now().After(end) {
					t.Fatal("the turn does not end")
				}
			}
			out.Close() // nothing is written for long
			left := time.Now()
			code := waitFor(t, run)
			if took := time.Since(left); took > 10*time.Second {
				t.Errorf("it took %s to notice", took)
			}
			// Events that were not read to their end told nobody what came of the task.
			if code != c.code {
				t.Errorf("exit code %d: %s", code, stderr.String())
			}
			h.gone(pid)
			h.gone(h.pid("child"))
			if s := stderr.String(); strings.Contains(s, "goroutine") || strings.Contains(s, "panic") || strings.Contains(s, "broken pipe") {
				t.Errorf("it says %s", s)
			}
			if n := len(h.transcript()); n < 4 {
				t.Errorf("%d entries in the transcript", n)
			}
		})
	}
}

// C3: a call that was under way when belay was killed is closed as uncertain when the conversation
// is resumed, is told to the model, and is not made again. The keeper ended its process.
func TestResumeAfterAKill_C3(t *testing.T) {
	t.Parallel()
	h := newHosted(t)
	run := h.belay(`{"calls":[{"name":"exec_command","args":{"cmd":"echo x >> times; echo $$ > pid; exec sleep 300","yield_time_ms":30000},"id":"c1"}]}`, "run", "go")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	pid := h.pid("pid")
	run.Process.Kill()
	run.Wait()
	h.gone(pid)
	again := h.belay(`{"expect":["tool failed:\nuncertain", "go on"],"text":"I look first."}`, "run", "-c", "go on")
	var out, stderr bytes.Buffer
	again.Stdout, again.Stderr = &out, &stderr
	if err := again.Run(); err != nil || out.String() != "I look first.\n" {
		t.Errorf("%v: %s%s", err, out.String(), stderr.String())
	}
	if note := "belay: exec_command echo x >> times; echo $$ > pid; exec sleep 300: it had no result when belay ended; it is closed as uncertain, and not made again\n"; !strings.Contains(stderr.String(), note) {
		t.Errorf("it was not told: %s", stderr.String())
	}
	if b, _ := os.ReadFile(filepath.Join(h.dir, "times")); string(b) != "x\n" {
		t.Errorf("it ran again: %q", b)
	}
}

// C3: what a killed belay left is told by each form that goes on with it.
func TestAKillIsTold_C3(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"run", "--json", "-c", "go on"}, {"rpc", "-c"}, {"rpc"}} {
		h := newHosted(t)
		run := h.belay(`{"calls":[{"name":"shell","args":{"argv":["sh","-c","echo $$ > pid; exec sleep 300"]}},{"name":"shell\u001b[2J","args":{}}]}`, "run", "go")
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		pid := h.pid("pid")
		run.Process.Kill()
		run.Wait()
		h.gone(pid)
		again := h.belay(`{"text":"I look first."}`, args...)
		again.Stdin = strings.NewReader(`{"id":1,"type":"resume","last":true}` + "\n")
		out, err := again.Output()
		if note := `"notes":["shell sh -c echo $$ > pid; exec sleep 300: it had no result when belay ended; it is closed as uncertain, and not made again"]`; err != nil || !strings.Contains(string(out), note) {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
}

// HO-01: a reader that begins late gets all of it, from a pipe as from a file.
func TestNothingIsCutOff(t *testing.T) {
	t.Parallel()
	script := `{"text":"0123456789","times":30000,"pieces":40}`
	for _, args := range [][]string{{"run", "go"}, {"run", "--json", "go"}} {
		h := newHosted(t)
		run := h.belay(script, args...)
		out, err := run.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(700 * time.Millisecond)
		b, err := io.ReadAll(out)
		if err != nil {
			t.Fatal(err)
		}
		if code := waitFor(t, run); code != 0 {
			t.Errorf("%v: exit code %d", args, code)
		}
		if len(args) == 2 && (len(b) != 300_001 || b[300_000] != '\n') {
			t.Errorf("%d bytes", len(b))
		}
		last := ""
		for line := range bytes.Lines(b) {
			if len(args) == 3 && !json.Valid(line) {
				t.Errorf("%.100q is no JSON", line)
			}
			last = string(line)
		}
		if len(args) == 3 && last != `{"type":"settled"}`+"\n" {
			t.Errorf("it ends in %q", last)
		}
	}
}

// HO-06: with a prompt as argument nobody waits for the end of an input that never ends; a signal
// ends the wait for one that is read.
func TestInputThatNeverEnds(t *testing.T) {
	t.Parallel()
	h := newHosted(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	run := h.belay(`{"text":"hi"}`, "run", "say hi")
	run.Stdin = r
	var out bytes.Buffer
	run.Stdout = &out
	if err := run.Run(); err != nil || out.String() != "hi\n" {
		t.Errorf("%v, %q", err, out.String())
	}
	run = h.belay(`{"text":"hi"}`, "run", "-")
	run.Stdin = r
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	run.Process.Signal(os.Interrupt)
	if code := waitFor(t, run); code != 130 {
		t.Errorf("exit code %d", code)
	}
}

// TR-06: a conversation that another belay has open is neither resumed nor removed.
func TestAConversationInUseIsBusy(t *testing.T) {
	t.Parallel()
	h := newHosted(t)
	run := h.belay(long, "run", "go")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	h.pid("pid")
	files, _ := filepath.Glob(filepath.Join(h.home, "conversations", "*.jsonl"))
	id := strings.TrimSuffix(filepath.Base(files[0]), ".jsonl")
	for _, args := range [][]string{{"run", "-r", id, "x"}, {"run", "-c", "x"}, {"rpc", "-r", id}, {"conversations", "rm", id}} {
		other := h.belay(`{"text":"x"}`, args...)
		out, err := other.CombinedOutput()
		if err == nil || other.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "another program has it open") {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	run.Process.Signal(os.Interrupt)
	if code := waitFor(t, run); code != 130 {
		t.Errorf("exit code %d", code)
	}
	if out, err := h.belay(`{"text":"x"}`, "conversations", "rm", id).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// P4: the end of the input and a signal end an rpc host with its children, in time for a client that
// kills it after that.
func TestRPCEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(*exec.Cmd, io.Closer)
		code int
	}{
		{"end of input", func(_ *exec.Cmd, in io.Closer) { in.Close() }, 0},
		{"SIGTERM", func(c *exec.Cmd, _ io.Closer) { c.Process.Signal(syscall.SIGTERM) }, 143},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHosted(t)
			run := h.belay(long, "rpc")
			in, err := run.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			run.Stdout = &out
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			io.WriteString(in, `{"id":1,"type":"prompt","text":"go"}`+"\n")
			pid := h.pid("pid")
			c.end(run, in)
			if code := waitFor(t, run); code != c.code {
				t.Errorf("exit code %d", code)
			}
			if running(pid) || running(h.pid("child")) {
				t.Error("a process lives on")
			}
			for line := range bytes.Lines(out.Bytes()) {
				if !json.Valid(line) {
					t.Errorf("%q is no JSON", line)
				}
			}
			in.Close()
		})
	}
}

// What was accepted is not lost: a prompt and the end of the input in one write, and what waits
// behind a run that is stopped, are in the conversation, and the model that goes on is shown it.
func TestAcceptedTextsAreKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"a prompt": {`{"id":1,"type":"prompt","text":"one"}` + "\n", `user:\none\n`},
		"a run": {`{"id":1,"type":"prompt","text":"one"}` + "\n" + `{"id":2,"type":"follow_up","text":"three"}` + "\n" + `{"id":3,"type":"steer","text":"two"}` + "\n",
			`user:\none\nuser:\ntwo\nuser:\nthree\n`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHosted(t)
			run := h.belay(`{"text":"","hang":true}`, "rpc")
			run.Stdin = strings.NewReader(c.in)
			out, err := run.Output()
			if n := strings.Count(string(out), `"ok":true`); err != nil || n != strings.Count(c.in, "\n") {
				t.Fatalf("%v: %s", err, out)
			}
			want, _ := json.Marshal("(?s)^" + c.want + ".*user:\ngo on\n$")
			again := h.belay(`{"expect":[`+string(want)+`],"text":"I see."}`, "run", "-c", "go on")
			if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "I see.\n") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
