//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A conversation is belay rpc in the real program, with a model behind HTTP.
type conversation struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan map[string]any
	server *vendorServer
	n      int // of the requests so far
}

// inRPC begins one. The vendor is one of the three, by the name of the test.
func inRPC(t *testing.T, steps []say) *conversation {
	t.Helper()
	v := vendors[len(t.Name())%len(vendors)]
	c := &conversation{t: t, cmd: built(t, "rpc"), lines: make(chan map[string]any, 1000), server: serveVendor(t, v, steps)}
	c.cmd.Env = append(append(c.cmd.Env, v.env(c.server.URL)...), "BELAY_MODEL="+v.provider+"/test-model")
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			var m map[string]any
			if json.Unmarshal([]byte(line), &m) != nil {
				t.Errorf("%q is no JSON", line)
			}
			c.lines <- m
		}
	}()
	t.Cleanup(func() {
		c.in.Close()
		for range c.lines {
		}
		if code := waitFor(t, c.cmd); code != 0 {
			t.Errorf("exit code %d", code)
		}
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		if len(c.server.faults) > 0 || c.server.n != len(steps) {
			t.Errorf("%d of %d requests, %v", c.server.n, len(steps), c.server.faults)
		}
	})
	return c
}

// await is the next line that has these values, which stand for others behind them, too.
func (c *conversation) await(want ...any) map[string]any {
	c.t.Helper()
	late := time.After(hang)
	for {
		select {
		case m, more := <-c.lines:
			if !more {
				c.t.Fatalf("the host ended before %v", want)
			}
			fits := true
			for i := 0; i < len(want); i += 2 {
				fits = fits && fmt.Sprint(m[want[i].(string)]) == fmt.Sprint(want[i+1])
			}
			if fits {
				return m
			}
		case <-late:
			c.t.Fatalf("%v did not come", want)
		}
	}
}

// do makes a request, which has to succeed.
func (c *conversation) do(kind string, members string) map[string]any {
	c.t.Helper()
	c.n++
	if members != "" {
		members = "," + members
	}
	if _, err := fmt.Fprintf(c.in, `{"id":%d,"type":%q%s}`+"\n", c.n, kind, members); err != nil {
		c.t.Fatal(err)
	}
	r := c.await("type", "response", "id", c.n)
	if r["ok"] != true {
		c.t.Errorf("%s: %v", kind, r)
	}
	result, _ := r["result"].(map[string]any)
	return result
}

// prompt gives a task and waits for the answer to it. It is a follow-up: the run before may have
// said its last word and not be over.
func (c *conversation) prompt(text, answer string) {
	c.t.Helper()
	c.do("follow_up", `"text":`+quoted(text))
	c.await("type", "message", "role", "assistant", "text", answer)
}

func (c *conversation) file(name string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.cmd.Dir, name), nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// session is the one process that there is; ended waits for its end.
func (c *conversation) session(ended bool) string {
	c.t.Helper()
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		list, _ := c.do("processes", "")["sessions"].([]any)
		if len(list) != 1 {
			c.t.Fatalf("%d processes", len(list))
		}
		s := list[0].(map[string]any)
		if !ended || s["status"] != "running" {
			return fmt.Sprint(s["session_id"])
		}
	}
	c.t.Fatal("the process does not end")
	return ""
}

// quiet wants that nothing is asked of the model: a wake comes 100 ms after an end.
func (c *conversation) quiet(requests int) {
	c.t.Helper()
	time.Sleep(500 * time.Millisecond)
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.server.n != requests || len(c.server.faults) > 0 {
		c.t.Errorf("%d requests, want %d: %v", c.server.n, requests, c.server.faults)
	}
}

// until runs until a file is there, then says a word.
func until(more string) ask {
	return ask{"exec_command", `{"cmd":"echo early; while ! test -e go; do sleep 0.02; done; echo late-word","yield_time_ms":250` + more + `}`}
}

const (
	background  = `,"mode":"background"`
	theMessage  = `status=exited exit_code=0 .*\n\[untrusted output of the process`
	itsFullText = `(?s)early\nlate-word`
)

