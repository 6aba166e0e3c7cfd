//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
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
