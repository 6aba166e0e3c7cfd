package jobs

import (
	"context"
	"sync"
	"time"

	"github.com/belayhq/belay/internal/proc"
)

// Mode is what the starter of a session wants of its end.
type Mode string

const Default Mode = "default" // nothing is delivered by itself

// State is where a session stands.
type State string

const (
	Running  State = "running"
	Exited   State = "exited"    // by itself, with a code
	Signaled State = "signaled"  // by a signal that belay did not send
	TimedOut State = "timed_out" // ended by belay at the timeout of the call
	Killed   State = "killed"    // ended by belay on request, or with the runtime
)

// Spec says what to start as a session.
type Spec struct {
	Proc    proc.Spec     // Output, Merge and Mark are set by the table
	Timeout time.Duration // 0: none
	Mode    Mode
	Preview string // of the command, escaped and bounded by the caller
}

// A Job is one session.
type Job struct {
	id      string
	mode    Mode
	tty     bool
	preview string
	started time.Time
	proc    *proc.Proc
	done    chan struct{} // closed when the state is final

	mu     sync.Mutex
	output record
	cause  State // TimedOut or Killed once belay ends it, "" before
	final  Status
}

// Status is what is known of a session at one moment.
type Status struct {
	State     State
	Code      int    // meaningful if Signal is "" and the state is not Running
	Signal    string // without SIG
	Cleaned   bool   // proven: nothing of the session is left
	Ended     []proc.Member
	Left      []proc.Member
	Wall      time.Duration
	Observed  int64 // bytes of decoded output so far
	StartedAt time.Time
}

// Start starts a session. ctx is checked right before the start and not used
// afterwards. An error means that nothing runs: *FullError, ErrClosed, the
// error of ctx, of Spec.Proc.Before, or of proc.
func (t *Table) Start(ctx context.Context, s Spec) (*Job, error) {
	j := &Job{
		id: randomID(), mode: s.Mode, tty: s.Proc.TTY != nil, preview: s.Preview,
		started: time.Now(), done: make(chan struct{}),
		output: newRecord(t.limits.TailBytes),
	}
	s.Proc.Merge = true
	s.Proc.Output = func(_ proc.Stream, p []byte) {
		j.mu.Lock()
		j.output.write(p)
		j.mu.Unlock()
	}
	if _, err := t.launch(ctx, s.Proc, j); err != nil {
		return nil, err
	}
	go j.keep(t, s.Timeout)
	return j, nil
}

// keep waits for the end, bounds the run, and makes the state final.
func (j *Job) keep(t *Table, timeout time.Duration) {
	var over <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-j.proc.Done():
	case <-over:
		j.end(TimedOut, proc.TERM, KillGrace)
		<-j.proc.Done()
	}
	exit := j.proc.Exit()
	j.mu.Lock()
	j.output.finish()
	j.final = Status{
		State: Exited, Code: exit.Code, Signal: exit.Signal, Cleaned: exit.Cleaned,
		Ended: exit.Ended, Left: exit.Left, Wall: time.Since(j.started), StartedAt: j.started,
	}
	switch {
	case j.cause != "":
		j.final.State = j.cause
	case exit.Signal != "":
		j.final.State = Signaled
	}
	j.mu.Unlock()
	t.retire(j)
	close(j.done)
}

// end begins to end the session for a reason, unless the command has ended by
// itself already.
func (j *Job) end(cause State, first proc.Signal, grace time.Duration) {
	j.mu.Lock()
	select {
	case <-j.proc.Exited():
	default:
		if j.cause == "" {
			j.cause = cause
		}
	}
	j.mu.Unlock()
	j.proc.End(first, grace)
}

// Kill ends the session: first is sent at once, SIGKILL after grace. It waits
// until the state is final, which is bounded, or ctx is done. On a session that
// has ended it does nothing.
func (j *Job) Kill(ctx context.Context, first proc.Signal, grace time.Duration) {
	select {
	case <-j.done:
		return
	default:
	}
	j.end(Killed, first, grace)
	select {
	case <-j.done:
	case <-ctx.Done():
	}
}

// Resize gives the terminal of the session another size.
func (j *Job) Resize(size proc.Size) error { return j.proc.Resize(size) }

func (j *Job) ID() string      { return j.id }
func (j *Job) Mode() Mode      { return j.mode }
func (j *Job) TTY() bool       { return j.tty }
func (j *Job) Preview() string { return j.preview }

// Done is closed when the session has ended and its state is final.
func (j *Job) Done() <-chan struct{} { return j.done }

// Status is the state at this moment.
func (j *Job) Status() Status {
	final := false
	select {
	case <-j.done:
		final = true
	default:
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s := Status{State: Running, Wall: time.Since(j.started), StartedAt: j.started}
	if final {
		s = j.final
	}
	s.Observed = j.output.end
	return s
}

// Wait returns when the session has ended, d has passed or ctx is done.
func (j *Job) Wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-j.done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Poll gives what came since the last poll, as clean text of at most max bytes
// and the omission note, and moves the poll cursor to the end: each byte is
// delivered by polling once or counted as omitted, in order.
func (j *Job) Poll(max int) Piece {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.output.poll(max)
}

// Page reads the output from a position in the decoded stream, or, where that is
// negative, from the end, and consumes nothing. The text has at most max bytes.
func (j *Job) Page(cursor int64, max int) Page {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.output.page(cursor, max)
}
