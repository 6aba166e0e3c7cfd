package jobs

import (
	"context"
	"sync"
	"time"

	"github.com/belayhq/belay/internal/delivery"
	"github.com/belayhq/belay/internal/proc"
)

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
	Form    delivery.Form // what the starter wants of the end
	Task    delivery.Task // in which it was asked for; 0: the present one
	Message int           // bytes of output that may go with the message about the end, at most delivery.MaxOutput
	Preview string        // of the command, escaped and bounded by the caller
	Guard   string        // how the guards stood to the start, for results
}

// A Job is one session.
type Job struct {
	table   *Table
	id      string
	form    delivery.Form
	message int // bytes of output for the message about its end
	tty     bool
	preview string
	guard   string
	started time.Time
	proc    *proc.Proc
	output  *record
	done    chan struct{} // closed when the state is final
	gist    *gist         // what goes with the message; set before done is closed, then the table's

	mu    sync.Mutex
	cause State  // TimedOut or Killed once belay ends it, "" before
	final Status // set before done is closed, never after

	size      proc.Size // of the terminal
	resizedAt int64     // position in the output at which it became that
}

// Status is what is known of a session at one moment.
type Status struct {
	State     State
	Code      int    // of the exit; -1 if there is none: it runs, a signal ended it, or its end was not seen
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
// error of ctx, of Spec.Proc.Before, of proc, or delivery.ErrFull.
func (t *Table) Start(ctx context.Context, s Spec) (*Job, error) {
	j := &Job{
		table: t, id: randomID(), form: s.Form, message: min(max(s.Message, 0), delivery.MaxOutput), tty: s.Proc.TTY != nil, preview: s.Preview, guard: s.Guard,
		started: time.Now(), output: newRecord(t.limits.TailBytes, t.logs.Log()), done: make(chan struct{}),
	}
	if s.Proc.TTY != nil {
		j.size = *s.Proc.TTY
	}
	s.Proc.Merge = true
	s.Proc.Output = func(_ proc.Stream, p []byte) { j.output.write(p) }
	if _, err := t.launch(ctx, s.Proc, j, s); err != nil {
		return nil, err
	}
	return j, nil
}

// keep waits for the end, bounds the run, and settles the state.
func (j *Job) keep(timeout time.Duration) {
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
	j.output.finish()
	j.mu.Lock()
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
	j.condense() // it may wait for the disk
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
// until the state is final, which is bounded, or ctx is done. No message about its
// end is delivered any more (D3), also where it has ended: else it does nothing then.
func (j *Job) Kill(ctx context.Context, first proc.Signal, grace time.Duration) {
	j.table.suppress(j)
	if j.ended() {
		return
	}
	j.end(Killed, first, grace)
	select {
	case <-j.done:
	case <-ctx.Done():
	}
}

func (j *Job) ID() string      { return j.id }
func (j *Job) Mode() string    { return j.form.String() }
func (j *Job) TTY() bool       { return j.tty }
func (j *Job) Preview() string { return j.preview }
func (j *Job) Guard() string   { return j.guard }

// Done is closed when the session has ended and its state is final.
func (j *Job) Done() <-chan struct{} { return j.done }

// Status is the state at this moment. Where it is final, all output is there.
func (j *Job) Status() Status {
	s := Status{State: Running, Code: -1, Wall: time.Since(j.started), StartedAt: j.started}
	if j.ended() {
		s = j.final
	}
	s.Observed = j.output.size()
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

// Poll gives what came since the last poll, as clean text of at most max bytes, the
// omission note included, and moves the poll cursor to the end: each byte is
// delivered by polling once or counted as omitted, in order.
func (j *Job) Poll(max int) Piece { return j.output.poll(max, true) }

// Peek is Poll that leaves the poll cursor where it is.
func (j *Job) Peek(max int) Piece { return j.output.poll(max, false) }

// Page reads the output from a position in the decoded stream, or, where that is
// negative, from the end, and consumes nothing. The text has at most max bytes, or what one character or one jump
// of the cursor shows where that is more, 259 bytes at most.
//
// The first bytes come from the log on disk, the last ones from memory; what is
// between them, and what could not be written or read, is left out and counted. A
// page after such a gap starts as if no terminal sequence were open there.
func (j *Job) Page(cursor int64, max int) Page { return j.output.page(cursor, max) }
