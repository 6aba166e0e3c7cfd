package proc

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Proc is one started program with all that it owns. Start makes it.
type Proc struct {
	pid    int
	began  time.Time // before the start
	mark   string
	keeper *Keeper
	exited chan struct{}
	done   chan struct{}
	exit   Exit // set before done is closed, never after

	streams []*stream
	input   *input   // nil without Spec.OpenStdin and TTY
	tty     *os.File // our side of the terminal, or nil
	slave   *os.File // on Unix the program's side, held until the program ends: it may close its own and open /dev/tty later
	feeding *os.File // writing end for Spec.Stdin while its goroutine runs, or nil
	feed    sync.WaitGroup

	mu      sync.Mutex
	gone    bool          // the program has ended; it is a zombie until reaped is set
	goneAt  time.Time     // set with gone, or when End gave up; read by the goroutine that cleans up
	reaped  bool          // its number may be anybody's now
	ending  bool          // End came before the end was seen
	first   Signal        // of the first End
	grace   time.Duration // of the first End
	killAt  time.Time     // when patience ends: set by the first End or by the end of the program, only ever moved nearer
	strike  *time.Timer   // KILL at killAt, or nil
	hurried bool          // End came while the leftovers were being ended
	ended   chan struct{} // closed when the goroutine of End is through
	lost    bool          // the goroutine of End gave up on the program itself and finishes the Proc
	nudge   chan struct{} // capacity 1: killAt came nearer
	wake    func()        // interrupts a wait for a member, or nil

	sys system
}

// Start starts a program. The context is looked at once, directly before the start and after
// Spec.Before; later it means nothing. An error means that nothing runs: the context's own, that of
// Before, or a *StartError.
func Start(ctx context.Context, s Spec) (*Proc, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	p := &Proc{
		mark:   s.Mark,
		keeper: s.Keeper,
		exited: make(chan struct{}),
		done:   make(chan struct{}),
		nudge:  make(chan struct{}, 1),
	}
	if err := p.start(ctx, &s); err != nil {
		return nil, err
	}
	for _, st := range p.streams {
		go st.pump()
	}
	go p.own()
	return p, nil
}

func (s *Spec) check() error {
	bad := func(what string) error { return &StartError{Reason: BadArgument, What: what} }
	if !filepath.IsAbs(s.Path) {
		return bad(Program)
	}
	if !filepath.IsAbs(s.Dir) {
		return bad(Directory)
	}
	// A mark that we carry ourselves would make us one of the program's strays.
	own := s.Mark != "" && s.Mark == os.Getenv(strings.TrimSuffix(markName, "="))
	if len(s.Argv) == 0 || !validMark(s.Mark) || own || s.Stdin != nil && (s.OpenStdin || s.TTY != nil) {
		return bad(Argument)
	}
	if s.TTY != nil && !s.TTY.valid() {
		return bad(Terminal)
	}
	return s.checkStrings()
}

// PID is the number of the direct child, for people to read: after Done it may belong to anybody.
func (p *Proc) PID() int { return p.pid }

// Exited is closed when the direct child has ended. Output and clean-up may still be going on.
func (p *Proc) Exited() <-chan struct{} { return p.exited }

// Done is closed when the end is complete: the direct child has ended, its output was delivered,
// its leftovers are ended or known. It always comes: usually at once after Exited, within about 5 s
// after the grace of End even if the child cannot be killed, and within 8 s after Exited on a
// system that forks so fast that it cannot be looked at.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Exit is valid after Done is closed, and zero before.
func (p *Proc) Exit() Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return Exit{}
	}
}

// End ends all that is owned and returns at once: first goes to the whole session, KILL follows for
// what is left after the grace, and after that there are at most 3 s for the proof. On a terminal
// HUP is sent at half of the grace, as when a window is closed: interactive shells ignore TERM.
// Done tells the end. A further End can only bring KILL nearer; KILL as first needs no grace. After
// Exited it shortens the wait for leftovers.
func (p *Proc) End(first Signal, grace time.Duration) {
	grace = min(max(grace, 0), maxGrace)
	if first == KILL {
		grace = 0
	}
	at := time.Now().Add(grace)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending || p.gone {
		if at.Before(p.killAt) {
			p.killAt, p.hurried = at, true
			if p.strike != nil {
				p.strike.Reset(grace)
			}
			select {
			case p.nudge <- struct{}{}:
			default:
			}
			if p.wake != nil {
				p.wake()
			}
		}
		return
	}
	p.ending, p.first, p.grace, p.killAt = true, first, grace, at
	p.ended = make(chan struct{})
	go p.endAll()
}

// own waits for the program, cleans up after it and reports. It is the only goroutine that reaps.
func (p *Proc) own() {
	p.awaitExit()
	p.mu.Lock()
	p.gone = true
	if p.goneAt.IsZero() {
		p.goneAt = time.Now()
	}
	lost, ending := p.lost, p.ending
	if !ending {
		p.killAt = time.Now().Add(leftoverGrace)
	}
	p.mu.Unlock()
	close(p.exited)
	if lost { // Done told long ago that this was still running
		p.keeper.forget(p.pid, p.mark)
		p.reap()
		p.release()
		return
	}
	if ending {
		<-p.ended
	} else {
		p.endLeftovers()
	}
	p.drain()
	p.keeper.forget(p.pid, p.mark)
	p.exit.Code, p.exit.Signal = p.reap()
	p.release()
	close(p.done)
}

// endAll is the goroutine of the first End.
func (p *Proc) endAll() {
	defer close(p.ended)
	left, proven := p.endOwned(p.first, true)
	p.exit.Left, p.exit.Cleaned = members(left), proven && len(left) == 0
	closeMembers(left)

	p.mu.Lock()
	gone := p.gone
	p.lost = !gone
	if !gone {
		p.goneAt = time.Now()
	}
	p.mu.Unlock()
	if gone {
		return // own goes on
	}
	// KILL did not end the program: it runs as another user, or the kernel does not let go of it.
	// Say so in bounded time; own stays behind to reap it.
	p.exit.Code, p.exit.Cleaned = -1, false
	p.exit.Left = append([]Member{{PID: p.pid, Name: nameOf(p.pid)}}, p.exit.Left...)
	p.drain()
	close(p.done)
}
