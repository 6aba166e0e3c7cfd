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
	"errors"
	"io"
	"sync"
	"time"

	"github.com/belayhq/belay/approve"
	"github.com/belayhq/belay/internal/delivery"
	"github.com/belayhq/belay/internal/dispatch"
	"github.com/belayhq/belay/internal/filetool"
	"github.com/belayhq/belay/internal/jobs"
	"github.com/belayhq/belay/internal/journal"
	"github.com/belayhq/belay/internal/proc"
	"github.com/belayhq/belay/internal/proctool"
	"github.com/belayhq/belay/internal/worktree"
	"github.com/belayhq/belay/tool"
)

// SecurityWarning is what everybody has to know before they hand belay to an
// agent. It is shown on the first run, in help, and by doctor.
const SecurityWarning = `belay acts with the same authority as you, its user. It is no sandbox: there is
no permission prompt before file tools and commands, and no least-privilege
broker. For isolation use a container, a virtual machine or a restricted account
with narrow credentials.`

// A Suite is the tools on one root, with the processes that they started. It is
// safe for concurrent use.
type Suite struct {
	config   Config // checked, with its defaults filled in
	corridor *dispatch.Corridor
	tree     *worktree.Tree
	table    *jobs.Table
	journal  *journal.Journal // nil where none is kept

	closing context.Context // done once Close was called
	shut    context.CancelFunc
	calls   sync.WaitGroup
	mu      sync.Mutex // orders calls.Add before calls.Wait
	closed  bool
	nests   nests
	ending  sync.Once
	ended   error // of the end, set by ending
}

// New opens the root and makes the tools. Nothing is started. The error is a
// *[ConfigError].
func New(c Config) (*Suite, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	tree, err := worktree.Open(c.Root, worktree.Options{
		MaxPageBytes: c.Limits.MaxPageBytes, MaxFileBytes: c.Limits.MaxFileBytes, Protect: c.Protect, LockDir: c.LockDir,
	})
	if err != nil {
		return nil, &ConfigError{Setting: "root", Expects: "a directory that exists and can be opened, not " + c.Root}
	}
	table, err := jobs.New(jobs.Limits{
		MaxSessions: c.Limits.MaxSessions, MaxFinished: c.Limits.MaxFinished, TailBytes: c.Limits.TailBytes,
		LogBytes: c.Limits.LogBytesPerProcess, LogTotal: c.Limits.LogBytesTotal,
	})
	if err != nil { // the limits are checked: what is left is the directory
		tree.Close()
		return nil, &ConfigError{Setting: "TMPDIR", Expects: "an absolute path: there is no current directory"}
	}
	table.KeepWith(c.Keeper)
	gates := dispatch.Gates{Hooks: c.Hooks, Gate: approve.New(c.ApprovalTimeout)}
	if c.Journal != "" {
		if gates.Journal, err = journal.Open(c.Journal); err != nil {
			tree.Close()
			return nil, &ConfigError{Setting: "journal.path", Expects: "a file that can be appended to: " + err.Error()}
		}
	}
	s := &Suite{config: c, tree: tree, table: table, journal: gates.Journal}
	s.closing, s.shut = context.WithCancel(context.Background())
	tools := append(filetool.New(tree, c.Limits.MaxPageBytes, c.Limits.MaxFileBytes), proctool.New(proctool.Config{
		Tree: tree, Table: s.table, Shell: c.Shell, StreamBytes: int(c.Limits.MaxOutputBytes),
		Environment: proctool.Environment{
			Base: c.Environ, Shell: proctool.Policy(c.Env.Shell), Exec: proctool.Policy(c.Env.Exec),
			Allow: c.Env.Allow, Set: c.Env.Set,
		},
	})...)
	if s.corridor, err = dispatch.New(gates, tools...); err != nil {
		tree.Close()
		return nil, err
	}
	return s, nil
}

// RunKeeper is the whole work of the program that Config.Keeper names: it reads
// from its standard input what is started and what ends, until this process is
// gone, then ends what is left and returns.
func RunKeeper(stdin io.Reader) { proc.RunKeeper(stdin) }

// Root is the resolved absolute path of the worktree.
func (s *Suite) Root() string { return s.tree.Root() }

// Running lists the IDs of the sessions that run.
func (s *Suite) Running() (ids []string) {
	for _, j := range s.table.Jobs() {
		if j.Status().State == jobs.Running {
			ids = append(ids, j.ID())
		}
	}
	return ids
}

// A Caller is who makes a call. The zero value is nobody who could be told or
// asked anything.
type Caller struct {
	Reporter tool.Reporter // told how a long call is getting on; may be nil
	// Asker puts questions to the user: each input to a process needs a yes, and a
	// guard can leave a call to the user. nil refuses what would have to be asked.
	Asker approve.Asker
	// Notify shows a text to the user and to nobody else; it may hold a code that
	// overrides a guard. nil drops it.
	Notify func(text string)
	// Task is the one in which the call is made: what Suite.Task said when its batch
	// began [the present one].
	Task Task
}

// Definitions lists the tools in the order in which they are meant to be shown.
func (s *Suite) Definitions() []tool.Definition { return s.corridor.Definitions() }

// Call runs one tool. The error is nil or a *[tool.Error]; a command that failed
// is a result. When ctx is done before anything happened the call is refused;
// after that, what the tool says of a cancellation holds. Close cancels calls
// that are under way.
//
// A call with a Parent is nested: something that another call runs has made it. It takes
// the same way, with the same hooks and gates, but its result is nobody's observation of
// an end (D5), since a script can throw it away: Ends is empty, and exec_ack says that
// the end was seen. One parent makes at most [MaxNested] of them, and has
// [MaxNestedAtOnce] under way; what is over is refused as a limit.
func (s *Suite) Call(ctx context.Context, caller Caller, call tool.Call) (result tool.Result, err error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return tool.Result{}, tool.NewError(tool.Cancelled)
	}
	s.calls.Add(1)
	s.mu.Unlock()
	defer s.calls.Done()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	ctx = jobs.InTask(ctx, delivery.Task(caller.Task))
	if call.Parent != "" {
		if err := s.nests.enter(call.Parent); err != nil {
			return tool.Result{}, err
		}
		defer s.nests.leave(call.Parent)
		defer func() { result.Ends = nil }()
	}
	return s.corridor.Call(ctx, dispatch.Caller{Report: caller.Reporter, Asker: caller.Asker, Notify: caller.Notify}, call)
}

// closeTime bounds Close: the grace, and the time that proc takes at most to
// prove that nothing is left.
const closeTime = 5 * time.Second

// Close refuses new calls, cancels those under way, ends every process (SIGTERM,
// SIGKILL after 250 ms) and returns when all is gone, which takes 5 s at most. The
// error says that it could not be seen that all is gone. It is idempotent: a further
// Close waits for the same end.
func (s *Suite) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.ending.Do(func() { s.ended = s.end() })
	return s.ended
}

func (s *Suite) end() error {
	s.shut()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	err := s.table.Close(ctx)
	idle := make(chan struct{})
	go func() {
		s.calls.Wait()
		s.tree.Close()
		if s.journal != nil {
			s.journal.Close()
		}
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return errors.New("coding: some of what was started could not be seen to end")
	}
	return nil
}
