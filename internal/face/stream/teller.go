package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belayhq/belay/approve"
	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/host/agent"
	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/internal/termtext"
	"github.com/belayhq/belay/tool"
)

// A teller tells what happens in words, fit for a terminal: a line for each thing, which
// begins with "belay: ". What the model says is set in, so that it cannot pass for one of
// them. The last answer is held back while it may be the final one, which is not told: until
// something follows on it, or is bound to, or rest.
type teller struct {
	turn  *phase
	armed func() int // see Suite.Armed; set before anything happens

	mu       sync.Mutex
	out      io.Writer
	answer   string
	calls    map[string]underWay // by their IDs
	sessions map[string]string   // by their IDs: the command, escaped
}

type underWay struct{ tool, preview string } // both escaped

func newTeller(out io.Writer) *teller {
	return &teller{turn: newPhase(), out: out, calls: map[string]underWay{}, sessions: map[string]string{}}
}

func (p *teller) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(format, args...)
}

// put is called with the lock, as is all below that has none of its own.
func (p *teller) put(format string, args ...any) {
	fmt.Fprintf(p.out, "belay: "+format+"\n", args...)
}

func (p *teller) tell(e agent.Event) {
	p.turn.see(e)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Type {
	case agent.TurnStart:
		p.flush()
	case agent.Said:
		if e.Role == model.Assistant {
			p.flush()
			p.answer = e.Text
		}
	case agent.ToolStart:
		p.flush()
		c := underWay{termtext.Escape(e.Tool), e.Preview}
		p.calls[e.CallID] = c
		p.put("%s", words(c.tool, c.preview))
	case agent.ToolEnd:
		c := p.calls[e.CallID]
		delete(p.calls, e.CallID)
		how := Outcome(e)
		if id, _ := e.Facts["session"].(string); id != "" && c.tool == "exec_command" && e.Facts["status"] == "running" {
			p.sessions[id] = c.preview
			how = "runs on as " + termtext.Escape(id)
		}
		if how != "" {
			p.put("%s", words(c.tool, short(c.preview), "->", how))
		}
	case agent.TurnEnd:
		if p.armed() > 0 { // an end of the background is waited for
			p.flush()
		}
	case agent.Noticed:
		p.flush()
		how := Outcome(e)
		if how == "" {
			how = "exit code 0"
		}
		command := p.sessions[e.SessionID]
		if command != "" {
			command = "(" + short(command) + ")"
		}
		p.put("%s", words(termtext.Escape(e.SessionID), command, "has ended:", how))
		delete(p.sessions, e.SessionID)
	}
}

// flush tells the answer that was held back.
func (p *teller) flush() {
	text := strings.TrimRight(string(termtext.Clean([]byte(p.answer))), "\n")
	p.answer = ""
	if text != "" {
		fmt.Fprintf(p.out, "  %s\n", strings.ReplaceAll(text, "\n", "\n  "))
	}
}

// rest tells the last answer too: it is not the final one.
func (p *teller) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flush()
}

const (
	maxShort = 48 // characters of a command where it is told again
	maxFacts = 8  // of an error
	maxFact  = 80 // characters of each
)

// words are those that are there, with a blank between them.
func words(w ...string) string {
	return strings.Join(slices.DeleteFunc(w, func(s string) bool { return s == "" }), " ")
}

// short is the beginning of a text that is escaped already.
func short(s string) string {
	if r := []rune(s); len(r) > maxShort {
		return string(r[:maxShort-1]) + "…"
	}
	return s
}

// Outcome is what a user wants to know of the end of a call or a process, on one line that is
// escaped and bounded; "" where it is plainly a success.
func Outcome(e agent.Event) string {
	var parts []string
	if e.Code != "" {
		parts = append(parts, termtext.Escape(e.Code))
		for i, name := range slices.Sorted(maps.Keys(e.Facts)) {
			if i == maxFacts {
				parts = append(parts, "…")
				break
			}
			parts = append(parts, termtext.Preview(name, maxFact)+"="+fact(e.Facts[name]))
		}
		return strings.Join(parts, " ")
	}
	switch status, _ := e.Facts["status"].(string); status {
	case "timed_out", "killed":
		parts = append(parts, strings.ReplaceAll(status, "_", " "))
	}
	if e.Facts["timed_out"] == true { // a wait
		parts = append(parts, "timed out")
	}
	if code := e.Facts["exit_code"]; code != nil && fmt.Sprint(code) != "0" {
		parts = append(parts, "exit code "+fact(code))
	}
	if signal := e.Facts["signal"]; signal != nil {
		parts = append(parts, "signal "+fact(signal))
	}
	if e.Facts["cleanup_completed"] == false {
		parts = append(parts, "its end could not be confirmed")
	}
	return strings.Join(parts, ", ")
}

func fact(v any) string {
	s, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			return "?"
		}
		s = string(b)
	}
	shown := termtext.Preview(s, maxFact)
	if strings.Contains(shown, " ") {
		return `"` + shown + `"`
	}
	return shown
}

// A process is one that a run leaves.
type process struct {
	ID      string `json:"session_id"`
	Status  string `json:"status"`
	Command string `json:"command"` // escaped
}

// processes lists those of a conversation that run.
func processes(talk *Talk) (list []process) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	result, err := talk.Suite.Call(ctx, coding.Caller{}, tool.Call{ID: "running", Name: "exec_list"})
	if err != nil {
		return nil
	}
	var data struct {
		Sessions []process `json:"sessions"`
	}
	b, err := json.Marshal(result.Data)
	if err == nil {
		err = json.Unmarshal(b, &data)
	}
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(data.Sessions, func(p process) bool { return p.Status != "running" })
}

// inTurn asks behind what led to the question, and lets nothing be told while it stands: both
// may be on one terminal.
type inTurn struct {
	approve.Asker
	teller *teller
	told   func(context.Context)
}

func (a inTurn) Ask(ctx context.Context, p tool.Prompt) (bool, error) {
	soon, cancel := context.WithTimeout(ctx, behind)
	a.told(soon)
	cancel()
	a.teller.mu.Lock()
	defer a.teller.mu.Unlock()
	return a.Asker.Ask(ctx, p)
}
