package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/guard"
	"github.com/belayhq/belay/internal/proctool"
)

// A setting is one line of the configuration. The table below is the only place that
// knows its name, type, range, variable, and what a project file may do to it; the
// reference in docs/config.md is written from it.
type setting struct {
	name    string
	kind    kind
	builtin any
	env     *variable // or nil
	tighten rule      // what a project file may do before it is trusted
	doc     string
	// offWins: the value is false wherever one of the layers says so.
	offWins bool
}

// A rule tells whether a change makes belay do less.
type rule struct {
	words string
	ok    func(from, to any) bool
}

var (
	lower = rule{"lower it", func(from, to any) bool { return to.(int64) <= from.(int64) }}
	never = rule{"nothing", func(from, to any) bool { return false }}
	off   = rule{"turn it off", func(_, to any) bool { return to == false }}
	// a project that could take names out would have a file that binds it written
	more = rule{"add names", func(from, to any) bool {
		return !slices.ContainsFunc(from.([]string), func(n string) bool { return !slices.Contains(to.([]string), n) })
	}}
	fewer = rule{"leave names out", func(from, to any) bool {
		return !slices.ContainsFunc(to.([]string), func(n string) bool {
			return !slices.ContainsFunc(from.([]string), func(by string) bool { return covers(by, n) })
		})
	}}
)

func only(value string) rule {
	return rule{fmt.Sprintf("set it to `%q`", value), func(_, to any) bool { return to == value }}
}

// covers tells whether all that the pattern b names is named by the pattern a.
func covers(a, b string) bool {
	prefix, open := strings.CutSuffix(a, "*")
	return a == b || open && strings.HasPrefix(strings.TrimSuffix(b, "*"), prefix)
}

// A variable of the environment that sets something. An empty one counts as not set.
type variable struct {
	name string
	// read gives the value, or what it expects where it cannot be used. value nil
	// without a fault: it does not concern the setting.
	read func(p *program, text string) (value any, expects string)
}

func mib(n int64) int64 { return n << 20 }

// settings in the order in which they are shown.
var settings = []setting{
	{name: "limits.max_page_bytes", kind: whole{4096, 1 << 20}, builtin: int64(256 << 10), tighten: lower,
		doc: "the most content that one `read` gives"},
	{name: "limits.max_file_bytes", kind: whole{1, mib(1024)}, builtin: mib(64), tighten: lower,
		doc: "the largest file that is digested, replaced and edited"},
	{name: "limits.max_output_bytes", kind: whole{4096, mib(16)}, builtin: int64(256 << 10), tighten: lower,
		doc: "what is kept in memory of each stream of a one-shot command"},
	{name: "limits.max_sessions", kind: whole{1, 4096}, builtin: int64(256), tighten: lower,
		doc: "processes that run at once"},
	{name: "limits.max_finished", kind: whole{1, 4096}, builtin: int64(64), tighten: lower,
		doc: "sessions that are kept after their end"},
	{name: "limits.log_bytes_per_process", kind: whole{1024, mib(8)}, builtin: mib(8), tighten: lower,
		doc: "output of one process that is kept on disk"},
	{name: "limits.log_bytes_total", kind: whole{1024, mib(32)}, builtin: mib(32), tighten: lower,
		doc: "output of all processes that is kept on disk"},
	{name: "limits.tail_bytes", kind: whole{1024, 64_000}, builtin: int64(64_000), tighten: lower,
		doc: "the last output of one process that is kept in memory"},
	{name: "env.shell", kind: choice{"allowlist", "inherit"}, builtin: "allowlist", tighten: only("allowlist"),
		doc: "which variables the tool `shell` passes on: those of `env.allow`, or all"},
	{name: "env.exec", kind: choice{"allowlist", "inherit"}, builtin: "inherit", tighten: only("allowlist"),
		doc: "the same for `exec_command`"},
	{name: "env.allow", kind: texts{names: true}, builtin: proctool.DefaultAllow, tighten: fewer,
		doc: "names of variables; one that ends in `*` allows what it begins"},
	{name: "env.set", kind: dict{}, builtin: map[string]string{}, tighten: never,
		doc: "variables that every command gets; they win over all others"},
	{name: "guard.command", kind: programLine{}, builtin: []string{}, env: &variable{"BELAY_GUARD_COMMAND", guardCommand}, tighten: never,
		doc: "program and arguments of a guard that speaks the protocol of dcg; empty: none"},
	{name: "guard.timeout_ms", kind: whole{100, guard.MaxTimeout.Milliseconds()}, builtin: int64(5000), tighten: never,
		doc: "how long it may take"},
	{name: "guard.on_error", kind: choice{"allow", "block"}, builtin: "allow", env: &variable{"BELAY_GUARD_ON_ERROR", guardOnError}, tighten: only("block"),
		doc: "what happens to a call when the guard cannot decide"},
	{name: "hooks", kind: hookList{}, builtin: []hook{}, tighten: never,
		doc: "programs that judge calls, see below; those of the user file come first, and those of a trusted project file after them"},
	{name: "approval.timeout_ms", kind: whole{1000, 60_000}, builtin: int64(60_000), tighten: lower,
		doc: "how long a question to the user stands"},
	{name: "protect", kind: texts{names: true}, builtin: []string{".git", ".belay"}, tighten: more,
		doc: "names that the file tools do not write to, nor below them"},
	{name: "journal.path", kind: filePath{}, builtin: "", env: &variable{"BELAY_JOURNAL", journalPath}, tighten: never,
		doc: "file in which each call is recorded, see `belay journal`; empty: none"},
	{name: "model.provider", kind: choice{"", "openai", "openai-chat", "anthropic", "scripted"}, builtin: "", env: &variable{"BELAY_MODEL", modelPart(0)}, tighten: never,
		doc: "who runs the model"},
	{name: "model.name", kind: plainText{}, builtin: "", env: &variable{"BELAY_MODEL", modelPart(1)}, tighten: never,
		doc: "which model"},
	{name: "model.base_url", kind: webAddress{}, builtin: "", tighten: never,
		doc: "where the model is reached, if not at its vendor's"},
	{name: "project_text", kind: onOff{}, builtin: true, tighten: off,
		doc: "read `AGENTS.md` and `CLAUDE.md`"},
	{name: "telemetry.enabled", kind: onOff{}, builtin: true, env: &variable{"BELAY_TELEMETRY", telemetrySwitch}, tighten: off, offWins: true,
		doc: "tell the endpoint once a version that belay is in use; off wherever one says off"},
	{name: "telemetry.endpoint", kind: webAddress{secure: true}, builtin: "", tighten: never,
		doc: "where that is told; empty: nowhere"},
}

