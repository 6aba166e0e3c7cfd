// Package dispatch is the only way from a call to its effect. Direct and nested
// calls take it alike, in one order: validate, guard, approve, run.
//
// It promises that a call has exactly one outcome, a result or a *[tool.Error],
// whatever the tool does, panics included, and that what was judged is what runs:
// the Plan is made once, before anybody looks at it. It judges nothing itself.
//
// A Corridor is safe for concurrent use; calls run at once.
package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/belayhq/belay/tool"
)

// A Corridor leads calls to a fixed set of tools.
type Corridor struct {
	tools       map[string]tool.Tool
	definitions []tool.Definition
}

// New takes the tools in the order in which they are to be listed. It fails on a
// definition that is not valid and on two tools of one name.
func New(tools ...tool.Tool) (*Corridor, error) {
	c := &Corridor{tools: make(map[string]tool.Tool, len(tools))}
	for _, t := range tools {
		d := t.Definition()
		if err := d.Validate(); err != nil {
			return nil, err
		}
		if _, twice := c.tools[d.Name]; twice {
			return nil, fmt.Errorf("two tools are named %s", d.Name)
		}
		c.tools[d.Name] = t
		c.definitions = append(c.definitions, d)
	}
	return c, nil
}

// Definitions lists the tools. The list belongs to the caller, the schemas in it
// do not.
func (c *Corridor) Definitions() []tool.Definition {
	return append([]tool.Definition(nil), c.definitions...)
}

// Call leads one call to its end. The error is nil or a *tool.Error.
func (c *Corridor) Call(ctx context.Context, report tool.Reporter, call tool.Call) (result tool.Result, err error) {
	t, ok := c.tools[call.Name]
	if !ok {
		return tool.Result{}, tool.NewError(tool.UnknownTool)
	}
	if report == nil {
		report = func(string) {}
	}
	started := false
	defer func() {
		if recover() != nil { // the value may hold anything: it goes nowhere (C5)
			result, err = tool.Result{}, broken(t.Definition().Effect, started)
		}
	}()
	if cause := ctx.Err(); cause != nil {
		return tool.Result{}, tool.Stopped(cause)
	}

	plan, err := t.Prepare(ctx, call) // 1 validate
	if err != nil {
		return tool.Result{}, own(err, t.Definition().Effect, started)
	}
	defer plan.Close()

	// 2 guard: there are no hooks yet; they read plan.Action() here.

	if plan.Action().Consent != nil { // 3 approve: nobody can be asked yet
		return tool.Result{}, tool.NewError(tool.ApprovalUnavailable)
	}

	started = true
	result, err = plan.Run(ctx, report) // 4 run
	if err != nil {
		return tool.Result{}, own(err, t.Definition().Effect, started)
	}
	return result, nil
}

// own lets through the errors of the contract. Anything else is a fault of the
// tool, and is told as the fault it is, without its text.
func own(err error, effect tool.Effect, started bool) error {
	var e *tool.Error
	if errors.As(err, &e) {
		return e
	}
	return broken(effect, started)
}

// broken is the outcome of a call in which belay itself failed. Before Run
// nothing was changed; after it a mutating tool may have done anything.
func broken(effect tool.Effect, started bool) *tool.Error {
	if started && effect == tool.Mutating {
		return tool.NewError(tool.UncertainOutcome)
	}
	return tool.NewError(tool.ReadFailed, tool.Fact{Name: "reason", Value: "io"})
}
