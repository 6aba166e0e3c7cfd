package proctool

import (
	"context"
	"encoding/json"
	"math"

	"github.com/belayhq/belay/internal/jobs"
	"github.com/belayhq/belay/tool"
)

type execOutput struct{ *Config }

func (t *execOutput) Definition() tool.Definition {
	return tool.Definition{
		Name:        "exec_output",
		Description: "Read the output of a session by position, running or ended, without consuming it. Read on from next_cursor.",
		Schema: json.RawMessage(`{
	"type": "object",
	"properties": {
		"session_id": {"type": "string"},
		"cursor": {"type": "integer", "description": "bytes (default 0); negative counts from the end"},
		"view": {"type": "string", "enum": ["log", "screen"], "description": "screen: what the terminal of a tty session shows now"},
		"max_output_tokens": {"type": "integer", "minimum": 1, "maximum": 11250, "description": "default 6000"}
	},
	"required": ["session_id"],
	"additionalProperties": false
}`),
		Effect: tool.ReadOnly, Replay: tool.Safe,
	}
}

func (t *execOutput) Prepare(_ context.Context, call tool.Call) (tool.Plan, error) {
	in := tool.ParseArguments(call.Args)
	find := t.find(in)
	p := &outputPlan{noPlan: noPlan{name: "exec_output"}}
	p.cursor = in.Int("cursor", tool.Range{Min: math.MinInt64, Max: math.MaxInt64})
	screen := in.OneOf("view", "log", "screen") == "screen"
	p.budget = outputBudget(in)
	if screen && in.Has("cursor") {
		in.Fail("cursor", "to be given only with view: log")
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	j, err := find()
	if err != nil {
		return nil, err
	}
	if screen {
		if !j.TTY() {
			return nil, tool.Invalid("view", "log: only a session that was started with tty: true has a screen")
		}
		return &screenPlan{noPlan{"exec_output", map[string]any{"session_id": j.ID(), "view": "screen"}}, j, p.budget}, nil
	}
	p.job = j
	p.input = map[string]any{"session_id": j.ID(), "cursor": p.cursor}
	return p, nil
}

type outputPlan struct {
	noPlan
	job    *jobs.Job
	cursor int64
	budget int
}

// outputData is the result as data; its names are the contract's.
type outputData struct {
	SessionID    string     `json:"session_id"`
	Status       jobs.State `json:"status"`
	ExitCode     *int       `json:"exit_code"`
	Output       string     `json:"output"`
	Cursor       int64      `json:"cursor"`
	NextCursor   int64      `json:"next_cursor"`
	EndCursor    int64      `json:"end_cursor"`
	OmittedBytes int64      `json:"omitted_bytes"`
	EOF          bool       `json:"eof"`
}

func (p *outputPlan) Run(context.Context, tool.Reporter) (tool.Result, error) {
	s := p.job.Status()
	page := p.job.Page(p.cursor, contentRoom(p.budget, nil, nil, 0))
	d := outputData{
		SessionID: p.job.ID(), Status: s.State, Output: page.Text, Cursor: page.Cursor, NextCursor: page.Next,
		EndCursor: page.End, OmittedBytes: page.Omitted, EOF: s.State != jobs.Running && page.Next == page.End,
	}
	var h tool.Header
	h.Fact("session", d.SessionID)
	h.Fact("status", d.Status)
	var ends []string
	if s.State != jobs.Running {
		var signal *string
		signal, d.ExitCode = exitFacts(s.Signal, s.Code)
		exitHeader(&h, d.ExitCode, signal)
		if d.EOF {
			ends = []string{d.SessionID}
		}
	}
	h.Fact("cursor", d.Cursor)
	h.Fact("next_cursor", d.NextCursor)
	h.Fact("end_cursor", d.EndCursor)
	if d.OmittedBytes > 0 {
		h.Fact("omitted_bytes", d.OmittedBytes)
	}
	h.Fact("eof", d.EOF)
	return tool.Result{Text: h.Text(d.Output), Data: d, Ends: ends}, nil
}
