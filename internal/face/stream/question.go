package stream

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/belayhq/belay/approve"
	"github.com/belayhq/belay/tool"
)

// questions puts the questions of a conversation to a client that said that it can ask
// the user. Only the JSON value true, for a question that stands, is a yes.
type questions struct {
	out *outbox
	// told waits until the events so far were told, or ctx is done; or nil.
	told func(ctx context.Context)

	mu      sync.Mutex
	ui      bool
	closing bool
	open    map[string]chan bool // by id; each holds one answer
}

var _ approve.Asker = (*questions)(nil)

type uiRequest struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	Reason    string `json:"reason"`
	SessionID string `json:"session_id,omitempty"`
	Title     string `json:"title"`
	Shown     string `json:"shown"`
	Bytes     int    `json:"bytes"`
	TimeoutMS int64  `json:"timeout_ms"`
}

type uiWithdrawn struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// behind is how long a question waits for the events that led to it. A client that does not
// read gets it all the same.
const behind = time.Second

// errVoid is a no to a question that went away.
var errVoid = errors.New("stream: the question is void")

// Ask asks the client.
func (q *questions) Ask(ctx context.Context, p tool.Prompt) (bool, error) {
	id, answer := "ui_"+strings.ToLower(rand.Text()[:16]), make(chan bool, 1)
	q.mu.Lock()
	if !q.ui {
		q.mu.Unlock()
		return false, approve.ErrUnavailable
	}
	q.open[id] = answer
	q.mu.Unlock()
	if q.told != nil {
		soon, cancel := context.WithTimeout(ctx, behind)
		q.told(soon)
		cancel()
	}

	timeout := approve.MaxTimeout
	if end, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(end), 0)
	}
	// It never waits for the client to read: one question stands at a time.
	q.out.Reply(uiRequest{"ui_request", id, "confirm", p.Reason, p.SessionID, p.Title, p.Shown, p.Bytes, timeout.Milliseconds()})
	select {
	case yes := <-answer:
		return yes, nil
	case <-ctx.Done():
		reason := "aborted"
		q.mu.Lock()
		closing := q.closing
		q.mu.Unlock()
		switch {
		case errors.Is(context.Cause(ctx), approve.ErrGone):
			reason = "process_gone"
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			reason = "timeout"
		case closing:
			reason = "shutdown"
		}
		return false, q.withdraw(id, reason)
	}
}

// withdraw tells the client that an answer is of no use any more.
func (q *questions) withdraw(id, reason string) error {
	q.mu.Lock()
	delete(q.open, id)
	q.mu.Unlock()
	q.out.Reply(uiWithdrawn{"ui_withdrawn", id, reason})
	return errVoid
}

// hello says whether the client can ask.
func (q *questions) hello(ui bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ui = ui
}

// asks tells whether the client can ask.
func (q *questions) asks() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ui
}

// close tells that what is withdrawn from here on is because of the end.
func (q *questions) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closing = true
}

// answer takes a response of the client. It is false where no such question stands.
func (q *questions) answer(id string, confirmed []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	to, stands := q.open[id]
	if stands {
		delete(q.open, id) // the first answer is the answer
		to <- string(confirmed) == "true"
	}
	return stands
}
