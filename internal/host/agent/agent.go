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
// nothing is left that could wake it but a service that fails.
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
// A face that goes on with another one (new, resume), or ends, calls Agent.Stop, then
// Suite.Close, which suppresses every message of the processes that it ends (D9) and gives
// them a shorter grace than an abort does, then Agent.Close and Transcript.Close; then it
// opens all three anew. A Suite must not outlive its conversation: its processes belong to
// it.
//
// All methods of an Agent may be called at any time by any goroutine, but Abort, Wait and
// Close not from within its callbacks, for which they wait.
package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
	// MaxQueued bounds how many texts of the user wait. Together they have at most two
	// times MaxText.
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
	Requests  int // to the model, with those for summaries
	Usage     model.Usage
	Stop      model.Stop // of the last answer: length and filtered tell that it is not whole
}

// A Panic is a fault of a callback or of the agent itself. It says where, and nothing of
// what was said.
type Panic struct{ Where string }

func (p *Panic) Error() string { return "agent: a fault of the program in " + p.Where }

// An Agent leads one conversation. Use New.
type Agent struct {
	config  Config
	suite   *coding.Suite
	tools   map[string]declared
	offered []model.Tool
	history history
	events  teller
	left    atomic.Int64  // goroutines in foreign code: a provider, a tool
	leave   time.Duration // leaveBehind, but for tests
	kick    chan struct{} // one slot: the state changed, lead has to look
	ended   chan struct{} // closed when lead has ended

	// Of lead alone: tokens of the last request, and the size of the conversation, in
	// bytes, at it and at the last summary.
	used, usedAt, summedAt int64

	mu       sync.Mutex
	leads    bool // lead was started
	closed   bool
	halted   bool // after an abort, an error or a limit, until the user speaks
	typing   bool
	resumed  bool // the model has yet to be told
	settled  bool
	changed  chan struct{} // closed and renewed when settled or closed changes
	current  *run          // nil while idle
	said     []string      // texts that the current run begins with
	steer    []string
	followUp []string
	unseen   []string // by the model, when the agent was stopped; lead keeps them
	unkept   error    // of the transcript, which did not take them
	broken   *Panic   // the first
	// outcomeSoFar is that of the user's last text.
	outcomeSoFar Outcome
}

// New makes an agent. Nothing is started and nobody is asked before the first text.
func New(c Config) *Agent {
	a := &Agent{
		config: c, suite: c.Suite, tools: map[string]declared{}, leave: leaveBehind,
		kick: make(chan struct{}, 1), ended: make(chan struct{}), changed: make(chan struct{}), settled: true,
	}
	a.events.tell, a.events.fault = c.Event, a.fault
	a.history.transcript = c.Transcript
	a.history.restore(c.History)
	a.resumed = len(c.History) > 0
	a.config.History = nil // its texts live on in the messages, as far as they are shown
	for _, d := range c.Suite.Definitions() {
		a.tools[d.Name] = declared{d, d.Fingerprint()}
		a.offered = append(a.offered, model.Tool{Name: d.Name, Description: d.Description, Schema: d.Schema})
	}
	return a
}

// Prompt gives the agent a task. It returns when the text is accepted, not when it is
// done. The error is ErrBusy while a run is on, ErrClosed, ErrEmpty or ErrLong.
func (a *Agent) Prompt(text string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.acceptable(text); err != nil {
		return err
	}
	if a.current != nil {
		return ErrBusy
	}
	a.prompt(text)
	return nil
}

// Steer changes the direction of a run: the text comes before the next request, and
// ends what belay would have told the model of the former direction at once (D2). While
// idle it is a Prompt. Besides the errors of Prompt there is ErrFull, but not ErrBusy.
func (a *Agent) Steer(text string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.acceptable(text); err != nil {
		return err
	}
	if a.current == nil {
		a.prompt(text)
		return nil
	}
	if a.full(text) {
		return ErrFull
	}
	a.steer = append(a.steer, valid(text))
	a.suite.NewTask()
	a.tellQueue()
	return nil
}

// FollowUp queues a task for when the model would stop. While idle it is a Prompt. The
// errors are those of Steer.
func (a *Agent) FollowUp(text string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.acceptable(text); err != nil {
		return err
	}
	if a.current == nil {
		a.prompt(text)
		return nil
	}
	if a.full(text) {
		return ErrFull
	}
	a.followUp = append(a.followUp, valid(text))
	a.tellQueue()
	return nil
}

func (a *Agent) acceptable(text string) error {
	switch {
	case a.closed:
		return ErrClosed
	case len(text) > MaxText:
		return ErrLong
	case strings.TrimSpace(text) == "":
		return ErrEmpty
	}
	return nil
}

