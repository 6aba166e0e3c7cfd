package scripted

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/belayhq/belay/internal/host/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func script(t *testing.T, text string) *Model {
	t.Helper()
	m, err := Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func user(text string) model.Request {
	return model.Request{Messages: []model.Message{{Role: model.User, Text: text}}}
}

// code is that of an error, or "".
func code(err error) string {
	var e *model.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// A conversation as the demo has it: what a result says is used in the next call.
func TestConversation(t *testing.T) {
	t.Parallel()
	m := script(t, `// reads, edits what it read, and ends
{"text": "I look.", "calls": [{"name": "read", "args": {"path": "a"}}, {"name": "exec_list", "args": {}, "id": "mine"}]}

{"expect": ["(?m)^tool:\\npath=a", "tool failed:\\nlimit"], "reject": ["hello"], "take": {"sha": "sha256=([0-9a-f]+)", "word": "content (.*)"}, "calls": [{"name": "edit", "args": {"expected_sha256": "${sha}", "new": "${word} ${HOME}"}}, {"name": "x", "args": "${word}, {"}]}
{"text": "Done with ${sha}."}
`)
	r := user("hello")
	var shown strings.Builder
	stream := func() model.Answer {
		t.Helper()
		shown.Reset()
		a, err := m.Stream(t.Context(), r, func(s string) { shown.WriteString(s) })
		if err != nil || shown.String() != a.Text {
			t.Fatalf("%+v, %v, shown %q", a, err, shown.String())
		}
		r.Messages = append(r.Messages, a.Message())
		return a
	}
	a := stream()
	if a.Text != "I look." || a.Stop != model.ToolUse || len(a.Calls) != 2 || a.Calls[0] != (model.Call{ID: "call_1_1", Name: "read", Args: `{"path": "a"}`}) || a.Calls[1].ID != "mine" {
		t.Errorf("%+v", a)
	}
	r.Messages = append(r.Messages, model.Message{Role: model.Result, CallID: "call_1_1", Text: "path=a sha256=abc1 size=3\n\ncontent q\"uote"},
		model.Message{Role: model.Result, CallID: "mine", Failed: true, Text: "limit: too many"})
	a = stream()
	if a.Calls[0].Args != `{"expected_sha256": "abc1", "new": "q\"uote ${HOME}"}` || a.Calls[1].Args != `q"uote, {` {
		t.Errorf("%+v", a)
	}
	for _, c := range a.Calls {
		r.Messages = append(r.Messages, model.Message{Role: model.Result, CallID: c.ID, Text: "ok"})
	}
	if a = stream(); a.Text != "Done with abc1." || a.Stop != model.Done || m.Left() != 0 || a.Usage.Input == 0 || a.Usage.Output == 0 {
		t.Errorf("%+v, %d left", a, m.Left())
	}
	r.Messages = append(r.Messages, model.Message{Role: model.User, Text: "more"})
	if _, err := m.Stream(t.Context(), r, nil); code(err) != "script_over" {
		t.Error(err)
	}
}

// What a script expects and does not find fails the request, and says which line.
func TestExpectations(t *testing.T) {
	t.Parallel()
	for _, line := range []string{`{"expect": ["nothing like it"]}`, `{"reject": ["hel+o"]}`, `{"take": {"x": "sha=(.)"}}`} {
		m := script(t, "\n"+line)
		_, err := m.Stream(t.Context(), user("hello"), nil)
		var e *model.Error
		if !errors.As(err, &e) || e.Code != "script_expectation" || !strings.HasPrefix(e.Detail, "line 2: ") || e.Temporary() {
			t.Errorf("%s: %#v", line, err)
		}
	}
	// only what is new counts
	m := script(t, `{"text": "a"}`+"\n"+`{"reject": ["hello"], "text": "b"}`)
	r := user("hello")
	a, _ := m.Stream(t.Context(), r, nil)
	r.Messages = append(r.Messages, a.Message(), model.Message{Role: model.User, Text: "next"})
	if a, err := m.Stream(t.Context(), r, nil); err != nil || a.Text != "b" {
		t.Errorf("%+v, %v", a, err)
	}
	// a conversation that no server would take is refused here, too
	r.Messages = append(r.Messages, model.Message{Role: model.Result, CallID: "x"})
	if _, err := m.Stream(t.Context(), r, nil); !strings.HasPrefix(code(err), "result_without_call") {
		t.Error(err)
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	m := script(t, `{"text": "äb", "times": 4, "pieces": 3, "usage": {"input": 5, "output": 6}}
{"text": "half", "error": {"reason": "overloaded", "code": "x", "retry_after_ms": 1500}}
{"error": {"reason": "unreachable"}}
{"text": "cut off", "stop": "length"}
{"text": "n", "repeat": 3, "wait_ms": 1}`)
	var pieces []string
	a, err := m.Stream(t.Context(), user("x"), func(s string) { pieces = append(pieces, s) })
	if err != nil || a.Text != strings.Repeat("äb", 4) || len(pieces) != 3 || strings.Join(pieces, "") != a.Text || strings.Contains(strings.Join(pieces, " "), "\xc3 ") ||
		a.Usage != (model.Usage{Input: 5, Output: 6}) {
		t.Errorf("%+v %q %v", a, pieces, err)
	}
	var e *model.Error
	a, err = m.Stream(t.Context(), user("x"), nil)
	if !errors.As(err, &e) || e.Reason != model.Overloaded || e.Code != "x" || e.RetryAfter != 1500*time.Millisecond || !e.Begun || a.Text != "half" {
		t.Errorf("%+v %#v", a, err)
	}
	if _, err = m.Stream(t.Context(), user("x"), nil); !errors.As(err, &e) || e.Reason != model.Unreachable || e.Begun {
		t.Errorf("%#v", err)
	}
	if a, err = m.Stream(t.Context(), user("x"), nil); err != nil || a.Stop != model.Length {
		t.Errorf("%+v %v", a, err)
	}
	if m.Left() != 3 {
		t.Error(m.Left())
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if a, err := m.Stream(t.Context(), user("x"), nil); err != nil || a.Text != "n" {
				t.Errorf("%+v %v", a, err)
			}
		})
	}
	wg.Wait()
	if m.Left() != 0 {
		t.Error(m.Left())
	}
}

// A hanging or slow answer ends with its context; a context that is done takes no step.
func TestCancel(t *testing.T) {
	t.Parallel()
	m := script(t, `{"text": "one", "hang": true}
{"wait_ms": 3600000, "text": "never"}
{"text": "here"}`)
	for _, want := range []string{"one", ""} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		a, err := m.Stream(ctx, user("x"), nil)
		if !errors.Is(err, context.DeadlineExceeded) || a.Text != want {
			t.Errorf("%+v, %v", a, err)
		}
		if _, err = m.Stream(ctx, user("x"), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
	}
	if a, err := m.Stream(t.Context(), user("x"), nil); err != nil || a.Text != "here" {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestBadScripts(t *testing.T) {
	t.Parallel()
	for _, line := range []string{`{`, `[]`, `{} {}`, `{"txt": "x"}`, `{"expect": ["("]}`, `{"take": {"x": "no group"}}`, `{"error": {"reason": "bad luck"}}`, `{"error": {}}`,
		`{"error": {"reason": "cut"}, "calls": [{"name": "x"}]}`, `{"hang": true, "calls": [{"name": "x"}]}`, `{"calls": [{}]}`, `{"stop": "now"}`, `{"wait_ms": -1}`,
		`{"text": "xxxx", "times": 99999999}`} {
		_, err := Parse(strings.NewReader("{}\n// a comment\n" + line))
		var e *ScriptError
		if !errors.As(err, &e) || e.Line != 3 {
			t.Errorf("%s: %v", line, err)
		}
	}
	path := filepath.Join(t.TempDir(), "s")
	if _, err := Open(path); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte(`{"text":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := Open(path); err != nil || m.Left() != 1 {
		t.Error(err)
	}
}
