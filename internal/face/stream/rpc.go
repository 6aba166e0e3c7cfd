package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/host/agent"
	"github.com/belayhq/belay/internal/host/transcript"
	"github.com/belayhq/belay/tool"
)

const (
	// maxBeside bounds the requests that are carried out at once beside others: those that
	// wait for a process or a disk. Up to maxQueued more wait for their turn.
	maxBeside = 16
	maxQueued = 1024
	// chance is how long they may go on after the end of the input, so that a request
	// that is piped in gets its answer.
	chance = 200 * time.Millisecond
)

// RPC is the host for another program: requests come from in and events go to out, one
// JSON object a line both ways. It returns when in has ended, a shutdown was asked for,
// the reader of out left, or ctx is done; by then the conversation is closed. The error
// is that of opening the first conversation, or of what could not be seen to end.
//
// RPC closes in.
func RPC(ctx context.Context, c Config, in io.ReadCloser, out io.Writer) error {
	h := &host{config: c, out: newOutbox(out, c.Gone)}
	defer h.out.Close()
	h.questions = &questions{out: h.out, open: map[string]chan bool{},
		told: func(ctx context.Context) { h.current().Agent.Told(ctx) }}
	talk, err := h.open(ctx, c.Which)
	if err != nil {
		return err
	}
	h.talk = talk
	h.out.Put(c.hello(talk))
	err = h.serve(ctx, in)
	if ctx.Err() != nil {
		h.out.Drain(context.WithoutCancel(ctx), haste)
	} else {
		h.out.Drain(ctx, patience)
	}
	return err
}

type host struct {
	config    Config
	out       *outbox
	questions *questions
	beside    aside
	calls     int // of tools by the client, so that each has an id of its own

	// accepting is held while a text is handed over and answered, so that its response
	// comes before the events that it brings about.
	accepting sync.Mutex

	mu   sync.Mutex
	talk *Talk // set by the one goroutine that serves, and read by others
}

func (h *host) current() *Talk {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.talk
}

func (h *host) open(ctx context.Context, which Which) (*Talk, error) {
	return h.config.Open(ctx, which, Ears{
		Event: func(e agent.Event) {
			h.accepted()
			h.out.Put(e)
		},
		Asker: h.questions,
		// The client of a host with a user is the user's screen; any other is none.
		Notify: func(text string) {
			if h.questions.asks() {
				h.out.Reply(uiNotify{"ui_notify", text})
			}
		},
	})
}

type uiNotify struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type response struct {
	Type   string          `json:"type"`
	ID     json.RawMessage `json:"id"` // null where the request had none
	OK     bool            `json:"ok"`
	Result any             `json:"result,omitempty"`
	Error  *fault          `json:"error,omitempty"`
}

func (h *host) reply(id json.RawMessage, result any, f *fault) {
	if id == nil {
		id = json.RawMessage("null")
	}
	if f == nil && result == nil {
		result = struct{}{}
	}
	h.out.Reply(response{"response", id, f == nil, result, f})
}

// serve takes requests until the end.
func (h *host) serve(ctx context.Context, in io.ReadCloser) error {
	serving, stop := context.WithCancel(ctx) // of what is carried out beside
	defer stop()
	type input struct {
		line []byte
		err  error
	}
	inputs := make(chan input)
	over := make(chan struct{})
	defer close(over)
	defer in.Close()
	go func() {
		for l := newLines(in); ; {
			var i input
			if i.line, i.err = l.next(); i.err != nil && i.err != errLong {
				close(inputs)
				return
			}
			select {
			case inputs <- i:
			case <-over:
				return
			}
			if !h.out.Room() {
				return
			}
		}
	}()

	// A signal, and a reader who left, do not wait for a request that is being carried out.
	defer h.closeEarly(ctx)()

	var last json.RawMessage // the id of a shutdown, which is answered when all has ended
	for going := true; going; {
		select {
		case <-ctx.Done():
			going = false
		case <-h.out.broken:
			going = false
		case i, more := <-inputs:
			switch {
			case !more:
				going = false
			case i.err != nil:
				h.reply(nil, nil, faultf("too_large", "the line is over %d bytes", maxLine))
			default:
				r, f := parse(i.line)
				if f == nil && r.kind == "shutdown" {
					last, going = r.id, false
					break
				}
				if f != nil {
					h.reply(r.id, nil, f)
				} else {
					h.handle(serving, r)
				}
			}
		}
	}
	if ctx.Err() == nil {
		h.beside.wait(chance)
	}
	h.questions.close()
	defer h.out.Hurry()()
	stop()
	err := h.current().Close()
	h.beside.wait(math.MaxInt64) // cancelled, and bounded by the end of the suite
	if last != nil {
		var f *fault
		if err != nil {
			f = faultf("uncertain", "some of what was started could not be seen to end")
		}
		h.reply(last, nil, f)
	}
	return err
}

