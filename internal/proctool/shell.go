package proctool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/belayhq/belay/internal/capture"
	"github.com/belayhq/belay/internal/jobs"
	"github.com/belayhq/belay/internal/proc"
	"github.com/belayhq/belay/internal/termtext"
	"github.com/belayhq/belay/internal/worktree"
	"github.com/belayhq/belay/tool"
)

type shell struct{ *Config }

func (t *shell) Definition() tool.Definition {
	return tool.Definition{
		Name: "shell",
		Description: "Run one program to its end, without a shell in between (argv, e.g. [\"go\",\"vet\",\"./...\"]), with few environment variables. " +
			"What it leaves running is ended. For shell syntax, or more than a minute, use exec_command.",
		Schema: json.RawMessage(`{
	"type": "object",
	"properties": {
		"argv": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "program and arguments"},
		"workdir": {"type": "string", "description": "relative to the root (default .)"},
		"timeout_ms": {"type": "integer", "minimum": 1, "maximum": 1800000, "description": "default 120000, at most 1800000"},
		"stdin": {"type": "string", "description": "input (default none), then end of file"},
		"max_output_tokens": {"type": "integer", "minimum": 1, "maximum": 11250, "description": "default 6000"}
	},
	"required": ["argv"],
	"additionalProperties": false
}`),
		Effect: tool.Mutating, Replay: tool.Unsafe, Risks: []tool.Risk{tool.RiskRead, tool.RiskWrite, tool.RiskProcess},
	}
}

