// Package coding is belay as a library: file tools confined to one worktree, and
// processes that are owned from their start to their proven end, behind one call.
//
// It has the authority of the user who runs the program and is no sandbox: read
// [SecurityWarning]. What it promises is ownership, bounds and truth: nothing
// escapes the root through the file tools, nothing is half written, nothing runs
// on unowned, nothing grows without limit, and no outcome is reported that was
// not observed.
package coding

import (
	"context"

	"github.com/belayhq/belay/internal/dispatch"
	"github.com/belayhq/belay/tool"
)

// SecurityWarning is what everybody has to know before they hand belay to an
// agent. It is shown on the first run, in help, and by doctor.
const SecurityWarning = `belay acts with your full authority. It is no sandbox: there is no permission
prompt before file tools and commands, and no least-privilege broker between an
agent and what you can do. For isolation use a container, a virtual machine or a
restricted account with narrow credentials.`

// A Suite is the tools on one root with the processes they started. It is safe
// for concurrent use.
type Suite struct {
	corridor *dispatch.Corridor
}

// A Caller is who makes a call. The zero value is nobody who can be told or asked
// anything.
type Caller struct {
	Reporter tool.Reporter // told how a long call is getting on; may be nil
}

// Definitions lists the tools in the order in which they are meant to be shown.
func (s *Suite) Definitions() []tool.Definition { return s.corridor.Definitions() }

// Call runs one tool. The error is nil or a *[tool.Error]; a command that failed
// is a result. When ctx is done before anything happened the call is refused;
// after that, what the tool says about a cancellation holds.
func (s *Suite) Call(ctx context.Context, caller Caller, call tool.Call) (tool.Result, error) {
	return s.corridor.Call(ctx, caller.Reporter, call)
}