func guardCommand(p *program, text string) (any, string) {
	var argv []string
	if json.Unmarshal([]byte(text), &argv) != nil || argv == nil {
		return nil, "a JSON list of strings"
	}
	v, expects := programLine{}.check(argv, place{home: p.getenv("HOME")})
	if expects != "" {
		return nil, expects
	}
	return v, ""
}

func guardOnError(_ *program, text string) (any, string) {
	return choice{"allow", "block"}.check(text)
}

func journalPath(_ *program, text string) (any, string) {
	abs, err := filepath.Abs(text)
	if err != nil || strings.IndexByte(text, 0) >= 0 {
		return nil, "the path of a file"
	}
	return abs, ""
}

// modelPart reads BELAY_MODEL=provider/name.
func modelPart(n int) func(*program, string) (any, string) {
	return func(_ *program, text string) (any, string) {
		provider, name, ok := strings.Cut(text, "/")
		if !ok || name == "" {
			return nil, "provider/name"
		}
		if _, expects := (choice{"openai", "openai-chat", "anthropic", "scripted"}).check(provider); expects != "" {
			return nil, "provider/name with a provider out of " + expects
		}
		return [2]string{provider, name}[n], ""
	}
}

// telemetrySwitch can only turn off.
func telemetrySwitch(_ *program, text string) (any, string) {
	if saysNo(text) {
		return false, ""
	}
	return nil, ""
}

// saysNo reads a switch that is off.
func saysNo(text string) bool {
	switch strings.ToLower(text) {
	case "0", "false", "no", "off":
		return true
	}
	return false
}

// A hook as it is configured.
type hook struct {
	Match     string   `json:"match"`
	Command   []string `json:"command"`
	TimeoutMS int64    `json:"timeout_ms"`
	OnError   string   `json:"on_error"`
}

// A value is what holds for a setting, and who says so.
type value struct {
	v      any
	source string // "built-in", "FILE:LINE", "BELAY_X" or a flag
}

// A configuration is what holds after all layers.
type configuration struct {
	root    string // resolved
	values  map[string]value
	project string // path of the project file, "" if there is none
	sum     string // its SHA-256
	trusted bool
	ignored []ignored        // what of it does not hold because it is not trusted
	files   map[string]value // what the files and the built-in values say, whatever a variable does
	notes   []string         // what the user should know: one line each, fit for a terminal
}

// ignored is a setting of a project file that is not trusted.
type ignored struct {
	name, at string
}

// An override is a setting that a flag of the command line gives.
type override struct {
	setting, flag string
	value         any
}

