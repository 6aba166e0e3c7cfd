package delivery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	forms = map[string]Form{"default": None, "background": Background, "service": Service,
		"notify_on_exit": NotifyOnExit, "steer": Steer, "followUp": FollowUp, "nextTurn": NextTurn}
	boundaries = map[string]Boundary{"safe": Safe, "stop": Stop, "idle": Idle, "user": UserMessage}
	ends       = map[string]End{
		"ok":      {Status: "exited", Wall: time.Second, Observed: 7},
		"failed":  {Status: "exited", Code: 3},
		"signal":  {Status: "signaled", Code: -1, Signal: "SEGV"},
		"timeout": {Status: "timed_out", Code: -1, Signal: "TERM"},
		"killed":  {Status: "killed", Code: -1, Signal: "TERM"},
	}
)

// play runs a line of events and gives what each take handed out, as "a,b|c".
//
//	start a background        end a ok        observed a      ack a     suppress a
//	forget a                  take safe       return          delivered disarm
//	stale a background        suppress-all
func play(t *testing.T, q *Queue, line string) string {
	t.Helper()
	var takes []string
	var last []Notice
	old := q.Task()
	for event := range strings.SplitSeq(line, ";") {
		f := append(strings.Fields(event), "", "")
		switch f[0] {
		case "start", "stale":
			s := Subscription{Session: f[1], Form: forms[f[2]], Task: q.Task(), Output: 1000}
			if f[0] == "stale" {
				s.Task = old
			}
			if err := q.Arm(s); err != nil {
				takes = append(takes, err.Error())
			}
		case "end":
			q.Ended(f[1], ends[f[2]])
		case "observed":
			q.Observed(f[1])
		case "ack":
			takes = append(takes, fmt.Sprint(q.Ack(f[1])))
		case "suppress":
			q.Suppress(f[1])
		case "suppress-all":
			q.SuppressAll()
		case "disarm":
			q.Disarm()
		case "forget":
			q.Forget(f[1])
		case "delivered":
			for _, n := range last {
				q.Delivered(n.Session)
			}
		case "return":
			q.Return(last)
		case "take":
			b, ok := boundaries[f[1]]
			if !ok {
				t.Fatalf("no boundary %q", f[1])
			}
			n := q.Ready(b)
			last = q.Take(b)
			if n != len(last) {
				t.Errorf("%s: %d were ready, %d taken", event, n, len(last))
			}
			var names []string
			for _, n := range last {
				names = append(names, n.Session)
			}
			takes = append(takes, strings.Join(names, ","))
		default:
			t.Fatalf("no event %q", event)
		}
	}
	return strings.Join(takes, "|")
}

