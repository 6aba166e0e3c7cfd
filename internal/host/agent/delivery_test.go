package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/internal/host/model/scripted"
	"github.com/belayhq/belay/internal/host/transcript"
	"github.com/belayhq/belay/tool"
)

func (h *host) text(text string) {
	h.Helper()
	h.until("the model says "+text, func(e Event) bool { return e.Type == Said && e.Role == model.Assistant && e.Text == text })
}

// idle waits until no run is on.
func (h *host) idle() {
	h.Helper()
	for end := time.Now().Add(long); h.Busy(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			h.Fatal("it stays busy")
		}
	}
}

// sessions lists those of the suite, as exec_list has them.
func (h *host) list() string {
	h.Helper()
	r, err := h.suite.Call(context.Background(), h.nobody(), tool.Call{ID: "list", Name: "exec_list"})
	if err != nil {
		h.Fatal(err)
	}
	return r.Text
}

// ended waits until so many processes have ended.
func (h *host) ended(n int) {
	h.Helper()
	for end := time.Now().Add(long); len(h.suite.Running()) > 0 || strings.Count(h.list(), "session=") < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.Fatalf("they run on: %s", h.list())
		}
	}
}

func (h *host) notices() (n int) {
	for _, e := range h.entries() {
		if e.Type == transcript.Notice && e.Session != "" {
			n++
		}
	}
	return n
}

// quiet wants no request beyond those, for long enough that a wake would have come.
func (h *host) quiet(requests int) {
	h.Helper()
	time.Sleep(6 * gather)
	if got := len(h.model.all()); got != requests {
		h.Errorf("%d requests, want %d", got, requests)
	}
}

// D1, D10: results that are ready together wake the idle model in one continuation, with
// their output, labelled as untrusted, without the command line, and hidden.
func TestD1WakesOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t, []m{
		calls(background("go", "echo out-of-one"), background("go", "echo out-of-two; exit 3")),
		{"text": "waiting"},
		{"text": "both", "expect": []string{"out-of-one", "out-of-two", "status=exited", "exit_code=3", "untrusted"}, "reject": []string{"sleep 0.02"}},
	})
	h.prompt("start")
	h.text("waiting")
	h.idle()
	h.Typing(true) // until both are ready
	h.write("go", "")
	h.ended(2)
	h.Typing(false)
	h.is("text", h.settle().Text, "both")
	h.is("transcript", h.line(), "user assistant exec_command exec_command result result turn assistant turn notice notice assistant turn")
	seen := map[string]bool{}
	for _, e := range h.entries() {
		if e.Type == transcript.Notice {
			if !e.Hidden() || e.Session == "" || seen[e.Session] {
				t.Errorf("%+v", e)
			}
			seen[e.Session] = true
		}
	}
	h.quiet(3)
}

// D1 and SE-37: what ends while another call runs is told behind its result, never between
// a call and a result.
func TestD1SafeBoundary(t *testing.T) {
	t.Parallel()
	h := newHost(t, []m{
		calls(background("go", "echo fin")),
		calls(makes("go"), barrier("go", 1)),
		{"text": "done", "expect": []string{"(?s)exit_code=0.*\nuser:.*fin"}},
	})
	h.does("start")
	h.is("transcript", h.line(), "user assistant exec_command result turn assistant replace shell result result turn notice assistant turn")
}

// D1 and SE-37: what ends right at the end of a turn is told, whichever comes first.
func TestD1EndOfTurn(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			h := newHost(t, []m{
				calls(call("exec_command", m{"cmd": fmt.Sprintf("sleep 0.%03d; echo fin", 260+3*i), "mode": "background", "yield_time_ms": 250})),
				{"text": "stopping", "wait_ms": 20},
				{"text": "done", "expect": []string{"fin"}},
			})
			h.prompt("start")
			o := h.settle()
			if o.Err != nil {
				t.Fatal(sentence(o.Err))
			}
			switch { // the message may come before the model stops, at its stop, or behind it
			case h.notices() == 1:
			case h.notices() == 0 && strings.Contains(h.model.news(1), "status=exited"): // it ended within the call
			default:
				t.Errorf("%d messages: %s", h.notices(), h.line())
			}
		})
	}
}

