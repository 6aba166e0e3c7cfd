package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/host/agent"
	"github.com/belayhq/belay/internal/host/model/scripted"
	"github.com/belayhq/belay/internal/host/transcript"
	"github.com/belayhq/belay/internal/journal"
	"github.com/belayhq/belay/tool"
)

// demoScript is the model of the demo; everything that it calls is real.
func demoScript() string {
	exec := func(cmd, more string) string {
		quoted, _ := json.Marshal(cmd) // a string always marshals
		return `{"name": "exec_command", "args": {"cmd": ` + string(quoted) + more + `}}`
	}
	return strings.Join([]string{
		`{"text": "I start both in the background.", "calls": [` + exec(demoSays("built"), `, "mode": "background", "yield_time_ms": 250`) + `, ` + exec(demoSays("tested"), `, "mode": "background", "yield_time_ms": 250`) + `]}`,
		`{"text": "Both run. I have nothing else to do."}`,
		`{"expect": ["built", "tested", "mode=background status=exited exit_code=0"], "text": "It is built and tested."}`,

		`{"text": "I start the service.", "calls": [` + exec(demoSays("served"), `, "mode": "service", "yield_time_ms": 250`) + `]}`,
		`{"expect": ["status=running"], "text": "It serves."}`,

		`{"calls": [` + exec(demoReads, `, "stdin": "open", "yield_time_ms": 250`) + `]}`,
		`{"take": {"s": "session=([a-z0-9_]+)"}, "text": "I answer its question.", "calls": [{"name": "write_stdin", "args": {"session_id": "${s}", "chars": "yes\n"}}]}`,
		`{"expect": ["tool failed:\napproval_unavailable"], "text": "Nobody can be asked here, so I sent nothing."}`,
	}, "\n")
}

// A demoHost is a conversation with that model.
type demoHost struct {
	agent   *agent.Agent
	kept    *transcript.Transcript
	notices int // of the present task
}

// host begins the conversation.
func (d *demo) host() (*demoHost, error) {
	if d.talk != nil {
		return d.talk, nil
	}
	m, err := scripted.Parse(strings.NewReader(demoScript()))
	if err != nil {
		return nil, err
	}
	h := &demoHost{kept: transcript.In(filepath.Join(d.dir, "conversations")).New(d.suite.Root())}
	h.agent = agent.New(agent.Config{Model: m, Suite: d.suite, Transcript: h.kept, Event: func(e agent.Event) {
		switch e.Type {
		case agent.Said:
			fmt.Fprintf(d.out, "   %s: %s\n", e.Role, d.forScreen(e.Text))
		case agent.ToolStart:
			fmt.Fprintf(d.out, "-> %s %s\n", inert(e.Tool), inert(e.Preview))
		case agent.ToolEnd:
			fmt.Fprintf(d.out, "   %s\n", strings.TrimSpace(inert(e.Kind+" "+e.Code)))
		case agent.Noticed:
			h.notices++
			head, _, _ := strings.Cut(e.Text, "\n")
			fmt.Fprintf(d.out, "   told to the model: %s\n", inert(head))
		}
	}})
	d.talk = h
	return h, nil
}

// close ends the conversation with the suite.
func (d *demo) close() error {
	if d.talk == nil {
		return d.suite.Close()
	}
	d.talk.agent.Stop()
	closed := d.suite.Close()
	return cmp.Or(closed, d.talk.agent.Close(), d.talk.kept.Close())
}

// until waits for something that comes soon.
func (d *demo) until(what string, is func() bool) error {
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if d.ctx.Err() != nil {
			return d.ctx.Err()
		}
		if time.Now().After(end) {
			return errors.New(what + " did not come")
		}
	}
	return nil
}

// settled waits until nothing is left that could wake the model.
func (d *demo) settled(h *demoHost) (agent.Outcome, error) {
	ctx, cancel := context.WithTimeout(d.ctx, 20*time.Second)
	defer cancel()
	err := h.agent.Wait(ctx)
	o := h.agent.Outcome()
	return o, cmp.Or(err, o.Err)
}

