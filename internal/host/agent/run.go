package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/internal/host/transcript"
	"github.com/belayhq/belay/tool"
)

// gather is how long an idle agent waits for more of what is ready together (D1): a wake
// costs a request.
const gather = 100 * time.Millisecond

// maxMessages bounds the completion messages of one boundary, in bytes of text. What does
// not fit comes at the next one.
const maxMessages = 512 << 10

// lead is the one goroutine that makes requests. It lives from the first text to the end
// of the agent.
func (a *Agent) lead() {
	defer close(a.ended)
	for {
		r := a.next()
		if r == nil {
			a.keep()
			return
		}
		r.finish(r.all())
	}
}

// keep writes what the user said and no request has in it, when the agent was stopped.
// What was accepted is not lost, but it is a task for who resumes the conversation.
func (a *Agent) keep() {
	a.mu.Lock()
	texts := append(a.steer, a.unseen...) // what a boundary gave back had been taken before
	a.steer, a.unseen = nil, nil
	a.mu.Unlock()
	var err error
	for _, text := range texts {
		if err = a.history.tell(transcript.Entry{Type: transcript.User, Text: text}); err != nil {
			break
		}
		a.events.now(Event{Type: Said, Role: model.User, Text: text})
	}
	if len(texts) > 0 && err == nil {
		err = a.history.sync()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unkept = err
}

// next waits for something to do. It is nil when the agent is closed.
func (a *Agent) next() *run {
	gathered := false
	for {
		r, wake, closed := a.state(gathered)
		if r != nil || closed {
			return r
		}
		gathered = false
		if wake {
			timer := time.NewTimer(gather)
			select {
			case <-timer.C:
				gathered = true
			case <-a.kick:
			}
			timer.Stop()
			continue
		}
		select {
		case <-a.kick:
		case <-a.suite.Notices():
		}
	}
}

// state is what an idle agent finds: a run that the user began, or one that wakes the
// model if all that is ready together was gathered; that there is something to wake it
// for; or that it is closed.
func (a *Agent) state(gathered bool) (r *run, wake, closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.current != nil:
	case a.closed:
		return nil, false, true
	case a.halted, a.typing, a.suite.Waiting(coding.Idle) == 0:
		a.settle()
	case gathered:
		a.begin()
	default:
		return nil, true, false
	}
	return a.current, false, false
}

// begin makes the run that lead takes up next. a.mu is held, and there is no run.
func (a *Agent) begin() {
	a.current = &run{Agent: a, over: make(chan struct{})}
	a.current.ctx, a.current.cancel = context.WithCancel(context.Background())
	a.halted = false
	if a.settled {
		a.settled = false
		a.announce()
	}
}

// settle tells once that nothing is left that could wake the model. a.mu is held, and
// there is no run.
func (a *Agent) settle() {
	if a.settled || !a.halted && (a.suite.Armed() > 0 || a.suite.Waiting(coding.Idle) > 0) {
		return
	}
	a.settled = true
	a.events.now(Event{Type: Settled})
	a.announce()
}

// announce wakes those who wait for a change of settled or closed. a.mu is held.
func (a *Agent) announce() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// A run is a row of turns.
type run struct {
	*Agent
	ctx    context.Context // done by an abort
	cancel context.CancelFunc
	over   chan struct{} // closed behind the last turn
	task   coding.Task   // in which the calls of the present turn are made
}

