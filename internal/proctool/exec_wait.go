package proctool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belayhq/belay/internal/jobs"
	"github.com/belayhq/belay/tool"
)

type execWait struct{ *Config }

func (t *execWait) Definition() tool.Definition {
	return tool.Definition{
		Name: "exec_wait",
		Description: "Wait for sessions: until any of them ends (default), all have ended, or any has new output. Shows the output since the " +
			"last poll without consuming it.",
		Schema: json.RawMessage(`{
	"type": "object",
	"properties": {
		"session_ids": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "default: all that run"},
		"until": {"type": "string", "enum": ["any", "all", "output"], "description": "default any"},
		"timeout_ms": {"type": "integer", "minimum": 0, "maximum": 300000, "description": "default 60000; 0 only looks"},
		"max_output_tokens": {"type": "integer", "minimum": 1, "maximum": 11250, "description": "for all together; default 6000"}
	},
	"additionalProperties": false
}`),
		Effect: tool.ReadOnly, Replay: tool.Safe,
	}
}

func (t *execWait) Prepare(_ context.Context, call tool.Call) (tool.Plan, error) {
	in := tool.ParseArguments(call.Args)
	p := &waitPlan{noPlan: noPlan{name: "exec_wait"}}
	ids := in.Texts("session_ids")
	if in.Has("session_ids") && len(ids) == 0 {
		in.Fail("session_ids", "a list of at least one session")
	}
	p.until = jobs.Until(in.OneOf("until", string(jobs.AnyEnd), string(jobs.AllEnds), string(jobs.Output)))
	p.timeout = time.Duration(in.Int("timeout_ms", tool.Range{Default: 60_000, Min: 0, Max: 300_000})) * time.Millisecond
	p.budget = outputBudget(in)
	if err := in.Err(); err != nil {
		return nil, err
	}
	p.input = map[string]any{"session_ids": ids, "until": p.until, "timeout_ms": p.timeout.Milliseconds()}
	if ids == nil {
		p.jobs = slices.DeleteFunc(t.Table.Jobs(), func(j *jobs.Job) bool { return closed(j.Done()) })
		return p, nil
	}
	for i, id := range ids {
		j := t.Table.Find(id)
		if j == nil {
			return nil, tool.NewError(tool.UnknownSession, tool.Fact{Name: "argument", Value: fmt.Sprintf("session_ids[%d]", i)})
		}
		if !slices.Contains(p.jobs, j) {
			p.jobs = append(p.jobs, j)
		}
	}
	return p, nil
}

type waitPlan struct {
	noPlan
	jobs    []*jobs.Job
	until   jobs.Until
	timeout time.Duration
	budget  int
}

// waitData is the result as data; its names are the contract's.
type waitData struct {
	TimedOut bool          `json:"timed_out"`
	Sessions []sessionData `json:"sessions"`
	Omitted  int           `json:"omitted_sessions,omitempty"` // for which there was no room
}

func (p *waitPlan) Run(ctx context.Context, _ tool.Reporter) (tool.Result, error) {
	came := jobs.Await(ctx, p.jobs, p.until, p.timeout)
	if err := ctx.Err(); err != nil && !came {
		return tool.Result{}, tool.Stopped(err) // ends only the wait; nothing was consumed
	}
	// Those that ended come first: for the rest there may be no room.
	var sessions, running []*jobs.Job
	for _, j := range p.jobs {
		if closed(j.Done()) {
			sessions = append(sessions, j)
		} else {
			running = append(running, j)
		}
	}
	sessions = append(sessions, running...)

	d := waitData{TimedOut: !came, Sessions: []sessionData{}}
	var (
		ends   []string
		parts  []string
		room   = maxText - headerRoom
		budget = p.budget
	)
	for i, j := range sessions {
		n := len(sessions) - i // what one does not need of its share is left to the others
		s, text := session(j, max(0, min(budget, room-n*headerRoom))/n, (*jobs.Job).Peek)
		text = strings.TrimSuffix(text, "\n") + "\n"
		if len(text)+1 > room {
			d.Omitted = n
			break
		}
		room -= len(text) + 1
		budget -= len(s.Output)
		d.Sessions = append(d.Sessions, s)
		if s.Status != jobs.Running {
			ends = append(ends, s.SessionID)
		}
		parts = append(parts, text)
	}
	var h tool.Header
	h.Fact("timed_out", d.TimedOut)
	h.Fact("sessions", len(d.Sessions))
	if d.Omitted > 0 {
		h.Fact("omitted_sessions", d.Omitted)
	}
	return tool.Result{Text: h.Text(strings.Join(parts, "\n")), Data: d, Ends: ends}, nil
}
