// Package scripted is a model that says what a file tells it to: for tests and for the
// demo, offline and the same each time.
//
// # The script
//
// A script is JSON lines. Blank lines and lines that start with // are skipped. Each
// other line is a step: the answer to one request, in their order. A request after the
// last step is an error. The members of a step, all optional:
//
//	text      what the model says
//	times     how often text is repeated (1)
//	pieces    in how many pieces text is streamed (1)
//	calls     the tools it calls: [{"name": …, "args": {…}, "id": …}]; args may be a
//	          string, which is passed on as it is, well-formed or not; without an id
//	          the call is named for its step
//	expect    regular expressions, each of which has to match in what is new
//	reject    regular expressions that must not match there
//	take      {"name": regular expression with one group}: what the group matched last
//	          replaces ${name} in the text and in the arguments from this step on
//	wait_ms   how long it thinks
//	hang      true: it says text, then nothing more until the request is cancelled
//	error     {"reason": …, "code": …, "retry_after_ms": …}: the request fails, after
//	          text; the reasons are unreachable rate_limited overloaded cut stalled auth
//	          quota bad_request too_long protocol
//	stop      stop, tool_use, length or filtered, where it is not what follows from calls
//	usage     {"input": …, "output": …} in tokens; else a token is 4 bytes
//	repeat    how many requests the step answers (1)
//
// What is new is the text of the messages since the last answer, one after the other,
// each with a line "role:" in front ("tool failed:" for a result that is an error). A
// ${name} that nothing was taken for stays as it is.
package scripted

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/belayhq/belay/internal/host/model"
)

// maxScript bounds a script, in bytes.
const maxScript = 64 << 20

// maxText bounds one answer's text, in bytes.
const maxText = model.MaxAnswer

type step struct {
	line int

	Text   string   `json:"text"`
	Times  int      `json:"times"`
	Pieces int      `json:"pieces"`
	Calls  []call   `json:"calls"`
	Expect []expr   `json:"expect"`
	Reject []expr   `json:"reject"`
	Take   takes    `json:"take"`
	Wait   int      `json:"wait_ms"`
	Hang   bool     `json:"hang"`
	Error  *failure `json:"error"`
	Stop   string   `json:"stop"`
	Usage  *struct {
		Input  int64 `json:"input"`
		Output int64 `json:"output"`
	} `json:"usage"`
	Repeat int `json:"repeat"`
}

type call struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type failure struct {
	Reason     reason `json:"reason"`
	Code       string `json:"code"`
	RetryAfter int    `json:"retry_after_ms"`
}

type takes map[string]expr

type expr struct{ *regexp.Regexp }

func (e *expr) UnmarshalJSON(b []byte) (err error) {
	var s string
	if err = json.Unmarshal(b, &s); err == nil {
		e.Regexp, err = regexp.Compile(s)
	}
	return err
}

type reason model.Reason

var reasons = map[string]model.Reason{
	"unreachable": model.Unreachable, "rate_limited": model.RateLimited, "overloaded": model.Overloaded, "cut": model.Cut,
	"stalled": model.Stalled, "auth": model.Auth, "quota": model.Quota, "bad_request": model.BadRequest,
	"too_long": model.TooLong, "protocol": model.Protocol,
}

func (r *reason) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if reasons[s] == 0 {
		return errors.New("no such reason")
	}
	*r = reason(reasons[s])
	return nil
}

// A ScriptError says which line is no step. It is for who wrote the script.
type ScriptError struct {
	Line int // 1-based
	What string
}

func (e *ScriptError) Error() string { return fmt.Sprintf("script: line %d: %s", e.Line, e.What) }

// A Model answers from a script. It is safe for concurrent use: requests take their
// steps in the order in which they come.
type Model struct {
	mu    sync.Mutex
	steps []step
	n     int // of the requests so far
	vars  map[string]string
}

var _ model.Provider = (*Model)(nil)

// Open reads a script from a file.
func Open(path string) (*Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Parse(f)
}

// Parse reads a script. The error is a *ScriptError, or that of reading.
func Parse(r io.Reader) (*Model, error) {
	m := &Model{vars: map[string]string{}}
	lines := bufio.NewScanner(io.LimitReader(r, maxScript))
	lines.Buffer(nil, maxScript+1)
	for n := 1; lines.Scan(); n++ {
		b := bytes.TrimSpace(lines.Bytes())
		if len(b) == 0 || bytes.HasPrefix(b, []byte("//")) {
			continue
		}
		s := step{line: n}
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&s); err != nil {
			return nil, &ScriptError{n, err.Error()}
		}
		if _, err := dec.Token(); err != io.EOF {
			return nil, &ScriptError{n, "something follows the step"}
		}
		if what := s.check(); what != "" {
			return nil, &ScriptError{n, what}
		}
		m.steps = append(m.steps, s)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

func (s *step) check() string {
	s.Times, s.Pieces, s.Repeat = max(s.Times, 1), max(s.Pieces, 1), max(s.Repeat, 1)
	switch {
	case s.Times > maxText || s.Times*len(s.Text) > maxText:
		return fmt.Sprintf("the text is longer than %d bytes", maxText)
	case s.Wait < 0 || s.Wait > 3_600_000:
		return "wait_ms is from 0 to 3600000"
	case s.Error != nil && s.Error.Reason == 0:
		return "an error has a reason"
	case s.Error != nil && (s.Error.RetryAfter < 0 || s.Error.RetryAfter > 3_600_000):
		return "retry_after_ms is from 0 to 3600000"
	case s.Error != nil && len(s.Calls) > 0, s.Hang && len(s.Calls) > 0:
		return "what fails or hangs has no calls"
	}
	switch model.Stop(s.Stop) {
	case "", model.Done, model.ToolUse, model.Length, model.Filtered:
	default:
		return "no such stop"
	}
	for _, c := range s.Calls {
		if c.Name == "" {
			return "a call has a name"
		}
	}
	for name, e := range s.Take {
		if e.NumSubexp() != 1 || name == "" {
			return "take has names, and expressions with one group each"
		}
	}
	return ""
}

// Left is how many more requests the script has an answer for.
func (m *Model) Left() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.steps {
		n += s.Repeat
	}
	return n - m.n
}