func (t *shell) Prepare(_ context.Context, call tool.Call) (tool.Plan, error) {
	in := tool.ParseArguments(call.Args)
	p := &shellPlan{Config: t.Config, argv: in.Texts("argv")}
	workdir := in.Text("workdir", ".")
	p.timeout = time.Duration(in.Int("timeout_ms", tool.Range{Default: 120_000, Min: 1, Max: 1_800_000})) * time.Millisecond
	p.stdin = in.Text("stdin", "")
	p.budget = outputBudget(in)
	if len(p.argv) == 0 || p.argv[0] == "" {
		in.Fail("argv", "a list of at least one string, the program first")
	}
	for i, a := range p.argv {
		if strings.IndexByte(a, 0) >= 0 {
			in.Fail(fmt.Sprintf("argv[%d]", i), "a string without NUL")
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	dir, err := t.Tree.Dir(workdir)
	if err != nil {
		return nil, t.turn(err, workdir, "")
	}
	p.dir = dir
	p.env = t.Environment.forChild(t.Environment.Shell, dir.Path(), false)
	if p.file, err = proc.Look(p.argv[0], dir.Path(), p.env); err != nil {
		dir.Close()
		return nil, t.turn(err, workdir, p.argv[0])
	}
	return p, nil
}

type shellPlan struct {
	*Config
	judged
	argv    []string
	file    string
	env     []string
	dir     *worktree.Dir
	stdin   string
	timeout time.Duration
	budget  int
}

func (p *shellPlan) Action() tool.Action {
	return tool.Action{Tool: "shell", Argv: append([]string(nil), p.argv...), Stdin: p.stdin, Dir: p.dir.Path()}
}

func (p *shellPlan) Close() { p.dir.Close() }

// shellData is the result as data; its names are the contract's.
type shellData struct {
	Status        jobs.State `json:"status"`
	ExitCode      *int       `json:"exit_code"`
	Signal        *string    `json:"signal"`
	Stdout        string     `json:"stdout"`
	Stderr        string     `json:"stderr"`
	StdoutBytes   int64      `json:"stdout_bytes"`
	StderrBytes   int64      `json:"stderr_bytes"`
	StdoutOmitted int64      `json:"stdout_omitted"`
	StderrOmitted int64      `json:"stderr_omitted"`
	WallMS        int64      `json:"wall_ms"`
	Ended         *ended     `json:"ended"`
	LeftBehind    []left     `json:"left_behind"`
	LeftOmitted   int        `json:"left_behind_omitted,omitempty"` // not named in LeftBehind
	Guard         string     `json:"guard"`
}

func (p *shellPlan) Run(ctx context.Context, _ tool.Reporter) (tool.Result, error) {
	streams := [2]stream{{kept: capture.NewHeadTail(p.StreamBytes)}, {kept: capture.NewHeadTail(p.StreamBytes)}}
	began := time.Now()
	run, err := p.Table.Launch(ctx, proc.Spec{
		Path: p.file, Argv: p.argv, Env: p.env, Dir: p.dir.Path(), DirFile: p.dir.File(), Before: p.dir.Recheck,
		Stdin:  []byte(p.stdin),
		Output: func(s proc.Stream, b []byte) { streams[s-proc.Stdout].write(b) },
	})
	if err != nil {
		return tool.Result{}, p.turn(err, p.dir.Name(), p.argv[0])
	}

	timer := time.NewTimer(p.timeout)
	defer timer.Stop()
	d := shellData{Status: jobs.Exited, Guard: p.posture()}
	cancelled := false
	select {
	case <-run.Exited():
	case <-timer.C:
		if !closed(run.Exited()) { // else it ended first, and what is left is the clean-up
			d.Status = jobs.TimedOut
			run.End(proc.TERM, jobs.KillGrace)
		}
	case <-ctx.Done():
		if !closed(run.Exited()) {
			cancelled = true
			run.End(proc.TERM, jobs.KillGrace)
		}
	}
	select {
	case <-run.Done(): // soon, and in bounded time
	case <-ctx.Done():
		cancelled = cancelled || !closed(run.Done())
		<-run.Done()
	}
	if cancelled { // S6
		return tool.Result{}, tool.NewError(tool.UncertainOutcome).CausedBy(ctx.Err())
	}
	exit := run.Exit()
	if !exit.Cleaned { // S6: nothing that would let a model carry on
		return tool.Result{}, tool.NewError(tool.UncertainOutcome)
	}
	d.WallMS = time.Since(began).Milliseconds()
	d.Signal, d.ExitCode = exitFacts(exit.Signal, exit.Code)
	if d.Status == jobs.Exited && exit.Signal != "" {
		d.Status = jobs.Signaled
	}
	d.Ended = endedFacts(exit.Ended)
	d.LeftBehind, d.LeftOmitted = leftFacts(exit.Left)

	// each stream has half of the budget, and what the other leaves of its own
	budget := max(0, contentRoom(p.budget, d.Ended, d.LeftBehind, d.LeftOmitted)-len(stderrMark))
	errBudget := budget - min(budget/2, int(min(streams[0].kept.Total(), int64(budget))))
	d.Stderr, d.StderrOmitted = streams[1].text(errBudget)
	d.Stdout, d.StdoutOmitted = streams[0].text(budget - len(d.Stderr))
	d.StdoutBytes, d.StderrBytes = streams[0].kept.Total(), streams[1].kept.Total()

	return tool.Result{Text: d.text(p.timeout), Data: d}, nil
}

// stderrMark stands between the two streams in the text.
const stderrMark = "\n[stderr]\n"

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (d *shellData) text(timeout time.Duration) string {
	var h tool.Header
	h.Fact("status", d.Status)
	exitHeader(&h, d.ExitCode, d.Signal)
	if d.Status == jobs.TimedOut {
		h.Fact("timeout_ms", timeout.Milliseconds())
	}
	h.Fact("stdout_bytes", d.StdoutBytes)
	h.Fact("stderr_bytes", d.StderrBytes)
	if d.StdoutOmitted > 0 {
		h.Fact("stdout_omitted", d.StdoutOmitted)
	}
	if d.StderrOmitted > 0 {
		h.Fact("stderr_omitted", d.StderrOmitted)
	}
	h.Fact("wall_ms", d.WallMS)
	leftoverHeader(&h, d.Ended, d.LeftBehind, d.LeftOmitted)
	guardHeader(&h, d.Guard)
	body := d.Stdout
	if d.Stderr != "" {
		mark := stderrMark
		if body == "" || strings.HasSuffix(body, "\n") {
			mark = mark[1:]
		}
		body += mark + d.Stderr
	}
	return h.Text(body + d.Ended.hint(body))
}

// A stream is one output of a one-shot command, kept as it came: what is counted are
// its own bytes. It is decoded and cleaned when it is shown.
type stream struct {
	mu   sync.Mutex // the reader of the stream writes, Run reads after Done
	kept *capture.HeadTail
}

func (s *stream) write(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.Write(p)
}

// lookBack is how much of what is in front of the tail is looked at, to know whether
// the tail starts within a terminal sequence: all that is kept, up to this.
const lookBack = 1 << 20

// text is the clean text within a budget of bytes, and how much of the stream is left
// out of it.
func (s *stream) text(budget int) (text string, omitted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text = termtext.Fit(budget, s.kept.Kept(), func(n int) string {
		cut := s.kept.Cut(n, lookBack)
		omitted = cut.Omitted
		head := termtext.Clean(cut.Head)
		if omitted == 0 {
			return string(head)
		}
		if len(head) > 0 && head[len(head)-1] != '\n' {
			head = append(head, '\n')
		}
		head = fmt.Appendf(head, "[... %d bytes omitted ...]\n", omitted)
		var c termtext.Cleaner
		c.Skip(cut.Before)
		return string(c.Flush(c.Append(head, cut.Tail)))
	})
	if len(text) > budget { // there is not even room for the note
		text, omitted = "", s.kept.Total()
	}
	return text, omitted
}