// D1–D9, one line each for what the requirement says and for what it forbids.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ id, what, events, want string }{
		{"D1", "background is delivered between a batch and the next request", "start a background; take safe; end a ok; take safe; take safe", "|a|"},
		{"D1", "what is ready together is one batch, in the order of the ends", "start a background; start b background; start c background; end c ok; end a failed; take safe; end b ok; take safe", "c,a|b"},
		{"D1", "an idle agent gets one continuation for all", "start a background; start b steer; end b ok; end a ok; take idle; take idle", "b,a|"},
		{"D1", "a process that ends right at the end of a turn is not lost", "start a background; take safe; end a ok; take stop", "|a"},
		{"D1", "a failure is an end, too", "start a background; end a signal; start b background; end b timeout; take safe", "a,b"},

		{"D2", "a new direction disarms what runs", "start a background; disarm; end a ok; take safe; take idle; take user", "||"},
		{"D2", "and what ended and waits", "start a background; end a ok; disarm; take safe; take stop; take idle; take user", "|||"},
		{"D2", "and a failed service", "start a service; end a failed; disarm; take idle", ""},
		{"D2", "but not what is started afterwards", "start a background; disarm; start b background; end a ok; end b ok; take safe", "b"},
		{"D2", "a call of the old task that is still under way arms nothing", "disarm; stale a background; end a ok; take idle", ""},
		{"D2", "nor does it by being repeated", "disarm; stale a background; start a background; end a ok; take idle", ""},
		{"D2", "what could not be written does not come back behind a new direction", "start a background; end a ok; take safe; disarm; return; take safe", "a|"},

		{"D3", "a kill suppresses background", "start a background; suppress a; end a killed; take idle; take user", "|"},
		{"D3", "a service", "start a service; suppress a; end a signal; take idle; take user", "|"},
		{"D3", "and every older form", "start a notify_on_exit; start b steer; start c followUp; start d nextTurn; suppress a; suppress b; suppress c; suppress d;" +
			"end a killed; end b killed; end c killed; end d killed; take safe; take stop; take idle; take user", "|||"},
		{"D3", "also what ended by itself before the kill came", "start a steer; end a ok; suppress a; take idle", ""},

		{"D4", "a service that ends well says nothing", "start a service; end a ok; take safe; take stop; take idle; take user", "|||"},
		{"D4", "a code that is not zero is delivered", "start a service; end a failed; take safe", "a"},
		{"D4", "a signal that nobody asked for is delivered", "start a service; end a signal; take idle", "a"},
		{"D4", "a timeout is no normal exit", "start a service; end a timeout; take stop", "a"},
		{"D4", "a kill is", "start a service; end a killed; take idle", ""},

		{"D5", "an observation consumes", "start a background; end a ok; observed a; take safe; take idle", "|"},
		{"D5", "also a failed service", "start a service; end a failed; observed a; take safe", ""},
		{"D5", "nothing that still runs was observed", "start a background; observed a; end a ok; take safe", "a"},
		{"D5", "a nested caller acknowledges, once", "start a background; ack a; end a ok; ack a; ack a; take idle", "false|true|false|"},
		{"D5", "who acknowledges too late learns it", "start a background; end a ok; take safe; ack a; delivered; ack a", "a|false|false"},
		{"D5", "what was observed while it was on its way does not come back", "start a background; end a ok; take safe; observed a; return; take safe", "a|"},

		{"D6", "notify_on_exit comes after the user's next message, and never wakes", "start a notify_on_exit; end a ok; take safe; take stop; take idle; take user; take user", "|||a|"},
		{"D7", "the older forms are not disarmed", "start a notify_on_exit; start b steer; start c followUp; start d nextTurn; disarm; end a ok; end b ok; end c ok; end d ok; disarm;" +
			"take idle; take user", "b,c|a,d"},
		{"D7", "nor consumed", "start a notify_on_exit; start b steer; end a ok; end b ok; observed a; observed b; ack b; take idle; take user", "false|b|a"},
		{"D7", "a call of an old task arms them", "disarm; stale a steer; end a ok; take safe", "a"},
		{"D8", "steer comes at a safe boundary", "start a steer; end a ok; take safe", "a"},
		{"D8", "or wakes", "start a steer; end a ok; take idle", "a"},
		{"D8", "followUp comes when the model would stop, not before", "start a followUp; end a ok; take safe; take user; take stop", "||a"},
		{"D8", "or wakes", "start a followUp; end a ok; take idle", "a"},
		{"D8", "nextTurn comes after the user's next message, and never wakes", "start a nextTurn; end a ok; take safe; take stop; take idle; take user", "|||a"},

		{"D9", "an end that is told twice is one notice", "start a background; end a ok; end a failed; take safe; end a ok; take safe; take idle", "a||"},
		{"D9", "a second subscription is none", "start a background; start a nextTurn; end a ok; take idle; start a background; end a ok; take idle; take user", "a||"},
		{"D9", "leaving the conversation suppresses all", "start a background; start b nextTurn; start c steer; end b ok; end c ok; suppress-all; end a killed; take safe; take stop; take idle; take user", "|||"},
		{"D9", "what is given back comes once, and first", "start a background; start b background; end a ok; take safe; end b ok; return; return; take safe; delivered; return; take safe", "a|a,b|"},
		{"P12", "a default run gives no message", "start a default; end a failed; take safe; take stop; take idle; take user", "|||"},

		{"C6", "a notice waits also for a session that is evicted", "start a background; end a ok; forget a; take safe; return; take safe; delivered", "a|a"},
		{"C6", "what was never started is no subscription", "start a background; forget a; end a ok; take safe", ""},
	} {
		if got := play(t, New(0), c.events); got != c.want {
			t.Errorf("%s, %s:\n%s\ngot  %q\nwant %q", c.id, c.what, c.events, got, c.want)
		}
	}
}

// D1, D6, D7: what a notice says, and how much output may go with it.
func TestNotice(t *testing.T) {
	t.Parallel()
	q := New(0)
	for form, want := range map[Form]int{Background: MaxOutput, Service: MaxOutput, Steer: MaxOutput, FollowUp: MaxOutput, NextTurn: MaxOutput, NotifyOnExit: 0} {
		if err := q.Arm(Subscription{Session: "x", Form: form, Output: 1 << 30}); err != nil {
			t.Fatal(err)
		}
		if !q.Ended("x", ends["failed"]) || q.Ended("x", ends["failed"]) {
			t.Errorf("%v: it became ready once", form)
		}
		got := slices.Concat(q.Take(Idle), q.Take(UserMessage))
		if len(got) != 1 || got[0] != (Notice{Session: "x", Form: form, Output: want, End: ends["failed"]}) {
			t.Errorf("%v: %+v", form, got)
		}
		q.Delivered("x")
		q.Forget("x")
	}
	if err := q.Arm(Subscription{Session: "y", Form: Background, Output: -1}); err != nil {
		t.Fatal(err)
	}
	q.Ended("y", ends["ok"])
	if got := q.Take(Safe); len(got) != 1 || got[0].Output != 0 {
		t.Errorf("%+v", got)
	}
}

