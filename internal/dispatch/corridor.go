// Package dispatch is the only way from a call to its effect. Direct and nested
// calls take it alike, in one order: validate, guard, approve, record, run.
//
// It promises that a call has exactly one outcome, a result or a *[tool.Error],
// whatever the tool does, panics included; that what was judged and approved is
// what runs, since the Plan is made once, before anybody looks at it; and that
// what cannot be recorded, where a journal is kept, does not start. It judges
// nothing itself.
//
// A Corridor is safe for concurrent use; calls run at once.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/belayhq/belay/approve"
	"github.com/belayhq/belay/guard"
	"github.com/belayhq/belay/internal/border"
	"github.com/belayhq/belay/internal/journal"
	"github.com/belayhq/belay/tool"
)

// Gates are what stands between a call and its effect. The zero value lets
// everything through that needs no approval.
type Gates struct {
	Hooks   guard.Chain
	Gate    *approve.Gate    // nil: nobody is asked
	Journal *journal.Journal // nil: nothing is recorded
}

// A Caller is who makes a call. The zero value is nobody who could be told or
// asked anything.
type Caller struct {
	Report tool.Reporter
	Asker  approve.Asker
	// Notify shows a text to the user and to nobody else: it may hold a code that
	// overrides a guard. nil drops it.
	Notify func(text string)
}

// A Corridor leads calls to a fixed set of tools.
type Corridor struct {
	gates       Gates
	tools       map[string]entry
	definitions []tool.Definition
}

// An entry is a tool with what is asked of it at each call.
type entry struct {
	tool.Tool
	effect tool.Effect
	// complete says that with a result its effect is complete: it starts nothing
	// that could go on.
	complete bool
	record   journal.Call // without the identity of a call
}

// New takes the tools in the order in which they are to be listed. It fails on a
// definition that is not valid and on two tools of one name.
func New(gates Gates, tools ...tool.Tool) (*Corridor, error) {
	c := &Corridor{gates: gates, tools: make(map[string]entry, len(tools))}
	for _, t := range tools {
		d := t.Definition()
		if err := d.Validate(); err != nil {
			return nil, err
		}
		if _, twice := c.tools[d.Name]; twice {
			return nil, fmt.Errorf("two tools are named %s", d.Name)
		}
		e := entry{Tool: t, effect: d.Effect, complete: d.Effect == tool.Mutating && !slices.Contains(d.Risks, tool.RiskProcess)}
		if gates.Journal != nil {
			e.record = journal.Call{Tool: d.Name, Fingerprint: d.Fingerprint(), Effect: d.Effect, Replay: d.Replay}
		}
		c.tools[d.Name] = e
		c.definitions = append(c.definitions, d)
	}
	return c, nil
}

// Definitions lists the tools. The list belongs to the caller, the schemas in it
// do not.
func (c *Corridor) Definitions() []tool.Definition { return slices.Clone(c.definitions) }

// Call leads one call to its end. The error is nil or a *tool.Error.
func (c *Corridor) Call(ctx context.Context, caller Caller, call tool.Call) (tool.Result, error) {
	t, ok := c.tools[call.Name]
	if !ok {
		return tool.Result{}, tool.NewError(tool.UnknownTool)
	}
	if caller.Report == nil {
		caller.Report = func(string) {}
	}
	w := walk{Corridor: c, caller: caller, tool: t, call: call}
	return w.end(ctx)
}

// A walk is one call on its way.
type walk struct {
	*Corridor
	caller Caller
	tool   entry
	call   tool.Call

	recorded *journal.Entry // nil before the start, and where no journal is kept
	started  bool           // Run was called
	result   tool.Result
}

// end walks, and makes one outcome of whatever came of it.
func (w *walk) end(ctx context.Context) (result tool.Result, err error) {
	defer func() {
		if recover() != nil { // the value may hold anything: it goes nowhere (C5)
			result, err = tool.Result{}, w.broken()
		}
		w.record(err)
	}()
	if err := w.all(ctx); err != nil {
		var e *tool.Error
		if !errors.As(err, &e) { // a fault of the tool, told as one without its text
			e = w.broken()
		}
		return tool.Result{}, e
	}
	return w.result, nil
}

