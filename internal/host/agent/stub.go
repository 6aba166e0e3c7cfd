package agent

import (
	"context"
	"encoding/json"

	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/tool"
)

// An Agent leads one conversation. Use New.
type Agent struct{ config Config }

// New makes an agent. Nothing is started and nobody is asked before the first text.
func New(c Config) *Agent { return &Agent{config: c} }

// Prompt gives the agent a task. It returns when the text is accepted, not when it is
// done. The error is ErrBusy while a run is on, ErrClosed, ErrEmpty or ErrLong.
func (a *Agent) Prompt(text string) error { return ErrClosed }

// Steer changes the direction of a run: the text comes before the next request, and
// ends what belay would have told the model of the former direction at once (D2). While
// idle it is a Prompt. Besides the errors of Prompt there is ErrFull, but not ErrBusy.
func (a *Agent) Steer(text string) error { return ErrClosed }

// FollowUp queues a task for when the model would stop. While idle it is a Prompt. The
// errors are those of Steer.
func (a *Agent) FollowUp(text string) error { return ErrClosed }

// Abort ends the run. It returns the user's texts that were waiting, first the steers,
// then the follow-ups, when the run is over or after 10 s at most. Nothing wakes the
// model afterwards until the user speaks. The processes of the task live on (D2), but for
// those whose call had not yet returned.
func (a *Agent) Abort() (queued []string) { return nil }

// Typing tells that the user is typing, or that a dialog waits for them: meanwhile nothing
// wakes the model.
func (a *Agent) Typing(is bool) {}

// Wait returns when the agent is settled and every event was told: nil, or ctx.Err(). After
// an abort, an error and a limit it is settled, whatever runs on.
func (a *Agent) Wait(ctx context.Context) error { return nil }

// Outcome is what came of the user's last text so far.
func (a *Agent) Outcome() Outcome { return Outcome{} }

// Queued are the user's texts that wait.
func (a *Agent) Queued() (steer, followUp []string) { return nil, nil }

// Messages is the conversation as the model is shown it. It is not to be changed.
func (a *Agent) Messages() []model.Message { return nil }

// Close aborts, and returns when all of the agent has ended, or after 15 s at most. It is
// idempotent. The error is a *Panic, or says that something did not end.
func (a *Agent) Close() error { return nil }

// An Event is one thing that happened. Marshalled it has the names of the contract and no
// others.
type Event struct {
	Type string // turn_start text_delta message tool_start tool_end notice queue turn_end settled error

	Text      string         // text_delta, message, notice
	Role      string         // message: user or assistant
	CallID    string         // tool_start, tool_end
	Tool      string         // tool_start
	Preview   string         // tool_start: escaped, at most 160 characters
	Kind      string         // tool_end: result, refused, failed or uncertain
	Code      string         // tool_end: of an error; error: see docs
	Facts     map[string]any // tool_end
	SessionID string         // notice
	Steer     []string       // queue: what waits
	FollowUp  []string       // queue
	Usage     model.Usage    // turn_end
	Message   string         // error
}

// MarshalJSON writes what belongs to the type.
func (e Event) MarshalJSON() ([]byte, error) { return json.Marshal(struct{}{}) }

// System makes the system prompt: what the tools are, where they work, and what is not to
// be trusted. With projectText the files AGENTS.md and CLAUDE.md of the folders from root
// down to workdir (a path in root, or relative to it) follow, marked as what they are:
// at most 32 KiB of each, 64 KiB in all. skipped names those that were left out or cut,
// with the reason.
func System(root, workdir string, definitions []tool.Definition, projectText bool) (prompt string, skipped []string, err error) {
	return "", nil, nil
}
