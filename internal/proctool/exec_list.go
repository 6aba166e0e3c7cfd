package proctool

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/belayhq/belay/internal/delivery"
	"github.com/belayhq/belay/internal/jobs"
	"github.com/belayhq/belay/tool"
)

type execList struct{ *Config }

func (t *execList) Definition() tool.Definition {
	return tool.Definition{
		Name:        "exec_list",
		Description: "List the sessions, those that run first.",
		Schema:      json.RawMessage(`{"type": "object", "properties": {}, "additionalProperties": false}`),
		Effect:      tool.ReadOnly, Replay: tool.Safe,
	}
}

func (t *execList) Prepare(_ context.Context, call tool.Call) (tool.Plan, error) {
	if err := tool.ParseArguments(call.Args).Err(); err != nil {
		return nil, err
	}
	return &listPlan{noPlan{name: "exec_list"}, t.Config}, nil
}

type listPlan struct {
	noPlan
	*Config
}

// listData is the result as data; its names are the contract's.
type listData struct {
	Sessions []listed `json:"sessions"`
	Omitted  int      `json:"omitted_sessions,omitempty"` // for which there was no room
}

type listed struct {
	SessionID   string     `json:"session_id"`
	Mode        string     `json:"mode"`
	TTY         bool       `json:"tty"`
	Status      jobs.State `json:"status"`
	ExitCode    *int       `json:"exit_code"`
	Command     string     `json:"command"`
	StartedAt   string     `json:"started_at"`
	WallMS      int64      `json:"wall_ms"`
	OutputBytes int64      `json:"output_bytes"`
}

func (p *listPlan) Run(context.Context, tool.Reporter) (tool.Result, error) {
	var running, rest []*jobs.Job
	for _, j := range slices.Backward(p.Table.Jobs()) {
		if closed(j.Done()) {
			rest = append(rest, j)
		} else {
			running = append(running, j)
		}
	}
	sessions := append(running, rest...)

	d := listData{Sessions: []listed{}}
	var lines strings.Builder
	for i, j := range sessions {
		s := j.Status()
		l := listed{
			SessionID: j.ID(), Mode: j.Mode(), TTY: j.TTY(), Status: s.State, Command: j.Preview(),
			StartedAt: s.StartedAt.UTC().Format(time.RFC3339), WallMS: s.Wall.Milliseconds(), OutputBytes: s.Observed,
		}
		var signal *string
		if s.State != jobs.Running {
			signal, l.ExitCode = exitFacts(s.Signal, s.Code)
		}
		var h tool.Header
		h.Fact("session", l.SessionID)
		h.Fact("status", l.Status)
		exitHeader(&h, l.ExitCode, signal)
		if l.Mode != delivery.None.String() {
			h.Fact("mode", l.Mode)
		}
		if l.TTY {
			h.Fact("tty", true)
		}
		h.Fact("wall_ms", l.WallMS)
		h.Fact("output_bytes", l.OutputBytes)
		h.Fact("command", l.Command)
		line := h.String() + "\n"
		if lines.Len()+len(line) > maxText-headerRoom {
			d.Omitted = len(sessions) - i
			break
		}
		d.Sessions = append(d.Sessions, l)
		lines.WriteString(line)
	}
	var h tool.Header
	h.Fact("sessions", len(d.Sessions))
	if d.Omitted > 0 {
		h.Fact("omitted_sessions", d.Omitted)
	}
	return tool.Result{Text: h.Text(lines.String()), Data: d}, nil
}
