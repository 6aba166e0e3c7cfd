package proctool

import (
	"github.com/belayhq/belay/internal/jobs"
	"github.com/belayhq/belay/internal/proc"
	"github.com/belayhq/belay/tool"
)

// guardNone is the value of guard where no guard is configured.
const guardNone = "none"

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

// maxNamed bounds the lists: a fork bomb must not fill a result.
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
	hint := "[belay ended what the command left running.]\n"
	if body != "" && body[len(body)-1] != '\n' {
		hint = "\n" + hint
	}
	return hint
}

func leftFacts(members []proc.Member) []left {
	list := []left{}
	for _, m := range members[:min(len(members), maxNamed)] {
		list = append(list, left{m.PID, m.Name})
	}
	return list
}

func exitFacts(signal string, code int) (*string, *int) {
	if signal != "" {
		return &signal, nil
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

func leftoverHeader(h *tool.Header, e *ended, l []left) {
	if e != nil {
		h.Fact("ended", e)
	}
	if len(l) > 0 {
		h.Fact("left_behind", l)
	}
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
	Guard            string     `json:"guard"`
}

// sessionResult polls a session and tells how it stands. The state is taken
// first: an end that is told has all its output behind it.
func sessionResult(j *jobs.Job, budget int) tool.Result {
	s := j.Status()
	piece := j.Poll(budget)
	d := sessionData{
		SessionID: j.ID(), Status: s.State, Output: piece.Text, OutputBytes: piece.Cursor,
		OmittedBytes: piece.Omitted, Cursor: piece.Cursor, WallMS: s.Wall.Milliseconds(),
		LeftBehind: []left{}, Guard: guardNone,
	}
	var ends []string
	if s.State != jobs.Running {
		d.Signal, d.ExitCode = exitFacts(s.Signal, s.Code)
		d.CleanupCompleted = &s.Cleaned
		d.Ended, d.LeftBehind = endedFacts(s.Ended), leftFacts(s.Left)
		ends = []string{j.ID()}
	}
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
	leftoverHeader(&h, d.Ended, d.LeftBehind)
	return tool.Result{Text: h.Text(d.Output + d.Ended.hint(d.Output)), Data: d, Ends: ends}
}
