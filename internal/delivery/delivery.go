// Package delivery decides who is told that a process ended, and when.
//
// It promises that a process gives at most one notice; that none comes once its
// subscription was disarmed, consumed or suppressed; and that one that is armed is not
// lost: it stays until a boundary takes it. It holds no output and no command line: a
// notice names the session and how many bytes of output may go with it.
//
// It is a rule machine: events go in, notices come out. There is no process in it, no
// clock and no goroutine. A Queue is for one caller at a time: its owner holds one lock
// over an event and over what the event is about, so that a process cannot end between
// its start and its arming, or between a kill and the suppression.
package delivery

import (
	"errors"
	"slices"
	"time"
)

// A Form is what the starter of a process asked for.
type Form int

const (
	None         Form = iota // nothing is delivered by itself
	Background               // the end with output, for the task in which it was started
	Service                  // as Background if the end is a failure, nothing otherwise
	NotifyOnExit             // the end without output, after the user's next message
	Steer                    // the end with output, at the next safe boundary
	FollowUp                 // the end with output, when the model would stop
	NextTurn                 // the end with output, after the user's next message
)

// older forms are not bound to a task (D2) and not consumed by an observation (D5).
func (f Form) older() bool { return f >= NotifyOnExit }

// TailOnly tells whether the output that goes with a form is the end of it (D7); for
// Background and Service it is all that there was, bounded.
func (f Form) TailOnly() bool { return f.older() }

func (f Form) String() string {
	switch f {
	case Background:
		return "background"
	case Service:
		return "service"
	case NotifyOnExit:
		return "notify_on_exit"
	case Steer:
		return "steer"
	case FollowUp:
		return "followUp"
	case NextTurn:
		return "nextTurn"
	}
	return "default"
}

// A Boundary is a moment at which messages may be put in front of the model. None of
// them is between a tool call and its result.
type Boundary int

const (
	// Safe is between a finished batch of tool calls and the next model request. A
	// server that wakes nobody has it with the answer to each call.
	Safe Boundary = iota
	// Stop is when the model would stop. What is taken there makes it go on.
	Stop
	// Idle is when no request and no tool is under way. What is taken there wakes the
	// model, in one continuation for all of it.
	Idle
	// UserMessage is after the user's next message, before its request.
	UserMessage
)

// due tells whether a form is delivered at a boundary.
func (f Form) due(b Boundary) bool {
	switch f {
	case Background, Service:
		return true // disarmed before a new message of the user, where there is a user
	case Steer:
		return true // each of them is in front of a request and behind the last result
	case FollowUp:
		return b == Stop || b == Idle
	case NotifyOnExit, NextTurn:
		return b == UserMessage
	}
	return false
}

// MaxOutput is the most output that goes with a notice, in bytes of UTF-8 (D1, D7).
const MaxOutput = 64_000

// MaxNotices is how many processes may be armed or have a notice waiting, where New is
// given no other bound: as many as a runtime can have running.
const MaxNotices = 4096

// A Task is one request of the user and what came of it. The first is 1; each Disarm
// begins another.
type Task int64

// A Subscription asks for a notice.
type Subscription struct {
	Session string
	Form    Form
	// Task is the one in which the call was made: what Queue.Task said when its batch
	// began. A call that is still under way when the task is over arms nothing. 0
	// stands for the present one.
	Task Task
	// Output is the budget of the call in bytes; it counts up to MaxOutput. A form
	// without output ignores it.
	Output int
}

// An End is how a process ended.
type End struct {
	Status   string        // exited, signaled, timed_out or killed
	Code     int           // of the exit; -1 where there is none
	Signal   string        // without SIG
	Wall     time.Duration // since its start
	Observed int64         // bytes of decoded output
}

// Failed tells whether it is a failure: a code that is not zero, a signal that belay did
// not send, a timeout. A kill was asked for.
func (e End) Failed() bool {
	switch e.Status {
	case "exited":
		return e.Code != 0
	case "killed":
		return false
	}
	return true
}

// A Notice is to be told to the model.
type Notice struct {
	Session string
	Form    Form
	Output  int // bytes of sanitized output that may go with it; 0: none
	End     End
}

// ErrFull says that as many notices are armed or waiting as may. The process must not be
// started with that subscription.
var ErrFull = errors.New("as many completion messages are waiting as may")

// state is where the subscription of one process stands. It only goes forward, but for
// taken, which can go back to ready.
type state int

const (
	armed state = iota // the process runs
	ready              // it ended, and its notice waits
	taken              // the notice was handed out
	over               // delivered, disarmed, consumed, suppressed or not wanted: no notice any more
)

type entry struct {
	Notice
	state  state
	forgot bool // the session is not known any more: only the notice keeps the entry
}

// A Queue holds the subscriptions of one runtime. Use New.
type Queue struct {
	limit   int
	task    Task
	entries map[string]*entry
	waiting []*entry // ready, in the order of their ends
	live    int      // armed, ready or taken
}

// New makes an empty queue for at most limit notices that are armed or waiting. 0 is
// MaxNotices.
func New(limit int) *Queue {
	if limit <= 0 {
		limit = MaxNotices
	}
	return &Queue{limit: limit, task: 1, entries: map[string]*entry{}}
}

// Task is the present one.
func (q *Queue) Task() Task { return q.task }

