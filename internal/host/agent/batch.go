package agent

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/internal/host/transcript"
	"github.com/belayhq/belay/internal/termtext"
	"github.com/belayhq/belay/tool"
)

// leaveBehind is how long a call has to end after its run was aborted. A tool ends what it
// owns within 5 s (S2) and drains for one more: what takes longer is not going to end.
const leaveBehind = 8 * time.Second

const kindResult = "result"

// A result is the outcome of one call.
type result struct {
	id    string
	text  string
	kind  string // kindResult or a tool.Kind
	code  tool.Code
	facts map[string]any
	ends  []string
}

func (r result) entry() transcript.Entry {
	return transcript.Entry{Type: transcript.Result, CallID: r.id, Text: r.text, Kind: r.kind, Code: string(r.code)}
}

func (r result) message() model.Message {
	return model.Message{Role: model.Result, CallID: r.id, Text: r.text, Failed: r.kind != kindResult}
}

func failure(id string, e *tool.Error) result {
	r := result{id: id, text: e.Message(), kind: string(e.Kind), code: e.Code}
	if len(e.Facts) > 0 {
		r.facts = map[string]any{}
		for _, f := range e.Facts {
			r.facts[f.Name] = f.Value
		}
	}
	return r
}

// A declared is what the agent has to know of a tool.
type declared struct {
	tool.Definition
	fingerprint string
}

// alone tells whether a call waits for those before it and holds up those behind it.
func (d declared) alone() bool {
	if d.Effect == tool.ReadOnly || d.Name == "" { // an unknown tool is refused
		return false
	}
	return d.Name != "shell" && d.Name != "exec_command"
}

