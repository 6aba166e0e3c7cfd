package coding

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belayhq/belay/approve"
	"github.com/belayhq/belay/tool"
)

// A user answers questions as the test says, and remembers them.
type user struct {
	mu     sync.Mutex
	answer func(tool.Prompt) (bool, error)
	asked  []tool.Prompt
}

func (u *user) Ask(_ context.Context, p tool.Prompt) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = append(u.asked, p)
	return u.answer(p)
}

func (u *user) prompts() []tool.Prompt {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]tool.Prompt(nil), u.asked...)
}

func yes(tool.Prompt) (bool, error) { return true, nil }

// typed calls write_stdin for a user.
func typed(t *testing.T, s *Suite, ctx context.Context, asker approve.Asker, args map[string]any) (map[string]any, *tool.Error) {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Call(ctx, Caller{Asker: asker}, tool.Call{ID: "1", Name: "write_stdin", Args: raw})
	var e *tool.Error
	var value any = r.Data
	if errors.As(err, &e) {
		value = e
	}
	out, err := json.Marshal(value)
	var data map[string]any
	if err != nil || json.Unmarshal(out, &data) != nil {
		t.Fatal(err)
	}
	return data, e
}

func session(t *testing.T, s *Suite, args map[string]any) string {
	t.Helper()
	if args["yield_time_ms"] == nil {
		args["yield_time_ms"] = 250
	}
	_, data, e := do(t, s, "exec_command", args)
	if e != nil {
		t.Fatal(e.Message())
	}
	return data["session_id"].(string)
}