// Arm subscribes to the end of a process, which comes before its start: Forget takes it
// back where there was none. A process has one subscription for good; a second Arm does
// nothing. The error is ErrFull.
func (q *Queue) Arm(s Subscription) error {
	if q.entries[s.Session] != nil || s.Form <= None || s.Form > NextTurn {
		return nil
	}
	e := &entry{Notice: Notice{Session: s.Session, Form: s.Form}}
	if s.Form != NotifyOnExit {
		e.Output = min(max(s.Output, 0), MaxOutput)
	}
	switch {
	case s.Task != 0 && s.Task != q.task && !s.Form.older():
		e.state = over // remembered, so that a second Arm does not revive it
	case q.live >= q.limit:
		return ErrFull
	default:
		q.live++
	}
	q.entries[s.Session] = e
	return nil
}

// Ended tells that a process ended. It returns whether a notice waits now that was not
// waiting before: the owner may look whether a boundary is near.
func (q *Queue) Ended(session string, end End) bool {
	e := q.entries[session]
	if e == nil || e.state != armed {
		return false
	}
	e.End = end
	if e.Form == Service && !end.Failed() {
		q.finish(e)
		return false
	}
	e.state = ready
	q.waiting = append(q.waiting, e)
	return true
}

// Observed tells that a direct call reported the final status of a process in a result
// that went into the transcript. Not for a nested call, a list, or a call that failed or
// was cancelled. What has not ended was not observed.
func (q *Queue) Observed(session string) { q.consume(session) }

// Ack is the observation of a nested caller. It tells whether there was a notice to
// consume.
func (q *Queue) Ack(session string) bool { return q.consume(session) }

func (q *Queue) consume(session string) bool {
	e := q.entries[session]
	if e == nil || e.Form.older() || e.state != ready && e.state != taken {
		return false
	}
	wanted := e.state == ready
	q.finish(e)
	return wanted
}

// Suppress ends the subscription of a process in every form. A kill and a teardown do it
// before the process is ended.
func (q *Queue) Suppress(session string) {
	if e := q.entries[session]; e != nil {
		q.finish(e)
	}
}

// SuppressAll is Suppress for every process: shutdown, and leaving the conversation.
func (q *Queue) SuppressAll() {
	for _, e := range q.entries {
		q.finish(e)
	}
}

// Disarm begins another task: a prompt or a follow-up was taken up, a steer was queued,
// the user aborted. The subscriptions that belong to a task end, also those whose notice
// waits.
func (q *Queue) Disarm() {
	q.task++
	for _, e := range q.entries {
		if !e.Form.older() {
			q.finish(e)
		}
	}
}

// Ready is how many notices Take would give at a boundary.
func (q *Queue) Ready(b Boundary) (n int) {
	for _, e := range q.waiting {
		if e.Form.due(b) {
			n++
		}
	}
	return n
}

// Waiting is how many notices wait for a boundary, whichever it is.
func (q *Queue) Waiting() int { return len(q.waiting) }

// Tracked is how many sessions the queue knows, also those that give no notice any more.
func (q *Queue) Tracked() int { return len(q.entries) }

// Pending tells whether the notice of a session waits, or was taken and may come back:
// what goes with it has to be kept.
func (q *Queue) Pending(session string) bool {
	e := q.entries[session]
	return e != nil && (e.state == ready || e.state == taken)
}

// Armed tells whether a process that still runs may yet wake the model in this task: a
// print session waits for those. A service is none of them.
func (q *Queue) Armed() (n int) {
	for _, e := range q.entries {
		if e.state == armed && (e.Form == Background || e.Form == Steer || e.Form == FollowUp) {
			n++
		}
	}
	return n
}

// Take hands out the notices that are due at a boundary, in the order of the ends. Each
// counts as delivered from now on, unless Return gives it back.
func (q *Queue) Take(b Boundary) (notices []Notice) {
	q.waiting = slices.DeleteFunc(q.waiting, func(e *entry) bool {
		if !e.Form.due(b) {
			return false
		}
		e.state = taken
		notices = append(notices, e.Notice)
		return true
	})
	return notices
}

// Delivered tells that what Take handed out has reached its place and cannot come back.
// Until then it takes room.
func (q *Queue) Delivered(session string) {
	if e := q.entries[session]; e != nil && e.state == taken {
		q.finish(e)
	}
}

// Return gives back what Take handed out and what could not be delivered: the answer was
// not written, the request was never made. It waits again, in front, unless its
// subscription ended meanwhile.
func (q *Queue) Return(notices []Notice) {
	var back []*entry
	for _, n := range notices {
		if e := q.entries[n.Session]; e != nil && e.state == taken {
			e.state = ready
			back = append(back, e)
		}
	}
	q.waiting = slices.Concat(back, q.waiting)
}

// Forget tells that a session is not known any more: it was evicted, or never started. A
// notice that waits stays; all else of it goes.
func (q *Queue) Forget(session string) {
	e := q.entries[session]
	if e == nil {
		return
	}
	switch e.state {
	case ready, taken:
		e.forgot = true
	default:
		q.finish(e)
		delete(q.entries, session)
	}
}

// finish ends a subscription, wherever it stands.
func (q *Queue) finish(e *entry) {
	if e.state == ready {
		q.waiting = slices.DeleteFunc(q.waiting, func(w *entry) bool { return w == e })
	}
	if e.state != over {
		q.live--
	}
	e.state = over
	if e.forgot {
		delete(q.entries, e.Session)
	}
}
