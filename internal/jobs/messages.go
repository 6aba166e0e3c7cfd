package jobs

import (
	"context"
	"sync/atomic"

	"github.com/belayhq/belay/internal/delivery"
)

// maxGists bounds the output that is kept for messages that wait, in bytes for all of
// them. That of a message for which there is less room is cut further, and counts it.
const maxGists = 8 << 20

// messages is who is told of ends, and what of. It is the part of a Table that the
// lock of the table guards with the rest of it, so that nothing ends between its start
// and its arming, and nothing is killed between its end and its suppression.
type messages struct {
	queue *delivery.Queue
	gists map[string]*gist // of the notices that wait or were taken, by session
	held  int              // bytes of them
	news  chan struct{}

	// What most calls ask, so that where nobody asked for a message they take no lock.
	waiting, tracked atomic.Int64
}

// A Notice is the message about one end.
type Notice struct {
	delivery.Notice
	gist *gist
}

// Text is the output that goes with the notice, as clean text of at most max bytes and
// at most what was asked for: all of it, or its head and tail with a count between them
// (the tail alone for the older forms); omitted is how many bytes of the decoded output
// are not in it. A notice of a form without output has none.
func (n Notice) Text(max int) (text string, omitted int64) {
	if n.Form == delivery.NotifyOnExit || n.gist == nil {
		return "", n.End.Observed
	}
	return n.gist.text(min(max, n.Output))
}

// changed notes what an event in the queue came to. Every event ends with it.
func (t *Table) changed(sessions ...string) {
	for _, id := range sessions {
		if g := t.gists[id]; g != nil && !t.queue.Pending(id) {
			t.held -= g.size()
			delete(t.gists, id)
		}
	}
	t.waiting.Store(int64(t.queue.Waiting()))
	t.tracked.Store(int64(t.queue.Tracked()))
}

// signal says that there may be more to take, or less to wait for. What the receiver does
// itself is not signalled: it would wake itself for ever.
func (t *Table) signal() {
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// arm subscribes to the end of a job. j is nil for a process without an ID.
func (t *Table) arm(j *Job, task delivery.Task) error {
	if j == nil || j.form == delivery.None {
		return nil
	}
	err := t.queue.Arm(delivery.Subscription{Session: j.id, Form: j.form, Task: task, Output: j.message})
	t.tracked.Store(int64(t.queue.Tracked()))
	return err
}

// tell notes the end of a job, whose state is final.
func (t *Table) tell(j *Job) {
	if j.form == delivery.None {
		return
	}
	g := j.gist
	j.gist = nil
	end := delivery.End{
		Status: string(j.final.State), Code: j.final.Code, Signal: j.final.Signal, Wall: j.final.Wall, Observed: j.output.size(),
	}
	if j.final.Signal != "" {
		end.Code = -1
	}
	if t.queue.Ended(j.id, end) && g != nil {
		g.shrink(maxGists - t.held)
		t.held += g.size()
		if t.gists == nil {
			t.gists = map[string]*gist{}
		}
		t.gists[j.id] = g
	}
	t.changed(j.id)
	t.signal()
}

// forget lets go of a job that is evicted, or was never started. A notice that waits
// stays, with what goes with it.
func (t *Table) forget(j *Job) {
	if j == nil || j.form == delivery.None {
		return
	}
	t.queue.Forget(j.id)
	t.changed(j.id)
}

func (t *Table) suppress(j *Job) {
	if j.form == delivery.None {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue.Suppress(j.id)
	t.changed(j.id)
	t.signal()
}

func (t *Table) suppressAll() {
	t.queue.SuppressAll()
	t.gists, t.held = nil, 0
	t.changed()
	t.signal()
}

// Task is the present task of the user.
func (t *Table) Task() delivery.Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queue.Task()
}

// NewTask begins another task: what belongs to the one before disarms, also a message
// that waits (D2).
func (t *Table) NewTask() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue.Disarm()
	var all []string
	for id := range t.gists {
		all = append(all, id)
	}
	t.changed(all...)
	t.signal()
}

// Waiting is how many notices Take would give at a boundary.
func (t *Table) Waiting(b delivery.Boundary) int {
	if t.waiting.Load() == 0 {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queue.Ready(b)
}

// Armed is how many processes run that may yet wake the model in this task.
func (t *Table) Armed() int {
	if t.tracked.Load() == 0 {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queue.Armed()
}

// Take hands out the notices that are due at a boundary, in the order of the ends. Each
// of them has to come back by Delivered or Return.
func (t *Table) Take(b delivery.Boundary) (notices []Notice) {
	if t.waiting.Load() == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.queue.Take(b) {
		notices = append(notices, Notice{n, t.gists[n.Session]})
	}
	t.waiting.Store(int64(t.queue.Waiting()))
	return notices
}

// Delivered tells that notices which Take handed out have reached their place.
func (t *Table) Delivered(sessions []string) {
	if len(sessions) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range sessions {
		t.queue.Delivered(id)
	}
	t.changed(sessions...)
}

// Return gives back, in their order, notices that Take handed out and that could not be
// delivered.
func (t *Table) Return(sessions []string) {
	if len(sessions) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	notices := make([]delivery.Notice, len(sessions))
	for i, id := range sessions {
		notices[i].Session = id
	}
	t.queue.Return(notices)
	t.changed(sessions...)
}

// Observed tells that direct calls reported the final status of sessions, in results
// that reached the model.
func (t *Table) Observed(sessions []string) {
	if len(sessions) == 0 || t.tracked.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range sessions {
		t.queue.Observed(id)
	}
	t.changed(sessions...)
}

// Ack is the observation of a nested caller. It tells whether there was a message to
// take back.
func (t *Table) Ack(session string) bool {
	if t.tracked.Load() == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	acknowledged := t.queue.Ack(session)
	t.changed(session)
	return acknowledged
}

// Known tells whether an ID means something here: a session, or one that was evicted
// and whose message still waits.
func (t *Table) Known(session string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.jobs[session] != nil || t.queue.Pending(session)
}

// News is signalled when a message came to wait, and when a process stopped to be one
// that may wake the model; not when one is returned. It holds one signal; it is for one
// receiver, and is never closed.
func (t *Table) News() <-chan struct{} { return t.news }

type taskKey struct{}

// InTask is the context of a call that was made in a task of the user. 0 is the present
// one, whenever that is looked at.
func InTask(ctx context.Context, task delivery.Task) context.Context {
	if task == 0 {
		return ctx
	}
	return context.WithValue(ctx, taskKey{}, task)
}

// TaskOf is the task of a call's context, or 0.
func TaskOf(ctx context.Context) delivery.Task {
	task, _ := ctx.Value(taskKey{}).(delivery.Task)
	return task
}
