package agent

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/internal/host/transcript"
	"github.com/belayhq/belay/tool"
)

// resumedText tells the model what a resumed conversation has lost (B6).
const resumedText = "belay: this conversation was resumed. No process of before can be reached any more. Files may have changed since: read before you write."

// interruptedText tells the model why its work stops in the middle.
const interruptedText = "belay: the user interrupted here. What was under way was stopped."

// said is the Data of the transcript's entry for an answer: what the entry itself has no
// place for.
type said struct {
	Native  *model.Native `json:"native,omitempty"`
	Calls   int           `json:"calls,omitempty"`   // that follow; fewer do where a crash came between
	Stop    model.Stop    `json:"stop,omitempty"`    // why it ended
	Partial bool          `json:"partial,omitempty"` // it was cut off; Text is what came
}

// A history is the conversation as the model is shown it, with the transcript in step.
// Only the run appends to it; results come from several goroutines.
type history struct {
	transcript *transcript.Transcript

	mu       sync.Mutex
	messages []model.Message
	size     int64              // bytes of messages
	unsaid   []transcript.Entry // happened, and could not be written; they go before anything else
	task     string             // the user's last text: it outlives a compaction
	open     []model.Call       // of the last answer, until results
	got      map[string]result  // of open
}

// restore makes messages of the entries of a resumed conversation. Whatever order results
// came in, they are put in that of the calls.
func (h *history) restore(entries []transcript.Entry) {
	var open *model.Message // the answer whose calls or results are being read
	var expected int
	results := map[string]model.Message{}
	done := func() {
		if open == nil {
			return
		}
		if len(open.Calls) != expected {
			open.Native = nil // it tells of calls that are not there
		}
		if open.Text != "" || len(open.Calls) > 0 {
			h.add(*open)
		}
		for _, c := range open.Calls {
			r, ok := results[c.ID]
			if !ok { // the transcript gives each one when it is resumed
				r = model.Message{Role: model.Result, CallID: c.ID, Text: transcript.Lost, Failed: true}
			}
			h.add(r)
		}
		open, results = nil, map[string]model.Message{}
	}
	for _, e := range entries {
		switch e.Type {
		case transcript.Call:
			if open == nil { // calls of nobody: the transcript lets them be
				open, expected = &model.Message{Role: model.Assistant}, 0
			}
			open.Calls = append(open.Calls, model.Call{ID: e.CallID, Name: e.Tool, Args: e.Args})
		case transcript.Result:
			results[e.CallID] = model.Message{Role: model.Result, CallID: e.CallID, Text: e.Text, Failed: e.Kind != kindResult}
		case transcript.User:
			done()
			h.add(model.Message{Role: model.User, Text: e.Text})
			h.task = e.Text
		case transcript.Notice:
			done()
			h.add(model.Message{Role: model.User, Text: e.Text})
		case transcript.Assistant:
			done()
			var d said
			_ = json.Unmarshal(e.Data, &d) // what another version wrote is no reason to lose the rest
			open, expected = &model.Message{Role: model.Assistant, Text: e.Text, Native: d.Native}, d.Calls
		case transcript.Compaction:
			done()
			h.messages, h.size = nil, 0
			h.add(model.Message{Role: model.User, Text: e.Text})
		}
	}
	done()
}

// add appends a message. h.mu is held, or nobody else knows h yet.
func (h *history) add(m model.Message) {
	h.messages = append(h.messages, m)
	h.size += weight(m)
}

func weight(m model.Message) int64 {
	n := len(m.Text)
	for _, c := range m.Calls {
		n += len(c.Args) + len(c.Name)
	}
	if m.Native != nil {
		n += len(m.Native.JSON)
	}
	return int64(n)
}

// view is what there is now. Its messages are shared, and never changed.
func (h *history) view() []model.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clip(h.messages)
}

// catchUp writes what happened and could not be written.
func (h *history) catchUp() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.write()
}