// full tells whether a text has no room in the queues. a.mu is held.
func (a *Agent) full(text string) bool {
	n := len(text)
	for _, s := range a.steer {
		n += len(s)
	}
	for _, s := range a.followUp {
		n += len(s)
	}
	return len(a.steer)+len(a.followUp) >= MaxQueued || n > 2*MaxText
}

// prompt begins a run. Texts that an error left come with it: those of the run before and steers
// before it, follow-ups after it. a.mu is held, and there is no run.
func (a *Agent) prompt(text string) {
	a.suite.NewTask() // D2: it is taken up
	a.outcomeSoFar = Outcome{}
	a.said = slices.Concat(a.said, a.steer, []string{valid(text)})
	if len(a.steer) > 0 {
		a.steer = nil
		a.tellQueue()
	}
	a.begin()
	if !a.leads {
		a.leads = true
		go a.lead()
	}
	a.look()
}

// tellQueue tells what waits. a.mu is held.
func (a *Agent) tellQueue() {
	a.events.now(Event{Type: Queue, Steer: slices.Clone(a.steer), FollowUp: slices.Clone(a.followUp)})
}

// look makes lead look at the state.
func (a *Agent) look() {
	select {
	case a.kick <- struct{}{}:
	default:
	}
}

// Abort ends the run. It returns the user's texts that the model has not been shown, first
// a prompt that was not taken up yet, then the steers, then the follow-ups, when the run is over or after 10 s at most. Nothing wakes the
// model afterwards until the user speaks. The processes of the task live on (D2), but for
// those whose call had not yet returned.
func (a *Agent) Abort() (queued []string) {
	a.mu.Lock()
	queued = a.stop()
	r := a.current
	a.mu.Unlock()
	if r != nil {
		wait(r.over, a.leave+margin)
	}
	return queued
}

// margin is what Abort gives a run to end beside the time for what is left behind.
const margin = 2 * time.Second

// stop cancels the run and empties the queues. a.mu is held.
func (a *Agent) stop() (queued []string) {
	queued = slices.Concat(a.said, a.steer, a.followUp)
	a.said, a.steer, a.followUp = nil, nil, nil
	if len(queued) > 0 {
		a.tellQueue()
	}
	a.suite.NewTask() // D2
	a.halted = true
	if a.current != nil {
		a.current.cancel()
	}
	a.look()
	return queued
}

func wait(c <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}

// Typing tells that the user is typing, or that a dialog waits for them: meanwhile nothing
// wakes the model.
func (a *Agent) Typing(is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.typing = is
	a.look()
}

// Wait returns when the agent is settled or closed and every event was told: nil, or
// ctx.Err(). After an abort, an error and a limit it is settled, whatever runs on.
func (a *Agent) Wait(ctx context.Context) error {
	for {
		a.mu.Lock()
		settled, changed := a.settled || a.closed && a.current == nil, a.changed
		a.mu.Unlock()
		if settled {
			return a.events.wait(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Outcome is what came of the user's last text so far.
func (a *Agent) Outcome() Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.outcomeSoFar
	if o.Err == nil && a.broken != nil {
		o.Err = a.broken
	}
	return o
}

// Busy tells whether a run is on.
func (a *Agent) Busy() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.current != nil
}

// Queued are the user's texts that wait.
func (a *Agent) Queued() (steer, followUp []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.steer), slices.Clone(a.followUp)
}

// Messages is the conversation as the model is shown it. It is not to be changed.
func (a *Agent) Messages() []model.Message { return a.history.view() }

// Stop is the beginning of Close: it cancels the run, takes no more texts, and does not
// wait. The user's texts that the model has not been shown go into the transcript when the
// run is over: who goes on with the conversation goes on behind them.
func (a *Agent) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.closed = true
	a.unseen = a.stop()
	a.announce()
}

// Close stops, and returns when all of the agent has ended, or after 11 s at most. It is
// idempotent. The error is a *Panic, says that something did not end, or is the
// *transcript.Error for texts that were accepted and could not be kept.
func (a *Agent) Close() error {
	a.Stop()
	a.mu.Lock()
	leads := a.leads
	a.mu.Unlock()
	ended := !leads || wait(a.ended, a.leave+margin)
	a.events.flush() // a face that is deaf knows it
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.broken != nil:
		return a.broken
	case !ended || a.left.Load() > 0:
		return errLeft
	}
	return a.unkept
}

var errLeft = errors.New("agent: something did not let itself be ended")

// fault remembers a panic. What panicked is a part of the program, and the rest goes on;
// Outcome and Close tell of it.
func (a *Agent) fault(where string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken == nil {
		a.broken = &Panic{Where: where}
	}
}

// newID names a call.
func newID() string { return "call_" + strings.ToLower(rand.Text()[:16]) }