func (w *walk) all(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return tool.Stopped(err)
	}
	plan, err := w.tool.Prepare(ctx, w.call) // 1 validate
	if err != nil {
		return err
	}
	defer plan.Close()
	action := plan.Action()

	verdict, err := w.gates.Hooks.Check(ctx, action) // 2 guard
	w.notify(verdict)
	switch {
	case err != nil:
		return border.Error(err, border.Place{})
	case verdict.Decision == guard.Deny:
		return denied(verdict.Reason)
	}
	if judged, ok := plan.(tool.Judged); ok {
		judged.Judged(w.posture(verdict))
	}

	run := func(ctx context.Context) error { return w.run(ctx, plan) }
	if action.Consent != nil { // 3 approve: the input of a process
		fleeting, _ := plan.(tool.Fleeting)
		run = w.ask(*action.Consent, action.Consent.SessionID, fleeting, run)
	}
	if verdict.Decision == guard.Ask { // and what a guard leaves to the user
		question, whole := guard.Question(action, verdict)
		if !whole {
			return denied("a guard wants the user to be asked, and the command is too long to be shown")
		}
		run = w.ask(question, nil, nil, run)
	}
	return run(ctx)
}

func denied(reason string) error {
	return tool.NewError(tool.Denied, tool.Fact{Name: "reason", Value: reason})
}

// notify shows the user what a guard has for them alone, and that one could not
// decide although it is set to let pass (G3).
func (w *walk) notify(v guard.Verdict) {
	if w.caller.Notify == nil {
		return
	}
	if v.UserOnly != "" {
		w.caller.Notify(v.UserOnly)
	}
	if v.Unavailable {
		w.caller.Notify("a guard could not decide, and the call went on: " + v.Reason)
	}
}

// posture is what a result says of the guards.
func (w *walk) posture(v guard.Verdict) string {
	switch {
	case len(w.gates.Hooks) == 0:
		return "none"
	case v.Unavailable:
		return "unavailable"
	}
	return "ok"
}

// ask puts a question in front of an effect. The subject is held over both. about is what the
// question is about, if that can go away, or nil.
func (w *walk) ask(p tool.Prompt, subject any, about tool.Fleeting, effect func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if w.gates.Gate == nil {
			return tool.NewError(tool.ApprovalUnavailable)
		}
		asking := ctx
		if about != nil {
			var stop func()
			asking, stop = whileThere(ctx, about.Gone())
			defer stop()
		}
		err := w.gates.Gate.Do(asking, w.caller.Asker, p, subject, func(context.Context) error { return effect(ctx) })
		switch {
		case w.started:
			return err // that of the effect
		case ctx.Err() == nil && errors.Is(context.Cause(asking), approve.ErrGone):
			return about.Lost()
		}
		return border.Error(err, border.Place{})
	}
}

// whileThere is ctx until gone is closed. stop ends the watch.
func whileThere(ctx context.Context, gone <-chan struct{}) (there context.Context, stop func()) {
	there, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-gone:
			cancel(approve.ErrGone)
		case <-there.Done():
		}
	}()
	return there, func() { cancel(nil) }
}

func (w *walk) run(ctx context.Context, plan tool.Plan) (err error) {
	if w.gates.Journal != nil { // before the effect, and on disk where there is one
		if w.recorded, err = w.gates.Journal.Start(w.identity()); err != nil {
			return border.Error(err, border.Place{})
		}
	}
	w.started = true
	w.result, err = plan.Run(ctx, w.caller.Report) // 4 run
	if err == nil && w.recorded != nil && w.tool.complete {
		_ = w.recorded.Commit()
	}
	return err
}

// record tells the journal the outcome. The effect stands whatever comes of it.
func (w *walk) record(err error) {
	if w.gates.Journal == nil {
		return
	}
	kind, code := journal.Done, tool.Code("")
	var e *tool.Error
	if errors.As(err, &e) {
		kind, code = e.Kind, e.Code
	}
	if w.recorded == nil {
		_ = w.gates.Journal.Refuse(w.identity(), code)
		return
	}
	_ = w.recorded.End(kind, code)
}

func (w *walk) identity() journal.Call {
	c := w.tool.record
	c.ID, c.Parent = w.call.ID, w.call.Parent
	return c
}

// broken is the outcome of a call in which belay itself failed. Before Run
// nothing was changed; after it a mutating tool may have done anything.
func (w *walk) broken() *tool.Error {
	if w.started && w.tool.effect == tool.Mutating {
		return tool.NewError(tool.UncertainOutcome)
	}
	return tool.NewError(tool.ReadFailed, tool.Fact{Name: "reason", Value: "io"})
}
