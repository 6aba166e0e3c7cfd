package spool

// Reason is why a call failed. The set is closed.
type Reason int

const (
	BadLimit   Reason = iota + 1 // New: a limit is negative or over the maximum
	BadParent                    // New: the parent cannot be made absolute
	Unreadable                   // ReadAt: bytes that were kept cannot be read any more
	LeftBehind                   // Close: a file or the directory could not be removed, or the directory holds something that is not ours
)

// Error is what New, ReadAt and Close fail with. Its text is fixed but for the path
// of the directory; nothing of a log's content is in it or behind it.
type Error struct {
	Reason Reason
	Path   string // BadParent: the parent; LeftBehind: the directory
	cause  error
}

func (e *Error) Error() string {
	switch e.Reason {
	case BadLimit:
		return "spool: a limit is negative or over the maximum"
	case BadParent:
		return "spool: no absolute path for " + e.Path
	case Unreadable:
		return "spool: a log cannot be read any more"
	case LeftBehind:
		return "spool: could not remove all of " + e.Path
	}
	return "spool: unknown error"
}

// Unwrap gives the operating system's error, for the developer's eyes.
func (e *Error) Unwrap() error { return e.cause }
