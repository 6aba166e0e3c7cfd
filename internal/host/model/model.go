// Package model is the door to a language model: one request in, one streamed answer
// out, whatever vendor serves it.
//
// It promises that an answer that is returned without an error is whole: its text, and
// its tool calls with all of their arguments. A stream that was cut, stalled or refused
// is a typed error, and gives no calls. It does not promise that the calls make sense:
// their arguments are untrusted text.
//
// It holds no conversation and no key of its own; it never reads the environment. A
// Provider may be used by several goroutines at once.
package model

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// A Provider makes requests to one model.
type Provider interface {
	// Stream makes one request. It calls text with each piece of the answer's text,
	// in order and from one goroutine, and returns when the answer is complete or
	// cannot be. The pieces joined are Answer.Text.
	//
	// The error is that of ctx, or an *Error; with it Answer has the text and usage
	// that came, and no calls. Stream tries once: see Patient.
	Stream(ctx context.Context, r Request, text func(string)) (Answer, error)
}

// A Request is all that the model is shown.
type Request struct {
	System    string
	Messages  []Message
	Tools     []Tool
	MaxTokens int // of the answer; 0: the provider's default
}

// A Tool is what the model may call.
type Tool struct {
	Name, Description string
	Schema            json.RawMessage // a JSON Schema of type object
}

// A Role is whose message it is.
type Role string

const (
	User      Role = "user" // the user, and what belay tells the model
	Assistant Role = "assistant"
	Result    Role = "tool" // of one call
)

// A Message is one step of the conversation. It is the form in which transcripts keep
// it, too.
type Message struct {
	Role   Role    `json:"role"`
	Text   string  `json:"text,omitempty"`
	Calls  []Call  `json:"calls,omitempty"`   // Assistant
	Native *Native `json:"native,omitempty"`  // Assistant
	CallID string  `json:"call_id,omitempty"` // Result: the call that it answers
	Failed bool    `json:"failed,omitempty"`  // Result: it is an error
}

// A Call is a request of the model to run a tool.
type Call struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Args string `json:"args"` // as the model wrote it: meant to be a JSON object
}

// Object gives the arguments as a JSON object. What is none is wrapped, so that a server
// that insists on one takes the conversation with the model's mistake in it.
func (c Call) Object() json.RawMessage {
	s := strings.TrimSpace(c.Args)
	if s == "" {
		return json.RawMessage("{}")
	}
	if strings.HasPrefix(s, "{") && json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	b, _ := json.Marshal(map[string]string{"malformed_arguments": c.Args}) // a map of strings always marshals
	return b
}

// Native is an answer in its vendor's own form: reasoning that the same model wants to
// see again, unchanged and in its place. All others ignore it.
type Native struct {
	By   string          `json:"by"` // protocol and model
	JSON json.RawMessage `json:"json"`
}

// A Stop is why an answer ended.
type Stop string

const (
	Done     Stop = "stop"
	ToolUse  Stop = "tool_use" // it has calls
	Length   Stop = "length"   // the answer reached MaxTokens; calls may lack their end
	Filtered Stop = "filtered" // the model or its filter declined
)

// An Answer is one answer of the model.
type Answer struct {
	Text   string
	Calls  []Call
	Stop   Stop
	Usage  Usage
	Native *Native // nil where Text and Calls say all
}

// Message is the answer as a step of the conversation.
func (a Answer) Message() Message {
	return Message{Role: Assistant, Text: a.Text, Calls: a.Calls, Native: a.Native}
}

// Usage counts tokens as the vendor reported them; 0 where it did not.
type Usage struct {
	Input      int64 `json:"input"`                 // all that was shown to the model
	CacheRead  int64 `json:"cache_read,omitempty"`  // of Input
	CacheWrite int64 `json:"cache_write,omitempty"` // of Input
	Output     int64 `json:"output"`
	Reasoning  int64 `json:"reasoning,omitempty"` // of Output
}

// Add sums two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite, u.Output + v.Output, u.Reasoning + v.Reasoning}
}