// handle carries out one request and answers it, at once or when it is done.
func (h *host) handle(ctx context.Context, r request) {
	talk := h.current()
	say := func(result any, f *fault) { h.reply(r.id, result, f) }
	switch r.kind {
	case "hello":
		h.questions.hello(r.ui)
		about := h.config.hello(talk)
		about.Type = ""
		say(about, nil)
	case "prompt":
		h.accept(r, talk.Agent.Prompt)
	case "steer":
		h.accept(r, talk.Agent.Steer)
	case "follow_up":
		h.accept(r, talk.Agent.FollowUp)
	case "abort":
		over := h.out.Hurry()
		queued := talk.Agent.Abort()
		over()
		say(map[string]any{"queued": append([]string{}, queued...)}, nil)
	case "messages":
		h.carryOut(say, func() { say(messages(talk, r.from, r.limit)) })
	case "processes":
		h.call(ctx, talk, say, "exec_list", map[string]any{})
	case "output":
		args := map[string]any{"session_id": r.session, "cursor": r.cursor}
		if r.maxTokens > 0 {
			args["max_output_tokens"] = r.maxTokens
		}
		h.call(ctx, talk, say, "exec_output", args)
	case "kill":
		args := map[string]any{"session_id": r.session}
		if r.signal != "" {
			args["signal"] = r.signal
		}
		h.call(ctx, talk, say, "exec_kill", args)
	case "new":
		say(h.move(ctx, Which{}))
	case "resume":
		if (r.talk == "") == !r.last {
			say(nil, faultf("invalid_request", "resume takes the id of a conversation, or last: true"))
			return
		}
		say(h.move(ctx, Which{Last: r.last, ID: r.talk}))
	case "ui_response":
		var id string
		if json.Unmarshal(r.id, &id) != nil || !h.questions.answer(id, r.confirmed) {
			say(nil, faultf("void", "no such question stands; nothing was confirmed"))
		}
	}
}

// accepted waits while a text is being handed over.
func (h *host) accepted() {
	h.accepting.Lock()
	defer h.accepting.Unlock()
}

func (h *host) accept(r request, to func(string) error) {
	h.accepting.Lock()
	defer h.accepting.Unlock()
	h.reply(r.id, nil, refusal(to(r.text)))
}

// closeEarly closes the conversation as soon as ctx is done or the reader has left. stop ends the
// watch, and waits for it.
func (h *host) closeEarly(ctx context.Context) (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-over:
			return
		case <-ctx.Done():
		case <-h.out.broken:
		}
		h.questions.close()
		defer h.out.Hurry()()
		_ = h.current().Close() // is told by the one who closes it again
	}()
	return func() { close(over); <-ended }
}

// An aside carries out what may take its time, beside other requests and in no order.
type aside struct {
	mu      sync.Mutex
	running int
	queue   []func()
	idle    chan struct{} // closed when nothing runs; nil while nobody waits for it
}

// do is false where too many wait already.
func (a *aside) do(what func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.running < maxBeside:
		a.running++
		go a.work(what)
	case len(a.queue) < maxQueued:
		a.queue = append(a.queue, what)
	default:
		return false
	}
	return true
}

func (a *aside) work(what func()) {
	for {
		what()
		a.mu.Lock()
		if len(a.queue) == 0 {
			if a.running--; a.running == 0 && a.idle != nil {
				close(a.idle)
				a.idle = nil
			}
			a.mu.Unlock()
			return
		}
		what = a.queue[0]
		a.queue = a.queue[1:]
		a.mu.Unlock()
	}
}

// wait waits until nothing runs, at most that long.
func (a *aside) wait(most time.Duration) {
	a.mu.Lock()
	if a.running == 0 {
		a.mu.Unlock()
		return
	}
	if a.idle == nil {
		a.idle = make(chan struct{})
	}
	idle := a.idle
	a.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// carryOut does what a request asks for, and refuses it where too many wait.
func (h *host) carryOut(say func(any, *fault), what func()) {
	if !h.beside.do(what) {
		say(nil, faultf("limit", "%d requests wait already", maxQueued))
	}
}

// call makes a call of a tool for the client. It is none of the model's: nothing of it
// gets into the conversation, and it consumes no message of a process.
func (h *host) call(ctx context.Context, talk *Talk, say func(any, *fault), name string, args map[string]any) {
	raw, err := json.Marshal(args)
	if err != nil {
		say(nil, faultf("internal", "the request could not be encoded"))
		return
	}
	h.calls++
	id := fmt.Sprintf("client_%d", h.calls)
	h.carryOut(say, func() {
		result, err := talk.Suite.Call(ctx, coding.Caller{}, tool.Call{ID: id, Name: name, Args: raw})
		var e *tool.Error
		if errors.As(err, &e) {
			say(nil, &fault{string(e.Code), e.Text})
			return
		}
		say(result.Data, nil)
	})
}

// move leaves the conversation for another one. The one that is left is kept if the
// other cannot be opened.
func (h *host) move(ctx context.Context, which Which) (any, *fault) {
	old := h.current()
	if which.ID == old.ID {
		return nil, faultf("busy", "this is the conversation that is open")
	}
	next, err := h.open(ctx, which)
	if err != nil {
		return nil, notOpened(err)
	}
	over := h.out.Hurry()
	err = old.Close() // its processes end, and nothing is told of them any more (D9)
	over()
	h.mu.Lock()
	h.talk = next
	h.mu.Unlock()
	hello := h.config.hello(next)
	h.out.Reply(hello)
	notes := append([]string{}, next.Notes...)
	if err != nil {
		notes = append(notes, "some of what the former conversation started could not be seen to end")
	}
	return map[string]any{"conversation": next.ID, "root": hello.Root, "notes": notes}, nil
}

func refusal(err error) *fault {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, agent.ErrBusy):
		return faultf("busy", "a run is on: use steer or follow_up")
	case errors.Is(err, agent.ErrLong):
		return faultf("too_large", "the text is over %d bytes", agent.MaxText)
	case errors.Is(err, agent.ErrEmpty):
		return faultf("invalid_request", "text: expects a text that is not empty")
	case errors.Is(err, agent.ErrFull):
		return faultf("limit", "%d texts wait already", agent.MaxQueued)
	}
	return faultf("closed", "the conversation is closed")
}