// D2: a new prompt, a steer when it is queued, an abort, and a follow-up when it is taken
// up disarm; the process lives on and its output can be read.
func TestD2Disarm(t *testing.T) {
	t.Parallel()
	start := calls(background("go", "echo fin"))
	quietly := func(h *host) {
		h.Helper()
		h.write("go", "")
		h.ended(1)
		time.Sleep(3 * gather)
		if n := h.notices(); n != 0 {
			h.Errorf("%d messages: %s", n, h.line())
		}
	}
	t.Run("prompt", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{start, {"text": "one"}, {"text": "two", "reject": []string{"fin"}}})
		h.prompt("start")
		h.text("one")
		h.idle()
		h.prompt("another")
		h.text("two")
		h.settle()
		quietly(h)
		h.quiet(3)
	})
	t.Run("steer", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{start,
			calls(barrier("steered", -1)),
			{"text": "two", "expect": []string{"another way"}, "reject": []string{"fin"}}})
		h.prompt("start")
		h.started("shell")
		if err := h.Steer("another way"); err != nil {
			t.Fatal(err)
		}
		h.write("go", "")
		h.write("steered", "")
		h.is("text", h.settle().Text, "two")
		quietly(h)
		h.quiet(3)
	})
	t.Run("steer, then a start of the old direction", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{
			{"text": "hm", "wait_ms": 300, "calls": []m{background("go", "echo fin")}},
			{"text": "two", "expect": []string{"another way"}}})
		h.prompt("start")
		h.until("a turn", func(e Event) bool { return e.Type == TurnStart })
		if err := h.Steer("another way"); err != nil {
			t.Fatal(err)
		}
		h.is("text", h.settle().Text, "two") // settled: nothing is armed
		quietly(h)
		h.quiet(2)
	})
	t.Run("abort", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{start, {"text": "one"}})
		h.prompt("start")
		h.text("one")
		if n := h.suite.Armed(); n != 1 {
			t.Errorf("%d are armed", n)
		}
		h.Abort()
		if n := h.suite.Armed(); n != 0 {
			t.Errorf("%d are armed behind an abort", n)
		}
		h.settle()
		quietly(h)
		h.quiet(2)
	})
	t.Run("abort with the message ready", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{start, {"text": "one"}, {"text": "two", "reject": []string{"fin"}}})
		h.Typing(true) // nothing wakes
		h.prompt("start")
		h.text("one")
		h.idle()
		h.write("go", "")
		h.ended(1)
		h.Abort()
		h.Typing(false)
		h.does("another")
		quietly(h)
	})
	t.Run("follow-up", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{start,
			calls(barrier("queued", 1)),
			{"text": "one", "expect": []string{"fin"}}, // queued is not taken up
			calls(background("go2", "echo second")),
			{"text": "two"}})
		h.prompt("start")
		h.started("shell")
		if err := h.FollowUp("next"); err != nil {
			t.Fatal(err)
		}
		h.write("go", "")
		h.write("queued", "")
		h.text("two")
		h.idle()
		h.is("transcript", h.line(), "user assistant exec_command result turn assistant shell result turn notice assistant turn user assistant exec_command result turn assistant turn")
		h.Abort()
	})
	t.Run("follow-up that is taken up", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{start,
			calls(call("shell", m{"argv": []string{"sh", "-c", after("queued", "true")}})),
			{"text": "one"},
			{"text": "two", "expect": []string{"next"}, "reject": []string{"fin"}}})
		h.prompt("start")
		h.started("shell")
		if err := h.FollowUp("next"); err != nil {
			t.Fatal(err)
		}
		h.write("queued", "")
		h.text("two")
		h.settle()
		quietly(h)
		h.quiet(4)
	})
}

// D2: what was taken for a boundary, and a new direction came before it was put there, is
// not put there; what is bound to no task waits for the next boundary.
func TestD2BetweenTakeAndDelivery(t *testing.T) {
	t.Parallel()
	h := newHost(t, []m{calls(background("go", "echo fin"), call("exec_command", m{"cmd": after("go", "echo older"), "completion_mode": "steer", "yield_time_ms": 250})), {"text": "one"}})
	h.Typing(true)
	h.prompt("start")
	h.text("one")
	h.idle()
	h.write("go", "")
	h.ended(2)
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{Agent: h.Agent, ctx: ctx, cancel: cancel, task: h.suite.Task()}
	_, messages, err := r.take(coding.Idle)
	if err != nil || len(messages) != 2 {
		t.Fatalf("%v, %v", messages, err)
	}
	h.suite.NewTask()
	if any, err := r.deliver(messages); any || err != nil || h.notices() != 0 {
		t.Errorf("%v, %v, %d messages", any, err, h.notices())
	}
	if n := h.suite.Waiting(coding.Idle); n != 1 {
		t.Errorf("%d wait", n)
	}
	r.task = h.suite.Task()
	_, messages, _ = r.take(coding.Idle)
	cancel() // an abort
	if any, err := r.deliver(messages); any || err == nil || h.notices() != 0 || h.suite.Waiting(coding.Idle) != 1 {
		t.Errorf("%v, %v", any, err)
	}
}

