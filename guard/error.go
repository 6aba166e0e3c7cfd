package guard

import "fmt"

// A Reason is why a hook could not decide.
type Reason int

const (
	Missing       Reason = iota + 1 // there is no such program
	NotExecutable                   // it is there, but is no program
	Permission                      // it may not be run
	Interpreter                     // it is a script, and what its first line names is missing
	NotStarted                      // it could not be started for another reason
	TimedOut                        // it did not answer in time: Limit milliseconds
	TooMuchOutput                   // it wrote more than an answer can be: Limit bytes
	Exited                          // it ended with an exit code that is no answer: Code
	Signaled                        // it was ended by a signal: Signal
	BadAnswer                       // what it wrote is no answer
	NoText                          // the call holds bytes that are no UTF-8, which JSON cannot carry
	Broken                          // a hook inside of this program panicked, or its decision does not exist
)

// An Error says that a hook could not decide, and is set to block then.
type Error struct {
	Reason  Reason
	Program string // as it is configured; "" for Broken
	Code    int
	Signal  string // without SIG
	Limit   int64
}

// Error has fixed words and numbers only: it may end up in a log.
func (e *Error) Error() string { return "guard: " + e.what() }

// Explain is for the model and for the user: it names the program.
func (e *Error) Explain() string {
	if e.Program == "" {
		return "a guard " + e.what()
	}
	return fmt.Sprintf("the guard %q %s", cut(e.Program, 256), e.what())
}

func (e *Error) what() string {
	switch e.Reason {
	case Missing:
		return "does not exist"
	case NotExecutable:
		return "is no program that can be run"
	case Permission:
		return "may not be run"
	case Interpreter:
		return "is a script whose interpreter does not exist"
	case NotStarted:
		return "could not be started"
	case TimedOut:
		return fmt.Sprintf("did not answer within %d ms", e.Limit)
	case TooMuchOutput:
		return fmt.Sprintf("wrote more than %d bytes", e.Limit)
	case Exited:
		return fmt.Sprintf("ended with exit code %d, which is no answer", e.Code)
	case Signaled:
		return "was ended by the signal " + e.Signal
	case BadAnswer:
		return "gave an answer that is none of its protocol"
	case NoText:
		return "cannot be shown bytes that are no UTF-8"
	case Broken:
		return "failed inside of this program"
	}
	return "could not decide"
}
