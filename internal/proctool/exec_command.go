package proctool

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/belayhq/belay/internal/delivery"
	"github.com/belayhq/belay/internal/jobs"
	"github.com/belayhq/belay/internal/proc"
	"github.com/belayhq/belay/internal/termtext"
	"github.com/belayhq/belay/internal/worktree"
	"github.com/belayhq/belay/tool"
)

type execCommand struct{ *Config }

// maxShell is longer than any path that a system takes.
const maxShell = 4096

// previewRunes bounds the preview of a command (U2).
const previewRunes = 160

func (t *execCommand) Definition() tool.Definition {
	return tool.Definition{
		Name: "exec_command",
		Description: "Run a command line with the user's shell. Gives its result, or after yield_time_ms a session: write_stdin polls it, exec_kill ends it. " +
			"What it leaves running is ended: run a server in the foreground, without & or nohup, in mode service, and let it yield.",
		Schema: json.RawMessage(`{
	"type": "object",
	"properties": {
		"cmd": {"type": "string", "description": "command line"},
		"workdir": {"type": "string", "description": "relative to the root (default .)"},
		"shell": {"type": "string", "description": "default: the user's"},
		"login": {"type": "boolean", "description": "run as a login shell with its start-up files"},
		"tty": {"type": "boolean", "description": "run on a terminal instead of pipes"},
		"cols": {"type": "integer", "minimum": 1, "maximum": 500, "description": "with tty (default 120)"},
		"rows": {"type": "integer", "minimum": 1, "maximum": 200, "description": "with tty (default 40)"},
		"stdin": {"type": "string", "enum": ["closed", "open"], "description": "on pipes: end of file at once (default), or open for write_stdin"},
		"yield_time_ms": {"type": "integer", "minimum": 250, "maximum": 30000, "description": "default 10000"},
		"timeout_ms": {"type": "integer", "minimum": 1, "maximum": 86400000, "description": "ends the command; default none"},
		"max_output_tokens": {"type": "integer", "minimum": 1, "maximum": 11250, "description": "default 6000"},
		"mode": {"type": "string", "enum": ["default", "background", "service"], "description": "background: a message tells you of the end, with the output; service: of a failure only"},
		"completion_mode": {"type": "string", "enum": ["steer", "followUp", "nextTurn"], "description": "older form: a message at the end, with the last output"},
		"notify_on_exit": {"type": "boolean", "description": "older form: a message at the end, without output"}
	},
	"required": ["cmd"],
	"additionalProperties": false
}`),
		Effect: tool.Mutating, Replay: tool.Unsafe, Risks: []tool.Risk{tool.RiskRead, tool.RiskWrite, tool.RiskProcess},
	}
}

