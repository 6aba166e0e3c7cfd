package guard

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belayhq/belay/internal/proc"
)

const (
	// maxOutput bounds what is read of an answer (G2). More on standard output is
	// no answer; of standard error the beginning is kept.
	maxOutput = 512 << 10
	maxStderr = 16 << 10

	defaultTimeout = 5 * time.Second
	// MaxTimeout is the longest that a hook may be given: the caller waits for it.
	MaxTimeout = 60 * time.Second
)

// An External is a program that judges calls. Its fields do not change while it is in
// use.
type External struct {
	// Argv is the program and its arguments. It is started directly, without a shell.
	// A name is looked for in PATH; a relative path counts from Root, never from the
	// working directory of the call, which the model chooses.
	Argv    []string
	Root    string        // absolute; also where calls without a directory are judged
	Env     []string      // environment; the token of an HTTP server is left out of it
	Timeout time.Duration // [5 s; at most MaxTimeout]
	Block   bool          // refuse the call if it cannot decide [let it pass, marked]
}

// ended is a run that came to its own end.
type ended struct {
	stdout, stderr []byte
	code           int
	signal         string
}

// run gives the program its input and collects what it says. In its error, an *Error or
// that of the context, ended has what was said before.
func (x *External) run(ctx context.Context, dir string, args []string, payload []byte) (ended, error) {
	if err := ctx.Err(); err != nil {
		return ended{}, err
	}
	argv := slices.Concat(x.Argv, args)
	path, env, err := x.look()
	if err != nil {
		return ended{}, err
	}
	if dir == "" {
		dir = x.Root
	}
	mark := rand.Text()
	out := output{full: make(chan struct{})}
	p, err := proc.Start(ctx, proc.Spec{
		Path: path, Argv: argv, Dir: dir, Stdin: payload, Output: out.write,
		Env: append(env, "PWD="+dir, "BELAY_SESSION="+mark), Mark: mark,
	})
	if err != nil {
		return ended{}, x.startError(ctx, err)
	}

	limit := x.timeout()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var failed error
	select {
	case <-p.Exited():
	case <-ctx.Done():
		failed = ctx.Err()
	case <-out.full:
		failed = &Error{Reason: TooMuchOutput, Program: x.name(), Limit: maxOutput}
	case <-timer.C:
		select {
		case <-p.Exited(): // it ended first
		default:
			failed = &Error{Reason: TimedOut, Program: x.name(), Limit: limit.Milliseconds()}
		}
	}
	if failed != nil {
		p.End(proc.KILL, 0) // it had its time
	}
	// What it left in its session is ended in bounded time, also after an exit of its
	// own: a child that holds the output is not waited for.
	<-p.Done()
	exit := p.Exit()
	e := ended{code: exit.Code, signal: exit.Signal}
	e.stdout, e.stderr = out.take()
	if err := ctx.Err(); err != nil {
		return e, err
	}
	if failed == nil && len(e.stdout) > maxOutput {
		failed = &Error{Reason: TooMuchOutput, Program: x.name(), Limit: maxOutput}
	}
	return e, failed
}

// look finds the program and makes its environment.
func (x *External) look() (path string, env []string, err error) {
	if len(x.Argv) == 0 {
		return "", nil, &Error{Reason: Missing}
	}
	env = x.environ()
	path, err = proc.Look(x.Argv[0], x.Root, env)
	if err != nil {
		err = x.startError(context.Background(), err)
	}
	return path, env, err
}

// environ is the environment, with what hooks of other agents expect to find, and
// without what would let the program act as the user's client.
func (x *External) environ() []string {
	set := []string{"BELAY=1", "BELAY_PROJECT_DIR=" + x.Root, "CLAUDE_PROJECT_DIR=" + x.Root,
		"NO_COLOR=1", "DCG_NO_COLOR=1",
		"DCG_NO_SELF_HEAL=1", // it would put itself into the settings of other agents
	}
	drop := []string{"BELAY_HTTP_TOKEN", "BELAY_SESSION", "PWD"}
	for _, kv := range set {
		name, _, _ := strings.Cut(kv, "=")
		drop = append(drop, name)
	}
	env := make([]string, 0, len(x.Env)+len(set)+2)
	for _, kv := range x.Env {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.ContainsFunc(drop, func(d string) bool { return strings.EqualFold(d, name) }) {
			env = append(env, kv)
		}
	}
	return append(env, set...)
}

func (x *External) timeout() time.Duration {
	if x.Timeout <= 0 {
		return defaultTimeout
	}
	return min(x.Timeout, MaxTimeout)
}

func (x *External) name() string {
	if len(x.Argv) == 0 {
		return ""
	}
	return x.Argv[0]
}

func (x *External) startError(ctx context.Context, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	e := &Error{Reason: NotStarted, Program: x.name()}
	var start *proc.StartError
	if !errors.As(err, &start) {
		return e
	}
	switch start.What {
	case proc.Interpreter:
		e.Reason = Interpreter
	case proc.Program:
		switch start.Reason {
		case proc.Missing:
			e.Reason = Missing
		case proc.NotExecutable:
			e.Reason = NotExecutable
		case proc.Permission:
			e.Reason = Permission
		}
	}
	return e
}

// output keeps what a program says, bounded.
type output struct {
	mu             sync.Mutex // two streams write, run reads
	stdout, stderr []byte
	over           bool
	full           chan struct{} // closed when standard output is over its bound
}

func (o *output) write(s proc.Stream, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s == proc.Stderr {
		o.stderr = append(o.stderr, p[:min(len(p), maxStderr-len(o.stderr))]...)
		return
	}
	o.stdout = append(o.stdout, p[:min(len(p), maxOutput+1-len(o.stdout))]...)
	if len(o.stdout) > maxOutput && !o.over {
		o.over = true
		close(o.full)
	}
}

func (o *output) take() (stdout, stderr []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stdout, o.stderr
}