func demoWakes(d *demo) error {
	h, err := d.host()
	if err != nil {
		return err
	}
	h.agent.Typing(true)
	if err := h.agent.Prompt("Build and test it."); err != nil {
		return err
	}
	if err := d.until("the end of both", func() bool { return !h.agent.Busy() && d.suite.Waiting(coding.Idle) == 2 }); err != nil {
		return err
	}
	if n := h.agent.Outcome().Requests; n != 2 {
		return fmt.Errorf("the model was asked %d times while the user typed, not 2", n)
	}
	fmt.Fprintln(d.out, "   both have ended while the user types; now they stop typing")
	h.agent.Typing(false)
	o, err := d.settled(h)
	switch {
	case err != nil:
		return err
	case o.Requests != 3 || h.notices != 2:
		return fmt.Errorf("%d requests with %d results, not one more with two", o.Requests, h.notices)
	case o.Text != "It is built and tested.":
		return errors.New("the model did not see the results")
	}
	return nil
}

func demoDoesNotWake(d *demo) error {
	h, err := d.host()
	if err != nil {
		return err
	}
	h.notices = 0
	if err := h.agent.Prompt("Start the service."); err != nil {
		return err
	}
	if _, err := d.settled(h); err != nil {
		return err
	}
	if err := d.until("the end of the service", func() bool { return len(d.suite.Running()) == 0 }); err != nil {
		return err
	}
	fmt.Fprintln(d.out, "   the service has ended, with exit code 0")
	time.Sleep(300 * time.Millisecond) // a wake would come after 100 ms
	if o, err := d.settled(h); err != nil || o.Requests != 2 || h.notices != 0 {
		return fmt.Errorf("%d requests, %d results, %v", o.Requests, h.notices, err)
	}
	return nil
}

func demoRefuses(d *demo) error {
	h, err := d.host()
	if err != nil {
		return err
	}
	if err := h.agent.Prompt("Answer its question."); err != nil {
		return err
	}
	o, err := d.settled(h)
	switch {
	case err != nil:
		return err
	case o.Approval != tool.ApprovalUnavailable:
		return errors.New("the input was not refused")
	case o.Text != "Nobody can be asked here, so I sent nothing.":
		return errors.New("the model was not told")
	}
	return nil
}

// demoCrash takes a journal as a crash would leave it: while a command runs.
func demoCrash(d *demo) error {
	path := filepath.Join(d.dir, "journal")
	suite, err := coding.New(coding.Config{Root: d.suite.Root(), Environ: d.environ, Shell: demoShell, Journal: path})
	if err != nil {
		return err
	}
	defer suite.Close()
	if _, err := suite.Call(d.ctx, coding.Caller{}, tool.Call{ID: "finished", Name: "read", Args: json.RawMessage(`{"path":"notes.txt"}`)}); err != nil {
		return err
	}
	argv, err := json.Marshal(map[string]any{"argv": demoLasting})
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = suite.Call(d.ctx, coding.Caller{}, tool.Call{ID: "lost", Name: "shell", Args: argv}) // its end is not waited for
	}()
	defer func() { suite.Close(); <-ended }()
	err = d.until("the start of the command", func() bool {
		r, err := journal.Read(path)
		return err == nil && len(r.Uncertain) == 1
	})
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	left := path + ".crash"
	if err := os.WriteFile(left, content, 0o600); err != nil {
		return err
	}
	fmt.Fprintln(d.out, "   this is what a crash in this moment leaves:")
	r, err := journal.Read(left)
	if err != nil {
		return err
	}
	if err := d.printJournal(r); err != nil {
		return err
	}
	if len(r.Finished) != 1 || r.Finished[0].ID != "finished" || len(r.Uncertain) != 1 || r.Uncertain[0].ID != "lost" {
		return errors.New("the journal does not tell which call is uncertain")
	}
	return nil
}
