package stream

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/host/agent"
	"github.com/belayhq/belay/internal/host/model/scripted"
	"github.com/belayhq/belay/internal/host/transcript"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hang is far over what anything here takes, also on a loaded machine.
const hang = 60 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A place is where conversations are about a folder, and kept beside it.
type place struct {
	t          *testing.T
	root, kept string
	model      *scripted.Model
	approval   time.Duration

	mu    sync.Mutex
	talks []*Talk
}

func newPlace(t *testing.T, script string) *place {
	t.Helper()
	m, err := scripted.Parse(strings.NewReader(script))
	must(t, err)
	return &place{t: t, root: t.TempDir(), kept: t.TempDir(), model: m}
}

func (p *place) config(which Which) Config {
	return Config{Version: "1.2.3", Open: p.open, Which: which}
}

func (p *place) open(_ context.Context, which Which, ears Ears) (*Talk, error) {
	suite, err := coding.New(coding.Config{Root: p.root, Shell: "/bin/sh", ApprovalTimeout: p.approval})
	if err != nil {
		return nil, err
	}
	dir := transcript.In(p.kept)
	if which.Last {
		which.ID, _ = dir.Last(suite.Root())
	}
	kept := dir.New(suite.Root())
	var history []transcript.Entry
	if which.ID != "" {
		if kept, _, err = dir.Resume(which.ID, func(e transcript.Entry) error { history = append(history, e); return nil }); err != nil {
			suite.Close()
			return nil, err
		}
	}
	a := agent.New(agent.Config{Model: p.model, Suite: suite, Transcript: kept, History: history, Asker: ears.Asker, Notify: ears.Notify, Event: ears.Event})
	talk := &Talk{
		Agent: a, Suite: suite, ID: kept.ID(),
		Entries: func(each func(transcript.Entry) error) error {
			if _, err := os.Stat(dir.Path(kept.ID())); err != nil {
				return nil
			}
			return dir.Read(kept.ID(), each)
		},
		Close: func() error {
			a.Stop()
			return cmp.Or(suite.Close(), a.Close(), kept.Close())
		},
	}
	p.mu.Lock()
	p.talks = append(p.talks, talk)
	p.mu.Unlock()
	return talk, nil
}

// A client speaks to RPC over pipes.
type client struct {
	t     *testing.T
	in    *io.PipeWriter
	lines chan map[string]any // closed at the end of the output
	ended chan error
	stop  context.CancelFunc

	mu   sync.Mutex
	hold chan struct{} // while it is there nobody reads the output
	all  bytes.Buffer
}

func (p *place) serve(which Which) *client {
	p.t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	c := &client{t: p.t, in: inW, lines: make(chan map[string]any, 10_000), ended: make(chan error, 1), stop: stop}
	go func() {
		err := RPC(ctx, p.config(which), inR, outW)
		outW.Close()
		c.ended <- err
	}()
	go func() {
		defer close(c.lines)
		r := bufio.NewReaderSize(outR, 64<<10)
		for {
			c.mu.Lock()
			hold := c.hold
			c.mu.Unlock()
			if hold != nil {
				<-hold
			}
			line, err := r.ReadString('\n')
			if line != "" {
				c.mu.Lock()
				c.all.WriteString(line)
				c.mu.Unlock()
				var m map[string]any
				if e := json.Unmarshal([]byte(line), &m); e != nil || !strings.HasSuffix(line, "\n") || m["type"] == nil {
					p.t.Errorf("the output carries %.200q", line)
				}
				c.lines <- m
			}
			if err != nil {
				return
			}
		}
	}()
	p.t.Cleanup(func() {
		stop()
		outR.Close()
		inW.Close()
		select {
		case err := <-c.ended:
			c.ended <- err
		case <-time.After(hang):
			p.t.Error("RPC does not return")
		}
		for range c.lines {
		}
	})
	return c
}

func (c *client) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// next is the next line that want wants.
func (c *client) next(what string, want func(map[string]any) bool) map[string]any {
	c.t.Helper()
	late := time.After(hang)
	for {
		select {
		case m, more := <-c.lines:
			if !more {
				c.t.Fatalf("the output ended before %s:\n%s", what, c.text())
			}
			if want(m) {
				return m
			}
		case <-late:
			c.t.Fatalf("no %s:\n%s", what, c.text())
		}
	}
}

func (c *client) text() string { c.mu.Lock(); defer c.mu.Unlock(); return c.all.String() }

// event is the next line of a type.
func (c *client) event(kind string) map[string]any {
	c.t.Helper()
	return c.next(kind, func(m map[string]any) bool { return m["type"] == kind })
}

// answer is the response to an id.
func (c *client) answer(id any) map[string]any {
	c.t.Helper()
	return c.next(fmt.Sprint("response to ", id), func(m map[string]any) bool { return m["type"] == "response" && fmt.Sprint(m["id"]) == fmt.Sprint(id) })
}

// do sends a request and gives the result of its response, or its error.
func (c *client) do(line string) (result map[string]any, code string) {
	c.t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		c.t.Fatal(err)
	}
	c.send(line)
	r := c.answer(m["id"])
	if e, ok := r["error"].(map[string]any); ok {
		code, _ = e["code"].(string)
	}
	if ok, _ := r["ok"].(bool); ok != (code == "") {
		c.t.Errorf("a response is neither: %v", r)
	}
	result, _ = r["result"].(map[string]any)
	return result, code
}

// end ends the input and waits for the end.
func (c *client) end() error {
	c.t.Helper()
	c.in.Close()
	select {
	case err := <-c.ended:
		c.ended <- err
		return err
	case <-time.After(hang):
		c.t.Fatal("RPC does not return")
		return nil
	}
}