// What was delivered takes no room any more: more than may wait at once can be delivered
// one after the other, whole.
func TestDeliveredGivesRoom(t *testing.T) {
	t.Parallel()
	const each = 100
	var starts []m
	for range each { // 100 of 45 KB: two times that are more than may wait
		starts = append(starts, call("exec_command", m{"cmd": "yes 0123456789 | head -c 44000", "completion_mode": "steer", "yield_time_ms": 30000, "max_output_tokens": 11250}))
	}
	h := newHost(t, []m{calls(starts...), {"text": "some", "repeat": 1000}})
	for round := 1; round <= 2; round++ {
		if round == 2 {
			h.model.Provider, _ = scripted.Parse(strings.NewReader(line(calls(starts...)) + line(m{"text": "some", "repeat": 1000})))
		}
		h.prompt("start")
		if o := h.settle(); o.Err != nil {
			t.Fatal(sentence(o.Err))
		}
		if n := h.notices(); n != each*round {
			t.Errorf("%d messages", n)
		}
	}
	for _, e := range h.entries() {
		if e.Type == transcript.Notice && strings.Contains(e.Text, "omitted_bytes") {
			t.Fatalf("%.200s", e.Text)
		}
	}
}

// P12: a default run makes no message, however it ends.
func TestDefaultTellsNothing_P12(t *testing.T) {
	t.Parallel()
	start := func(rest string) m {
		return call("exec_command", m{"cmd": after("go", rest), "yield_time_ms": 250})
	}
	h := newHost(t, []m{calls(start("echo fin"), start("exit 3"), start("kill -ABRT $$")), {"text": "one"}, {"text": "two", "reject": []string{"fin", "status="}}})
	h.does2("start")
	h.write("go", "")
	h.ended(3)
	h.quiet(2)
	h.does("another")
	if n := h.notices(); n != 0 {
		t.Errorf("%d messages", n)
	}
}

// makes is a call that makes a file.
func makes(file string) m { return call("replace", m{"path": file, "content": "", "create": true}) }

// D3: a kill takes back every form of the subscription.
func TestD3Kill(t *testing.T) {
	t.Parallel()
	for _, mode := range []m{{"mode": "background"}, {"mode": "service"}, {"completion_mode": "steer"}, {"completion_mode": "followUp"}, {"completion_mode": "nextTurn"}, {"notify_on_exit": true}} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			t.Parallel()
			args := m{"cmd": "echo fin; exec sleep 30700", "yield_time_ms": 250}
			for k, v := range mode {
				args[k] = v
			}
			h := newHost(t, []m{
				calls(call("exec_command", args)),
				{"take": m{"id": `session=(\w+)`}, "calls": []m{call("exec_kill", m{"session_id": "${id}"})}},
				{"text": "one"},
				{"text": "two"},
			})
			h.prompt("start")
			h.text("one")
			h.settle()
			h.does("another")
			if n := h.notices(); n != 0 {
				t.Errorf("%d messages: %s", n, h.line())
			}
			h.quiet(4)
		})
	}
}

// D4: a service resumes nobody when it exits well, and is told like a background run when
// it fails.
func TestD4Service(t *testing.T) {
	t.Parallel()
	service := func(rest string) m {
		return calls(call("exec_command", m{"cmd": after("go", rest), "mode": "service", "yield_time_ms": 250}))
	}
	t.Run("well", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{service("echo fin"), {"text": "one"}})
		h.does("start") // settled although it runs
		h.write("go", "")
		h.ended(1)
		h.quiet(2)
	})
	t.Run("failed", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{service("echo broken; exit 7"), {"text": "one"}, {"text": "two", "expect": []string{"broken", "exit_code=7", "mode=service"}}})
		h.prompt("start")
		h.text("one")
		h.settle() // nobody waits for a service
		h.write("go", "")
		h.text("two")
		h.settle()
		h.is("transcript", h.line(), ".* turn notice assistant turn")
	})
	t.Run("killed by a signal", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{service("kill -ABRT $$"), {"text": "one"}, {"text": "two", "expect": []string{"signal=ABRT"}}})
		h.prompt("start")
		h.text("one")
		h.settle()
		h.write("go", "")
		h.text("two")
		h.settle()
	})
}