// C6: what is armed or waiting is bounded when it is armed, so that nothing is lost later,
// and what is over takes no room.
func TestBound(t *testing.T) {
	t.Parallel()
	full := ErrFull.Error()
	for _, c := range []struct{ events, want string }{
		{"start a background; start b steer; start c background", full},
		{"start a background; start b steer; start c default", ""},
		{"start a background; start b steer; end a ok; start c background; take idle; delivered; start c background; end c ok; take safe", full + "|a|c"},
		{"start a background; start b steer; end a ok; take idle; start c background; return; take safe", "a|" + full + "|a"},
		{"start a background; start b service; disarm; start c background; start d background; start e background", full},
		{"start a service; start b service; end a ok; end b ok; start c steer; start d steer", ""},
		{"start a background; start b background; suppress a; suppress a; observed a; forget a; start c steer; start d steer", full},
		{"start a background; start b background; forget a; forget b; start c steer; start d steer; end c ok; end d ok; take safe", "c,d"},
	} {
		if got := play(t, New(2), c.events); got != c.want {
			t.Errorf("%s:\ngot  %q\nwant %q", c.events, got, c.want)
		}
	}
	q := New(3)
	for i := range 20_000 {
		id := fmt.Sprint(i)
		if err := q.Arm(Subscription{Session: id, Form: Background}); err != nil {
			t.Fatal(err)
		}
		q.Ended(id, ends["ok"])
		q.Forget(id)
		for _, n := range q.Take(Safe) {
			q.Delivered(n.Session)
		}
	}
	if len(q.entries) != 0 || len(q.waiting) != 0 || q.live != 0 {
		t.Errorf("%d entries, %d waiting, %d live are left", len(q.entries), len(q.waiting), q.live)
	}
	if err := New(0).Arm(Subscription{Session: "x", Form: Form(99)}); err != nil || errors.Is(err, ErrFull) {
		t.Error(err)
	}
}

// What an owner asks to know how long it has to keep what goes with a notice, and whether
// there is anything at all.
func TestWhatAnOwnerKeeps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		events           string
		pending          bool
		waiting, tracked int
	}{
		{"", false, 0, 0},
		{"start a default; end a ok", false, 0, 0},
		{"start a background", false, 0, 1},
		{"start a background; end a ok", true, 1, 1},
		{"start a nextTurn; end a ok; forget a", true, 1, 1},
		{"start a background; end a ok; take safe", true, 0, 1},
		{"start a background; end a ok; take safe; return", true, 1, 1},
		{"start a background; end a ok; take safe; delivered", false, 0, 1},
		{"start a background; end a ok; take safe; delivered; forget a", false, 0, 0},
		{"start a background; end a ok; take safe; forget a; delivered", false, 0, 0},
		{"start a background; end a ok; take safe; disarm; return", false, 0, 1},
		{"start a background; end a ok; observed a", false, 0, 1},
		{"start a steer; end a ok; observed a; disarm", true, 1, 1},
		{"start a steer; end a ok; suppress a; forget a", false, 0, 0},
		{"start a service; end a ok", false, 0, 1},
	} {
		q := New(0)
		if c.events != "" {
			play(t, q, c.events)
		}
		if q.Pending("a") != c.pending || q.Waiting() != c.waiting || q.Tracked() != c.tracked {
			t.Errorf("%s: pending %v, %d waiting, %d tracked", c.events, q.Pending("a"), q.Waiting(), q.Tracked())
		}
	}
	for form, tail := range map[Form]bool{Background: false, Service: false, Steer: true, FollowUp: true, NextTurn: true} {
		if form.TailOnly() != tail {
			t.Errorf("%v: %v", form, form.TailOnly())
		}
	}
}

// Armed is what a print session waits for: not a service, not what never wakes.
func TestArmed(t *testing.T) {
	t.Parallel()
	q := New(0)
	play(t, q, "start a background; start b service; start c nextTurn; start d steer; start e notify_on_exit; start f followUp; start g default")
	if n := q.Armed(); n != 3 {
		t.Errorf("%d, want a, d, f", n)
	}
	play(t, q, "disarm; end d ok")
	if n := q.Armed(); n != 1 {
		t.Errorf("%d, want f", n)
	}
}

// An oracle knows no states. It looks at the history of one session from its end.
type event struct {
	what    byte
	session string
	form    Form
	task    Task
	end     End
}

