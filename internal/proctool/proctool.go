// Package proctool is the verbs on processes: shell for one command to its end,
// exec_command and its family for sessions. It turns arguments into starts of one
// table and outcomes into results; the promises about processes are those of proc
// and jobs.
package proctool

import (
	"github.com/belayhq/belay/internal/border"
	"github.com/belayhq/belay/internal/jobs"
	"github.com/belayhq/belay/internal/worktree"
	"github.com/belayhq/belay/tool"
)

// Config is what the tools stand on.
type Config struct {
	Tree        *worktree.Tree
	Table       *jobs.Table
	Environment Environment
	Shell       string // the user's shell: a name or a path
	// StreamBytes is how much of each stream of a one-shot command is kept.
	StreamBytes int
}

// New gives the process tools.
func New(c Config) []tool.Tool {
	c.Environment.prepare()
	return []tool.Tool{
		&shell{&c}, &execCommand{&c}, &writeStdin{&c}, &execWait{&c}, &execOutput{&c}, &execList{&c}, &execKill{&c},
		&execAck{&c},
	}
}

// Bounds of arguments, from the contract.
const (
	tokenBytes = 4 // a token is taken as so many bytes

	defaultTokens = 6000
	maxTokens     = 11250

	// maxText is what the strictest of the known clients lets through whole. The
	// text of a result stays under it.
	maxText = tokenBytes * maxTokens
	// headerRoom is more than the facts of any result take, what was ended and
	// what was left behind not counted.
	headerRoom = 512
)

// outputBudget asks for max_output_tokens and gives it in bytes.
func outputBudget(in *tool.Arguments) int {
	return tokenBytes * int(in.Int("max_output_tokens", tool.Range{Default: defaultTokens, Min: 1, Max: maxTokens, Clamp: true}))
}

// find asks for session_id and gives the session, once the arguments are known to
// be right.
func (c *Config) find(in *tool.Arguments) func() (*jobs.Job, error) {
	id := in.NeedText("session_id")
	return func() (*jobs.Job, error) {
		if j := c.Table.Find(id); j != nil {
			return j, nil
		}
		return nil, tool.NewError(tool.UnknownSession)
	}
}

// turn is the error of the contract for an error about a start.
func (c *Config) turn(err error, dir, program string) error {
	return border.Error(err, border.Place{Root: c.Tree.Root(), Argument: "workdir", Dir: dir, Program: program})
}

// noPlan is what plans share that hold nothing. input is the call as hooks see it.
type noPlan struct {
	name  string
	input map[string]any
}

func (p noPlan) Action() tool.Action { return tool.Action{Tool: p.name, Input: p.input} }
func (p noPlan) Close()              {}