// batch runs the calls of one answer, which are in the transcript already. It returns when
// each has its result there. The error is that of the first result that could not be
// written.
func (r *run) batch(calls []model.Call, refuse *tool.Error) error {
	results := make([]result, len(calls))
	errs := make([]error, len(calls))
	var group sync.WaitGroup
	slots := make(chan struct{}, MaxParallel)
	start := func(i int, refuse *tool.Error) {
		slots <- struct{}{}
		c := calls[i]
		r.events.put(r.ctx, Event{Type: ToolStart, CallID: c.ID, Tool: c.Name, Preview: Preview(c.Args)})
		group.Go(func() {
			defer func() { <-slots }()
			results[i], errs[i] = r.call(c, refuse)
		})
	}
	for i, c := range calls {
		if i >= MaxCalls && refuse == nil {
			refuse = tool.NewError(tool.Limit, tool.Fact{Name: "what", Value: "calls_of_an_answer"},
				tool.Fact{Name: "limit", Value: MaxCalls}, tool.Fact{Name: "actual", Value: len(calls)})
		}
		if alone := r.tools[c.Name].alone() && refuse == nil; alone {
			group.Wait()
			start(i, refuse)
			group.Wait()
		} else {
			start(i, refuse)
		}
	}
	group.Wait()
	r.history.results(r.unknown)
	r.count(results)
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// call leads one call to its result, and the result to the transcript.
func (r *run) call(c model.Call, refuse *tool.Error) (got result, err error) {
	defer func() {
		if recover() != nil { // the value may hold anything: it goes nowhere
			r.fault("the agent")
			got = r.unknown(c)
			err = r.history.ended(got)
		}
	}()
	if refuse != nil {
		got = failure(c.ID, refuse)
	} else {
		got = r.outcome(c)
	}
	err = r.history.ended(got)
	if err == nil && len(got.ends) > 0 {
		r.suite.Observed(got.ends) // D5: it is in the transcript
	}
	r.events.put(r.ctx, Event{Type: ToolEnd, CallID: c.ID, Kind: got.kind, Code: string(got.code), Facts: got.facts})
	return got, err
}

// outcome makes the call. It always returns: a tool, a hook or a dialog that does not let
// itself be cancelled is left behind.
func (r *run) outcome(c model.Call) result {
	args := json.RawMessage(c.Args)
	if strings.TrimSpace(c.Args) == "" {
		args = nil // none
	}
	work := func() (got result) {
		defer r.left.Add(-1)
		defer func() {
			if recover() != nil { // the value may hold anything: it goes nowhere
				r.fault("Suite.Call")
				got = r.unknown(c)
			}
		}()
		res, err := r.suite.Call(r.ctx, coding.Caller{Asker: r.config.Asker, Notify: r.notify, Task: r.task},
			tool.Call{ID: c.ID, Name: c.Name, Args: args})
		var e *tool.Error
		switch {
		case errors.As(err, &e):
			return failure(c.ID, e)
		case err != nil:
			return r.unknown(c)
		}
		return result{id: c.ID, text: valid(res.Text), kind: kindResult, facts: header(res.Text), ends: res.Ends}
	}
	came := make(chan result, 1)
	r.left.Add(1)
	go func() { came <- work() }()
	select {
	case got := <-came:
		return got
	case <-r.ctx.Done():
	}
	late := time.NewTimer(r.leave)
	defer late.Stop()
	select {
	case got := <-came:
		return got
	case <-late.C:
		return r.unknown(c)
	}
}

// unknown is the result of a call that gave none.
func (r *run) unknown(c model.Call) result {
	if d := r.tools[c.Name]; d.Effect == tool.Mutating {
		return failure(c.ID, tool.NewError(tool.UncertainOutcome))
	}
	return failure(c.ID, tool.NewError(tool.ReadFailed, tool.Fact{Name: "reason", Value: "io"}))
}

// notify shows the user what is for them alone.
func (r *run) notify(text string) {
	if r.config.Notify == nil {
		return
	}
	defer func() {
		if recover() != nil { // the call goes on: it does not depend on who is told
			r.fault("Notify")
		}
	}()
	r.config.Notify(text)
}

// count adds the results to the outcome of the task.
func (r *run) count(results []result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, got := range results {
		switch got.code {
		case tool.ApprovalUnavailable, tool.ApprovalDenied, tool.ApprovalTimeout:
			if r.outcomeSoFar.Approval == "" {
				r.outcomeSoFar.Approval = got.code
			}
		case tool.UncertainOutcome:
			r.outcomeSoFar.Uncertain++
		}
	}
}

// about are the arguments that tell what a call is about, the first that is there.
var about = []string{"cmd", "argv", "path", "session_id", "session_ids"}

const previewRunes = 160

// Preview is what a call is about, for human eyes, from the arguments as the model wrote them:
// escaped, at most 160 characters.
func Preview(written string) string {
	var args map[string]json.RawMessage
	if json.Unmarshal([]byte(written), &args) == nil {
		for _, name := range about {
			raw, ok := args[name]
			if !ok {
				continue
			}
			var s string
			var list []string
			if json.Unmarshal(raw, &s) == nil {
				return termtext.Preview(s, previewRunes)
			}
			if json.Unmarshal(raw, &list) == nil {
				return termtext.Preview(strings.Join(list, " "), previewRunes)
			}
		}
		if len(args) == 0 {
			return ""
		}
	}
	return termtext.Preview(written, previewRunes)
}

// maxHeader bounds what is read as the header of a result, in bytes.
const maxHeader = 8 << 10

// header reads the facts of a result from the first line of its text (see tool.Header).
// What is none ends it.
func header(text string) map[string]any {
	line, _, _ := strings.Cut(text[:min(len(text), maxHeader)], "\n")
	facts := map[string]any{}
	for line != "" {
		name, rest, ok := strings.Cut(line, "=")
		if !ok || name == "" || strings.ContainsAny(name, " \"") {
			break
		}
		var value any
		if strings.HasPrefix(rest, `"`) || strings.HasPrefix(rest, "{") || strings.HasPrefix(rest, "[") {
			dec := json.NewDecoder(strings.NewReader(rest))
			if dec.Decode(&value) != nil {
				break
			}
			rest = rest[dec.InputOffset():]
		} else {
			word := rest
			word, _, _ = strings.Cut(rest, " ")
			value, rest = bare(word), rest[len(word):]
		}
		facts[name] = value
		line = strings.TrimPrefix(rest, " ")
	}
	if len(facts) == 0 {
		return nil
	}
	return facts
}

// bare is the value of a word that is no JSON string. A digest of digits alone is a number
// to nobody: it has 64 of them.
func bare(s string) any {
	switch s {
	case "null":
		return nil
	case "true", "false":
		return s == "true"
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	return s
}
