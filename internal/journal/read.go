package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/belayhq/belay/tool"
)

// A Report is what a journal says after a crash, each list in the order of the starts. A
// runtime that still writes has calls under way, which are told as they would be if it
// ended now.
type Report struct {
	// Finished calls have an outcome that is known, or an effect that is complete. Do
	// not repeat them.
	Finished []State `json:"finished"`
	// Repeat lists calls without a known end that may be repeated: they change
	// nothing, or doing them again comes to the same.
	Repeat []State `json:"safe_to_repeat"`
	// Uncertain calls may have had their effect wholly, in part, or not at all. Look
	// at what they did first.
	Uncertain []State `json:"uncertain"`
	// Torn is how many records were cut off by a crash. Whatever they were about was
	// not acknowledged: a start that is not recorded did not happen.
	Torn int `json:"torn"`
}

// A State is what is known of one call.
type State struct {
	Call
	Run     string     `json:"run"` // of the runtime that made it
	N       int64      `json:"n"`   // its number there
	Phase   Phase      `json:"phase"`
	Kind    tool.Kind  `json:"kind,omitempty"` // of the outcome, once it ended
	Code    tool.Code  `json:"code,omitempty"`
	Started *time.Time `json:"started,omitempty"` // nil where only the end is in this file
	Ended   *time.Time `json:"ended,omitempty"`
}

// Read reads a journal. Memory grows with the number of calls. The error is an *Error;
// Damaged and TooNew name the line.
func Read(path string) (Report, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Report{}, wrap(err)
	}
	if !info.Mode().IsRegular() { // a pipe would wait for a writer
		return Report{}, &Error{Reason: NotRegular}
	}
	f, err := os.Open(path)
	if err != nil {
		return Report{}, wrap(err)
	}
	defer f.Close()
	return read(f)
}

func read(in io.Reader) (Report, error) {
	b := book{calls: map[key]*State{}}
	lines := bufio.NewReaderSize(in, maxLine+1)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		end := err == io.EOF
		switch {
		case err != nil && !end && !errors.Is(err, bufio.ErrBufferFull):
			return Report{}, wrap(err)
		case n == 1 && string(line) != header:
			if end && len(line) < len(header) && bytes.HasPrefix([]byte(header), line) {
				return b.report(), nil // it was being made
			}
			return Report{}, headerError(line)
		case err != nil && !end:
			return Report{}, &Error{Reason: Damaged, Line: n}
		case n == 1:
			continue
		}
		if end {
			err = b.last(line, n)
			if err != nil {
				return Report{}, err
			}
			return b.report(), nil
		}
		if err := b.line(line[:len(line)-1], n); err != nil {
			return Report{}, err
		}
	}
}

// A book is what was read so far.
type book struct {
	calls map[key]*State // that have not ended
	order []*State
	torn  int

	// Lines that are no record, and that no mark has accounted for yet.
	bad     int64 // their bytes, with the line ends between them
	badLine int   // the first of them
}

type key struct {
	run string
	n   int64
}

// line takes a line without its end.
func (b *book) line(line []byte, n int) error {
	rec, reason := parse(line)
	switch {
	case reason == TooNew:
		return &Error{Reason: TooNew, Line: n}
	case reason == 0 && b.bad == 0:
		return b.record(rec, n)
	case reason != 0 && b.bad > 0 && tornBy(line) == b.bad:
		b.torn++
		b.bad = 0
		return nil
	case b.bad == 0 && len(line) > 0:
		b.bad, b.badLine = int64(len(line)), n
	case b.bad == 0:
		return &Error{Reason: Damaged, Line: n}
	case reason == 0, b.bad > 2*maxLine:
		return &Error{Reason: Damaged, Line: b.badLine}
	default:
		b.bad += 1 + int64(len(line))
	}
	return nil
}

// last takes what stands behind the last line end.
func (b *book) last(rest []byte, n int) error {
	rec, reason := parse(rest)
	switch {
	case b.bad > 0 && (len(rest) == 0 || !beginsMark(rest, b.bad)):
		return &Error{Reason: Damaged, Line: b.badLine}
	case b.bad > 0, len(rest) > 0 && reason != 0:
		b.torn++
	case len(rest) > 0: // it lacks its end only, and what it says is true
		return b.record(rec, n)
	}
	return nil
}

func (b *book) record(r record, n int) error {
	k := key{r.Run, r.N}
	s := b.calls[k]
	if s == nil {
		s = &State{Run: r.Run, N: r.N}
		b.calls[k] = s
		b.order = append(b.order, s)
	}
	if !s.follow(r) {
		return &Error{Reason: Damaged, Line: n}
	}
	if s.Phase == Ended {
		delete(b.calls, k)
	}
	return nil
}

func (b *book) report() Report {
	r := Report{Finished: []State{}, Repeat: []State{}, Uncertain: []State{}, Torn: b.torn}
	for _, s := range b.order {
		switch {
		case s.Kind == tool.Uncertain:
			r.Uncertain = append(r.Uncertain, *s)
		case s.Phase == Ended || s.Phase == Committed:
			r.Finished = append(r.Finished, *s)
		case s.Effect == tool.ReadOnly || s.Replay == tool.Safe || s.Replay == tool.Idempotent:
			r.Repeat = append(r.Repeat, *s)
		default:
			r.Uncertain = append(r.Uncertain, *s)
		}
	}
	return r
}

func headerError(line []byte) error {
	var h struct {
		Version int `json:"belay_journal"`
	}
	if json.Unmarshal(line, &h) == nil && h.Version > version {
		return &Error{Reason: TooNew, Line: 1}
	}
	return &Error{Reason: NotAJournal}
}

// parse reads one line. A reason of 0 means a record that this version wrote.
func parse(line []byte) (record, Reason) {
	rec := record{Call: &Call{}}
	if json.Unmarshal(line, &rec) != nil {
		return record{}, Damaged
	}
	switch {
	case rec.Version > version:
		return record{}, TooNew
	case rec.Version != version, rec.Run == "", rec.N < 1, rec.Time.IsZero():
		return record{}, Damaged
	}
	switch rec.Phase {
	case Started:
		if rec.Tool == "" || rec.Effect == "" || rec.Replay == "" {
			return record{}, Damaged
		}
	case Ended:
		if rec.Kind == "" {
			return record{}, Damaged
		}
	case Committed:
	default:
		return record{}, Damaged
	}
	return rec, 0
}

// follow takes the next record of a call. It is false where that cannot be: a phase comes
// again, or after a later one. A call may begin with any phase, since its start may
// be in a file that was moved away.
func (s *State) follow(r record) bool {
	when := r.Time
	switch {
	case r.Phase == Started && s.Phase == "":
		s.Call, s.Started = *r.Call, &when
	case r.Phase == Committed && (s.Phase == "" || s.Phase == Started):
	case r.Phase == Ended && s.Phase != Ended:
		if s.Phase == "" {
			s.Call = *r.Call // of a refusal; empty otherwise
		}
		s.Kind, s.Code, s.Ended = r.Kind, r.Code, &when
	default:
		return false
	}
	s.Phase = r.Phase
	return true
}