// Check tells whether the messages are a conversation: each call has its one result, in
// the order of the calls, and nothing stands between them. A server would refuse
// anything else with less to say about it. The error is an *Error.
func (r Request) Check() error {
	var open []Call
	for i, m := range r.Messages {
		bad := func(code string) error {
			return &Error{Reason: BadRequest, Code: fmt.Sprintf("%s_message_%d", code, i)}
		}
		switch {
		case m.Role == Result && (len(open) == 0 || open[0].ID != m.CallID):
			return bad("result_without_call")
		case m.Role == Result:
			open = open[1:]
			continue
		case len(open) > 0:
			return bad("call_without_result")
		case m.Role != User && m.Role != Assistant:
			return bad("unknown_role")
		}
		open = m.Calls
	}
	switch {
	case len(open) > 0:
		return &Error{Reason: BadRequest, Code: "call_without_result"}
	case len(r.Messages) == 0 || r.Messages[len(r.Messages)-1].Role == Assistant:
		return &Error{Reason: BadRequest, Code: "nothing_to_answer"}
	}
	return nil
}

// MaxAnswer bounds one answer, text and arguments together, in bytes. The largest
// answers of today's models are 128,000 tokens, about half a MiB.
const MaxAnswer = 16 << 20

// maxName bounds the ID and the name of a call, in bytes. Those of the vendors have at most 64.
const maxName = 256

// A Builder puts an answer together from its stream. It is for the providers.
type Builder struct {
	Usage  Usage
	Stop   Stop    // "" until the stream said why it ended
	Native *Native // set by the provider, if at all

	tell  func(string)
	keys  []string
	text  strings.Builder
	calls []*growing
	begun bool
	size  int
}

type growing struct {
	Call
	args strings.Builder
}

// NewBuilder makes a builder that passes text on. keys are what the request is made with: a
// server that quotes one in an error does so in vain.
func NewBuilder(text func(string), keys ...string) *Builder { return &Builder{tell: text, keys: keys} }

// Text takes a piece of text.
func (b *Builder) Text(s string) error {
	if s == "" {
		return nil
	}
	if err := b.grow(len(s)); err != nil {
		return err
	}
	b.text.WriteString(s)
	if b.tell != nil {
		b.tell(s)
	}
	return nil
}

// Grow counts bytes that the provider keeps itself, and marks the answer as begun.
func (b *Builder) Grow(n int) error { return b.grow(n) }

func (b *Builder) grow(n int) error {
	b.begun = true
	if b.size += n; b.size > MaxAnswer {
		return &Error{Reason: Protocol, Code: "answer_too_large"}
	}
	return nil
}

// HasText tells whether any text came.
func (b *Builder) HasText() bool { return b.text.Len() > 0 }

// Calls is how many there are so far.
func (b *Builder) Calls() int { return len(b.calls) }

// Call begins a call and gives its number.
func (b *Builder) Call(id, name string) (int, error) {
	b.calls = append(b.calls, &growing{Call: Call{ID: id, Name: name}})
	return len(b.calls) - 1, b.grow(len(id) + len(name) + 64)
}

// Named completes the ID and the name of a call, as far as they were not known.
func (b *Builder) Named(n int, id, name string) error {
	c := b.calls[n]
	if c.ID == "" {
		c.ID = id
	}
	if c.Name == "" {
		c.Name = name
	}
	return b.grow(len(id) + len(name))
}

// ID is that of a call so far.
func (b *Builder) ID(n int) string { return b.calls[n].ID }

// Args appends to the arguments of a call.
func (b *Builder) Args(n int, s string) error {
	b.calls[n].args.WriteString(s)
	return b.grow(len(s))
}

// Answer ends the stream. err is what ended it early, in the words of whatever library;
// nil is turned into a cut if the stream never said that it is complete.
func (b *Builder) Answer(ctx context.Context, err error) (Answer, error) {
	a := Answer{Text: b.text.String(), Usage: b.Usage}
	if err == nil && b.Stop == "" {
		err = &Error{Reason: Cut}
	}
	if err != nil {
		return a, strike(ended(ctx, err, b.begun), b.keys)
	}
	a.Stop, a.Native = b.Stop, b.Native
	seen := map[string]bool{}
	for _, c := range b.calls {
		// Some servers give no IDs, or one for all. A result has to find its call.
		if c.ID == "" || seen[c.ID] || len(c.ID) > maxName {
			c.ID, a.Native = "call_"+strings.ToLower(rand.Text()[:16]), nil
		}
		if len(c.Name) > maxName { // there is no such tool, and it is shown
			c.Name, a.Native = strings.ToValidUTF8(c.Name[:maxName], ""), nil
		}
		seen[c.ID] = true
		c.Call.Args = c.args.String()
		a.Calls = append(a.Calls, c.Call)
	}
	if len(a.Calls) > 0 && a.Stop == Done {
		a.Stop = ToolUse
	}
	return a, nil
}

// Closer is a Provider that keeps connections open between requests.
type Closer interface {
	Provider
	io.Closer
}
