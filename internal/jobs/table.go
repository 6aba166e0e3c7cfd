// Package jobs keeps the processes of one runtime: each under a random ID, with
// its output and the truth about its end, until it is evicted.
//
// It promises that a session stays answerable after its end until it is evicted,
// that its output is bounded in memory and on disk with every byte delivered,
// retained or counted as omitted, and that Close ends everything that was started
// through it and removes its logs. It survives nothing: a new runtime knows no
// session of an old one. A disk that does not answer at all, not even with an error,
// stalls the output of the sessions that write to it, and of nothing else.
//
// Who asked for it is told of an end by the rules of package delivery, whose queue stands
// under the lock of the table; what the message will show is taken when the session
// ends, and outlives its record, within a bound for all of them.
//
// A Table and its Jobs are safe for concurrent use.
package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belayhq/belay/internal/delivery"
	"github.com/belayhq/belay/internal/proc"
	"github.com/belayhq/belay/internal/spool"
)

// ShutdownGrace is how long a process may take to end by itself when the runtime
// closes, before it is killed: the clients of a server wait little longer.
const ShutdownGrace = 250 * time.Millisecond

// KillGrace is how long a process may take after a timeout or a cancellation.
const KillGrace = 2 * time.Second

// Limits bound a Table. Zero is the value in brackets.
type Limits struct {
	MaxSessions int    // running at once [256]
	MaxFinished int    // kept after their end, the oldest go first [64]
	TailBytes   int    // of output that each keeps in memory [64000]
	LogBytes    int64  // of output that each keeps on disk [8 MiB, which is also the most]
	LogTotal    int64  // of output that all keep on disk [32 MiB, which is also the most]
	LogParent   string // where the directory of the logs is made once one is needed [the system's for temporary files]
}

// A Table owns the processes of one runtime.
type Table struct {
	limits Limits
	logs   *spool.Dir
	mark   string // of this runtime, the beginning of each process's own

	keeperMu   sync.Mutex
	keeperArgv []string
	kept       *proc.Keeper // nil before the first start, and where there is none

	mu       sync.Mutex
	jobs     map[string]*Job
	finished []*Job                 // oldest end first
	owned    map[*proc.Proc]*Job    // all that run; nil for what has no ID
	starting map[chan struct{}]bool // between the check of the limit and the entry in owned; closed behind it
	idle     sync.Cond              // starting or owned became less
	closed   bool

	messages // under mu
}

// New makes an empty table. It does no I/O. The error is a *spool.Error: a limit of
// the logs is out of its range, or the parent is relative and cannot be resolved.
func New(l Limits) (*Table, error) {
	l.MaxSessions = cmp.Or(l.MaxSessions, 256)
	l.MaxFinished = cmp.Or(l.MaxFinished, 64)
	l.TailBytes = cmp.Or(l.TailBytes, 64_000)
	logs, err := spool.New(l.LogParent, spool.Limits{PerLog: l.LogBytes, Total: l.LogTotal})
	if err != nil {
		return nil, err
	}
	t := &Table{limits: l, logs: logs, mark: randomID(), jobs: map[string]*Job{}, owned: map[*proc.Proc]*Job{}, starting: map[chan struct{}]bool{}}
	t.idle.L = &t.mu
	t.queue, t.news = delivery.New(0), make(chan struct{}, 1)
	return t, nil
}

// randomID has 80 bits from the system's random source, as 16 characters a–z2–7.
func randomID() string { return strings.ToLower(rand.Text()[:16]) }

// markVariable is what every child carries in its environment, and what a
// descendant that left its session is found by.
const markVariable = "BELAY_SESSION="

func without(env []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, prefix) })
}

// A FullError says that as many sessions run as may.
type FullError struct{ Limit, Running int }

func (e *FullError) Error() string { return fmt.Sprintf("%d of %d sessions run", e.Running, e.Limit) }

// ErrClosed says that the runtime is closing: nothing new is started.
var ErrClosed = errors.New("the runtime is closing")

// Launch starts a process without an ID: the caller waits for it and reports
// its end. Close ends it as it ends the others, and it counts as running.
func (t *Table) Launch(ctx context.Context, s proc.Spec) (*proc.Proc, error) {
	return t.launch(ctx, s, nil, Spec{})
}

