package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/belayhq/belay/internal/termtext"
	"github.com/belayhq/belay/tool"
)

// bash is the name under which guards know a tool that runs commands.
const bash = "Bash"

// A Command is a guard that speaks the protocol of dcg: it judges what shell and
// exec_command start, and nothing else. It gets a PreToolUse payload of the tool Bash
// on standard input, in the directory in which the command would run. With exit code 0
// no output allows, and a JSON object on standard output decides; any other exit code
// is a failure. A well-formed deny counts whatever comes after it.
type Command struct{ External }

// Covers tells whether calls of a tool are judged.
func (c *Command) Covers(toolName string) bool { return runsCommands(toolName) }

// Check judges a start.
func (c *Command) Check(ctx context.Context, a tool.Action) (Verdict, error) {
	if !c.Covers(a.Tool) {
		return Verdict{}, ctx.Err()
	}
	return c.judge(ctx, a, func(e ended) (Verdict, bool) {
		said := trim(e.stdout)
		if e.code != 0 || len(said) == 0 {
			return Verdict{}, e.code == 0
		}
		answer, err := parse(said)
		return answer.verdict, err == nil && answer.decided
	})
}

// A Program is a hook in the general form that users of other agents have. It judges
// the tools that Match names. Exit code 2 denies, with standard error as the
// reason; with 0 a JSON object on standard output decides, and no object allows;
// any other exit code is a failure. A well-formed deny counts whatever comes after it.
//
// The tools that run commands are shown as the tool Bash with tool_input.command;
// of other tools tool_input is what the call asks for.
type Program struct {
	External
	Match *Match // nil for all
}

// Covers tells whether calls of a tool are judged.
func (p *Program) Covers(toolName string) bool { return p.Match.Tool(toolName) }

// Check judges a call.
func (p *Program) Check(ctx context.Context, a tool.Action) (Verdict, error) {
	if !p.Covers(a.Tool) {
		return Verdict{}, ctx.Err()
	}
	return p.judge(ctx, a, func(e ended) (Verdict, bool) {
		said := trim(e.stdout)
		switch {
		case e.code == 2: // whatever stands on standard output, which may be junk
			f, _ := object(said)
			hide := secretsOf(f, f.in("hookSpecificOutput"))
			return Verdict{Decision: Deny, Reason: cut(hide.hide(string(e.stderr)), MaxReason), UserOnly: override(f.in("hookSpecificOutput"))}, true
		case e.code != 0:
			return Verdict{}, false
		case len(said) == 0 || said[0] != '{':
			// Remarks are usual here. An object behind them is an answer that got
			// lost, and must not count as none.
			return Verdict{}, !objectLine.Match(said)
		}
		answer, err := parse(said)
		return answer.verdict, err == nil
	})
}

// objectLine finds where an object begins behind other text.
var objectLine = regexp.MustCompile(`(?m)^\s*\{`)

// A Match is a regular expression on the names of belay's tools, as a whole and with
// regard to case. The tools that run commands, shell and exec_command, are also
// called Bash.
type Match struct{ re *regexp.Regexp }

// ParseMatch takes the syntax of package regexp; "" and "*" match all tools.
func ParseMatch(pattern string) (*Match, error) {
	if pattern == "" || pattern == "*" {
		return &Match{}, nil
	}
	re, err := regexp.Compile(`^(?:` + pattern + `)$`)
	if err != nil {
		return nil, err
	}
	return &Match{re}, nil
}

// Tool tells whether a tool of belay is meant. A nil Match means all.
func (m *Match) Tool(name string) bool {
	return m == nil || m.re == nil || m.re.MatchString(name) || runsCommands(name) && m.re.MatchString(bash)
}

func runsCommands(toolName string) bool { return toolName == "shell" || toolName == "exec_command" }

