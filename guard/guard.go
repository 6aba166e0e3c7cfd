// Package guard asks others whether a call may run, before it does.
//
// It promises that every hook of a [Chain] sees the same [tool.Action], that the
// strictest verdict wins, and that a hook which cannot decide is either refused or
// visibly marked, never passed over in silence. A hook that is an external program
// is bounded in time and output, and what it started in its session is ended with it.
//
// It does not promise safety. A guard is a guardrail, not a boundary: it judges the
// text of a command, not what the command does; it may be set to let pass what it
// cannot decide; and input to a running process does not come by here at all, which
// is why a person has to approve each.
//
// Hooks are safe for concurrent use: several calls are judged at once.
package guard

import (
	"context"
	"fmt"
	"strings"

	"github.com/belayhq/belay/internal/termtext"
	"github.com/belayhq/belay/tool"
)

// A Decision is what a hook says about a call. They are ordered: the greater is
// the stricter.
type Decision int

const (
	Allow Decision = iota
	Ask            // let the user decide
	Deny           // final
)

func (d Decision) String() string {
	switch d {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	case Deny:
		return "deny"
	}
	return fmt.Sprintf("Decision(%d)", int(d))
}

// A Verdict is the answer about one call.
type Verdict struct {
	Decision Decision
	// Reason is for the model and the user: clean text of at most MaxReason bytes,
	// built from an allowlist of fields of the answer. With Allow it is empty,
	// unless it says why the guard is unavailable.
	Reason string
	// UserOnly is for the user's screen and nothing else: a code by which the user
	// can override a denial. Where there is no screen it is dropped. It must not
	// reach a model or a log.
	UserOnly string
	// Unavailable says that a hook could not decide and is set to let pass.
	Unavailable bool
}

// MaxReason bounds Verdict.Reason, in bytes: enough for a rule, why it is there and
// what to do instead.
const MaxReason = 2048

// A Hook judges calls. It reads the Action and changes nothing.
type Hook interface {
	// Check judges one call before it runs. An error blocks the call: the
	// context's own where ctx ended, even if the hook was set to let pass;
	// otherwise an *Error, when the hook could not decide and is set to block.
	Check(ctx context.Context, a tool.Action) (Verdict, error)
}

// A Chain asks its hooks in order.
type Chain []Hook

// Check gives the strictest verdict of the hooks. A Deny ends it, and so does an
// error; otherwise every hook is asked, so that no ask or allow of one hides the deny
// of another. A panic of a hook and a Decision that does not exist are errors.
// The reasons of the hooks that decided, and of those that could not, are joined.
func (c Chain) Check(ctx context.Context, a tool.Action) (Verdict, error) {
	var all Verdict
	var reasons, missing, userOnly []string
	for _, h := range c {
		v, err := check(ctx, h, a)
		if ctxErr := ctx.Err(); ctxErr != nil { // whatever it said: nobody waits for the call any more
			return Verdict{}, ctxErr
		}
		if err != nil {
			return Verdict{}, err
		}
		v.Reason = clean(v.Reason)
		if v.Decision > all.Decision {
			all.Decision, reasons = v.Decision, nil
		}
		switch {
		case v.Unavailable:
			all.Unavailable = true
			missing = add(missing, v.Reason)
		case v.Decision == all.Decision && v.Decision != Allow:
			reasons = add(reasons, v.Reason)
		}
		userOnly = add(userOnly, v.UserOnly)
		if all.Decision == Deny {
			break
		}
	}
	all.Reason = cut(strings.Join(append(reasons, missing...), "\n"), MaxReason)
	all.UserOnly = cut(strings.Join(userOnly, "\n"), MaxReason)
	return all, nil
}

func check(ctx context.Context, h Hook, a tool.Action) (v Verdict, err error) {
	defer func() {
		if recover() != nil { // the value may hold anything: it goes nowhere
			v, err = Verdict{}, &Error{Reason: Broken}
		}
	}()
	v, err = h.Check(ctx, a)
	if err == nil && (v.Decision < Allow || v.Decision > Deny) {
		return Verdict{}, &Error{Reason: Broken}
	}
	return v, err
}

func add(list []string, s string) []string {
	if s == "" {
		return list
	}
	return append(list, s)
}

// maxAsked is the most that a question shows, in bytes before escaping: what is
// longer would be approved unread. Command lines that people and models write are far
// below it.
const maxAsked = 32 << 10

// Question is what to ask the user about an Action for which the verdict is Ask. It
// shows what would run, whole. ok is false where that is too long to be shown: then
// nobody can approve it.
func Question(a tool.Action, v Verdict) (p tool.Prompt, ok bool) {
	text := CommandLine(a)
	if text == "" {
		raw, err := encode(a.Input)
		if err != nil {
			return tool.Prompt{}, false
		}
		text = a.Tool + " " + string(raw)
	}
	if len(text) > maxAsked {
		return tool.Prompt{}, false
	}
	title := "A guard asks: may " + a.Tool + " run this?"
	if v.Reason != "" {
		title += " " + termtext.Preview(v.Reason, 400)
	}
	return tool.Prompt{Reason: "guard_ask", Title: title, Shown: termtext.Escape(text), Bytes: len(text)}, true
}