// allowed tells whether the history lets the session's notice wait now: it was asked for,
// it came, and nothing since (or before) speaks against it.
func allowed(history []event, session string) (Form, bool) {
	first := slices.IndexFunc(history, func(e event) bool { return e.what == 'a' && e.session == session && e.form != None })
	if first < 0 {
		return None, false
	}
	arm := history[first]
	task := Task(1)
	for _, e := range history[:first] {
		if e.what == 'd' {
			task++
		}
	}
	bound := arm.form == Background || arm.form == Service
	if bound && arm.task != 0 && arm.task != task {
		return arm.form, false
	}
	rest := history[first+1:]
	ended := slices.IndexFunc(rest, func(e event) bool { return e.what == 'e' && e.session == session })
	for i, e := range rest {
		mine := e.session == session
		switch {
		case e.what == 'S', mine && e.what == 's', e.what == 'd' && bound:
			return arm.form, false
		case mine && e.what == 'o' && bound && ended >= 0 && i > ended:
			return arm.form, false
		}
	}
	if ended < 0 || arm.form == Service && !rest[ended].end.Failed() {
		return arm.form, false
	}
	return arm.form, true
}

// D1–D5, D9: no sequence of events gives two notices for one process, a notice after it
// was disarmed, consumed or suppressed, or loses one that is armed. Each byte is an event
// (low half) about a session or with a value (high half).
func FuzzOneNoticeNoneLate(f *testing.F) {
	f.Add([]byte{0x00, 0x10, 0x03, 0x13, 0x07, 0x17})
	f.Add([]byte{0x00, 0x03, 0x05, 0x09, 0x07, 0x27, 0x37})
	f.Add([]byte{0x01, 0x11, 0x02, 0x04, 0x27, 0x0a, 0x37, 0x0b, 0x27})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 400 {
			return
		}
		names := []string{"a", "b", "c", "d"}
		statuses := []string{"ok", "failed", "signal", "killed"}
		q := New(3)
		var history []event
		out := map[string]bool{} // taken and not given back
		var last []Notice
		add := func(e event) { history = append(history, e) }
		task := Task(1)
		for _, b := range script {
			value := int(b >> 4)
			name := names[value%4]
			switch b & 15 {
			case 0, 1, 2: // arm, also a second time, also for a task that is over
				s := Subscription{Session: name, Form: Form((value/4*3 + int(b&15)) % 7), Output: 9}
				if value >= 12 {
					s.Task = task - 1
				} else if value >= 8 {
					s.Task = task
				}
				if s.Task < 0 {
					s.Task = 0
				}
				if err := q.Arm(s); err == nil {
					add(event{what: 'a', session: name, form: s.Form, task: s.Task})
				}
			case 3, 4:
				end := ends[statuses[value/4]]
				q.Ended(name, end)
				add(event{what: 'e', session: name, end: end})
			case 5:
				q.Observed(name)
				add(event{what: 'o', session: name})
			case 6:
				q.Ack(name)
				add(event{what: 'o', session: name})
			case 7, 8:
				at := Boundary(value % 4)
				last = q.Take(at)
				for _, n := range last {
					form, ok := allowed(history, n.Session)
					switch {
					case !ok:
						t.Fatalf("%s: a notice that must not be, after %+v", n.Session, history)
					case out[n.Session]:
						t.Fatalf("%s: a second notice", n.Session)
					case n.Form != form || !form.due(at):
						t.Fatalf("%s: %v at %v, asked for %v", n.Session, n.Form, at, form)
					}
					out[n.Session] = true
				}
			case 9:
				q.Suppress(name)
				add(event{what: 's', session: name})
			case 10:
				q.Return(last)
				for _, n := range last {
					if q.entries[n.Session] != nil && q.entries[n.Session].state == ready {
						delete(out, n.Session)
					}
				}
				last = nil
			case 11:
				for _, n := range last {
					q.Delivered(n.Session)
				}
				last = nil
			case 12:
				q.Disarm()
				task++
				add(event{what: 'd'})
			case 13:
				if value == 0 {
					q.SuppressAll()
					add(event{what: 'S'})
				}
			}
			if q.Task() != task {
				t.Fatalf("task %d, want %d", q.Task(), task)
			}
			live := 0
			for _, e := range q.entries {
				if e.state != over {
					live++
				}
			}
			if live != q.live || live > 3 {
				t.Fatalf("%d live, counted as %d", live, q.live)
			}
		}
		// nothing is lost: all that may be told and was not is there, in the order of the ends
		var want, got []string
		for _, n := range names {
			if _, ok := allowed(history, n); ok && !out[n] {
				want = append(want, n)
			}
		}
		for _, n := range slices.Concat(q.Take(Idle), q.Take(UserMessage)) {
			got = append(got, n.Session)
		}
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Fatalf("left to tell: %v, want %v, after %+v", got, want, history)
		}
	})
}
