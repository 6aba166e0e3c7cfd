// Package stream shows a conversation to another program or to a pipe: its final answer
// (Print), its events as JSON lines (JSON), or lines both ways (RPC).
//
// It promises that the output has nothing in it but what was promised: the answer in the
// first form, whole JSON objects on lines of their own in the others, in the order in which
// things happened. A reader that is slow slows the conversation down and lets nothing grow;
// one that leaves ends it in the ordinary way: children ended, transcript saved. Each
// request of a client gets one response, whatever the line held, and no line ends the
// host. Only the JSON value true for a question that still stands is a yes.
//
// It does not promise that there is a person behind a yes, and it redacts nothing: events
// hold what the model said and what tools told.
//
// Print, JSON and RPC are each called once for a stream, and return when all that they
// started has ended. Where a Read or Write under way cannot be ended, as of a standard
// stream that the system cannot poll, one goroutine stays until it returns.
package stream

import (
	"context"
	"errors"
	"time"

	"github.com/belayhq/belay/approve"
	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/host/agent"
	"github.com/belayhq/belay/internal/host/transcript"
)

// Protocol is the version of events and requests. A change that an old client cannot
// take raises it.
const Protocol = 1

// A Talk is one open conversation with all that belongs to it.
type Talk struct {
	Agent *agent.Agent
	Suite *coding.Suite
	ID    string   // of the conversation
	Notes []string // what the user has to know of how it was found
	// Entries gives what was said and done so far, in order, until each returns an error.
	Entries func(each func(transcript.Entry) error) error
	// Close ends the agent, the processes and the transcript, in this order and each in
	// bounded time. The error is of what could not be seen to end.
	Close func() error
}

// Which names a conversation: a new one, the last one about the root, or one by its ID.
type Which struct {
	Last bool
	ID   string
}

// Ears are what a face gives the agent of a conversation: see agent.Config.
type Ears struct {
	Event  func(agent.Event)
	Asker  approve.Asker
	Notify func(string)
}

// Config is what the forms have in common.
type Config struct {
	Version string // of belay
	Open    func(context.Context, Which, Ears) (*Talk, error)
	Which   Which // the first conversation
	// Gone is closed when the reader of the output has left, by who can see that
	// without a Write: a conversation that says nothing for long would not know. nil:
	// nobody can. Print passes it over: a task may be worth its end without a reader.
	Gone <-chan struct{}
}

// hello is the first event of a conversation; without a type it is the result of a request.
type hello struct {
	Type         string `json:"type,omitempty"`
	Protocol     int    `json:"protocol"`
	Version      string `json:"version"`
	Conversation string `json:"conversation"`
	Root         string `json:"root"`
	// Notes tell what the user has to know of how the conversation was found.
	Notes []string `json:"notes"`
}

func (c Config) hello(t *Talk) hello {
	return hello{"hello", Protocol, c.Version, t.ID, t.Suite.Root(), append([]string{}, t.Notes...)}
}

// ErrReader says that the output could not be written: as a rule, that its reader left.
var ErrReader = errors.New("the output could not be written")

const (
	// patience is how long a reader that has stopped reading holds up an end. A pipe
	// into a program that starts slowly stands still for seconds.
	patience = 10 * time.Second
	// haste takes its place when the program is told to go.
	haste = 250 * time.Millisecond
)
