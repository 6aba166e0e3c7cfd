// Package tool is the contract between a caller and a tool: what a call looks
// like, what a tool declares about itself, and how an outcome is told.
//
// A call goes in two steps. [Tool.Prepare] decodes the arguments and resolves
// what they name; nothing is started and nothing is changed by it. The [Plan] it
// returns holds what was resolved, so what was judged or approved is what
// [Plan.Run] then does: Run takes no arguments of the call.
//
// The package promises words and rules only. It does no I/O, starts no goroutine,
// and enforces nothing: a [Definition] is information about a tool.
package tool

import (
	"context"
	"encoding/json"
)

// A Tool does one kind of work. Implementations are safe for concurrent use:
// several calls may be prepared and run at once.
type Tool interface {
	// Definition is constant for the life of the tool.
	Definition() Definition

	// Prepare checks the arguments of one call and resolves what they name. It
	// starts and changes nothing; its errors are refusals, always *[Error].
	Prepare(ctx context.Context, call Call) (Plan, error)
}

// A Plan is one prepared call. It is used once, by one goroutine: Action may be
// called any number of times, then Run at most once. Whoever holds a Plan calls
// Close when it will not, or no longer, be run.
type Plan interface {
	// Action says what Run would do, for reading by guards and people.
	Action() Action

	// Run does it. An error is always *[Error].
	Run(ctx context.Context, report Reporter) (Result, error)

	// Close gives back what Prepare holds (a directory handle). It is
	// idempotent.
	Close()
}

// A Judged plan wants to know how the guards stood to it, for its result: "ok",
// "unavailable" (one could not decide and is set to let pass) or "none". It is told
// before Run.
type Judged interface{ Judged(guard string) }

// A Fleeting plan asks the user about something that can go away while the question stands:
// then the question is void.
type Fleeting interface {
	// Gone gives a channel that is closed when it has.
	Gone() <-chan struct{}
	// Lost is the refusal for that. It is called after Gone was closed.
	Lost() error
}

// A Reporter is told how a long call is getting on, with text that is safe to
// show. It must not block. A nil Reporter is replaced by one that drops
// everything before a Plan sees it.
type Reporter func(text string)

// A Call is one request to run a tool.
type Call struct {
	ID   string          // chosen by the caller; only has to be unique among its calls in flight
	Name string          // of the tool
	Args json.RawMessage // the arguments as they came: untrusted, not yet checked
	// Parent is the ID of the call that made this one, or "" for a direct
	// call. A nested call takes the same way as a direct one.
	Parent string
}

// An Action is a copy, for reading, of what a Plan will do. Changing it changes
// nothing.
type Action struct {
	Tool  string
	Argv  []string // the program and its arguments, where there is no shell in between
	Line  string   // the command line that a shell is given
	Shell string   // the shell that is given Line, where the call names it; "" for the user's own
	Stdin string   // input that the command gets from the start
	Dir   string   // absolute working directory, resolved
	// Input is what the call asks for as data that encoding/json can marshal,
	// encoded anew from what was decoded: who reads it sees what Run will do, not
	// another reading of the same bytes. nil where the fields above say it all.
	Input any
	// Consent is the question that the user has to answer with yes before Run,
	// or nil where none has to be asked.
	Consent *Prompt
}

// A Prompt is a question to the user.
type Prompt struct {
	Reason    string // "input" or "guard_ask"
	SessionID string
	Title     string
	Shown     string // what is to be approved, escaped for human eyes, whole
	Bytes     int    // length of what is to be approved, before escaping
}

// A Result is the outcome of a call that did what it was asked, which includes a
// command that failed: its exit code is part of the result.
type Result struct {
	// Text is for the model: a header line of key=value facts, and, where there
	// is content, an empty line and the content.
	Text string
	// Data is the same as a value that encoding/json can marshal; it carries
	// the same bounded content.
	Data any
	// Ends is the ID of the session whose end this result reports, or "".
	Ends []string
}