// D1, D10: the result of a background run wakes the idle model once, labelled as untrusted.
func TestDelivery_D1_D10(t *testing.T) {
	t.Parallel()
	c := inRPC(t, []say{
		{calls: []ask{until(background)}},
		{text: "It runs."},
		{want: []string{"mode=background " + theMessage, itsFullText}, text: "It is in."},
	})
	c.prompt("go", "It runs.")
	c.file("go")
	n := c.await("type", "notice")
	if n["display"] != false {
		t.Errorf("it is displayed: %v", n)
	}
	c.await("type", "message", "text", "It is in.")
	c.await("type", "settled")
	c.quiet(3)
}

// D2: a new task, a steer and an abort disarm it; the process runs on, and its output stays.
func TestDelivery_D2(t *testing.T) {
	t.Parallel()
	t.Run("task", func(t *testing.T) {
		t.Parallel()
		c := inRPC(t, []say{{calls: []ask{until(background)}}, {text: "It runs."}, {text: "Something else."}})
		c.prompt("go", "It runs.")
		c.prompt("do something else", "Something else.")
		c.await("type", "settled") // nothing is left that could wake it
		c.file("go")
		id := c.session(true)
		c.quiet(3)
		if out := c.do("output", `"session_id":"`+id+`"`); out["output"] != "early\nlate-word\n" {
			t.Errorf("%v", out)
		}
	})
	t.Run("steer", func(t *testing.T) {
		t.Parallel()
		c := inRPC(t, []say{
			{calls: []ask{until(background), {"shell", `{"argv":["sh","-c","touch begun; while ! test -e go; do sleep 0.02; done; sleep 0.3"]}`}}},
			{want: []string{"to the left"}, reject: []string{"untrusted output"}, text: "I turn."},
		})
		c.do("prompt", `"text":"go"`)
		waitForFile(t, filepath.Join(c.cmd.Dir, "begun"))
		c.do("steer", `"text":"to the left"`)
		c.file("go") // it ends within the batch
		c.await("type", "message", "text", "I turn.")
		c.quiet(2)
	})
	t.Run("abort", func(t *testing.T) {
		t.Parallel()
		c := inRPC(t, []say{
			{calls: []ask{until(background), {"shell", `{"argv":["sh","-c","touch begun; exec sleep 300"]}`}}},
			{want: []string{"uncertain", "go on"}, reject: []string{"untrusted output"}, text: "I go on."},
		})
		c.do("prompt", `"text":"go"`)
		waitForFile(t, filepath.Join(c.cmd.Dir, "begun"))
		time.Sleep(400 * time.Millisecond) // the background run has yielded
		c.do("abort", "")
		c.file("go")
		c.session(true)
		c.quiet(1)
		c.prompt("go on", "I go on.")
	})
}

// D3: a kill suppresses it.
func TestDelivery_D3(t *testing.T) {
	t.Parallel()
	for _, form := range []string{background, `,"mode":"service"`, `,"completion_mode":"steer"`} {
		t.Run(form[2:9]+form[len(form)-4:], func(t *testing.T) {
			t.Parallel()
			c := inRPC(t, []say{{calls: []ask{until(form)}}, {text: "It runs."}})
			c.prompt("go", "It runs.")
			c.do("kill", `"session_id":"`+c.session(false)+`"`)
			c.quiet(2)
		})
	}
}

// D4: a service wakes nobody on a normal exit, and does by a failure.
func TestDelivery_D4(t *testing.T) {
	t.Parallel()
	t.Run("exit 0", func(t *testing.T) {
		t.Parallel()
		c := inRPC(t, []say{{calls: []ask{until(`,"mode":"service"`)}}, {text: "It serves."}})
		c.prompt("go", "It serves.")
		c.file("go")
		c.session(true)
		c.quiet(2)
	})
	t.Run("exit 3", func(t *testing.T) {
		t.Parallel()
		c := inRPC(t, []say{
			{calls: []ask{{"exec_command", `{"cmd":"while ! test -e go; do sleep 0.02; done; echo broken; exit 3","mode":"service","yield_time_ms":250}`}}},
			{text: "It serves."},
			{want: []string{`mode=service status=exited exit_code=3 `, "broken"}, text: "It broke."},
		})
		c.prompt("go", "It serves.")
		c.file("go")
		c.await("type", "message", "text", "It broke.")
		c.quiet(3)
	})
}