func (t *execCommand) Prepare(_ context.Context, call tool.Call) (tool.Plan, error) {
	in := tool.ParseArguments(call.Args)
	p := &execPlan{Config: t.Config, line: in.NeedText("cmd")}
	workdir := in.Text("workdir", ".")
	p.shell = in.Text("shell", t.Shell)
	p.named = in.Has("shell")
	login := in.Bool("login")
	if in.Bool("tty") {
		p.tty = &proc.Size{}
	}
	size := proc.Size{
		Cols: int(in.Int("cols", tool.Range{Default: 120, Min: 1, Max: maxCols})),
		Rows: int(in.Int("rows", tool.Range{Default: 40, Min: 1, Max: maxRows})),
	}
	p.open = in.OneOf("stdin", "closed", "open") == "open"
	p.yield = time.Duration(in.Int("yield_time_ms", tool.Range{Default: 10_000, Min: 250, Max: 30_000, Clamp: true})) * time.Millisecond
	p.timeout = time.Duration(in.Int("timeout_ms", tool.Range{Default: 0, Min: 1, Max: 86_400_000})) * time.Millisecond
	p.budget = outputBudget(in)
	p.form = form(in)
	switch {
	case strings.TrimSpace(p.line) == "":
		in.Fail("cmd", "a command line that is not empty")
	case strings.IndexByte(p.line, 0) >= 0:
		in.Fail("cmd", "a command line without NUL")
	case p.shell == "" || len(p.shell) > maxShell || strings.IndexByte(p.shell, 0) >= 0:
		in.Fail("shell", "the name or the path of a shell")
	case p.tty == nil && in.Has("cols"):
		in.Fail("cols", "to be given only with tty: true")
	case p.tty == nil && in.Has("rows"):
		in.Fail("rows", "to be given only with tty: true")
	case p.tty != nil && in.Has("stdin"):
		in.Fail("stdin", "to be given only without tty: a terminal always takes input")
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if p.tty != nil {
		*p.tty = size
	}
	dir, err := t.Tree.Dir(workdir)
	if err != nil {
		return nil, t.turn(err, workdir, "")
	}
	p.dir = dir
	p.env = t.Environment.forChild(t.Environment.Exec, dir.Path(), p.tty != nil)
	if p.file, err = proc.Look(p.shell, dir.Path(), p.env); err != nil {
		dir.Close()
		return nil, t.turn(err, workdir, p.shell)
	}
	p.argv = ShellArgv(p.shell, p.line, login)
	return p, nil
}

type execPlan struct {
	*Config
	judged
	line, shell, file string
	named             bool // the call names the shell
	argv, env         []string
	dir               *worktree.Dir
	tty               *proc.Size
	open              bool
	yield, timeout    time.Duration
	budget            int
	form              delivery.Form
}

// form is what the call wants to be told of the end.
func form(in *tool.Arguments) delivery.Form {
	mode := in.OneOf("mode", "default", "background", "service")
	older := map[string]delivery.Form{"steer": delivery.Steer, "followUp": delivery.FollowUp, "nextTurn": delivery.NextTurn}[in.Text("completion_mode", "")]
	if in.Has("completion_mode") && older == delivery.None {
		in.Fail("completion_mode", "one of: steer followUp nextTurn")
	}
	notify := in.Bool("notify_on_exit")
	switch {
	case older != delivery.None && in.Has("mode"):
		in.Fail("completion_mode", "to be given only without mode")
	case notify && in.Has("mode"):
		in.Fail("notify_on_exit", "to be given only without mode")
	case notify && older != delivery.None:
		in.Fail("notify_on_exit", "to be given only without completion_mode")
	case notify:
		return delivery.NotifyOnExit
	case mode == "background":
		return delivery.Background
	case mode == "service":
		return delivery.Service
	}
	return older
}

func (p *execPlan) Action() tool.Action {
	a := tool.Action{Tool: "exec_command", Line: p.line, Dir: p.dir.Path()}
	if p.named {
		a.Shell = p.shell
	}
	return a
}

func (p *execPlan) Close() { p.dir.Close() }

func (p *execPlan) Run(ctx context.Context, _ tool.Reporter) (tool.Result, error) {
	j, err := p.Table.Start(ctx, jobs.Spec{
		Proc: proc.Spec{
			Path: p.file, Argv: p.argv, Env: p.env, Dir: p.dir.Path(), DirFile: p.dir.File(), Before: p.dir.Recheck,
			OpenStdin: p.open, TTY: p.tty,
		},
		Timeout: p.timeout,
		Form:    p.form,
		Task:    jobs.TaskOf(ctx),
		Message: p.budget,
		Preview: termtext.Preview(p.line, previewRunes),
		Guard:   p.posture(),
	})
	if err != nil {
		return tool.Result{}, p.turn(err, p.dir.Name(), p.shell)
	}
	j.Wait(ctx, p.yield)
	if err := ctx.Err(); err != nil && !closed(j.Done()) { // else it ended first: its result wins
		// nobody learns its ID any more, so nobody could end it
		j.Kill(context.WithoutCancel(ctx), proc.TERM, jobs.KillGrace)
		return tool.Result{}, tool.NewError(tool.UncertainOutcome).CausedBy(err)
	}
	return sessionResult(j, p.budget, 0), nil
}