// next takes the step of a request, with everything in its place.
func (m *Model) next(r model.Request) (step, []model.Call, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, k := m.n, 0
	for k < len(m.steps) && at >= m.steps[k].Repeat {
		at -= m.steps[k].Repeat
		k++
	}
	if k == len(m.steps) {
		return step{}, nil, &model.Error{Reason: model.BadRequest, Code: "script_over", Detail: fmt.Sprintf("the script has %d answers", m.n)}
	}
	m.n++
	s := m.steps[k]
	fresh := news(r.Messages)
	miss := func(what string, e expr) error {
		return &model.Error{Reason: model.BadRequest, Code: "script_expectation", Detail: fmt.Sprintf("line %d: %s: %.300s", s.line, what, e)}
	}
	for _, e := range s.Expect {
		if !e.MatchString(fresh) {
			return step{}, nil, miss("nothing new matches", e)
		}
	}
	for _, e := range s.Reject {
		if e.MatchString(fresh) {
			return step{}, nil, miss("what is new matches", e)
		}
	}
	for name, e := range s.Take {
		found := e.FindAllStringSubmatch(fresh, -1)
		if len(found) == 0 {
			return step{}, nil, miss("nothing to take for "+name, e)
		}
		m.vars[name] = found[len(found)-1][1]
	}
	s.Text = strings.Repeat(m.fill(s.Text, false), s.Times)
	var calls []model.Call
	for i, c := range s.Calls {
		args := string(c.Args)
		var raw string
		if json.Unmarshal(c.Args, &raw) == nil {
			args = m.fill(raw, false)
		} else {
			args = m.fill(args, true)
		}
		if c.ID == "" {
			c.ID = fmt.Sprintf("call_%d_%d", m.n, i+1)
		}
		calls = append(calls, model.Call{ID: c.ID, Name: c.Name, Args: args})
	}
	return s, calls, nil
}

// fill puts in what was taken, inside JSON spelled as a part of a string.
func (m *Model) fill(s string, inJSON bool) string {
	for name, value := range m.vars {
		if inJSON {
			b, _ := json.Marshal(value) // a string always marshals
			value = string(b[1 : len(b)-1])
		}
		s = strings.ReplaceAll(s, "${"+name+"}", value)
	}
	return s
}

// news is what was said since the last answer.
func news(messages []model.Message) string {
	from := len(messages)
	for from > 0 && messages[from-1].Role != model.Assistant {
		from--
	}
	var b strings.Builder
	for _, msg := range messages[from:] {
		b.WriteString(string(msg.Role))
		if msg.Failed {
			b.WriteString(" failed")
		}
		b.WriteString(":\n" + msg.Text + "\n")
	}
	return b.String()
}

func (m *Model) Stream(ctx context.Context, r model.Request, text func(string)) (model.Answer, error) {
	b := model.NewBuilder(text)
	if ctx.Err() != nil { // takes no step
		return b.Answer(ctx, ctx.Err())
	}
	if err := r.Check(); err != nil {
		return b.Answer(ctx, err)
	}
	s, calls, err := m.next(r)
	if err != nil {
		return b.Answer(ctx, err)
	}
	b.Usage = usage(s, r, calls)
	if s.Wait > 0 {
		timer := time.NewTimer(time.Duration(s.Wait) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	for rest, n := s.Text, s.Pieces; rest != "" && ctx.Err() == nil; n-- {
		cut := len(rest)
		if n > 1 {
			cut = max(len(rest)/n, 1)
			for cut < len(rest) && !utf8.RuneStart(rest[cut]) {
				cut++
			}
		}
		if err := b.Text(rest[:cut]); err != nil {
			return b.Answer(ctx, err)
		}
		rest = rest[cut:]
	}
	if s.Hang {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return b.Answer(ctx, ctx.Err())
	}
	if e := s.Error; e != nil {
		return b.Answer(ctx, &model.Error{Reason: model.Reason(e.Reason), Code: e.Code, RetryAfter: time.Duration(e.RetryAfter) * time.Millisecond})
	}
	for _, c := range calls {
		n, err := b.Call(c.ID, c.Name)
		if err == nil {
			err = b.Args(n, c.Args)
		}
		if err != nil {
			return b.Answer(ctx, err)
		}
	}
	b.Stop = model.Done
	if s.Stop != "" {
		b.Stop = model.Stop(s.Stop)
	}
	return b.Answer(ctx, nil)
}

func usage(s step, r model.Request, calls []model.Call) model.Usage {
	if s.Usage != nil {
		return model.Usage{Input: s.Usage.Input, Output: s.Usage.Output}
	}
	in, out := len(r.System), len(s.Text)
	for _, m := range r.Messages {
		in += len(m.Text)
		for _, c := range m.Calls {
			in += len(c.Args)
		}
	}
	for _, c := range calls {
		out += len(c.Args)
	}
	return model.Usage{Input: int64(in+3) / 4, Output: int64(out+3) / 4}
}
