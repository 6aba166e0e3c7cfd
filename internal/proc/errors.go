package proc

import "errors"

// Reason is why a program could not be started.
type Reason int

const (
	Missing         Reason = iota + 1 // no such file
	NotExecutable                     // it exists, but is no program
	Permission                        // it may not be used
	NotDirectory                      // What is Directory
	Link                              // too many links on the way
	ArgumentTooLong                   // one argument, or all with the environment: Limit and Actual are bytes
	BadArgument                       // the Spec contradicts itself, or a string has a NUL
	Busy                              // the program file is being written, for longer than a fork in passing explains
	Resources                         // no process, memory or descriptor to be had
	NoTerminal                        // no pseudo-terminal to be had (P3)
	NoSystem                          // processes cannot be owned on this system
	IO                                // anything else
)

func (r Reason) String() string {
	switch r {
	case Missing:
		return "missing"
	case NotExecutable:
		return "not_executable"
	case Permission:
		return "permission"
	case NotDirectory:
		return "not_directory"
	case Link:
		return "link"
	case ArgumentTooLong:
		return "argument_too_long"
	case BadArgument:
		return "bad_argument"
	case Busy:
		return "busy"
	case Resources:
		return "resources"
	case NoTerminal:
		return "no_terminal"
	case NoSystem:
		return "no_system"
	}
	return "io"
}

// What a StartError is about.
const (
	Program     = "program"
	Interpreter = "interpreter" // the program is a script, and this is what its first line names
	Directory   = "directory"
	Argument    = "argument"
	Terminal    = "terminal"
)

// StartError says why nothing runs. Its text holds no path, argument or variable.
type StartError struct {
	Reason Reason
	What   string // Program, Interpreter, Directory, Argument or Terminal
	Limit  int64  // ArgumentTooLong: what the system takes, in bytes; 0 if unknown
	Actual int64  // ArgumentTooLong: what was given
	cause  error  // an error number of the system, for the text only
}

func (e *StartError) Error() string {
	t := "start: " + e.What + ": " + e.Reason.String()
	if e.cause != nil {
		t += " (" + e.cause.Error() + ")"
	}
	return t
}

// Errors of Write, CloseInput, Signal and Resize. A context's own error is returned as it is.
var (
	ErrEnded       = errors.New("proc: the program has ended")
	ErrInputClosed = errors.New("proc: the input is closed")
	ErrNoTerminal  = errors.New("proc: the program has no terminal")
	ErrBadSize     = errors.New("proc: no size of a terminal")
	ErrSignal      = errors.New("proc: the signal could not be sent")
)

// LineError refuses input that the terminal would cut in silence: while it edits lines it takes no
// longer ones. Nothing of the input was written.
type LineError struct {
	Limit  int // bytes of a line that arrive, its end not counted
	Actual int // length of the longest line, with what was written of it before
}

func (e *LineError) Error() string {
	return "proc: a line is longer than the terminal takes"
}