// D5: an end that the model saw itself is not told again; a client that looks takes nothing from it.
func TestDelivery_D5(t *testing.T) {
	t.Parallel()
	t.Run("seen by the model", func(t *testing.T) {
		t.Parallel()
		c := inRPC(t, []say{
			{calls: []ask{until(background)}},
			{calls: []ask{{"exec_wait", `{"until":"any"}`}}},
			{want: []string{"status=exited exit_code=0", "late-word"}, reject: []string{"untrusted output"}, text: "I saw it."},
		})
		c.do("prompt", `"text":"go"`)
		c.await("type", "tool_start", "tool", "exec_wait")
		c.file("go")
		c.await("type", "message", "text", "I saw it.")
		c.quiet(3)
	})
	t.Run("seen by the client", func(t *testing.T) {
		t.Parallel()
		c := inRPC(t, []say{{calls: []ask{until(background)}}, {text: "It runs."}, {want: []string{theMessage}, text: "It is in."}})
		c.prompt("go", "It runs.")
		id := c.session(false)
		c.file("go")
		for range 5 {
			c.in.Write([]byte(`{"id":"o","type":"output","session_id":"` + id + `"}` + "\n"))
		}
		c.await("type", "message", "text", "It is in.")
		c.quiet(3)
	})
}

// D6: notify_on_exit tells the facts, after the user's next message, and wakes nobody.
func TestDelivery_D6(t *testing.T) {
	t.Parallel()
	c := inRPC(t, []say{
		{calls: []ask{until(`,"notify_on_exit":true`)}},
		{text: "It runs."},
		{want: []string{"and now", `status=exited exit_code=0 .*output_bytes=16`}, reject: []string{"late-word\\n"}, text: "It has ended."},
	})
	c.prompt("go", "It runs.")
	c.file("go")
	c.session(true)
	c.quiet(2)
	c.prompt("and now", "It has ended.")
}

// D7, D8: the older forms bring a tail of the output: at the next safe boundary, when the model would
// stop, after the user's next message.
func TestDelivery_D7_D8(t *testing.T) {
	t.Parallel()
	t.Run("steer", func(t *testing.T) {
		t.Parallel()
		c := inRPC(t, []say{
			{calls: []ask{until(`,"completion_mode":"steer"`)}},
			{calls: []ask{{"shell", `{"argv":["sh","-c","touch go; sleep 0.5"]}`}}},
			{want: []string{theMessage, itsFullText}, text: "It came in between."},
		})
		c.prompt("go", "It came in between.")
		c.quiet(3)
	})
	t.Run("followUp", func(t *testing.T) {
		t.Parallel()
		c := inRPC(t, []say{
			{calls: []ask{until(`,"completion_mode":"followUp"`)}},
			{calls: []ask{{"shell", `{"argv":["sh","-c","touch go; sleep 0.5"]}`}}},
			{reject: []string{"untrusted output"}, text: "I would stop."},
			{want: []string{theMessage, itsFullText}, text: "It came at the end."},
		})
		c.prompt("go", "I would stop.")
		c.await("type", "message", "text", "It came at the end.")
		c.quiet(4)
	})
	t.Run("nextTurn", func(t *testing.T) {
		t.Parallel()
		c := inRPC(t, []say{
			{calls: []ask{until(`,"completion_mode":"nextTurn"`)}},
			{text: "It runs."},
			{want: []string{"and now", theMessage, itsFullText}, text: "It came with you."},
		})
		c.prompt("go", "It runs.")
		c.file("go")
		c.session(true)
		c.quiet(2)
		c.prompt("and now", "It came with you.")
	})
}

// D9: leaving a conversation, and the end, say nothing of the processes that they end.
func TestDelivery_D9(t *testing.T) {
	t.Parallel()
	c := inRPC(t, []say{{calls: []ask{until(background)}}, {text: "It runs."}, {want: []string{"hello"}, reject: []string{"untrusted output", "It runs"}, text: "Hi."}})
	c.prompt("go", "It runs.")
	c.do("new", "")
	c.quiet(2)
	c.prompt("hello", "Hi.")
}

func waitForFile(t *testing.T, name string) {
	t.Helper()
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(name); err == nil {
			return
		}
	}
	t.Fatalf("there is no %s", filepath.Base(name))
}