// judge runs the program on an action. read reads the answer of one that ended by
// itself; ok is false where there is none.
func (x *External) judge(ctx context.Context, a tool.Action, read func(ended) (v Verdict, ok bool)) (Verdict, error) {
	payload, err := x.payload(a)
	if err != nil {
		return x.failed(err)
	}
	e, err := x.run(ctx, a.Dir, nil, payload)
	if ctxErr := ctx.Err(); ctxErr != nil {
		return Verdict{}, ctxErr // a cancelled check always blocks
	}
	if err == nil && e.signal == "" {
		if v, ok := read(e); ok {
			return v, nil
		}
	}
	// A deny that was said is final, also if the program then stumbled.
	if answer, parseErr := parse(trim(e.stdout)); parseErr == nil && answer.verdict.Decision == Deny {
		return answer.verdict, nil
	}
	switch {
	case err != nil:
		return x.failed(err)
	case e.signal != "":
		return x.failed(&Error{Reason: Signaled, Program: x.name(), Signal: e.signal})
	case e.code != 0:
		return x.failed(&Error{Reason: Exited, Program: x.name(), Code: e.code})
	}
	return x.failed(&Error{Reason: BadAnswer, Program: x.name()})
}

// failed is the posture: what a hook says that could not decide.
func (x *External) failed(err error) (Verdict, error) {
	var e *Error
	if x.Block || !errors.As(err, &e) {
		return Verdict{}, err
	}
	return Verdict{Unavailable: true, Reason: e.Explain()}, nil
}

// The payload has the names of its protocol and no others: dcg takes "event" and
// "tool_args" as the sign of another dialect.
type payload struct {
	Event string `json:"hook_event_name"`
	Tool  string `json:"tool_name"`
	Input any    `json:"tool_input"`
	Dir   string `json:"cwd"`
}

type bashInput struct {
	Command string   `json:"command"`
	Argv    []string `json:"argv,omitempty"`  // of a start without a shell
	Shell   string   `json:"shell,omitempty"` // if the call names it
	Stdin   string   `json:"stdin,omitempty"`
}

func (x *External) payload(a tool.Action) ([]byte, error) {
	p := payload{Event: "PreToolUse", Tool: a.Tool, Input: a.Input, Dir: a.Dir}
	if p.Dir == "" {
		p.Dir = x.Root
	}
	if runsCommands(a.Tool) {
		in := bashInput{Command: CommandLine(a), Argv: a.Argv, Shell: a.Shell, Stdin: a.Stdin}
		if !utf8.ValidString(in.Command + in.Shell) {
			return nil, &Error{Reason: NoText, Program: x.name()}
		}
		p.Tool, p.Input = bash, in
	}
	if p.Input == nil {
		p.Input = struct{}{}
	}
	raw, err := encode(p)
	if err != nil {
		return nil, &Error{Reason: Broken, Program: x.name()}
	}
	return append(raw, '\n'), nil
}

// encode is json.Marshal without the escapes meant for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// trim takes off blanks and a byte-order mark, which some shells write.
func trim(b []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(b), []byte("\ufeff")))
}

// A Probe is what a look at a guard showed.
type Probe struct {
	Path    string  // the program file; "" if it was not found
	Verdict Verdict // on a harmless command, in Root
	Err     *Error  // why it could not decide, whatever its posture
}

// Try looks for the program and lets it judge a harmless command, for doctor: would
// this guard be there when it is needed?
func (c *Command) Try(ctx context.Context) Probe {
	strict := &Command{c.External}
	strict.Block = true
	return try(ctx, strict, &strict.External)
}

// Try looks for the program and lets it judge a harmless command, whatever it matches.
func (p *Program) Try(ctx context.Context) Probe {
	strict := &Program{External: p.External}
	strict.Block = true
	return try(ctx, strict, &strict.External)
}

func try(ctx context.Context, h Hook, x *External) (p Probe) {
	var err error
	if p.Path, _, err = x.look(); err == nil {
		p.Verdict, err = h.Check(ctx, tool.Action{Tool: "shell", Argv: []string{"true"}, Dir: x.Root})
	}
	errors.As(err, &p.Err)
	return p
}

// versionTime is enough for a program that does nothing but print a line.
const versionTime = 1500 * time.Millisecond

// Version asks the program for its version: the first line of what it answers to
// --version, at most 80 characters, or "". Only a program that is known to take it
// should be asked.
func (x *External) Version(ctx context.Context) string {
	quick := *x
	quick.Timeout = min(quick.timeout(), versionTime)
	e, err := quick.run(ctx, "", []string{"--version"}, nil)
	if err != nil || e.code != 0 {
		return ""
	}
	line, _, _ := strings.Cut(clean(string(e.stdout)), "\n")
	return termtext.Preview(line, 80)
}