// D5: a direct observation of the end, in the transcript, takes the message; a list and an
// observation that was cancelled do not.
func TestD5Observed(t *testing.T) {
	t.Parallel()
	for name, observe := range map[string][]m{
		"exec_wait":   {{"calls": []m{makes("go"), call("exec_wait", m{"timeout_ms": 30000, "session_ids": []string{"${id}"}})}, "take": m{"id": `session=(\w+)`}}},
		"write_stdin": {{"calls": []m{makes("go"), call("write_stdin", m{"session_id": "${id}", "yield_time_ms": 30000})}, "take": m{"id": `session=(\w+)`}}},
		"exec_output": {
			{"calls": []m{makes("go"), barrier("go", 1)}, "take": m{"id": `session=(\w+)`}},
			calls(call("exec_output", m{"session_id": "${id}"}))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := append([]m{calls(background("go", "echo fin"))}, observe...)
			h := newHost(t, append(steps, m{"text": "done", "expect": []string{"exited"}}))
			if name == "exec_output" {
				// Between the end and the observation is a boundary, where the message comes: so
				// the observation finds nothing to take, and it is not told again.
				h.does("start")
				if n := h.notices(); n != 1 {
					t.Errorf("%d messages: %s", n, h.line())
				}
			} else {
				h.does("start")
				if n := h.notices(); n != 0 {
					t.Errorf("%d messages: %s", n, h.line())
				}
			}
			h.quiet(len(steps) + 1)
		})
	}
	t.Run("exec_output in the batch of the end", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{
			calls(background("go", "echo fin")),
			{"take": m{"id": `session=(\w+)`}, "calls": []m{
				makes("go"),
				call("exec_wait", m{"session_ids": []string{"${id}"}}), // shell and reads run at once, so it is this that waits
				call("exec_kill", m{"session_id": "nobody"}),           // holds up
				call("exec_output", m{"session_id": "${id}"})}},
			{"text": "done", "expect": []string{"fin"}}})
		h.does("start")
		if n := h.notices(); n != 0 {
			t.Errorf("%d messages: %s", n, h.line())
		}
		h.quiet(3)
	})
	t.Run("exec_list", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{
			calls(background("go", "echo fin")),
			calls(makes("go"), barrier("go", 1), call("exec_kill", m{"session_id": "nobody"}), call("exec_list", m{})),
			{"text": "done", "expect": []string{"status=exited", "fin"}}})
		h.does("start")
		if n := h.notices(); n != 1 {
			t.Errorf("%d messages: %s", n, h.line())
		}
	})
	t.Run("a nested call, and its exec_ack", func(t *testing.T) {
		t.Parallel()
		for _, ack := range []bool{false, true} {
			h := newHost(t, []m{calls(background("go", "echo fin")), {"text": "one"}, {"text": "two", "expect": []string{"fin"}}})
			h.Typing(true)
			h.prompt("start")
			h.text("one")
			h.idle()
			id := h.suite.Running()[0]
			h.write("go", "")
			nested := func(name, args string) {
				if _, err := h.suite.Call(context.Background(), h.nobody(), tool.Call{ID: name, Name: name, Args: []byte(args), Parent: "script"}); err != nil {
					t.Fatal(err)
				}
			}
			nested("exec_wait", `{"session_ids":["`+id+`"]}`)
			want := 1
			if ack {
				nested("exec_ack", `{"session_id":"`+id+`"}`)
				want = 0
			}
			h.Typing(false)
			h.settle()
			if n := h.notices(); n != want {
				t.Errorf("ack %v: %d messages", ack, n)
			}
		}
	})
}

