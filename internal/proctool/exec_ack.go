package proctool

import (
	"context"
	"encoding/json"

	"github.com/belayhq/belay/tool"
)

type execAck struct{ *Config }

func (t *execAck) Definition() tool.Definition {
	return tool.Definition{
		Name: "exec_ack",
		Description: "For scripts that make calls of their own: say that the end of a session was seen, so that no message about it follows. " +
			"A direct result that shows the end does that by itself.",
		Schema: json.RawMessage(`{
	"type": "object",
	"properties": {
		"session_id": {"type": "string"}
	},
	"required": ["session_id"],
	"additionalProperties": false
}`),
		Effect: tool.Mutating, Replay: tool.Idempotent,
	}
}

func (t *execAck) Prepare(_ context.Context, call tool.Call) (tool.Plan, error) {
	in := tool.ParseArguments(call.Args)
	id := in.NeedText("session_id")
	if err := in.Err(); err != nil {
		return nil, err
	}
	if !t.Table.Known(id) { // also one that was evicted, while its message waits
		return nil, tool.NewError(tool.UnknownSession)
	}
	return &ackPlan{noPlan{"exec_ack", map[string]any{"session_id": id}}, t.Config, id}, nil
}

type ackPlan struct {
	noPlan
	*Config
	id string
}

// ackData is the result as data; its names are the contract's.
type ackData struct {
	SessionID    string `json:"session_id"`
	Acknowledged bool   `json:"acknowledged"` // false where no message was waiting
}

func (p *ackPlan) Run(ctx context.Context, _ tool.Reporter) (tool.Result, error) {
	if err := ctx.Err(); err != nil {
		return tool.Result{}, tool.Stopped(err)
	}
	d := ackData{SessionID: p.id, Acknowledged: p.Table.Ack(p.id)}
	var h tool.Header
	h.Fact("session", d.SessionID)
	h.Fact("acknowledged", d.Acknowledged)
	return tool.Result{Text: h.String(), Data: d}, nil
}