// write appends to the transcript, behind what waits. h.mu is held. An entry that may not
// follow is a fault of this package, and would come back for ever: it is given up.
func (h *history) write(entries ...transcript.Entry) error {
	for len(h.unsaid) > 0 {
		if err := h.transcript.Append(h.unsaid[0]); err != nil && !misplaced(err) {
			return err
		}
		h.unsaid = h.unsaid[1:]
	}
	for _, e := range entries {
		if err := h.transcript.Append(e); err != nil {
			return err
		}
	}
	return nil
}

func misplaced(err error) bool {
	var e *transcript.Error
	return errors.As(err, &e) && (e.Reason == transcript.Order || e.Reason == transcript.TooLarge)
}

// tell writes what the model is to be told, and then puts it in front of the model. What
// cannot be written is not told.
func (h *history) tell(e transcript.Entry) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.write(e); err != nil {
		return err
	}
	if e.Type == transcript.User {
		h.task = e.Text
	}
	h.add(model.Message{Role: model.User, Text: e.Text})
	return nil
}

// answered writes an answer with all of its calls before any of them starts. It gives the
// calls that may start: where the writing fails, none. The others are closed.
func (h *history) answered(m model.Message, d said, calls []transcript.Entry) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.Native, d.Calls = m.Native, len(m.Calls)
	data, err := json.Marshal(d)
	if err != nil { // the vendor's own form is no JSON: it is of no use
		m.Native, d.Native = nil, nil
		data, _ = json.Marshal(d) // of strings and numbers
	}
	if err := h.write(transcript.Entry{Type: transcript.Assistant, Text: m.Text, Data: data}); err != nil {
		return err
	}
	for i, c := range calls {
		if err := h.write(c); err != nil {
			m.Calls, m.Native = m.Calls[:i], nil
			if m.Text != "" || i > 0 {
				h.add(m)
			}
			h.open = m.Calls
			h.shut(func(c model.Call) result { return failure(c.ID, tool.NewError(tool.Cancelled)) })
			return err
		}
	}
	h.add(m)
	h.open = m.Calls
	return nil
}

// ended writes the result of a call, whenever it comes.
func (h *history) ended(r result) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.end(r)
}

func (h *history) end(r result) error {
	err := h.write(r.entry())
	if err != nil {
		h.unsaid = append(h.unsaid, r.entry())
	}
	if h.got == nil {
		h.got = map[string]result{}
	}
	h.got[r.id] = r
	return err
}

// results puts the results of a batch in front of the model, in the order of its calls. A
// call that has none gets the one that missing makes: after a fault of the program, or
// where nothing was started.
func (h *history) results(missing func(model.Call) result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shut(missing)
}

func (h *history) shut(missing func(model.Call) result) {
	for _, c := range h.open {
		r, ok := h.got[c.ID]
		if !ok {
			r = missing(c)
			_ = h.end(r) // it is written later, then
		}
		h.add(r.message())
	}
	h.open, h.got = nil, nil
}

// turn ends a turn on the disk.
func (h *history) turn(u model.Usage) error {
	data, err := json.Marshal(u)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.write(); err != nil {
		return err
	}
	return h.transcript.Turn(data)
}

// replace puts a text in the place of everything, in front of the model only: the
// transcript keeps all of it.
func (h *history) replace(text string, u model.Usage) error {
	data, err := json.Marshal(u)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.write(transcript.Entry{Type: transcript.Compaction, Text: text, Data: data}); err != nil {
		return err
	}
	h.messages, h.size = nil, 0
	h.add(model.Message{Role: model.User, Text: text})
	return nil
}

// valid is s as UTF-8: a transcript keeps nothing else, and a vendor takes nothing else.
func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// bytes is how much there is now.
func (h *history) bytes() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.size
}

// lastTask is the user's last text.
func (h *history) lastTask() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.task
}

// sync returns when the disk has all that was written.
func (h *history) sync() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.write(); err != nil {
		return err
	}
	return h.transcript.Sync()
}
