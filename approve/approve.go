// Package approve gets the user's yes before something is done for which it is needed.
//
// It promises that the effect runs only after an explicit yes of the [Asker] that came
// in time, to the question that was shown for it; that questions of one [Gate] are
// shown one at a time, in the order in which they came; and that nothing comes between
// a question about a subject and its effect. No answer, a late answer, an error, a panic
// and a missing Asker are all a no.
//
// It does not promise that there is a person behind an Asker: a client, or its hooks,
// can answer for the user.
//
// A Gate is safe for concurrent use.
package approve

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/belayhq/belay/tool"
)

// An Asker puts a question to the user. It is the door for a terminal, a client and
// a test.
type Asker interface {
	// Ask shows p and waits for the answer. true is only for an explicit yes: end
	// of input, another text, and a dialog that was closed are a no. When ctx is done
	// the question is void: Ask takes it off the screen and returns. ErrUnavailable
	// as error says that the question could not be shown at all; every other
	// error is a no.
	//
	// A Gate calls Ask for one question at a time.
	Ask(ctx context.Context, p tool.Prompt) (bool, error)
}

// The refusals of Do. After each of them the effect did not run.
var (
	ErrUnavailable = errors.New("approve: the user cannot be asked here")
	ErrDenied      = errors.New("approve: the user did not say yes")
	ErrTimeout     = errors.New("approve: the user did not answer in time")
)

// ErrGone is the cause ([context.Cause]) of the end of a question whose subject went away.
var ErrGone = errors.New("approve: what was asked about is gone")

// MaxTimeout is how long a question may stand (P10): who comes back later would answer
// something else than what they see.
const MaxTimeout = 60 * time.Second

// withdrawTime is how long a void question may take to leave the screen before the next
// one is shown. An Asker that does not return at all must not end all questions.
const withdrawTime = 2 * time.Second

// A Gate is the one dialog slot of a runtime.
type Gate struct {
	timeout time.Duration
	slot    turn

	mu       sync.Mutex
	subjects map[any]*subject
}

// A subject is what a question is about, while somebody holds it or waits for it.
type subject struct {
	turn  turn
	users int // guarded by Gate.mu
}

// New makes a Gate whose questions stand for at most that long, counted from the
// showing. MaxTimeout takes the place of a timeout that is longer or not positive.
func New(timeout time.Duration) *Gate {
	if timeout <= 0 || timeout > MaxTimeout {
		timeout = MaxTimeout
	}
	return &Gate{timeout: timeout, slot: newTurn(), subjects: map[any]*subject{}}
}

// Timeout is how long a question may stand.
func (g *Gate) Timeout() time.Duration { return g.timeout }

// Do asks, and runs the effect after a yes. The subject, a comparable value, is held over
// both: of two approvals for one process the second question is shown when the effect of
// the first is over. nil holds nothing. The dialog slot is held over the question only.
//
// The error is that of the effect, or one of the refusals above, or that of ctx where it
// ended first: then the effect did not run. The effect gets ctx.
func (g *Gate) Do(ctx context.Context, a Asker, p tool.Prompt, subject any, effect func(ctx context.Context) error) error {
	if a == nil {
		return ErrUnavailable
	}
	release, err := g.hold(ctx, subject)
	if err != nil {
		return err
	}
	defer release()
	if err := g.ask(ctx, a, p); err != nil {
		return err
	}
	return effect(ctx)
}

// Dialog takes the dialog slot for a dialog that approves nothing, so that it takes turns
// with the questions (U3). done gives the slot back; it is idempotent.
func (g *Gate) Dialog(ctx context.Context) (done func(), err error) {
	if err := g.slot.take(ctx); err != nil {
		return nil, err
	}
	return sync.OnceFunc(g.slot.give), nil
}

// ask returns nil after a yes and in no other case.
func (g *Gate) ask(ctx context.Context, a Asker, p tool.Prompt) error {
	if err := g.slot.take(ctx); err != nil {
		return err // never shown
	}
	end := time.Now().Add(g.timeout)
	shown, withdraw := context.WithDeadline(ctx, end)
	answers := make(chan answer, 1) // a late one stays in it, unread
	go put(shown, a, p, answers)

	select {
	case got := <-answers:
		withdraw()
		g.slot.give()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !time.Now().Before(end): // also where the timer is late
			return ErrTimeout
		case got.err == nil && got.yes:
			return nil
		case errors.Is(got.err, ErrUnavailable):
			return ErrUnavailable
		case errors.Is(got.err, ErrTimeout):
			return ErrTimeout
		}
		return ErrDenied
	case <-shown.Done():
		withdraw()
		go func() { // the next question waits until this one is gone
			late := time.NewTimer(withdrawTime)
			defer late.Stop()
			select {
			case <-answers:
			case <-late.C:
			}
			g.slot.give()
		}()
		if err := ctx.Err(); err != nil {
			return err
		}
		return ErrTimeout
	}
}

type answer struct {
	yes bool
	err error
}

// put asks on a goroutine of its own, which lives as long as the Asker wants. Whatever the
// Asker does, there is one answer.
func put(ctx context.Context, a Asker, p tool.Prompt, to chan<- answer) {
	got := answer{err: ErrDenied}
	defer func() {
		if recover() != nil { // the value may hold anything: it goes nowhere
			got = answer{err: ErrDenied}
		}
		to <- got
	}()
	yes, err := a.Ask(ctx, p)
	got = answer{yes, err}
}

// hold takes the turn at a subject.
func (g *Gate) hold(ctx context.Context, key any) (release func(), err error) {
	if key == nil {
		return func() {}, ctx.Err()
	}
	g.mu.Lock()
	s := g.subjects[key]
	if s == nil {
		s = &subject{turn: newTurn()}
		g.subjects[key] = s
	}
	s.users++
	g.mu.Unlock()
	leave := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(g.subjects, key)
		}
	}
	if err := s.turn.take(ctx); err != nil {
		leave()
		return nil, err
	}
	return func() { s.turn.give(); leave() }, nil
}

// A turn is held by one at a time. Those who wait get it in the order in which they
// came: a channel serves its senders so, and a receive hands over to the first of them.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }
