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
			"With chars or close it sends input, which the user has to approve each time.",
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

// Gone and Lost: a question about a session that has ended is no use to anybody.
func (p *writePlan) Gone() <-chan struct{} { return p.job.Done() }
func (p *writePlan) Lost() error           { return sessionEnded(p.job.Status()) }

func (p *writePlan) input() bool { return p.chars != "" || p.close }

func (p *writePlan) Close() {}

// prompt shows all that would be sent.
func (p *writePlan) prompt() *tool.Prompt {
	shown := termtext.Escape(p.chars)
	switch {
	case p.chars == "":
		shown = "(end of file)"
	case p.close:
		shown += " (then end of file)"
	}
	title := p.job.Preview()
	if !p.job.Echoes() {
		// It is shown all the same: nothing is approved unseen.
		title += " (its terminal does not show what is typed: this may be a password)"
	}
	return &tool.Prompt{Reason: "input", SessionID: p.job.ID(), Title: title, Shown: shown, Bytes: len(p.chars)}
}

func (p *writePlan) Action() tool.Action {
	a := tool.Action{Tool: "write_stdin", Input: map[string]any{"session_id": p.job.ID(), "chars": p.chars, "close": p.close}}
	if p.consent != nil {
		c := *p.consent
		a.Consent = &c
	}
	return a
}

// Run sends what was approved and polls. The corridor has asked before: a plan with
// a consent is run only after the user's yes (P9).
func (p *writePlan) Run(ctx context.Context, _ tool.Reporter) (tool.Result, error) {
	if p.size != nil {
		if err := p.job.Resize(*p.size); err != nil && !errors.Is(err, proc.ErrEnded) {
			return tool.Result{}, tool.NewError(tool.PTYUnavailable)
		}
	}
	if p.consent != nil {
		if err := p.send(ctx); err != nil {
			return tool.Result{}, err
		}
	}
	p.job.Wait(ctx, p.yield)
	if err := ctx.Err(); err != nil {
		if p.consent != nil { // it was sent; how the session took it was not seen
			return tool.Result{}, tool.NewError(tool.UncertainOutcome, tool.Fact{Name: "written_bytes", Value: len(p.chars)}).CausedBy(err)
		}
		return tool.Result{}, tool.Stopped(err) // ends only the wait; nothing was consumed
	}
	written := 0
	if p.consent != nil {
		written = len(p.chars)
	}
	return sessionResult(p.job, p.budget, written), nil
}

// writeTime is how long a session may take to take its input. A pipe holds more
// than one input can be: only a session that has not read for long lets it pass.
const writeTime = 5 * time.Second

// send gives the session its input, whole, or says what is known.
func (p *writePlan) send(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return tool.Stopped(err)
	}
	if p.chars == interrupt && !p.job.TTY() {
		// On pipes nothing turns the character into the signal that it stands for.
		if err := p.job.Interrupt(); err != nil {
			return p.unsent(err, 0)
		}
	} else if p.chars != "" {
		bounded, cancel := context.WithTimeout(ctx, writeTime)
		n, err := p.job.Write(bounded, []byte(p.chars))
		cancel()
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return p.unsent(err, n)
		}
	}
	if p.close {
		if err := p.job.CloseInput(); err != nil {
			return p.unsent(err, len(p.chars))
		}
	}
	return nil
}

// unsent is the outcome of input that was not sent, or not wholly.
func (p *writePlan) unsent(err error, written int) error {
	var line *proc.LineError
	switch {
	case errors.As(err, &line):
		return tool.NewError(tool.Limit, tool.Fact{Name: "what", Value: "bytes of a line on a terminal"},
			tool.Fact{Name: "limit", Value: line.Limit}, tool.Fact{Name: "actual", Value: line.Actual})
	case written == 0 && errors.Is(err, proc.ErrEnded):
		p.job.Wait(context.Background(), writeTime) // until its end is known; that is near
		return sessionEnded(p.job.Status())
	case written == 0 && errors.Is(err, proc.ErrInputClosed):
		return tool.NewError(tool.StdinClosed)
	case written == 0 && errors.Is(err, context.Canceled):
		return tool.Stopped(err)
	}
	e := tool.NewError(tool.UncertainOutcome, tool.Fact{Name: "written_bytes", Value: written}, tool.Fact{Name: "bytes", Value: len(p.chars)})
	return e.CausedBy(ctxOnly(err))
}

// ctxOnly keeps a cancellation, and drops the deadline, which is not the caller's.
func ctxOnly(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
