package proctool

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/belayhq/belay/internal/jobs"
	"github.com/belayhq/belay/internal/proc"
	"github.com/belayhq/belay/internal/termtext"
	"github.com/belayhq/belay/tool"
)

type writeStdin struct{ *Config }

// maxInput is the most that one approval can cover: more would be approved
// unseen (P10).
const maxInput = 4096

func (t *writeStdin) Definition() tool.Definition {
	return tool.Definition{
		Name: "write_stdin",
		Description: "Poll a session: waits up to yield_time_ms for its end and gives the output since the last poll. " +
			"With chars or close it sends input, which the user has to approve each time; without a way to ask the user it is refused.",
		Schema: json.RawMessage(`{
	"type": "object",
	"properties": {
		"session_id": {"type": "string"},
		"chars": {"type": "string", "description": "input, at most 4096 bytes; empty only polls"},
		"close": {"type": "boolean", "description": "then give end of file"},
		"yield_time_ms": {"type": "integer", "minimum": 250, "maximum": 300000, "description": "default 5000 for a poll (at most 300000), 250 with input (at most 30000)"},
		"max_output_tokens": {"type": "integer", "minimum": 1, "maximum": 11250, "description": "default 6000"},
		"cols": {"type": "integer", "minimum": 1, "maximum": 500, "description": "resize the terminal"},
		"rows": {"type": "integer", "minimum": 1, "maximum": 200}
	},
	"required": ["session_id"],
	"additionalProperties": false
}`),
		Effect: tool.Mutating, Replay: tool.Unsafe, Risks: []tool.Risk{tool.RiskRead, tool.RiskWrite, tool.RiskProcess},
	}
}

func (t *writeStdin) Prepare(_ context.Context, call tool.Call) (tool.Plan, error) {
	in := tool.ParseArguments(call.Args)
	find := t.find(in)
	p := &writePlan{chars: in.Text("chars", ""), close: in.Bool("close")}
	wait := tool.Range{Default: 5_000, Min: 250, Max: 300_000, Clamp: true}
	if p.input() {
		wait = tool.Range{Default: 250, Min: 250, Max: 30_000, Clamp: true}
	}
	p.yield = time.Duration(in.Int("yield_time_ms", wait)) * time.Millisecond
	p.budget = outputBudget(in)
	cols := in.Int("cols", tool.Range{Min: 1, Max: maxCols})
	rows := in.Int("rows", tool.Range{Min: 1, Max: maxRows})
	switch {
	case len(p.chars) > maxInput:
		in.Fail("chars", "at most 4096 bytes, so that all of it can be shown to the user")
	case in.Has("cols") != in.Has("rows"):
		in.Fail("cols", "to be given together with rows")
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	j, err := find()
	if err != nil {
		return nil, err
	}
	p.job = j
	if cols > 0 {
		if !j.TTY() {
			return nil, tool.Invalid("cols", "a session that was started with tty: true")
		}
		p.size = &proc.Size{Cols: int(cols), Rows: int(rows)}
	}
	if !p.input() {
		return p, nil
	}
	switch s := j.Status(); {
	case s.State == jobs.Running:
		p.consent = p.prompt()
	case p.chars != interrupt || p.close:
		return nil, sessionEnded(s)
	}
	return p, nil
}

// interrupt is what Ctrl-C sends. To a session that has ended it is a poll.
const interrupt = "\x03"

func sessionEnded(s jobs.Status) error {
	facts := []tool.Fact{{Name: "status", Value: s.State}}
	signal, code := exitFacts(s.Signal, s.Code)
	if code != nil {
		facts = append(facts, tool.Fact{Name: "exit_code", Value: *code})
	}
	if signal != nil {
		facts = append(facts, tool.Fact{Name: "signal", Value: *signal})
	}
	return tool.NewError(tool.SessionEnded, facts...)
}

type writePlan struct {
	job   *jobs.Job // found at Prepare: input reaches the process that was shown, or none (P11)
	chars string
	close bool
	// consent is the question that input to a running session needs; nil for a
	// poll, which an interrupt of an ended session is too.
	consent *tool.Prompt
	size    *proc.Size
	yield   time.Duration
	budget  int
}

func (p *writePlan) input() bool { return p.chars != "" || p.close }

func (p *writePlan) Close() {}

// prompt shows all that would be sent.
func (p *writePlan) prompt() *tool.Prompt {
	shown := termtext.Escape(p.chars)
	if p.close {
		shown += " (then end of file)"
	}
	return &tool.Prompt{Reason: "input", SessionID: p.job.ID(), Title: p.job.Preview(), Shown: shown, Bytes: len(p.chars)}
}

func (p *writePlan) Action() tool.Action {
	a := tool.Action{Tool: "write_stdin"}
	if p.consent != nil {
		c := *p.consent
		a.Consent = &c
	}
	return a
}

func (p *writePlan) Run(ctx context.Context, _ tool.Reporter) (tool.Result, error) {
	if p.consent != nil {
		// The corridor asks before Run, and has nobody to ask yet: without the
		// user's yes nothing is ever written (P9).
		return tool.Result{}, tool.NewError(tool.ApprovalUnavailable)
	}
	if p.size != nil {
		if err := p.job.Resize(*p.size); err != nil && !errors.Is(err, proc.ErrEnded) {
			return tool.Result{}, tool.NewError(tool.PTYUnavailable)
		}
	}
	p.job.Wait(ctx, p.yield)
	if err := ctx.Err(); err != nil {
		return tool.Result{}, tool.Stopped(err) // ends only the wait; nothing was consumed
	}
	return sessionResult(p.job, p.budget), nil
}
