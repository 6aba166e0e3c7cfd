package proctool

import (
	"slices"
	"strings"
)

// Policy tells what a child inherits.
type Policy string

const (
	Allowlist Policy = "allowlist" // only the variables that are allowed
	Inherit   Policy = "inherit"   // all
)

// An Environment says what children get. It is read only.
type Environment struct {
	Base        []string // NAME=value of the host
	Shell, Exec Policy   // for the tool shell, and for exec_command
	Allow       []string // names; one that ends in * allows what it begins
	Set         map[string]string

	ready map[kind][]string // what layers gives, made once
}

// kind is what environments differ in, but for the directory.
type kind struct {
	policy Policy
	tty    bool
}

// secret never reaches a child, whatever the policy: it would let the child act
// as the user's client.
const secret = "BELAY_HTTP_TOKEN"

// prepare makes each environment once: every command needs one.
func (e *Environment) prepare() {
	e.ready = map[kind][]string{}
	for _, p := range []Policy{e.Shell, e.Exec} {
		for _, tty := range []bool{false, true} {
			e.ready[kind{p, tty}] = e.layers(p, tty)
		}
	}
}

// forChild is the environment of one child.
func (e *Environment) forChild(p Policy, dir string, tty bool) []string {
	base := e.ready[kind{p, tty}]
	return append(append(make([]string, 0, len(base)+2), base...), "PWD="+dir) // and room for the mark
}

// layers is an environment without the directory. Later layers win: what is inherited,
// what belay sets, what the user configured.
func (e *Environment) layers(p Policy, tty bool) []string {
	vars := map[string]string{} // by the folded name
	put := func(name, value string) { vars[foldName(name)] = name + "=" + value }
	for _, kv := range e.Base {
		// a name can begin with = on Windows (=C:), where it is a current directory
		i := strings.IndexByte(kv[min(1, len(kv)):], '=')
		if i < 0 {
			continue
		}
		name, value := kv[:i+1], kv[i+2:]
		if p == Inherit || allowed(e.Allow, name) {
			put(name, value)
		}
	}
	put("BELAY", "1")
	put("AI_AGENT", "belay")
	if tty {
		put("TERM", "xterm-256color")
		put("COLORTERM", "truecolor")
	} else {
		put("TERM", "dumb")
		put("NO_COLOR", "1")
		put("PAGER", "cat")
		put("GIT_PAGER", "cat")
		put("GIT_TERMINAL_PROMPT", "0")
	}
	for name, value := range e.Set {
		put(name, value)
	}
	delete(vars, foldName("PWD"))
	delete(vars, foldName(secret))
	out := make([]string, 0, len(vars))
	for _, kv := range vars {
		out = append(out, kv)
	}
	slices.Sort(out)
	return out
}

func allowed(allow []string, name string) bool {
	for _, a := range allow {
		prefix, open := strings.CutSuffix(a, "*")
		if open && strings.HasPrefix(foldName(name), foldName(prefix)) || foldName(a) == foldName(name) {
			return true
		}
	}
	return false
}
