// Package agent leads a conversation between a user, a model and the tools of a
// [coding.Suite]: it makes the model's requests, runs the calls that the model asks
// for, and goes on when something that it started has ended.
//
// It promises an order. Each call has exactly one result, and the results stand in the
// order of the calls; whatever else is put in front of the model comes at a boundary,
// never between a call and its result. What is said or done is in the transcript before
// anything follows from it. A new direction of the user ends what belay would have told
// the model on its own (D2), and an abort always ends: what does not let itself be
// stopped is left behind, and its call is uncertain.
//
// It judges nothing, and knows no vendor and no face. What a model says is untrusted, and
// so is what a tool gives back.
//
// # Words
//
// A turn is one request and the calls of its answer. A run is a row of turns: it begins
// with a text of the user or with a message that wakes the model, and ends when the model
// stops and nothing waits. An agent is idle between runs, and settled when it is idle and
// nothing is left that could wake it.
//
// # Calls of one answer
//
// Calls that only read, and those that start a process (shell, exec_command), run at once,
// at most [MaxParallel] of them. Every other call (replace, edit, write_stdin, exec_kill,
// exec_ack) waits for all before it and holds up all behind it: the order of writes is
// what the model wrote.
//
// # Queues
//
// Texts of the user wait in the Agent: a steer for the next boundary, a follow-up for the
// moment when the model would stop, where each is a task of its own. Messages of belay
// wait in the Suite, which knows for which task they are. So an abort gives the user's
// texts back and takes nothing of belay's for theirs.
//
// # Leaving a conversation
//
// A face that goes on with another one (new, resume) calls Agent.Close, then Suite.Close,
// which suppresses every message of the processes that it ends (D9), then
// Transcript.Close; then it opens all three anew. A Suite must not outlive its
// conversation: its processes belong to it.
//
// All methods of an Agent may be called at any time by any goroutine, but for Wait and
// Close not from within its callbacks.
package agent

import (
	"errors"

	"github.com/belayhq/belay/approve"
	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/internal/host/transcript"
	"github.com/belayhq/belay/tool"
)

// Config is what an Agent works with. Model, Suite and Transcript are needed, and stay the
// caller's: Close ends none of them. A Suite has one Agent.
type Config struct {
	Model      model.Provider // asked once for each turn; wrap it in model.Patient for retries
	Suite      *coding.Suite
	Transcript *transcript.Transcript
	History    []transcript.Entry // of a conversation that is resumed, in its order
	System     string             // see System

	// MaxTurns bounds the requests, and MaxTokens the tokens, input and output as the
	// provider counts them, that one text of the user may cost, with all wakes that
	// follow from it. 0: no bound. At the bound the run ends, and nothing wakes the model
	// until the user speaks.
	MaxTurns  int
	MaxTokens int64
	// Context is how many tokens a request may have before the conversation is summed
	// up. 0: only when the provider says that it is too long.
	Context int64

	Asker  approve.Asker     // nil: nobody can be asked
	Notify func(text string) // shows a text to the user and nobody else (G3); nil drops it
	// Event is told what happens, in order, one event at a time, from a goroutine of the
	// Agent. While it does not return the Agent goes on for a few events and then waits;
	// Abort and Close do not wait for it. nil: nobody is told.
	Event func(Event)
}

// The refusals of Prompt, Steer and FollowUp. After each of them nothing was taken.
var (
	ErrBusy   = errors.New("agent: a run is on")
	ErrClosed = errors.New("agent: it is closed")
	ErrEmpty  = errors.New("agent: the text is empty")
	ErrLong   = errors.New("agent: the text is too long")
	ErrFull   = errors.New("agent: too many texts are waiting")
)

const (
	// MaxText bounds a text of the user, in bytes.
	MaxText = 8 << 20
	// MaxQueued bounds how many texts of the user wait.
	MaxQueued = 64
	// MaxCalls bounds the calls of one answer. Those beyond are refused with the code
	// limit.
	MaxCalls = 128
	// MaxParallel is how many calls run at once.
	MaxParallel = 16
)

// A Limit is what ended a run early.
type Limit string

const (
	Turns  Limit = "turns"
	Tokens Limit = "tokens"
)

// An Outcome is what came of the user's last text, with all wakes that followed from it.
type Outcome struct {
	Text string // of the last answer; "" where it has none
	// Err is what ended the run: a *model.Error, a *transcript.Error, a *Panic, or nil.
	Err     error
	Limit   Limit // "" where none was reached
	Aborted bool
	// Approval is the refusal of the first call for which the user's yes could not be
	// had: approval_unavailable, approval_denied or approval_timeout; or "".
	Approval  tool.Code
	Uncertain int // calls whose outcome is not known
	Requests  int
	Usage     model.Usage
}

// A Panic is a fault of a callback or of the agent itself. It says where, and nothing of
// what was said.
type Panic struct{ Where string }

func (p *Panic) Error() string { return "agent: a fault of the program in " + p.Where }
