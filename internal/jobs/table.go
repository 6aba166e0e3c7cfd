// Package jobs keeps the processes of one runtime: each under a random ID, with
// its output and the truth about its end, until it is evicted.
//
// It promises that a session stays answerable after its end, that its output is
// bounded in memory with every byte delivered, retained or counted as omitted,
// and that Close ends everything that was started through it. It survives nothing:
// a new runtime knows no session of an old one.
//
// A Table and its Jobs are safe for concurrent use.
package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belayhq/belay/internal/proc"
)

// ShutdownGrace is how long a process may take to end by itself when the runtime
// closes, before it is killed: the clients of a server wait little longer.
const ShutdownGrace = 250 * time.Millisecond

// KillGrace is how long a process may take after a timeout or a cancellation.
const KillGrace = 2 * time.Second

// Limits bound a Table. Zero is the value in brackets.
type Limits struct {
	MaxSessions int // running at once [256]
	MaxFinished int // kept after their end, the oldest go first [64]
	TailBytes   int // of output that each keeps in memory [64000]
}

// A Table owns the processes of one runtime.
type Table struct {
	limits Limits
	mark   string // of this runtime, the beginning of each process's own

	mu       sync.Mutex
	jobs     map[string]*Job
	finished []*Job              // oldest end first
	owned    map[*proc.Proc]*Job // all that run; nil for what has no ID
	starting int                 // between the check of the limit and the entry in owned
	idle     sync.Cond           // starting or owned became less
	closed   bool
}

// New makes an empty table.
func New(l Limits) *Table {
	if l.MaxSessions == 0 {
		l.MaxSessions = 256
	}
	if l.MaxFinished == 0 {
		l.MaxFinished = 64
	}
	if l.TailBytes == 0 {
		l.TailBytes = 64000
	}
	t := &Table{limits: l, mark: randomID(), jobs: map[string]*Job{}, owned: map[*proc.Proc]*Job{}}
	t.idle.L = &t.mu
	return t
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
	return t.launch(ctx, s, nil)
}

func (t *Table) launch(ctx context.Context, s proc.Spec, j *Job) (*proc.Proc, error) {
	t.mu.Lock()
	running := len(t.owned) + t.starting
	switch {
	case t.closed:
		t.mu.Unlock()
		return nil, ErrClosed
	case running >= t.limits.MaxSessions:
		t.mu.Unlock()
		return nil, &FullError{Limit: t.limits.MaxSessions, Running: running}
	}
	t.starting++
	t.mu.Unlock()

	// Each process has a mark of its own: by a common one the strays of another
	// would be taken for its own.
	s.Mark = t.mark + "_" + randomID()
	s.Env = append(without(s.Env, markVariable), markVariable+s.Mark)
	p, err := proc.Start(ctx, s)

	t.mu.Lock()
	defer t.mu.Unlock()
	t.starting--
	t.idle.Broadcast()
	if err != nil {
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
		<-p.Done()
		t.mu.Lock()
		delete(t.owned, p)
		t.idle.Broadcast()
		t.mu.Unlock()
	}()
	return p, nil
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

// Jobs lists the sessions, the oldest first.
func (t *Table) Jobs() []*Job {
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

// retire notes that a job has ended, and evicts the oldest beyond the limit.
func (t *Table) retire(j *Job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finished = append(t.finished, j)
	for len(t.finished) > t.limits.MaxFinished {
		delete(t.jobs, t.finished[0].id)
		t.finished[0] = nil // the slice is moved on, not copied: let go of the record
		t.finished = t.finished[1:]
	}
}

// Close ends everything that runs and starts nothing any more. It returns when
// all has ended, or when ctx is done; what then still runs has been sent SIGKILL
// or will be when its grace of 250 ms is over. It is idempotent.
func (t *Table) Close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	for p, j := range t.owned {
		shut(p, j)
	}
	t.mu.Unlock()

	stop := context.AfterFunc(ctx, func() {
		t.mu.Lock()
		t.idle.Broadcast()
		t.mu.Unlock()
	})
	defer stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.owned)+t.starting > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		t.idle.Wait()
	}
	return nil
}