// D6, D7, D8: the older forms are not bound to a task and come at their boundary; nextTurn
// and notify_on_exit wake nobody.
func TestOlderForms(t *testing.T) {
	t.Parallel()
	older := func(args m) m {
		args["cmd"], args["yield_time_ms"] = after("go", "echo tail-of-it"), 250
		return call("exec_command", args)
	}
	t.Run("D6 notify_on_exit", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{calls(older(m{"notify_on_exit": true})), {"text": "one"},
			{"text": "two", "expect": []string{"(?s)user:\nagain.*user:\n.*status=exited"}, "reject": []string{"tail-of-it"}}})
		h.prompt("start")
		h.text("one")
		h.settle()
		h.write("go", "")
		h.ended(1)
		h.quiet(2)
		h.does("again")
		h.is("transcript", h.line(), ".* user notice assistant turn")
	})
	t.Run("D8 nextTurn", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{calls(older(m{"completion_mode": "nextTurn"})), {"text": "one"},
			{"text": "two", "expect": []string{"(?s)user:\nagain.*user:\n.*tail-of-it"}}})
		h.prompt("start")
		h.text("one")
		h.settle()
		h.write("go", "")
		h.ended(1)
		h.quiet(2)
		h.does("again")
	})
	t.Run("D8 steer comes at the next boundary, whatever the user said", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{calls(older(m{"completion_mode": "steer"})),
			calls(barrier("steered", 1)),
			{"text": "two", "expect": []string{"(?s)tail-of-it.*user:\nanother way"}}})
		h.prompt("start")
		h.started("shell")
		if err := h.Steer("another way"); err != nil {
			t.Fatal(err)
		}
		h.write("go", "")
		h.write("steered", "")
		h.is("text", h.settle().Text, "two")
		h.is("transcript", h.line(), "user assistant exec_command result turn assistant shell result turn notice user assistant turn")
	})
	t.Run("D8 steer wakes", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{calls(older(m{"completion_mode": "steer"})), {"text": "one"}, {"text": "two", "expect": []string{"tail-of-it"}}})
		h.prompt("start")
		h.text("one")
		h.write("go", "")
		h.is("text", h.settle().Text, "two")
	})
	t.Run("D8 followUp waits until the model would stop", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{calls(older(m{"completion_mode": "followUp"})),
			calls(makes("go"), barrier("go", 1)),
			{"text": "stopping", "reject": []string{"tail-of-it"}},
			{"text": "done", "expect": []string{"tail-of-it"}}})
		h.does("start")
	})
	t.Run("D7 is not consumed by an observation", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, []m{calls(older(m{"completion_mode": "steer"})),
			{"take": m{"id": `session=(\w+)`}, "calls": []m{makes("go"), call("exec_wait", m{"session_ids": []string{"${id}"}})}},
			{"text": "done", "expect": []string{"(?s)tail-of-it.*user:\n.*tail-of-it"}}})
		h.does("start")
	})
}

// D9: ten that end at once are ten messages, each once, and leaving the conversation
// suppresses those of the processes that it ends. SE-35.
func TestD9Once(t *testing.T) {
	t.Parallel()
	var starts []m
	var want []string
	for n := 1; n <= 10; n++ {
		starts = append(starts, background("go", fmt.Sprintf("exit %d", n)))
		want = append(want, fmt.Sprintf(`exit_code=%d\b`, n))
	}
	h := newHost(t, []m{calls(starts...), {"text": "waiting"}, {"text": "some", "repeat": 10}})
	h.prompt("start")
	h.text("waiting")
	h.write("go", "")
	if o := h.settle(); o.Err != nil {
		t.Fatal(o.Err)
	}
	var all strings.Builder
	for _, e := range h.entries() {
		if e.Type == transcript.Notice {
			all.WriteString(e.Text + "\n")
		}
	}
	for _, w := range want {
		h.is("the messages", all.String(), `.*`+w+`.*`)
	}
	if n := h.notices(); n != 10 {
		t.Errorf("%d messages", n)
	}

	left := newHost(t, []m{calls(background("never", "true"), background("never", "true")), {"text": "waiting"}})
	left.prompt("start")
	left.text("waiting")
	left.Stop()
	if err := left.suite.Close(); err != nil {
		t.Fatal(err)
	}
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	if n := left.notices(); n != 0 {
		t.Errorf("%d messages of a conversation that was left", n)
	}
	left.quiet(2)
}

// The output of a message is bounded, whatever is delivered together. D1.
func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	big := call("exec_command", m{"cmd": after("go", "yes 0123456789 | head -c 300000"), "mode": "background", "yield_time_ms": 250, "max_output_tokens": 11250})
	h := newHost(t, []m{calls(big, big, big), {"text": "waiting"}, {"text": "done", "repeat": 3}})
	h.prompt("start")
	h.text("waiting")
	h.write("go", "")
	h.settle()
	for _, e := range h.entries() {
		if e.Type == transcript.Notice && (len(e.Text) > 64_000+2048 || !strings.Contains(e.Text, "output_bytes=300000")) {
			t.Errorf("%d bytes: %.200s", len(e.Text), e.Text)
		}
	}
	if n := h.notices(); n != 3 {
		t.Errorf("%d messages", n)
	}
}
