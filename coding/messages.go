package coding

import (
	"math"
	"slices"

	"github.com/belayhq/belay/internal/delivery"
	"github.com/belayhq/belay/internal/proctool"
)

// A Boundary is a moment at which completion messages may be put in front of the model.
// None of them is between a tool call and its result.
type Boundary int

const (
	// Safe is between a finished batch of tool calls and the next model request: mode
	// background and service (a failure), and completion_mode steer.
	Safe Boundary = iota
	// Stop is when the model would stop: the same, and completion_mode followUp. What is
	// taken there makes it go on.
	Stop
	// Idle is when no request and no tool is under way: as Stop. What is taken there
	// wakes the model, in one continuation for all of it.
	Idle
	// UserMessage is after the user's next message, before its request: all but followUp.
	UserMessage
)

// A Task is one request of the user and what came of it. The first is 1; each NewTask
// begins another. 0 stands for the present one.
type Task int64

// A Message tells the model how a process ended. It belongs to the context of the
// conversation and is not meant to be shown to the user by default.
type Message struct {
	SessionID string
	Mode      string // background, service, or the older form: notify_on_exit, steer, followUp, nextTurn
	// Text is for the model: a line of facts, a line that labels what follows as
	// untrusted and counts its bytes, and the output, at most max_output_tokens of the
	// call and 64,000 bytes of it. Give each message to the model as a part of its own:
	// what follows the label goes on to the end of it.
	Text string
	// Data is the same as a value that encoding/json can marshal.
	Data any
}

// Task is the present task. A caller takes it when a batch of calls begins, and gives it
// with each of them: a call that is still under way when the task is over arms nothing.
func (s *Suite) Task() Task { return Task(s.table.Task()) }

// NewTask begins another task (D2): a prompt or a follow-up is taken up, a steer is
// queued, the user aborts. What was started with mode background or service tells
// nothing any more; it runs on, and its output stays readable. The older forms stay.
func (s *Suite) NewTask() { s.table.NewTask() }

// Take hands out the messages that are due at a boundary, in the order of the ends, at
// most one for each process. They are the caller's until it says Delivered, or Return
// for those that did not get to their place; a message that is neither is lost. What was
// suppressed, disarmed or observed in the meantime does not come back.
//
// As many processes may be armed, or have a message waiting, as can run (4096): a start
// over that is refused. The output of all messages that wait is bounded by 8 MiB; over
// that it is cut, and counted.
func (s *Suite) Take(b Boundary) []Message { return s.TakeBeside(b, nil, math.MaxInt) }

// minMessage is the least room that a message is cut to.
const minMessage = 2 * proctool.MessageRoom

// TakeBeside is Take for what goes beside the result of a call, in at most room bytes of
// text. The first message is cut to the room if need be; one behind it that does not fit
// whole waits, with all that follow, and so does the first where the room is under 1024
// bytes.
//
// ends is tool.Result.Ends of that result: what it reports needs no message. These are
// handed out too, with an empty Text: they share the fate of the result.
func (s *Suite) TakeBeside(b Boundary, ends []string, room int) (messages []Message) {
	var back []string
	first := true
	for _, n := range s.table.Take(delivery.Boundary(b)) {
		m := Message{SessionID: n.Session, Mode: n.Form.String()}
		switch {
		case slices.Contains(ends, n.Session):
		case len(back) > 0, room < minMessage:
			back = append(back, n.Session)
			continue
		default:
			m.Text, m.Data = proctool.Message(n, math.MaxInt)
			if len(m.Text) > room {
				if !first {
					back = append(back, n.Session)
					continue
				}
				m.Text, m.Data = proctool.Message(n, room)
			}
			first = false
			room -= len(m.Text)
		}
		messages = append(messages, m)
	}
	s.table.Return(back)
	return messages
}

// Delivered tells that messages have reached the model, or the transcript.
func (s *Suite) Delivered(m []Message) { s.table.Delivered(sessions(m)) }

// Return gives back messages that could not be delivered, in their order. They wait
// again, in front, unless they were suppressed, disarmed or observed meanwhile.
func (s *Suite) Return(m []Message) { s.table.Return(sessions(m)) }

func sessions(m []Message) []string {
	ids := make([]string, len(m))
	for i := range m {
		ids[i] = m[i].SessionID
	}
	return ids
}

// Observed tells that direct calls reported the end of sessions, tool.Result.Ends, and
// that these results are in the transcript, or were written (D5). No message about them
// follows, unless it was asked for in an older form. Not for a call that failed or was
// cancelled; a nested one has no Ends.
func (s *Suite) Observed(ids []string) { s.table.Observed(ids) }

// Waiting is how many messages Take would give at a boundary.
func (s *Suite) Waiting(b Boundary) int { return s.table.Waiting(delivery.Boundary(b)) }

// Armed is how many processes run that may yet wake the model in this task: of mode
// background, and of completion_mode steer and followUp. A service is none of them.
func (s *Suite) Armed() int { return s.table.Armed() }

// Notices is signalled when a message came to wait, or Armed may have become less; not by
// Return. It holds one signal, for one receiver: look, then wait. It is never closed.
func (s *Suite) Notices() <-chan struct{} { return s.table.News() }