// until reads the log of a session until it holds a text.
func until(t *testing.T, s *Suite, id, text string) (output string) {
	t.Helper()
	for range 1200 {
		_, data, e := do(t, s, "exec_output", map[string]any{"session_id": id})
		if e != nil {
			t.Fatal(e.Message())
		}
		if output = data["output"].(string); strings.Contains(output, text) {
			return output
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatalf("%q did not come: %q", text, output)
	return
}

// P9, P10: every input is asked about anew, whole, and nothing but a yes lets it
// through; end of file, Ctrl-C and escape sequences too.
func TestInputIsAskedAboutEachTime(t *testing.T) {
	t.Parallel()
	s := on(t, nil)
	id := session(t, s, map[string]any{"cmd": "exec cat", "stdin": "open"})
	for name, c := range map[string]struct {
		asker approve.Asker
		want  string
	}{
		"nobody":     {nil, "approval_unavailable"},
		"a no":       {&user{answer: func(tool.Prompt) (bool, error) { return false, nil }}, "approval_denied"},
		"an error":   {&user{answer: func(tool.Prompt) (bool, error) { return true, errors.New("x") }}, "approval_denied"},
		"cannot ask": {&user{answer: func(tool.Prompt) (bool, error) { return false, approve.ErrUnavailable }}, "approval_unavailable"},
		"a panic":    {&user{answer: func(tool.Prompt) (bool, error) { panic("x") }}, "approval_denied"},
	} {
		for _, args := range []map[string]any{{"chars": "no\n"}, {"chars": "\x03"}, {"close": true}, {"chars": "\x1b[A"}, {"chars": "\x04"}} {
			args["session_id"] = id
			data, e := typed(t, s, context.Background(), c.asker, args)
			if e == nil || e.Kind != tool.Refused {
				t.Errorf("%s, %v: went through: %v", name, args, data)
				continue
			}
			facts(t, name, data, map[string]any{"code": c.want})
		}
	}
	u := &user{answer: yes}
	for _, chars := range []string{"one\n", "one\n", "\x1b]0;t\x07\u202e\\\n"} {
		data, e := typed(t, s, context.Background(), u, map[string]any{"session_id": id, "chars": chars})
		if e != nil {
			t.Fatal(e.Message())
		}
		facts(t, "written", data, map[string]any{"written_bytes": len(chars), "status": "running"})
	}
	if output := until(t, s, id, `\`); strings.Contains(output, "no") {
		t.Errorf("refused input arrived: %q", output)
	}
	asked := u.prompts()
	if len(asked) != 3 {
		t.Fatalf("asked %d times for 3 inputs", len(asked))
	}
	if p := asked[2]; p.Shown != `\x1b]0;t\x07\u202e\\\n` || p.Bytes != 11 || p.SessionID != id || p.Reason != "input" || !strings.Contains(p.Title, "exec cat") {
		t.Errorf("shown: %+v", p)
	}
	// polls and resizes need nobody
	if _, e := typed(t, s, context.Background(), nil, map[string]any{"session_id": id}); e != nil {
		t.Error(e)
	}
	// what cannot be shown whole cannot be approved
	data, _ := typed(t, s, context.Background(), u, map[string]any{"session_id": id, "chars": strings.Repeat("x", 4097)})
	facts(t, "too long", data, map[string]any{"code": "invalid_argument", "argument": "chars"})
}

// P11, and the cases SE-12, SE-13, SE-17, SE-19: input reaches the process that was
// shown or nobody; end of file and Ctrl-C work on pipes and terminals.
func TestApprovedInput(t *testing.T) {
	t.Parallel()
	s := on(t, nil)
	ctx := context.Background()
	u := &user{answer: yes}

	sorted := func(tty bool, end map[string]any) {
		args := map[string]any{"cmd": "stty -echo 2>/dev/null; echo ready; exec sort"}
		if tty {
			args["tty"] = true
		} else {
			args["stdin"] = "open"
		}
		id := session(t, s, args)
		until(t, s, id, "ready")
		if data, e := typed(t, s, ctx, u, map[string]any{"session_id": id, "chars": "b\na\n"}); e != nil {
			t.Fatal(data)
		}
		end["session_id"] = id
		end["yield_time_ms"] = 20000
		data, e := typed(t, s, ctx, u, end)
		if e != nil {
			t.Fatal(e.Message())
		}
		facts(t, "sort", data, map[string]any{"status": "exited", "exit_code": 0, "output": "a\nb\n"})
		data, _ = typed(t, s, ctx, u, map[string]any{"session_id": id, "chars": "x"})
		facts(t, "after its end", data, map[string]any{"code": "session_ended", "status": "exited", "exit_code": 0})
		data, _ = typed(t, s, ctx, nil, map[string]any{"session_id": id, "chars": "\x03"})
		facts(t, "an interrupt after its end is a poll", data, map[string]any{"status": "exited", "exit_code": 0})
	}
	sorted(false, map[string]any{"close": true})
	sorted(true, map[string]any{"chars": "\x04"})

	trap := "trap 'echo got-int; exit 7' INT; echo up; while :; do sleep 0.05; done"
	for _, args := range []map[string]any{{"cmd": trap}, {"cmd": trap, "stdin": "open"}, {"cmd": trap, "tty": true}} {
		id := session(t, s, args)
		until(t, s, id, "up")
		data, e := typed(t, s, ctx, u, map[string]any{"session_id": id, "chars": "\x03", "yield_time_ms": 20000})
		if e != nil {
			t.Fatal(args, e.Message())
		}
		facts(t, "interrupt", data, map[string]any{"status": "exited", "exit_code": 7})
		if !strings.Contains(data["output"].(string), "got-int") {
			t.Errorf("%v: %q", args, data["output"])
		}
	}

	// a session without input, and one that closed it
	id := session(t, s, map[string]any{"cmd": "sleep 300"})
	data, _ := typed(t, s, ctx, u, map[string]any{"session_id": id, "chars": "x"})
	facts(t, "no input", data, map[string]any{"code": "stdin_closed"})
	id = session(t, s, map[string]any{"cmd": "exec 0<&-; echo closed; sleep 300", "stdin": "open"})
	until(t, s, id, "closed")
	data, _ = typed(t, s, ctx, u, map[string]any{"session_id": id, "chars": "x"})
	facts(t, "closed its input", data, map[string]any{"code": "stdin_closed"})

	// it ends between the question and the answer
	id = session(t, s, map[string]any{"cmd": "read x; echo never", "stdin": "open"})
	slow := &user{answer: func(tool.Prompt) (bool, error) {
		do(t, s, "exec_kill", map[string]any{"session_id": id})
		return true, nil
	}}
	data, _ = typed(t, s, ctx, slow, map[string]any{"session_id": id, "chars": "x\n"})
	facts(t, "it ended meanwhile", data, map[string]any{"code": "session_ended", "status": "killed"})
}

// P10: where the terminal does not show what is typed, the question says so, and
// shows the input all the same.
func TestPasswordsAreShownToTheirOwner(t *testing.T) {
	t.Parallel()
	s := on(t, nil)
	id := session(t, s, map[string]any{"cmd": "stty -echo; printf 'Password: '; read x; echo; echo got $x", "tty": true})
	until(t, s, id, "Password: ")
	u := &user{answer: yes}
	data, e := typed(t, s, context.Background(), u, map[string]any{"session_id": id, "chars": "hunter2\n", "yield_time_ms": 20000})
	if e != nil {
		t.Fatal(e.Message())
	}
	if p := u.prompts()[0]; !strings.Contains(p.Title, "password") || p.Shown != `hunter2\n` {
		t.Errorf("%+v", p)
	}
	if !strings.Contains(data["output"].(string), "got hunter2") {
		t.Errorf("%q", data["output"])
	}
}

// The cases SE-20 and SE-22: input that is not taken, and a line that a terminal
// would cut, are told.
func TestInputThatDoesNotArriveIsTold(t *testing.T) {
	t.Parallel()
	s := on(t, nil)
	u := &user{answer: yes}
	id := session(t, s, map[string]any{"cmd": "exec sleep 300", "stdin": "open"})
	full := false
	for range 40 { // the pipe holds some 64 KiB
		data, e := typed(t, s, context.Background(), u, map[string]any{"session_id": id, "chars": strings.Repeat("x", 4096)})
		if e != nil {
			facts(t, "a full pipe", data, map[string]any{"code": "uncertain", "bytes": 4096})
			if errors.Is(e, context.DeadlineExceeded) {
				t.Error("the deadline is not the caller's")
			}
			full = true
			break
		}
	}
	if !full {
		t.Error("a session that does not read took everything")
	}
	id = session(t, s, map[string]any{"cmd": "exec cat", "tty": true})
	data, _ := typed(t, s, context.Background(), u, map[string]any{"session_id": id, "chars": strings.Repeat("y", 4096)})
	facts(t, "a long line", data, map[string]any{"code": "limit", "limit": 4095, "actual": 4096})
}

// P10: a cancelled call is asked about no more, and its late answer writes nothing.
func TestCancelledInputIsNotWritten(t *testing.T) {
	t.Parallel()
	s := on(t, nil)
	id := session(t, s, map[string]any{"cmd": "exec cat", "stdin": "open"})
	ctx, cancel := context.WithCancel(context.Background())
	late := make(chan struct{})
	u := &user{answer: func(tool.Prompt) (bool, error) {
		cancel()
		<-late
		return true, nil
	}}
	data, e := typed(t, s, ctx, u, map[string]any{"session_id": id, "chars": "late\n"})
	if e == nil || e.Code != tool.Cancelled || !errors.Is(e, context.Canceled) {
		t.Fatalf("%v %v", data, e)
	}
	close(late)
	time.Sleep(50 * time.Millisecond)
	if data, e := typed(t, s, context.Background(), &user{answer: yes}, map[string]any{"session_id": id, "chars": "next\n"}); e != nil {
		t.Fatal(data)
	}
	if output := until(t, s, id, "next"); strings.Contains(output, "late") {
		t.Errorf("a late answer wrote: %q", output)
	}
}
