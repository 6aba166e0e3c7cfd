package proc

import (
	"os"
	"time"
)

// Spec says what to start. Start copies what it needs; the slices may be changed after it returned.
type Spec struct {
	Path string   // absolute program file, see Look
	Argv []string // [0] is the name that the program sees
	Env  []string // the complete environment; PWD is the caller's to set
	Dir  string   // absolute working directory

	// DirFile is the held working directory, or nil. On Linux the program starts in it, whatever
	// Dir names by then; elsewhere Dir alone is used. It stays the caller's.
	DirFile *os.File

	// Before is the caller's last check. It is called directly before each attempt to start; there
	// is more than one only while the program file is busy (see Busy). Its error is returned by
	// Start unchanged, and then nothing was started.
	Before func() error

	Stdin     []byte // given to the program, then end of file; nil is end of file at once
	OpenStdin bool   // keep a pipe for Write and CloseInput; excludes Stdin

	// Output receives what the program writes, as it comes, in pieces of at most 64 KiB. Calls for
	// one stream are serial, those for two streams are not. p is valid during the call only. It
	// must not block: nothing is read from that stream meanwhile, and Done waits for it. It is
	// never called after Done is closed. Nil discards.
	Output func(s Stream, p []byte)

	// Merge gives stdout and stderr one pipe, so that their order is kept; all of it comes as
	// Stdout. A terminal always merges.
	Merge bool

	// Mark is the value of BELAY_SESSION in Env, by which descendants that left the session are
	// found on Linux; empty finds none by environment. Two programs that run at the same time need
	// different marks: the one's strays would be taken for the other's. At most 128 letters,
	// digits, dots, dashes and underscores.
	Mark string

	// TTY, if set, runs the program on a pseudo-terminal of that size that is its controlling
	// terminal. Stdin must be nil and OpenStdin is implied. Where no terminal can be had Start
	// fails with NoTerminal; it never falls back to pipes.
	TTY *Size

	// Keeper, if set, is told of the program, so that it ends with us if we are killed.
	Keeper *Keeper
}

// Size of a terminal in cells, each 1 to 65535.
type Size struct{ Cols, Rows int }

func (s Size) valid() bool {
	return s.Cols >= 1 && s.Cols <= 65535 && s.Rows >= 1 && s.Rows <= 65535
}

// Stream is one of the two output streams of a program.
type Stream int

const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// Signal is what can be sent to a program. On Windows there is only KILL, which ends the job; on a
// terminal there also INT, as the key, and TERM and HUP, which close the console.
type Signal int

const (
	TERM Signal = iota + 1
	INT
	HUP
	KILL
)

func (s Signal) String() string {
	switch s {
	case TERM:
		return "TERM"
	case INT:
		return "INT"
	case HUP:
		return "HUP"
	case KILL:
		return "KILL"
	}
	return "unknown"
}

// Exit is what was seen of the end.
type Exit struct {
	Code    int      // exit code; -1 if a signal ended the program or the end was not seen
	Signal  string   // "KILL", "TERM"... without SIG, or a number where there is no name; "" if it exited by itself or the end was not seen
	Cleaned bool     // proven: nothing that is owned is left that is not a zombie
	Ended   []Member // descendants that had to be ended after the program exited by itself
	Left    []Member // descendants alive after the clean-up, or the program itself if even KILL did not end it
}

// Member is a descendant by what it can be told from others.
type Member struct {
	PID  int
	Name string // as the system shows it, at most 15 bytes on Linux; may be empty
}

const (
	markName = "BELAY_SESSION="
	maxMark  = 128
)

func validMark(m string) bool {
	if len(m) > maxMark {
		return false
	}
	for _, c := range []byte(m) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// Times of the clean-up. The requirement gives all of them (S2, S3).
const (
	leftoverGrace = 250 * time.Millisecond // TERM to KILL for what a finished program left behind
	proofTime     = 3 * time.Second        // from the first KILL to giving up
	quiet         = 50 * time.Millisecond  // a pipe that somebody else holds is dry after so long without output
	drainTime     = time.Second            // and is left after so long at any rate
	signalDelay   = 100 * time.Millisecond // a signal waits for the list of those who are to have it for so long
	maxGrace      = 24 * time.Hour         // more is taken as this: no timer can overflow
)