// A Refusal is an error of Open that a client may see.
type Refusal struct {
	Code string // not_found, busy, damaged, …
	Text string
}

func (r *Refusal) Error() string { return r.Text }

func notOpened(err error) *fault {
	var known *Refusal
	var kept *transcript.Error
	switch {
	case errors.As(err, &known):
		return &fault{known.Code, known.Text}
	case errors.As(err, &kept):
		return &fault{code(kept.Reason), kept.Error()}
	}
	return faultf("failed", "the conversation could not be opened")
}

func code(r transcript.Reason) string {
	switch r {
	case transcript.NotFound, transcript.Empty:
		return "not_found"
	case transcript.Busy:
		return "busy"
	case transcript.Damaged, transcript.NotATranscript, transcript.TooNew:
		return "damaged"
	}
	return "failed"
}

const (
	usualPage = 100
	maxPage   = 1000
	// maxPageBytes bounds the texts of one page; maxEntryBytes that of one entry in it.
	maxPageBytes  = 1 << 20
	maxEntryBytes = 256 << 10
)

// A message is one entry of the conversation as a client sees it.
type message struct {
	Role      string    `json:"role"` // user assistant call result notice summary recovered
	Time      time.Time `json:"time"`
	Text      string    `json:"text,omitempty"`
	Display   *bool     `json:"display,omitempty"`
	CallID    string    `json:"call_id,omitempty"`
	Tool      string    `json:"tool,omitempty"`
	Args      string    `json:"args,omitempty"`
	Kind      string    `json:"kind,omitempty"`
	Code      string    `json:"code,omitempty"`
	SessionID string    `json:"session_id,omitempty"`
	Omitted   int       `json:"omitted_bytes,omitempty"` // of text or args
	Dropped   int64     `json:"dropped_bytes,omitempty"` // recovered
}

var roles = map[transcript.Type]string{
	transcript.User: "user", transcript.Assistant: "assistant", transcript.Call: "call", transcript.Result: "result",
	transcript.Notice: "notice", transcript.Compaction: "summary", transcript.Recovered: "recovered",
}

// messages is a page of the conversation from entry number from on.
func messages(talk *Talk, from, limit int64) (any, *fault) {
	if limit == 0 {
		limit = usualPage
	}
	limit = min(limit, maxPage)
	page := []message{}
	size, at := 0, int64(-1)
	var next *int64
	err := talk.Entries(func(e transcript.Entry) error {
		at++
		role := roles[e.Type]
		if at < from || role == "" || role == "assistant" && e.Text == "" { // the end of a turn, or an answer that is calls only
			return nil
		}
		m := message{Role: role, Time: e.Time, Display: e.Display, CallID: e.CallID, Tool: e.Tool, Kind: e.Kind, Code: e.Code, SessionID: e.Session, Dropped: e.Dropped}
		var left [2]int
		m.Text, left[0] = cut(e.Text)
		m.Args, left[1] = cut(e.Args)
		m.Omitted = left[0] + left[1]
		if size += len(m.Text) + len(m.Args); len(page) > 0 && (size > maxPageBytes || int64(len(page)) == limit) {
			n := at
			next = &n
			return errEnough
		}
		page = append(page, m)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, notOpened(err)
	}
	return map[string]any{"messages": page, "next": next}, nil
}

var errEnough = errors.New("stream: the page is full")

// cut bounds a text, on the border of a character.
func cut(s string) (string, int) {
	if len(s) <= maxEntryBytes {
		return s, 0
	}
	n := maxEntryBytes
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n], len(s) - n
}