// configuration reads the layers. file is that of --config, or "". Its errors have the
// exit code of a fault of the configuration, and name the setting and where it stands.
func (p *program) configuration(file string, overrides ...override) (*configuration, error) {
	c := &configuration{root: p.resolvedRoot(), values: map[string]value{}, files: map[string]value{}}
	for _, s := range settings {
		c.values[s.name] = value{s.builtin, "built-in"}
	}
	user, err := p.userLayer(file)
	if err != nil {
		return nil, &exit{exitConfig, err}
	}
	project, err := p.projectLayer(c)
	if err != nil {
		return nil, &exit{exitConfig, err}
	}
	for _, s := range settings {
		held := c.values[s.name]
		if given, ok := user[s.name]; ok {
			held = given
		}
		// An address belongs to the provider beside which it stands: that of the user's is none for the
		// key of another.
		if given, ok := project["model.provider"]; ok && s.name == "model.base_url" && c.trusted && !sameValue(given.v, user["model.provider"].v) {
			held = c.values[s.name]
		}
		if given, ok := project[s.name]; ok {
			switch {
			case sameValue(given.v, held.v):
			case s.offWins && held.v == false:
			case c.trusted && s.name == "hooks":
				held = value{slices.Concat(held.v.([]hook), given.v.([]hook)), held.source + " and " + given.source}
			case c.trusted || s.tighten.ok(held.v, given.v):
				held = given
			default:
				c.ignored = append(c.ignored, ignored{s.name, given.source})
			}
		}
		c.files[s.name] = held
		if s.env != nil {
			if text := p.getenv(s.env.name); text != "" {
				v, expects := s.env.read(p, text)
				if expects != "" {
					return nil, &exit{exitConfig, fmt.Errorf("%s: expects %s", s.env.name, expects)}
				}
				if v != nil {
					held = value{v, s.env.name}
				}
			}
		}
		for _, o := range overrides {
			if o.setting == s.name {
				held = value{o.value, "--" + o.flag}
			}
		}
		c.values[s.name] = held
	}
	if len(c.ignored) > 0 {
		var list []string
		for _, i := range c.ignored {
			list = append(list, i.name)
		}
		c.notes = append(c.notes, fmt.Sprintf("%s is not trusted: ignored in it: %s (see belay trust)", inert(c.project), strings.Join(list, ", ")))
	}
	for i, h := range c.values["hooks"].v.([]hook) {
		if m, err := guard.ParseMatch(h.Match); err == nil && !slices.ContainsFunc(toolNames, m.Tool) {
			c.notes = append(c.notes, fmt.Sprintf("hooks[%d] judges nothing: its match names no tool of belay", i))
		}
	}
	return c, nil
}

// toolNames is what a hook can match, beside Bash.
var toolNames = strings.Fields("read replace edit shell exec_command write_stdin exec_wait exec_output exec_list exec_kill exec_ack")

func sameValue(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}

func (c *configuration) int(name string) int64      { return c.values[name].v.(int64) }
func (c *configuration) text(name string) string    { return c.values[name].v.(string) }
func (c *configuration) flag(name string) bool      { return c.values[name].v.(bool) }
func (c *configuration) texts(name string) []string { return c.values[name].v.([]string) }

// limits and env are what coding takes.
func (c *configuration) limits() coding.Limits {
	return coding.Limits{
		MaxPageBytes:       c.int("limits.max_page_bytes"),
		MaxFileBytes:       c.int("limits.max_file_bytes"),
		MaxOutputBytes:     c.int("limits.max_output_bytes"),
		MaxSessions:        int(c.int("limits.max_sessions")),
		MaxFinished:        int(c.int("limits.max_finished")),
		TailBytes:          int(c.int("limits.tail_bytes")),
		LogBytesPerProcess: c.int("limits.log_bytes_per_process"),
		LogBytesTotal:      c.int("limits.log_bytes_total"),
	}
}

func (c *configuration) env() coding.Env {
	return coding.Env{
		Shell: c.text("env.shell"), Exec: c.text("env.exec"),
		Allow: c.texts("env.allow"), Set: c.values["env.set"].v.(map[string]string),
	}
}

func (c *configuration) approvalTimeout() time.Duration {
	return time.Duration(c.int("approval.timeout_ms")) * time.Millisecond
}

// guards are the guard and the hooks, in the order in which they are asked.
func (c *configuration) guards(environ []string) (guard.Chain, error) {
	var chain guard.Chain
	external := func(argv []string, timeoutMS int64, onError string) guard.External {
		return guard.External{Argv: argv, Root: c.root, Env: environ,
			Timeout: time.Duration(timeoutMS) * time.Millisecond, Block: onError == "block"}
	}
	if argv := c.texts("guard.command"); len(argv) > 0 {
		chain = append(chain, &guard.Command{External: external(argv, c.int("guard.timeout_ms"), c.text("guard.on_error"))})
	}
	for _, h := range c.values["hooks"].v.([]hook) {
		match, err := guard.ParseMatch(h.Match)
		if err != nil { // was checked where it was read
			return nil, &exit{exitConfig, fmt.Errorf("hooks: expects a regular expression as match")}
		}
		chain = append(chain, &guard.Program{External: external(h.Command, h.TimeoutMS, h.OnError), Match: match})
	}
	return chain, nil
}

// shown is a value as it is shown to the user. What may be a secret is not: the values
// of variables, and what an address has in front of its host.
func shown(v any) any {
	switch v := v.(type) {
	case map[string]string:
		hidden := make(map[string]string, len(v))
		for name := range v {
			hidden[name] = "(not shown)"
		}
		return hidden
	case string:
		if u, err := url.Parse(v); err == nil && u.User != nil {
			u.User = url.User("hidden")
			return u.String()
		}
	}
	return v
}