// launch starts a process, as that of a job unless j is nil.
func (t *Table) launch(ctx context.Context, s proc.Spec, j *Job, job Spec) (*proc.Proc, error) {
	t.mu.Lock()
	running := len(t.owned) + len(t.starting)
	switch {
	case t.closed:
		t.mu.Unlock()
		return nil, ErrClosed
	case running >= t.limits.MaxSessions:
		t.mu.Unlock()
		return nil, &FullError{Limit: t.limits.MaxSessions, Running: running}
	}
	if err := t.arm(j, job.Task); err != nil { // before the start: it may end at once
		t.mu.Unlock()
		return nil, err
	}
	begun := make(chan struct{})
	t.starting[begun] = true
	t.mu.Unlock()

	// Each process has a mark of its own: by a common one the strays of another
	// would be taken for its own.
	s.Mark = t.mark + "_" + randomID()
	s.Env = append(without(s.Env, markVariable), markVariable+s.Mark)
	s.Keeper = t.keeper()
	p, err := proc.Start(ctx, s)
	if err == nil {
		defer t.keepOn(p, s.Keeper) // after it is in owned
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.starting, begun)
	close(begun)
	t.idle.Broadcast()
	if err != nil {
		t.forget(j)
		return nil, err
	}
	t.owned[p] = j
	if j != nil {
		j.proc = p
		t.jobs[j.id] = j
	}
	if t.closed { // Close went by while the process was being started
		shut(p, j)
	}
	go func() {
		if j == nil {
			<-p.Done()
		} else {
			j.keep(job.Timeout)
		}
		t.retire(p, j)
	}()
	return p, nil
}

// retire notes an end, tells it to those who wait for it, and evicts the oldest
// beyond the limit.
func (t *Table) retire(p *proc.Proc, j *Job) {
	var evicted []*Job
	t.mu.Lock()
	delete(t.owned, p)
	if j != nil {
		t.tell(j) // first: who sees the end finds its message
		close(j.done)
		j.output.ended()
		t.finished = append(t.finished, j)
	}
	for len(t.finished) > t.limits.MaxFinished {
		evicted = append(evicted, t.finished[0])
		delete(t.jobs, t.finished[0].id)
		t.forget(t.finished[0])
		t.finished[0] = nil // the slice is moved on, not copied: let go of the record
		t.finished = t.finished[1:]
	}
	t.idle.Broadcast()
	t.mu.Unlock()
	for _, e := range evicted { // not under mu: nobody else waits for the disk
		e.output.drop()
	}
}

// shut begins to end a process with the runtime.
func shut(p *proc.Proc, j *Job) {
	if j != nil {
		j.end(Killed, proc.TERM, ShutdownGrace)
		return
	}
	p.End(proc.TERM, ShutdownGrace)
}

// Find is the session of an ID, or nil.
func (t *Table) Find(id string) *Job {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.jobs[id]
}

// Jobs lists the sessions, the oldest first, with those that were being started when it was asked:
// what such a process does can be seen before its start has returned here.
func (t *Table) Jobs() []*Job {
	t.mu.Lock()
	starting := slices.Collect(maps.Keys(t.starting))
	t.mu.Unlock()
	for _, begun := range starting {
		<-begun // soon: a start waits for nobody
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*Job, 0, len(t.jobs))
	for _, j := range t.jobs {
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b *Job) int {
		if c := a.started.Compare(b.started); c != 0 {
			return c
		}
		return strings.Compare(a.id, b.id)
	})
	return all
}

// Close ends everything that runs, starts nothing any more and removes the logs. No
// message is delivered any more. It
// returns when all has ended, or when ctx is done; what then still runs has been sent
// SIGKILL or will be when its grace of 250 ms is over. The error is that of ctx, or
// the *spool.Error of logs that could not be removed. It is idempotent: a further
// Close waits for the same end.
func (t *Table) Close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	t.suppressAll()
	for p, j := range t.owned {
		shut(p, j)
	}
	t.mu.Unlock()

	err := t.awaitIdle(ctx)
	t.dismiss()
	removed := make(chan error, 1)
	go func() { removed <- t.logs.Close() }()
	if ctx.Err() != nil { // what could not be ended is no reason to leave the logs
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), ShutdownGrace)
		defer cancel()
	}
	select {
	case gone := <-removed:
		err = cmp.Or(err, gone)
	case <-ctx.Done(): // the disk does not answer
		err = cmp.Or(err, ctx.Err())
	}
	return err
}

func (t *Table) awaitIdle(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		t.mu.Lock()
		t.idle.Broadcast()
		t.mu.Unlock()
	})
	defer stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.owned)+len(t.starting) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		t.idle.Wait()
	}
	return nil
}
