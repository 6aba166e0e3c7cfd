package proctool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/belayhq/belay/internal/jobs"
	"github.com/belayhq/belay/internal/proc"
	"github.com/belayhq/belay/tool"
)

type execKill struct{ *Config }

func (t *execKill) Definition() tool.Definition {
	return tool.Definition{
		Name:        "exec_kill",
		Description: "End a session with all it started: signal first, SIGKILL after grace_ms. Returns when it is gone, with its last output.",
		Schema: json.RawMessage(`{
	"type": "object",
	"properties": {
		"session_id": {"type": "string"},
		"signal": {"type": "string", "enum": ["TERM", "INT", "KILL"], "description": "the first step (default TERM)"},
		"grace_ms": {"type": "integer", "minimum": 0, "maximum": 30000, "description": "default 2000"}
	},
	"required": ["session_id"],
	"additionalProperties": false
}`),
		Effect: tool.Mutating, Replay: tool.Idempotent, Risks: []tool.Risk{tool.RiskProcess},
	}
}

func (t *execKill) Prepare(_ context.Context, call tool.Call) (tool.Plan, error) {
	in := tool.ParseArguments(call.Args)
	find := t.find(in)
	p := &killPlan{noPlan: noPlan{name: "exec_kill"}}
	p.first = map[string]proc.Signal{"TERM": proc.TERM, "INT": proc.INT, "KILL": proc.KILL}[in.OneOf("signal", "TERM", "INT", "KILL")]
	p.grace = time.Duration(in.Int("grace_ms", tool.Range{Default: 2_000, Min: 0, Max: 30_000})) * time.Millisecond
	if err := in.Err(); err != nil {
		return nil, err
	}
	j, err := find()
	if err != nil {
		return nil, err
	}
	p.job = j
	p.input = map[string]any{"session_id": j.ID(), "signal": p.first.String(), "grace_ms": p.grace.Milliseconds()}
	return p, nil
}

type killPlan struct {
	noPlan
	job   *jobs.Job
	first proc.Signal
	grace time.Duration
}

func (p *killPlan) Run(ctx context.Context, _ tool.Reporter) (tool.Result, error) {
	if err := ctx.Err(); err != nil {
		return tool.Result{}, tool.Stopped(err)
	}
	p.job.Kill(ctx, p.first, p.grace)
	if s := p.job.Status(); s.State == jobs.Running {
		// The caller left while it was being ended: that goes on without them.
		return tool.Result{}, tool.NewError(tool.UncertainOutcome).CausedBy(ctx.Err())
	}
	result := sessionResult(p.job, defaultTokens*tokenBytes, 0)
	result.Ends = nil // the kill has seen to it that nothing is told of the end
	return result, nil
}
