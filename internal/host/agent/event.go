package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/belayhq/belay/internal/host/model"
)

// An EventType is the name of an event in the contract.
type EventType string

const (
	TurnStart EventType = "turn_start"
	TextDelta EventType = "text_delta"
	Said      EventType = "message"
	ToolStart EventType = "tool_start"
	ToolEnd   EventType = "tool_end"
	Noticed   EventType = "notice"
	Queue     EventType = "queue"
	TurnEnd   EventType = "turn_end"
	Settled   EventType = "settled"
	Failed    EventType = "error"
)

// An Event is one thing that happened. Marshalled it has the names of the contract and no
// others. Its texts are as they came: a face that shows them cleans them.
type Event struct {
	Type EventType

	Text      string         // TextDelta, Said, Noticed
	Role      model.Role     // Said: model.User or model.Assistant
	CallID    string         // ToolStart, ToolEnd
	Tool      string         // ToolStart
	Preview   string         // ToolStart: what it is about, escaped, at most 160 characters
	Kind      string         // ToolEnd: result, refused, failed or uncertain
	Code      string         // ToolEnd: of an error; Failed: see Code
	Facts     map[string]any // ToolEnd: the header of the result, or the facts of the error; Noticed: of the message, not marshalled
	SessionID string         // Noticed
	Steer     []string       // Queue: what waits
	FollowUp  []string       // Queue
	Usage     model.Usage    // TurnEnd: of this turn
	Message   string         // Failed: a sentence
}

// MarshalJSON writes what belongs to the type.
func (e Event) MarshalJSON() ([]byte, error) {
	var v any
	switch e.Type {
	case TextDelta:
		v = struct {
			Type EventType `json:"type"`
			Text string    `json:"text"`
		}{e.Type, e.Text}
	case Said:
		v = struct {
			Type EventType  `json:"type"`
			Role model.Role `json:"role"`
			Text string     `json:"text"`
		}{e.Type, e.Role, e.Text}
	case ToolStart:
		v = struct {
			Type    EventType `json:"type"`
			CallID  string    `json:"call_id"`
			Tool    string    `json:"tool"`
			Preview string    `json:"preview"`
		}{e.Type, e.CallID, e.Tool, e.Preview}
	case ToolEnd:
		v = struct {
			Type   EventType      `json:"type"`
			CallID string         `json:"call_id"`
			Kind   string         `json:"kind"`
			Code   string         `json:"code,omitempty"`
			Facts  map[string]any `json:"facts,omitempty"`
		}{e.Type, e.CallID, e.Kind, e.Code, e.Facts}
	case Noticed:
		v = struct {
			Type      EventType `json:"type"`
			SessionID string    `json:"session_id"`
			Text      string    `json:"text"`
			Display   bool      `json:"display"`
		}{e.Type, e.SessionID, e.Text, false}
	case Queue:
		v = struct {
			Type     EventType `json:"type"`
			Steer    []string  `json:"steer"`
			FollowUp []string  `json:"follow_up"`
		}{e.Type, list(e.Steer), list(e.FollowUp)}
	case TurnEnd:
		v = struct {
			Type  EventType   `json:"type"`
			Usage model.Usage `json:"usage"`
		}{e.Type, e.Usage}
	case Failed:
		v = struct {
			Type    EventType `json:"type"`
			Code    string    `json:"code"`
			Message string    `json:"message"`
		}{e.Type, e.Code, e.Message}
	default:
		v = struct {
			Type EventType `json:"type"`
		}{e.Type}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// list is never null.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

const (
	// maxEvents and maxEventText bound what waits for a face that does not keep up. Then
	// the run waits, too: what the model says is not thrown away.
	maxEvents    = 256
	maxEventText = 1 << 20 // bytes
	// hardEvents bounds what waits although a run must not: it was aborted.
	hardEvents = 8 * maxEvents
)

// A teller tells events to a face, in their order, one at a time, from a goroutine that
// lives while there are any.
type teller struct {
	tell  func(Event)        // nil: nobody is told
	fault func(where string) // tell panicked

	mu    sync.Mutex
	queue []Event
	bytes int           // of text in queue
	room  chan struct{} // closed when something was taken out; nil while nobody waits
	quiet chan struct{} // closed when the goroutine ends; nil while there is none
	told  int           // so far
}

// put adds an event, and waits for room as long as ctx is not done. After that the words
// of the model are dropped, and everything else where a face has been deaf for long.
func (t *teller) put(ctx context.Context, e Event) {
	if t.tell == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.queue) >= maxEvents || t.bytes >= maxEventText {
		if t.room == nil {
			t.room = make(chan struct{})
		}
		room := t.room
		t.mu.Unlock()
		done := false
		select {
		case <-room:
		case <-ctx.Done():
			done = true
		}
		t.mu.Lock()
		if done {
			break
		}
	}
	if ctx.Err() != nil && e.Type == TextDelta {
		return
	}
	t.add(e)
}

// now adds an event without waiting. Of those that tell of the queue only the last one
// counts.
func (t *teller) now(e Event) {
	if t.tell == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Type == Queue {
		for i := range t.queue {
			if t.queue[i].Type == Queue {
				t.queue = append(t.queue[:i], t.queue[i+1:]...)
				break
			}
		}
	}
	t.add(e)
}

func (t *teller) add(e Event) {
	if len(t.queue) >= hardEvents {
		return
	}
	t.queue = append(t.queue, e)
	t.bytes += len(e.Text)
	if t.quiet == nil {
		t.quiet = make(chan struct{})
		go t.drain()
	}
}

func (t *teller) drain() {
	t.mu.Lock()
	for len(t.queue) > 0 {
		e := t.queue[0]
		t.queue[0] = Event{}
		t.queue = t.queue[1:]
		t.bytes -= len(e.Text)
		if t.room != nil && len(t.queue) <= maxEvents/2 && t.bytes <= maxEventText/2 {
			close(t.room)
			t.room = nil
		}
		t.mu.Unlock()
		t.one(e)
		t.mu.Lock()
		t.told++
	}
	t.queue = nil
	close(t.quiet)
	t.quiet = nil
	t.mu.Unlock()
}

func (t *teller) one(e Event) {
	defer func() {
		if recover() != nil { // the value may hold anything: it goes nowhere
			t.fault("Event")
		}
	}()
	t.tell(e)
}

// wait returns when nothing is left to tell, or ctx.Err().
func (t *teller) wait(ctx context.Context) error {
	t.mu.Lock()
	quiet := t.quiet
	t.mu.Unlock()
	if quiet == nil {
		return nil
	}
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// patience is how long Close waits for one event to be told, and longest for all. A face
// that writes to a client that does not read must not hold up the end of the program.
const (
	patience = 100 * time.Millisecond
	longest  = time.Second
)

// flush waits as long as the face takes events. It tells whether all were told.
func (t *teller) flush() bool {
	for end := time.Now().Add(longest); ; {
		t.mu.Lock()
		before := t.told
		t.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := t.wait(ctx)
		cancel()
		if err == nil {
			return true
		}
		t.mu.Lock()
		stuck := t.told == before || time.Now().After(end)
		t.mu.Unlock()
		if stuck {
			return false
		}
	}
}