// finish ends a run, and begins the next one where the user has said something that no
// request has in it.
func (r *run) finish(err error) {
	defer r.cancel()
	aborted := r.ctx.Err() != nil
	if aborted {
		err = r.interrupted(err)
	}
	if sync := r.history.sync(); err == nil {
		err = sync
	}
	var limit *limitError
	if err != nil {
		r.events.put(r.ctx, Event{Type: Failed, Code: Code(err), Message: sentence(err)})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &r.outcomeSoFar
	o.Aborted = o.Aborted || aborted
	switch {
	case errors.As(err, &limit):
		o.Limit = limit.Limit
	case err != nil:
		o.Err = err
	}
	close(r.over)
	r.current = nil
	if r.closed {
		r.announce()
	}
	r.halted = r.halted || err != nil || aborted
	switch {
	case r.closed, err != nil && limit == nil && !aborted: // the texts wait for the user's next word
	case len(r.steer) > 0: // queued behind the last request, behind an abort, or at a limit: the user has spoken
		if err != nil || aborted {
			r.outcomeSoFar = Outcome{}
		}
		r.begin()
	case len(r.followUp) > 0:
		r.takeFollowUp()
		r.begin()
	}
}

// interrupted says in the conversation that the user stopped it. What an abort brings
// about is no error.
func (r *run) interrupted(err error) error {
	r.mu.Lock()
	closed, requests := r.closed, r.outcomeSoFar.Requests
	r.mu.Unlock()
	var t *transcript.Error
	var p *Panic
	if err != nil && !errors.As(err, &t) && !errors.As(err, &p) {
		err = nil
	}
	if closed || requests == 0 || err != nil {
		return err
	}
	return r.history.tell(transcript.Hide(transcript.Entry{Type: transcript.Notice, Text: interruptedText}))
}

// takeFollowUp makes the first follow-up the next text. a.mu is held.
func (a *Agent) takeFollowUp() {
	a.said = append(a.said, a.followUp[0])
	a.followUp = slices.Delete(a.followUp, 0, 1)
	a.suite.NewTask()
	a.outcomeSoFar = Outcome{}
	a.tellQueue()
}

// all makes turns until the model stops and nothing waits.
func (r *run) all() (err error) {
	defer func() {
		if recover() != nil { // the value may hold anything: it goes nowhere
			r.fault("the agent")
			r.cancel() // what still runs for it has nobody to tell
			r.history.results(r.unknown)
			err = &Panic{Where: "the agent"}
		}
	}()
	if err := r.history.catchUp(); err != nil {
		return err
	}
	if r.resumed {
		if err := r.history.tell(transcript.Hide(transcript.Entry{Type: transcript.Notice, Text: resumedText})); err != nil {
			return err
		}
		r.resumed = false
	}
	more, err := r.boundary(coding.Idle)
	summed := false // the conversation was summed up for the request that comes now
	for more && err == nil {
		if err := r.allowed(); err != nil {
			return err
		}
		if !summed && r.overContext() {
			if err := r.sumUp(r.config.Context); r.ctx.Err() != nil {
				return err
			}
			if err := r.allowed(); err != nil { // a summary that fails costs nothing but its request
				return err
			}
		}
		var called bool
		called, err = r.turn()
		if tooLong(err) && !summed {
			summed = true
			if err = r.sumUp(0); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		summed = false
		if called {
			_, err = r.boundary(coding.Safe)
		} else {
			more, err = r.boundary(coding.Stop)
		}
	}
	return err
}

// allowed is nil while another request may be made.
func (r *run) allowed() error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &r.outcomeSoFar
	switch {
	case r.config.MaxTurns > 0 && o.Requests >= r.config.MaxTurns:
		return &limitError{Turns}
	case r.config.MaxTokens > 0 && o.Usage.Input+o.Usage.Output >= r.config.MaxTokens:
		return &limitError{Tokens}
	}
	return nil
}

// boundary puts in front of the model what waits: first what belay has to tell, then what
// the user said, so that a direction of the user is the last word; then what was to
// come after a message of the user. It tells whether there was anything.
func (r *run) boundary(b coding.Boundary) (more bool, err error) {
	texts, messages, err := r.take(b)
	if err != nil {
		return false, err
	}
	more, err = r.deliver(messages)
	for i, text := range texts {
		aborted := r.ctx.Err() != nil
		if err == nil || aborted { // what was taken up before an abort was said: nothing begins with it behind that
			if e := r.history.tell(transcript.Entry{Type: transcript.User, Text: text}); e != nil {
				err = e
			}
		}
		if err != nil && !aborted { // they wait for the user's next word
			r.mu.Lock()
			r.steer = append(texts[i:], r.steer...)
			r.tellQueue()
			r.mu.Unlock()
			return false, err
		}
		r.events.put(r.ctx, Event{Type: Said, Role: model.User, Text: text})
	}
	if err != nil || len(texts) == 0 {
		return more, err
	}
	messages, err = r.takeBehind()
	if err == nil {
		_, err = r.deliver(messages)
	}
	return true, err
}

// take takes what is due at a boundary: the user's texts, and what belay has to tell
// before them. In the same moment it sets the task: what is said later begins another.
func (r *run) take(b coding.Boundary) (texts []string, messages []coding.Message, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.ctx.Err(); err != nil { // what waits is the user's again, or over
		return nil, nil, err
	}
	r.task = r.suite.Task()
	if len(r.said) == 0 { // the messages come behind a text that begins a task
		messages = r.suite.TakeBeside(b, nil, maxMessages)
	}
	if b == coding.Stop && len(messages) == 0 && len(r.steer) == 0 && len(r.followUp) > 0 {
		r.takeFollowUp()
		r.task = r.suite.Task()
	}
	texts = append(r.said, r.steer...)
	r.said = nil
	if len(r.steer) > 0 {
		r.steer = nil
		r.tellQueue()
	}
	return texts, messages, nil
}

// takeBehind takes what comes behind a message of the user.
func (r *run) takeBehind() ([]coding.Message, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	return r.suite.TakeBeside(coding.UserMessage, nil, maxMessages), nil
}

// deliver puts completion messages into the conversation. They count as delivered when the
// transcript has them: each further request has them, then, too. An abort and a new
// direction that came in between give them back, and the Suite knows which of them are
// over.
func (r *run) deliver(messages []coding.Message) (any bool, err error) {
	for i, m := range messages {
		if err := r.ctx.Err(); err != nil || r.suite.Task() != r.task {
			r.suite.Return(messages[i:])
			return any, err
		}
		if err := r.history.tell(transcript.Hide(transcript.Entry{Type: transcript.Notice, Text: valid(m.Text), Session: m.SessionID})); err != nil {
			r.suite.Return(messages[i:])
			return any, err
		}
		any = true
		r.suite.Delivered(messages[i : i+1])
		r.events.put(r.ctx, Event{Type: Noticed, SessionID: m.SessionID, Text: valid(m.Text), Facts: header(m.Text)})
	}
	return any, nil
}

// turn makes one request and the calls of its answer.
func (r *run) turn() (called bool, err error) {
	var usage model.Usage
	r.events.put(r.ctx, Event{Type: TurnStart})
	defer func() { r.events.put(r.ctx, Event{Type: TurnEnd, Usage: usage}) }()

	answer, err := r.request(model.Request{System: r.config.System, Messages: r.history.view(), Tools: r.offered}, func(s string) {
		r.events.put(r.ctx, Event{Type: TextDelta, Text: s})
	})
	usage = answer.Usage
	if err == nil {
		r.used, r.usedAt = usage.Input+usage.Output, r.history.bytes()
	}
	answer.Text = valid(answer.Text)
	if err != nil {
		// What the user was shown has been said.
		if answer.Text != "" {
			if e := r.history.answered(model.Message{Role: model.Assistant, Text: answer.Text}, said{Partial: true}, nil); e != nil && r.ctx.Err() == nil {
				return false, e
			}
			r.answer(answer)
		}
		return false, err
	}
	m := r.unmistakable(answer).Message()
	if m.Text == "" && len(m.Calls) == 0 { // nothing was said
		r.answer(answer)
		return false, r.history.turn(usage)
	}
	calls := make([]transcript.Entry, len(m.Calls))
	for i, c := range m.Calls {
		calls[i] = transcript.Entry{Type: transcript.Call, CallID: c.ID, Tool: c.Name, Args: c.Args, Contract: r.tools[c.Name].fingerprint}
	}
	if err := r.history.answered(m, said{Stop: answer.Stop}, calls); err != nil {
		return false, err
	}
	r.answer(answer)
	if len(m.Calls) > 0 {
		var refuse *tool.Error
		if answer.Stop == model.Length || answer.Stop == model.Filtered {
			// The model did not say all that it wanted to: what it said may lack its end.
			refuse = tool.NewError(tool.Limit, tool.Fact{Name: "what", Value: "answer_cut_off"})
		}
		if err := r.batch(m.Calls, refuse); err != nil {
			return true, err
		}
	}
	return len(m.Calls) > 0, r.history.turn(usage)
}

// answer tells of an answer that is in the transcript.
func (r *run) answer(answer model.Answer) {
	r.mu.Lock()
	r.outcomeSoFar.Text, r.outcomeSoFar.Stop = answer.Text, answer.Stop
	r.mu.Unlock()
	if answer.Text != "" {
		r.events.put(r.ctx, Event{Type: Said, Role: model.Assistant, Text: answer.Text})
	}
}

// unmistakable gives each call an ID of its own. Providers do, as a rule.
func (r *run) unmistakable(answer model.Answer) model.Answer {
	seen := map[string]bool{}
	calls := slices.Clone(answer.Calls)
	for i, c := range calls {
		calls[i].ID, calls[i].Name, calls[i].Args = valid(c.ID), valid(c.Name), valid(c.Args)
		if calls[i].ID == "" || seen[calls[i].ID] {
			calls[i].ID = newID()
		}
		if calls[i] != c {
			answer.Native = nil // it has them as they came
		}
		seen[calls[i].ID] = true
	}
	answer.Calls = calls
	return answer
}

// request asks the model once. It always returns: a provider that does not let itself be
// cancelled is left behind.
func (r *run) request(q model.Request, text func(string)) (model.Answer, error) {
	type came struct {
		model.Answer
		err error
	}
	var mu sync.Mutex
	var shown strings.Builder
	gone := false
	piece := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		if gone {
			return
		}
		shown.WriteString(s)
		if text != nil {
			text(valid(s))
		}
	}
	stream := func() (c came) {
		defer r.left.Add(-1)
		defer func() {
			if recover() != nil { // the value may hold anything: it goes nowhere
				c = came{err: &model.Error{Reason: model.Protocol, Code: "provider_fault"}}
			}
		}()
		c.Answer, c.err = r.config.Model.Stream(r.ctx, q, piece)
		return c
	}
	done := make(chan came, 1)
	r.left.Add(1)
	go func() { done <- stream() }()
	var got came
	select {
	case got = <-done:
	case <-r.ctx.Done():
		late := time.NewTimer(r.leave)
		defer late.Stop()
		select {
		case got = <-done:
		case <-late.C:
			mu.Lock()
			gone = true
			got = came{model.Answer{Text: shown.String()}, r.ctx.Err()}
			mu.Unlock()
		}
	}
	if got.err == nil && r.ctx.Err() != nil {
		got.Calls, got.err = nil, r.ctx.Err() // it came too late: nothing of it is to happen
	}
	r.mu.Lock()
	r.outcomeSoFar.Requests++
	r.outcomeSoFar.Usage = r.outcomeSoFar.Usage.Add(got.Usage)
	r.mu.Unlock()
	return got.Answer, got.err
}

func tooLong(err error) bool {
	var e *model.Error
	return errors.As(err, &e) && e.Reason == model.TooLong && !e.Begun
}
