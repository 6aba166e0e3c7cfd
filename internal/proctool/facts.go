package proctool

import (
	"cmp"
	"fmt"

	"github.com/belayhq/belay/internal/jobs"
	"github.com/belayhq/belay/internal/proc"
	"github.com/belayhq/belay/tool"
)

// judged is what plans share that start something: how the guards stood to it.
type judged struct{ guard string }

func (j *judged) Judged(guard string) { j.guard = guard }

// posture is the value of guard in results. Who calls without a corridor has none.
func (j *judged) posture() string { return cmp.Or(j.guard, "none") }

// ended is what belay had to end when a command exited by itself.
type ended struct {
	Count int      `json:"count"`
	Names []string `json:"names"`
}

// left is a descendant that was seen alive after the clean-up.
type left struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

// maxNamed bounds the lists: a fork bomb must not fill a result. What is not named
// is counted.
const maxNamed = 10

func endedFacts(members []proc.Member) *ended {
	if len(members) == 0 {
		return nil
	}
	e := &ended{Count: len(members)}
	for _, m := range members[:min(len(members), maxNamed)] {
		e.Names = append(e.Names, m.Name)
	}
	return e
}

func (e *ended) hint(body string) string {
	if e == nil {
		return ""
	}
	hint := "[belay ended what the command left running; run what should live on in the foreground of exec_command, with mode: service.]\n"
	if body != "" && body[len(body)-1] != '\n' {
		hint = "\n" + hint
	}
	return hint
}

func leftFacts(members []proc.Member) (list []left, more int) {
	list = []left{}
	for _, m := range members[:min(len(members), maxNamed)] {
		list = append(list, left{m.PID, m.Name})
	}
	return list, len(members) - len(list)
}

// exitFacts gives null for what there is not: a command that a signal ended has no
// code, and one whose end was not seen has neither.
func exitFacts(signal string, code int) (*string, *int) {
	switch {
	case signal != "":
		return &signal, nil
	case code < 0:
		return nil, nil
	}
	return nil, &code
}

func exitHeader(h *tool.Header, code *int, signal *string) {
	if code != nil {
		h.Fact("exit_code", code)
	}
	if signal != nil {
		h.Fact("signal", signal)
	}
}

func leftoverHeader(h *tool.Header, e *ended, l []left, more int) {
	if e != nil {
		h.Fact("ended", e)
	}
	if len(l) > 0 {
		h.Fact("left_behind", l)
	}
	if more > 0 {
		h.Fact("left_behind_omitted", more)
	}
}

// contentRoom is what a budget and the facts around it leave for output: the text of
// a result stays under maxText as a whole.
func contentRoom(budget int, e *ended, l []left, more int) int {
	var h tool.Header
	leftoverHeader(&h, e, l, more)
	return max(0, min(budget, maxText-headerRoom-len(h.String())-len(e.hint("x"))))
}

// sessionData is the result of the calls that answer with a session; its names
// are the contract's.
type sessionData struct {
	SessionID        string     `json:"session_id"`
	Status           jobs.State `json:"status"`
	ExitCode         *int       `json:"exit_code"`
	Signal           *string    `json:"signal"`
	Output           string     `json:"output"`
	OutputBytes      int64      `json:"output_bytes"`
	OmittedBytes     int64      `json:"omitted_bytes"`
	Cursor           int64      `json:"cursor"`
	WrittenBytes     int        `json:"written_bytes"`
	WallMS           int64      `json:"wall_ms"`
	CleanupCompleted *bool      `json:"cleanup_completed"` // null while it runs
	Ended            *ended     `json:"ended"`
	LeftBehind       []left     `json:"left_behind"`
	LeftOmitted      int        `json:"left_behind_omitted,omitempty"` // not named in LeftBehind
	Guard            string     `json:"guard"`
}

// session tells how a session stands, with its output as take gives it. The state is
// taken first: an end that is told has all its output behind it.
func session(j *jobs.Job, budget int, take func(j *jobs.Job, max int) jobs.Piece) (d sessionData, text string) {
	s := j.Status()
	d = sessionData{
		SessionID: j.ID(), Status: s.State, WallMS: s.Wall.Milliseconds(), LeftBehind: []left{}, Guard: j.Guard(),
	}
	if s.State != jobs.Running {
		d.Signal, d.ExitCode = exitFacts(s.Signal, s.Code)
		d.CleanupCompleted = &s.Cleaned
		d.Ended = endedFacts(s.Ended)
		d.LeftBehind, d.LeftOmitted = leftFacts(s.Left)
	}
	piece := take(j, contentRoom(budget, d.Ended, d.LeftBehind, d.LeftOmitted))
	d.Output, d.OutputBytes, d.OmittedBytes, d.Cursor = piece.Text, piece.Cursor, piece.Omitted, piece.Cursor

	var h tool.Header
	h.Fact("session", d.SessionID)
	h.Fact("status", d.Status)
	exitHeader(&h, d.ExitCode, d.Signal)
	h.Fact("output_bytes", d.OutputBytes)
	if d.OmittedBytes > 0 {
		h.Fact("omitted_bytes", d.OmittedBytes)
	}
	h.Fact("cursor", d.Cursor)
	h.Fact("wall_ms", d.WallMS)
	if s.State != jobs.Running && !s.Cleaned {
		h.Fact("cleanup_completed", false)
	}
	leftoverHeader(&h, d.Ended, d.LeftBehind, d.LeftOmitted)
	guardHeader(&h, d.Guard)
	return d, h.Text(d.Output + d.Ended.hint(d.Output))
}

// guardHeader says that a guard could not decide and that the call passed all the
// same; that one did says nothing new.
func guardHeader(h *tool.Header, guard string) {
	if guard == "unavailable" {
		h.Fact("guard", guard)
	}
}

// sessionResult polls a session and tells how it stands, and how much input was
// written before.
func sessionResult(j *jobs.Job, budget, written int) tool.Result {
	d, text := session(j, budget, (*jobs.Job).Poll)
	if written > 0 {
		d.WrittenBytes = written
		text = fmt.Sprintf("written_bytes=%d %s", written, text)
	}
	var ends []string
	if d.Status != jobs.Running {
		ends = []string{d.SessionID}
	}
	return tool.Result{Text: text, Data: d, Ends: ends}
}
