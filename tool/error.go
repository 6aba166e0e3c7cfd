package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind is what is known about the effect of a call that gave no result.
type Kind string

const (
	Refused   Kind = "refused"   // nothing started and nothing changed
	Failed    Kind = "failed"    // it was tried, and the effect is known
	Uncertain Kind = "uncertain" // it may have happened, wholly or in part: look before you do it again
)

// Code is the stable name of an error. Codes are added, never renamed.
type Code string

const (
	InvalidArgument     Code = "invalid_argument"
	UnknownTool         Code = "unknown_tool"
	OutsideRoot         Code = "outside_root"
	NotFound            Code = "not_found"
	NotRegular          Code = "not_regular"
	TooLarge            Code = "too_large"
	Exists              Code = "exists"
	Stale               Code = "stale"
	NoMatch             Code = "no_match"
	AmbiguousMatch      Code = "ambiguous_match"
	NotText             Code = "not_text"
	Protected           Code = "protected"
	Denied              Code = "denied"
	GuardFailed         Code = "guard_failed"
	ApprovalUnavailable Code = "approval_unavailable"
	ApprovalDenied      Code = "approval_denied"
	ApprovalTimeout     Code = "approval_timeout"
	Cancelled           Code = "cancelled"
	Deadline            Code = "deadline"
	UnknownSession      Code = "unknown_session"
	SessionEnded        Code = "session_ended"
	StdinClosed         Code = "stdin_closed"
	Limit               Code = "limit"
	PTYUnavailable      Code = "pty_unavailable"
	Workdir             Code = "workdir"
	StartFailed         Code = "start_failed"
	ReadFailed          Code = "read_failed"
	WriteFailed         Code = "write_failed"
	UncertainOutcome    Code = "uncertain"
)

// contract is the one table of codes: the kind that each means, and the fixed
// sentence that goes with it (at most 512 bytes, a test holds that).
var contract = map[Code]struct {
	kind Kind
	text string
}{
	InvalidArgument:     {Refused, "An argument is missing, unknown, of the wrong type or out of range."},
	UnknownTool:         {Refused, "There is no tool of this name."},
	OutsideRoot:         {Refused, "The path leads out of the root. Use a path relative to the root."},
	NotFound:            {Refused, "There is no such file or folder."},
	NotRegular:          {Refused, "This is not a regular file."},
	TooLarge:            {Refused, "The size is over the limit."},
	Exists:              {Refused, "The file exists already. Read it, then replace it by its digest."},
	Stale:               {Refused, "The file is not what expected_sha256 names. Read it again."},
	NoMatch:             {Refused, "The old text is not in the file exactly as given."},
	AmbiguousMatch:      {Refused, "The old text is in the file more than once. Give more of it, or set all."},
	NotText:             {Refused, "The file is not text that can be edited."},
	Protected:           {Refused, "This place is protected from the file tools."},
	Denied:              {Refused, "A guard denied this call."},
	GuardFailed:         {Refused, "A guard could not decide, and is set to block then."},
	ApprovalUnavailable: {Refused, "This needs the user's approval, and there is no way to ask here. Nothing was sent or started. exec_kill interrupts and ends without it."},
	ApprovalDenied:      {Refused, "The user did not approve this. Nothing was sent or started."},
	ApprovalTimeout:     {Refused, "The user did not answer in time. Nothing was sent or started."},
	Cancelled:           {Refused, "The call was cancelled before anything happened."},
	Deadline:            {Refused, "The caller's deadline passed before anything happened."},
	UnknownSession:      {Refused, "There is no session of this ID. exec_list shows those that are."},
	SessionEnded:        {Refused, "The session has ended. exec_output still has its output."},
	StdinClosed:         {Refused, "The standard input of the session is closed."},
	Limit:               {Refused, "A limit is reached."},
	PTYUnavailable:      {Refused, "No pseudo-terminal can be had here. Leave tty out to run on pipes."},
	Workdir:             {Refused, "The working directory cannot be used."},
	StartFailed:         {Refused, "The program could not be started."},
	ReadFailed:          {Failed, "Reading failed. Nothing was changed."},
	WriteFailed:         {Failed, "Writing failed. The old content is whole."},
	UncertainOutcome:    {Uncertain, "It started, and how it ended is not known. Look at what it did before doing it again."},
}

// Codes lists every code, sorted; NewError tells the kind and the sentence of each.
func Codes() []Code { return slices.Sorted(maps.Keys(contract)) }

// An Error is the outcome of a call that gave no result. Kind and text follow
// from the code. It names only the caller's own cancellation or deadline as its
// cause; nothing else of an underlying error is kept (C4).
type Error struct {
	Kind  Kind
	Code  Code
	Text  string // the fixed sentence of the code
	Facts []Fact // never file content, command lines, environment, input or output
	cause error  // nil, context.Canceled or context.DeadlineExceeded
}

// A Fact is one named value of an error or a header. Value is a string, a bool,
// a whole number, nil, or a list of those.
type Fact struct {
	Name  string
	Value any
}

// NewError is the error of a code. It panics on a code that is not in the
// contract, which is a fault of the program.
func NewError(code Code, facts ...Fact) *Error {
	e, ok := contract[code]
	if !ok {
		panic("tool: unknown error code " + string(code))
	}
	for i, f := range facts {
		if s, ok := f.Value.(string); ok && len(s) > maxFact {
			n := maxFact
			for !utf8.RuneStart(s[n]) {
				n--
			}
			facts[i].Value = s[:n] + "…"
		}
	}
	return &Error{Kind: e.kind, Code: code, Text: e.text, Facts: facts}
}

// maxFact bounds a fact of an error, in bytes: what the caller made up must not come
// back as a flood. The reasons of guards, which are bounded themselves, fit.
const maxFact = 2048

// Invalid is the error about one argument and what it takes.
func Invalid(argument, expects string) *Error {
	return NewError(InvalidArgument, Fact{"argument", argument}, Fact{"expects", expects})
}

// Stopped is the refusal of a call whose context was done before anything
// happened; cause is ctx.Err().
func Stopped(cause error) *Error {
	code := Cancelled
	if errors.Is(cause, context.DeadlineExceeded) {
		code = Deadline
	}
	return NewError(code).CausedBy(cause)
}

// CausedBy records that the caller's own cancellation or deadline is behind the
// error. Any other cause is dropped.
func (e *Error) CausedBy(cause error) *Error {
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		e.cause = context.DeadlineExceeded
	case errors.Is(cause, context.Canceled):
		e.cause = context.Canceled
	}
	return e
}

// Unwrap gives context.Canceled, context.DeadlineExceeded, or nil.
func (e *Error) Unwrap() error { return e.cause }

// Error is the code and its fixed sentence, without the facts: it may end up in
// a log.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Text }

// Message is the text for the model: the code and its sentence, and a second
// line with the facts where there are any.
func (e *Error) Message() string {
	var h Header
	for _, f := range e.Facts {
		h.Fact(f.Name, f.Value)
	}
	if line := h.String(); line != "" {
		return e.Error() + "\n" + line
	}
	return e.Error()
}

// MarshalJSON gives {"kind", "code", "message", …facts}.
func (e *Error) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range append([]Fact{{"kind", e.Kind}, {"code", e.Code}, {"message", e.Text}}, e.Facts...) {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(f.Name)
		if err != nil {
			return nil, err
		}
		value, err := marshal(f.Value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// marshal is json.Marshal without the escapes meant for HTML, which cost a model
// tokens and a reader patience.
func marshal(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}
