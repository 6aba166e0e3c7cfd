package stream

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/belayhq/belay/approve"
	"github.com/belayhq/belay/internal/host/agent"
	"github.com/belayhq/belay/internal/host/model"
)

// A Task is one prompt that is carried out to its end.
type Task struct {
	Prompt string
	// Wait is how long results of background runs are waited for in all, while the
	// model has nothing to do. What is left then is ended.
	Wait   time.Duration
	Asker  approve.Asker     // nil: nobody can be asked
	Notify func(text string) // nil drops it
}

// A Report is what came of a Task.
type Report struct {
	agent.Outcome
	// Conversation is the ID by which it can be gone on with; "" where nothing was said.
	Conversation string
	// Waited is true where background runs were ended because Wait was over: the model was
	// not told how they came out.
	Waited bool
	// Ended says that something could not be seen to end.
	Ended error

	left []process // that ran at the end
}

// whole tells whether the text is the model's final answer, and all of it.
func (r Report) whole() bool {
	return r.Err == nil && r.Limit == "" && !r.Waited && !r.Aborted && r.Stop != model.Length && r.Stop != model.Filtered
}

// Print carries a task out and writes the final answer to out, whole or not at all. What
// happens on the way is told to progress, fit for a terminal, with what the model says
// before its final answer, or in place of one. The answer is written as it is: it is for the
// caller to clean it for a terminal.
//
// The error is that of opening the conversation, ctx.Err(), or one that wraps ErrReader and
// the error of the Write; in the last two the report says how far it came.
func Print(ctx context.Context, c Config, t Task, out, progress io.Writer) (Report, error) {
	p := newTeller(progress)
	ears := Ears{Event: p.tell, Notify: t.Notify}
	var talk *Talk // is set before anybody is asked
	if t.Asker != nil {
		ears.Asker = inTurn{t.Asker, p, func(ctx context.Context) { talk.Agent.Told(ctx) }}
	}
	var err error
	if talk, err = c.Open(ctx, c.Which, ears); err != nil {
		return Report{}, err
	}
	p.armed = talk.Suite.Armed
	for _, n := range talk.Notes {
		p.line("%s", n)
	}
	report, err := t.carryOut(ctx, talk, p.turn, nil)
	if err != nil || !report.whole() {
		p.rest()
	}
	for _, left := range report.left {
		if report.Ended != nil {
			p.line("ran when the run ended: %s %s", left.ID, short(left.Command))
		} else {
			p.line("ended with the run: %s %s", left.ID, short(left.Command))
		}
	}
	if err != nil || !report.whole() {
		return report, err
	}
	text := report.Text
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	o := newOutbox(out, nil)
	defer o.Close()
	o.Text(text)
	switch {
	case o.Flush(ctx):
		return report, nil
	case ctx.Err() != nil:
		return report, ctx.Err()
	}
	return report, o.lost()
}

// Codes of the last event error, beside those of agent.Code.
const (
	codeStopped  = "stopped"   // ctx was done
	codeWaitOver = "wait_over" // see Report.Waited
)

// JSON carries a task out and writes its events to out, beginning with hello. What ended it
// early, ctx too, is told as the last error before settled: an output without that is one of
// a program that was killed. The errors are those of Print.
func JSON(ctx context.Context, c Config, t Task, out io.Writer) (Report, error) {
	o := newOutbox(out, c.Gone)
	defer o.Close()
	turn := newPhase()
	talk, err := c.Open(ctx, c.Which, Ears{func(e agent.Event) { turn.see(e); o.Put(e) }, t.Asker, t.Notify})
	if err != nil {
		return Report{}, err
	}
	o.Put(c.hello(talk))
	report, err := t.carryOut(ctx, talk, turn, o)
	switch {
	case err != nil && err == ctx.Err():
		o.last(codeStopped, context.Cause(ctx).Error())
	case err == nil && report.Waited:
		o.last(codeWaitOver, "the time to wait is over: what still ran in the background was ended, and the model was not told")
	}
	if err != nil {
		o.Drain(context.WithoutCancel(ctx), haste)
		return report, err
	}
	switch {
	case o.Flush(ctx):
		return report, nil
	case ctx.Err() != nil:
		return report, ctx.Err()
	}
	return report, o.lost()
}

// last tells why it ends here, to whoever still reads.
func (o *outbox) last(code, message string) {
	defer o.Hurry()()
	o.Put(agent.Event{Type: agent.Failed, Code: code, Message: message})
	o.Put(agent.Event{Type: agent.Settled})
}

// carryOut gives the prompt, waits until all is settled, and closes the talk. o is the
// output whose reader may leave, or nil.
func (t Task) carryOut(ctx context.Context, talk *Talk, turn *phase, o *outbox) (r Report, err error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	if o != nil {
		go func() {
			select {
			case <-o.broken:
				stop()
			case <-running.Done():
			}
		}()
	}
	if err = talk.Agent.Prompt(t.Prompt); err == nil {
		err = t.settle(running, talk, turn, &r)
	}
	if o != nil {
		defer o.Hurry()()
	}
	r.left = processes(talk)
	r.Ended = talk.Close()
	r.Outcome = talk.Agent.Outcome()
	if len(talk.Agent.Messages()) > 0 {
		r.Conversation = talk.ID
	}
	switch {
	case ctx.Err() != nil:
		return r, ctx.Err()
	case running.Err() != nil:
		return r, o.lost()
	}
	return r, err
}

// look is how often it is looked whether a run that has said its last word is over.
const look = 20 * time.Millisecond

// settle waits until nothing is left to do, or what is left has had its time.
func (t Task) settle(ctx context.Context, talk *Talk, turn *phase, r *Report) error {
	settled, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- talk.Agent.Wait(settled) }()
	left := t.Wait
	for {
		idle, changed := turn.now()
		var over <-chan time.Time
		var timer *time.Timer
		since := time.Now()
		if idle {
			timer = time.NewTimer(max(left, 0))
			over = timer.C
		}
		select {
		case err := <-done:
			return err
		case <-changed:
			if idle {
				timer.Stop()
				left -= time.Since(since)
			}
		case <-over:
			// It sums up, is about to say that it goes on, or that it is settled.
			if talk.Agent.Busy() || talk.Suite.Armed() == 0 {
				left = max(left-time.Since(since), look)
				continue
			}
			stop()
			<-done
			r.Waited = true
			return ctx.Err()
		}
	}
}

// A phase tells whether the model is at work. A turn that has calls is followed by another.
type phase struct {
	mu      sync.Mutex
	idle    bool
	calls   bool
	changed chan struct{}
}

func newPhase() *phase { return &phase{changed: make(chan struct{})} }

// see is told each event.
func (p *phase) see(e agent.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle
	switch e.Type {
	case agent.TurnStart:
		idle, p.calls = false, false
	case agent.ToolStart:
		p.calls = true
	case agent.TurnEnd:
		idle = !p.calls
	}
	if idle != p.idle {
		p.idle = idle
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// now gives a channel that is closed when idle is not true any more, or is.
func (p *phase) now() (idle bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idle, p.changed
}
