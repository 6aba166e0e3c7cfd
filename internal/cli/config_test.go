package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/guard"
	"github.com/belayhq/belay/internal/host/model"
)

// helpers are the programs that tests need; helper:NAME as first argument runs one.
var helpers = map[string]func(args []string){}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "helper:") {
		helpers[strings.TrimPrefix(os.Args[1], "helper:")](os.Args[2:])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

var update = flag.Bool("update", false, "write the settings into docs/config.md")

// world is a program in a world of its own: folders, an environment, and what it printed.
type world struct {
	*program
	vars          map[string]string
	home, project string
	out, err      bytes.Buffer
}

func newWorld(t testing.TB) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project"), vars: map[string]string{}}
	for _, d := range []string{w.home, w.project} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.vars["BELAY_HOME"] = filepath.Join(w.home, "belay")
	w.program = &program{root: w.project, getenv: func(name string) string { return w.vars[name] }, out: &w.out, err: &w.err}
	return w
}

func (w *world) write(t testing.TB, name, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func (w *world) user(t testing.TB, content string) string {
	return w.write(t, filepath.Join(w.home, "belay", "config.jsonc"), content)
}

func (w *world) ofProject(t testing.TB, content string) string {
	return w.write(t, filepath.Join(w.project, projectFile), content)
}

func (w *world) held(t testing.TB, overrides ...override) *configuration {
	t.Helper()
	c, err := w.configuration("", overrides...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs one command of the program and gives what it printed.
func (w *world) run(t testing.TB, args ...string) (string, error) {
	t.Helper()
	root := w.config()
	switch args[0] {
	case "trust":
		root = w.trust()
	case "journal":
		root = w.journal()
	}
	w.out.Reset()
	root.SetArgs(args[1:])
	root.SilenceErrors, root.SilenceUsage = true, true
	err := root.Execute()
	return w.out.String(), err
}

func code(err error) int {
	var e *exit
	if errors.As(err, &e) {
		return e.code
	}
	return 0
}

// C6: without a file everything is built in, and what coding would fill in by itself is
// the same.
func TestBuiltIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.held(t)
	for _, s := range settings {
		if got := c.values[s.name]; got.source != "built-in" || !sameValue(got.v, s.builtin) {
			t.Errorf("%s: %+v", s.name, got)
		}
	}
	suite, err := coding.New(coding.Config{Root: w.project})
	if err != nil {
		t.Fatal(err)
	}
	defer suite.Close()
	if got, want := c.limits(), suite.Doctor(t.Context()).Limits; got != want {
		t.Errorf("limits %+v, those of coding are %+v", got, want)
	}
	for _, d := range suite.Definitions() {
		if !slices.Contains(toolNames, d.Name) {
			t.Errorf("the tool %s is not known to the hooks", d.Name)
		}
	}
	if c.approvalTimeout() != time.Minute || len(c.notes)+len(c.ignored) != 0 || c.trusted || c.project != "" {
		t.Errorf("%+v", c)
	}
}

// C6: the ranges are those that coding enforces.
func TestRangesAreThoseOfCoding(t *testing.T) {
	t.Parallel()
	for _, s := range settings {
		k, ok := s.kind.(whole)
		if !ok || !strings.HasPrefix(s.name, "limits.") {
			continue
		}
		for n, fits := range map[int64]bool{k.min: true, k.max: true, k.max + 1: false} {
			w := newWorld(t)
			c := w.held(t, override{s.name, "x", n})
			suite, err := coding.New(coding.Config{Root: w.project, Limits: c.limits()})
			if (err == nil) != fits {
				t.Errorf("%s = %d: %v", s.name, n, err)
			}
			if err == nil {
				suite.Close()
			}
		}
	}
}

// every is a file that gives every setting another value than the built-in one.
const every = `// a comment
{
	"limits": {"max_page_bytes": 8192, "max_file_bytes": 1000, "max_output_bytes": 8192, "max_sessions": 4, "max_finished": 5,
		"log_bytes_per_process": 2048, "log_bytes_total": 4096, "tail_bytes": 2000,},
	"env": {"shell": "inherit", "exec": "allowlist", "allow": ["PATH", "LC_ALL"], "set": {"A": "b", "EMPTY": ""}},
	"guard": {"command": ["dcg", "--x"], "timeout_ms": 100, "on_error": "block"}, /* and
	another */ "hooks": [{"match": "Bash", "command": ["/bin/check"], "timeout_ms": 20000, "on_error": "block"}, {"command": ["two"]}],
	"approval": {"timeout_ms": 30000},
	"protect": [".git", ".belay", ".env"],
	"journal": {"path": "calls.jsonl"},
	"model": {"provider": "anthropic", "name": "m", "base_url": "http://127.0.0.1:1/v1"},
	"project_text": false,
	"telemetry": {"enabled": false, "endpoint": "https://example.org/ping"},
}
`

// A user's file sets everything, and each value knows its line.
func TestUserFileSetsEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.user(t, "\ufeff"+every)
	c := w.held(t)
	for _, s := range settings {
		if got := c.values[s.name]; sameValue(got.v, s.builtin) || !strings.HasPrefix(got.source, path+":") {
			t.Errorf("%s: %+v", s.name, got)
		}
	}
	for name, line := range map[string]int{"limits.max_page_bytes": 3, "limits.tail_bytes": 4, "guard.command": 6, "hooks": 7, "telemetry.endpoint": 13} {
		if got := c.values[name].source; got != fmt.Sprintf("%s:%d", path, line) {
			t.Errorf("%s stands at %s, want line %d", name, got, line)
		}
	}
	want := []hook{{"Bash", []string{"/bin/check"}, 20000, "block"}, {"", []string{"two"}, 5000, "allow"}}
	if got := c.values["hooks"].v; !reflect.DeepEqual(got, want) {
		t.Errorf("hooks %+v", got)
	}
	if c.text("journal.path") != filepath.Join(w.home, "belay", "calls.jsonl") {
		t.Errorf("journal %s", c.text("journal.path"))
	}
	if c.env().Set["A"] != "b" || c.env().Exec != "allowlist" || c.limits().MaxSessions != 4 {
		t.Errorf("%+v %+v", c.env(), c.limits())
	}
	chain, err := c.guards([]string{"PATH=/bin"})
	if err != nil || len(chain) != 3 {
		t.Fatal(chain, err)
	}
	g, h := chain[0].(*guard.Command), chain[1].(*guard.Program)
	if g.Argv[0] != "dcg" || g.Timeout != 100*time.Millisecond || !g.Block || g.Root != w.project || !h.Block || h.Covers("read") || !h.Covers("shell") {
		t.Errorf("%+v %+v", g, h)
	}
	if p := chain[2].(*guard.Program); p.Block || !p.Covers("read") {
		t.Errorf("%+v", p)
	}
}

// Every fault names the setting and its line, and nothing out of the file but the name.
func TestFaultsAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, at, want string }{
		{`{"limits": {"max_pages": 1}}`, ":1", "limits.max_pages: there is no such setting; known here: max_page_bytes"},
		{"{\n\"limit\": {}}", ":2", "limit: there is no such setting; known here: limits env guard"},
		{`{"Limits": {}}`, ":1", "Limits: there is no such setting"},
		{"{\"limits\": {\n\n\"max_sessions\": 0}}", ":3", "limits.max_sessions: expects a whole number from 1 to 4096"},
		{`{"limits": {"max_sessions": 4097}}`, ":1", "limits.max_sessions: expects a whole number from 1 to 4096"},
		{`{"limits": {"max_sessions": 1.5}}`, ":1", "limits.max_sessions: expects a whole number"},
		{`{"limits": {"max_sessions": 1e99}}`, ":1", "limits.max_sessions: expects a whole number"},
		{`{"limits": {"max_sessions": "4"}}`, ":1", "limits.max_sessions: expects a whole number"},
		{`{"limits": {"max_sessions": null}}`, ":1", "limits.max_sessions: expects a whole number"},
		{`{"limits": 1}`, ":1", "limits: expects an object"},
		{`[]`, ":1", "the file: expects an object"},
		{"{\"limits\": {}, \"protect\": [],\n\"limits\": {}}", ":2", "limits: expects to be given once"},
		{`{"env": {"shell": "allowlist", "shell": "inherit"}}`, ":1", "env.shell: expects to be given once"},
		{`{"env": {"shell": "all"}}`, ":1", `env.shell: expects "allowlist" or "inherit"`},
		{`{"env": {"allow": ["A", 1]}}`, ":1", "env.allow[1]: expects a name"},
		{`{"env": {"allow": "A"}}`, ":1", "env.allow: expects a list of names"},
		{`{"env": {"set": {"A": 1}}}`, ":1", "env.set: expects an object of strings"},
		{`{"env": {"set": {"A=B": "1"}}}`, ":1", "env.set: expects"},
		{`{"env": {"set": {"A": "canary", "A": "canary"}}}`, ":1", "env.set.A: expects to be given once"},
		{`{"guard": {"command": "dcg"}}`, ":1", "guard.command: expects a list of strings"},
		{`{"guard": {"command": ["./guard"]}}`, ":1", "guard.command: expects a program by its name in PATH or its absolute path"},
		{`{"guard": {"command": [""]}}`, ":1", "guard.command: expects a program"},
		{`{"guard": {"command": ["a\u0000canary"]}}`, ":1", "guard.command[0]: expects a string"},
		{`{"guard": {"on_error": "closed"}}`, ":1", `guard.on_error: expects "allow" or "block"`},
		{`{"guard": {"timeout_ms": 60001}}`, ":1", "guard.timeout_ms: expects a whole number from 100 to 60000"},
		{"{\"hooks\": [\n{\"command\": [\"x\"]},\n{\"match\": \"(\", \"command\": [\"x\"]}]}", ":3", "hooks[1].match: expects a regular expression"},
		{`{"hooks": [{"match": "Bash"}]}`, ":1", "hooks[0].command: expects a list of strings"},
		{`{"hooks": [{"matcher": "Bash", "command": ["x"]}]}`, ":1", "hooks[0].matcher: there is no such name; known: match command timeout_ms on_error"},
		{`{"hooks": [{"command": ["x"], "command": ["y"]}]}`, ":1", "hooks[0].command: expects to be given once"},
		{`{"hooks": {"PreToolUse": []}}`, ":1", "hooks: expects a list of objects"},
		{`{"hooks": ["x"]}`, ":1", "hooks[0]: expects an object"},
		{`{"approval": {"timeout_ms": 60001}}`, ":1", "approval.timeout_ms: expects a whole number from 1000 to 60000"},
		{`{"protect": ["a/b"]}`, ":1", "protect[0]: expects a name"},
		{`{"protect": [""]}`, ":1", "protect[0]: expects a name"},
		{`{"journal": {"path": true}}`, ":1", "journal.path: expects a string"},
		{`{"model": {"provider": "google"}}`, ":1", "model.provider: expects"},
		{`{"model": {"base_url": "canary"}}`, ":1", "model.base_url: expects an http or https address"},
		{`{"project_text": "no"}`, ":1", "project_text: expects true or false"},
		{`{"telemetry": {"endpoint": "http://example.org"}}`, ":1", "telemetry.endpoint: expects an https address, or http to this machine"},
		{"{\n\"protect\": [\"canary\" \"x\"]}", ":2", "expects JSON with comments"},
		{"{", ":1", "expects JSON with comments"},
		{"{} canary", ":1", "expects JSON with comments"},
		{"{\"a\": \"\xff\"}", "", "expects text in UTF-8"},
		{"// [[[[\n" + strings.Repeat("[", 1<<19), ":2", "expects at most 16 objects and lists in each other"},
		{`/* */{"a` + strings.Repeat("[", 100) + `\"": /* {{{ */` + strings.Repeat(`{"a":`, 100_000), ":1", "expects at most 16"},
		{strings.Repeat(" ", maxConfig+1), "", "expects at most"},
	} {
		w := newWorld(t)
		path := w.user(t, c.file)
		_, err := w.configuration("")
		if err == nil {
			t.Errorf("%.60q was taken", c.file)
			continue
		}
		if code(err) != exitConfig || !strings.HasPrefix(err.Error(), path+c.at+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v, want %s%s", c.file, err, c.at, c.want)
		}
		if strings.Contains(err.Error(), "canary") {
			t.Errorf("%.60q: the error holds a value: %v", c.file, err)
		}
	}
}

// The user's file, --config and what is no file.
func TestWhichFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user(t, `{"protect": ["user"]}`)
	other := w.write(t, filepath.Join(w.home, "other.jsonc"), `{"protect": ["other"]}`)
	if got := w.held(t).texts("protect"); got[0] != "user" {
		t.Error(got)
	}
	if c, err := w.configuration(other); err != nil || c.texts("protect")[0] != "other" {
		t.Error(c, err)
	}
	for _, bad := range []string{filepath.Join(w.home, "none"), w.home} {
		if _, err := w.configuration(bad); code(err) != exitConfig {
			t.Errorf("%s: %v", bad, err)
		}
	}
	w.user(t, "")
	if got := w.held(t).values["protect"].source; got != "built-in" {
		t.Error("an empty file:", got)
	}
}

// Flags win over variables, those over the project, that over the user, that over what is
// built in.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := func(want, source string, overrides ...override) {
		t.Helper()
		v := w.held(t, overrides...).values["guard.on_error"]
		if v.v != want || !strings.Contains(v.source, source) {
			t.Errorf("%+v, want %s from %s", v, want, source)
		}
	}
	now("allow", "built-in")
	w.user(t, `{"guard": {"on_error": "block"}}`)
	now("block", "home")
	w.user(t, ``)
	w.ofProject(t, `{"guard": {"on_error": "block"}}`)
	now("block", "project")
	w.vars["BELAY_GUARD_ON_ERROR"] = "allow"
	now("allow", "BELAY_GUARD_ON_ERROR")
	now("block", "--guard", override{"guard.on_error", "guard", "block"})
	w.vars["BELAY_GUARD_ON_ERROR"] = ""
	now("block", "project")
}

func TestVariables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, setting, want string }{
		{"BELAY_GUARD_COMMAND", `["dcg","-v"]`, "guard.command", `["dcg","-v"]`},
		{"BELAY_GUARD_COMMAND", `[]`, "guard.command", `[]`},
		{"BELAY_GUARD_COMMAND", `dcg`, "", "BELAY_GUARD_COMMAND: expects a JSON list of strings"},
		{"BELAY_GUARD_COMMAND", `null`, "", "BELAY_GUARD_COMMAND: expects a JSON list of strings"},
		{"BELAY_GUARD_COMMAND", `["./canary"]`, "", "BELAY_GUARD_COMMAND: expects a program by its name"},
		{"BELAY_GUARD_ON_ERROR", "block", "guard.on_error", `"block"`},
		{"BELAY_GUARD_ON_ERROR", "canary", "", `BELAY_GUARD_ON_ERROR: expects "allow" or "block"`},
		{"BELAY_JOURNAL", "/tmp/j", "journal.path", `"/tmp/j"`},
		{"BELAY_MODEL", "openai-chat/org/model", "model.name", `"org/model"`},
		{"BELAY_MODEL", "openai-chat/org/model", "model.provider", `"openai-chat"`},
		{"BELAY_MODEL", "canary", "", "BELAY_MODEL: expects provider/name"},
		{"BELAY_MODEL", "canary/x", "", "BELAY_MODEL: expects provider/name"},
		{"BELAY_TELEMETRY", "Off", "telemetry.enabled", `false`},
		{"BELAY_TELEMETRY", "1", "telemetry.enabled", `true`},
	} {
		w := newWorld(t)
		w.vars[c.name] = c.text
		held, err := w.configuration("")
		switch {
		case c.setting == "":
			if code(err) != exitConfig || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s=%s: %v", c.name, c.text, err)
			}
		case err != nil:
			t.Errorf("%s=%s: %v", c.name, c.text, err)
		default:
			if got := oneValue(held.values[c.setting].v); got != c.want {
				t.Errorf("%s=%s: %s", c.name, c.text, got)
			}
		}
	}
}

// A project's file that is not trusted can make belay do less, and nothing else: for each
// setting what it may do and what it may not, from what is built in and from a user's
// file.
func TestAProjectOnlyTightens(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	for _, c := range []struct {
		setting, user, project string
		holds                  bool
	}{
		{"limits.max_page_bytes", ``, `262143`, true}, {"limits.max_page_bytes", ``, `262145`, false}, {"limits.max_page_bytes", `8192`, `8193`, false},
		{"limits.max_file_bytes", ``, `1`, true}, {"limits.max_file_bytes", ``, `67108865`, false},
		{"limits.max_output_bytes", ``, `4096`, true}, {"limits.max_output_bytes", ``, `1000000`, false},
		{"limits.max_sessions", ``, `1`, true}, {"limits.max_sessions", ``, `257`, false},
		{"limits.max_finished", ``, `1`, true}, {"limits.max_finished", ``, `65`, false},
		{"limits.log_bytes_per_process", ``, `1024`, true}, {"limits.log_bytes_per_process", `1024`, `1025`, false},
		{"limits.log_bytes_total", ``, `1024`, true}, {"limits.log_bytes_total", `1024`, `1025`, false},
		{"limits.tail_bytes", ``, `1024`, true}, {"limits.tail_bytes", `1024`, `1025`, false},
		{"env.shell", `"inherit"`, `"allowlist"`, true}, {"env.shell", ``, `"inherit"`, false},
		{"env.exec", ``, `"allowlist"`, true}, {"env.exec", `"allowlist"`, `"inherit"`, false},
		{"env.allow", ``, `["PATH"]`, true}, {"env.allow", ``, `[]`, true}, {"env.allow", `["LC_*"]`, `["LC_ALL", "LC_A*"]`, true},
		{"env.allow", ``, `["PATH", "SECRET"]`, false}, {"env.allow", `["LC_ALL"]`, `["LC_*"]`, false}, {"env.allow", `["LC_A*"]`, `["LC_*"]`, false},
		{"env.set", ``, `{"LD_PRELOAD": "x"}`, false}, {"env.set", `{"A": "b"}`, `{}`, false},
		{"guard.command", ``, `["sh"]`, false}, {"guard.command", `["dcg"]`, `[]`, false},
		{"guard.timeout_ms", ``, `100`, false}, {"guard.timeout_ms", ``, `60000`, false},
		{"guard.on_error", ``, `"block"`, true}, {"guard.on_error", `"block"`, `"allow"`, false},
		{"hooks", ``, `[{"command": ["sh"]}]`, false}, {"hooks", `[{"command": ["sh"]}]`, `[]`, false},
		{"approval.timeout_ms", ``, `1000`, true}, {"approval.timeout_ms", `1000`, `1001`, false},
		{"protect", ``, `[".belay", ".git", ".env"]`, true}, {"protect", ``, `[".git"]`, false}, {"protect", ``, `[]`, false},
		{"journal.path", ``, `"j"`, false}, {"journal.path", `"j"`, `""`, false},
		{"model.provider", ``, `"scripted"`, false}, {"model.name", ``, `"x"`, false}, {"model.base_url", ``, `"https://example.org"`, false},
		{"project_text", ``, `false`, true}, {"project_text", `false`, `true`, false},
		{"telemetry.enabled", ``, `false`, true}, {"telemetry.enabled", `false`, `true`, false},
		{"telemetry.endpoint", ``, `"https://example.org"`, false}, {"telemetry.endpoint", `"https://example.org"`, `""`, false},
	} {
		tested[c.setting] = true
		in := func(value string) string {
			if value == "" {
				return ""
			}
			parts := strings.Split(c.setting, ".")
			for _, p := range slices.Backward(parts) {
				value = fmt.Sprintf("{%q: %s}", p, value)
			}
			return value
		}
		w := newWorld(t)
		w.user(t, in(c.user))
		before := w.held(t).values[c.setting]
		path := w.ofProject(t, in(c.project))
		held := w.held(t)
		got := held.values[c.setting]
		if holds := strings.HasPrefix(got.source, path+":"); holds != c.holds || !holds && got.source != before.source {
			t.Errorf("%s: %s, then the project says %s: %+v", c.setting, c.user, c.project, got)
		}
		offWins := c.setting == "telemetry.enabled" && !c.holds
		if wrong := len(held.ignored) != 1; wrong != (c.holds || offWins) || len(held.notes) != len(held.ignored) {
			t.Errorf("%s: ignored %+v, notes %q", c.setting, held.ignored, held.notes)
		}

		// and once it is trusted it holds, but for an off that wins
		if _, err := w.run(t, "trust"); err != nil {
			t.Fatal(err)
		}
		held = w.held(t)
		got = held.values[c.setting]
		switch {
		case len(held.ignored) != 0 || !held.trusted:
			t.Errorf("%s: trusted, and ignored %+v", c.setting, held.ignored)
		case offWins:
			if got.v != false {
				t.Errorf("%s: an off did not win: %+v", c.setting, got)
			}
		case c.setting == "hooks":
			if n := len(got.v.([]hook)); n != len(before.v.([]hook))+strings.Count(c.project, "command") {
				t.Errorf("hooks: %+v", got)
			}
		case !strings.HasPrefix(got.source, path+":"):
			t.Errorf("%s: trusted, and it is %+v", c.setting, got)
		}
	}
	for _, s := range settings {
		if !tested[s.name] {
			t.Errorf("%s: nothing says what a project may do to it", s.name)
		}
	}
}

// A project's program counts from its root, also if the user's does not.
func TestProjectPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user(t, `{"hooks": [{"command": ["~/first"]}], "journal": {"path": "~/j"}}`)
	w.vars["HOME"] = w.home
	w.ofProject(t, `{"hooks": [{"command": ["tools/second"]}]}`)
	if _, err := w.run(t, "trust"); err != nil {
		t.Fatal(err)
	}
	c := w.held(t)
	hooks := c.values["hooks"].v.([]hook)
	if len(hooks) != 2 || hooks[0].Command[0] != filepath.Join(w.home, "first") || hooks[1].Command[0] != "tools/second" {
		t.Errorf("%+v", hooks)
	}
	if c.text("journal.path") != filepath.Join(w.home, "j") {
		t.Error(c.text("journal.path"))
	}
}

// A project's file is a file of the project.
func TestProjectFileIsARegularFile(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(w *world, file string) error{
		"a link":        func(w *world, file string) error { return os.Symlink(filepath.Join(w.home, "x"), file) },
		"a link inside": func(w *world, file string) error { return os.Symlink("../x", file) },
		"a folder":      func(w *world, file string) error { return os.Mkdir(file, 0o755) },
		"a linked folder": func(w *world, file string) error {
			return errors.Join(os.Remove(filepath.Dir(file)), os.Mkdir(filepath.Join(w.project, "y"), 0o755), os.Symlink("y", filepath.Dir(file)),
				os.WriteFile(filepath.Join(w.project, "y", "config.jsonc"), []byte("{}"), 0o644))
		},
		"too large": func(w *world, file string) error { return os.WriteFile(file, make([]byte, maxConfig+1), 0o644) },
	} {
		w := newWorld(t)
		file := filepath.Join(w.project, projectFile)
		err := errors.Join(os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(filepath.Join(w.project, "x"), []byte("{}"), 0o644), os.WriteFile(filepath.Join(w.home, "x"), []byte("{}"), 0o644))
		if err := errors.Join(err, make(w, file)); err != nil {
			t.Skip(name, err)
		}
		if _, err := w.configuration(""); code(err) != exitConfig || !strings.Contains(err.Error(), projectFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := newWorld(t)
	w.root = filepath.Join(w.project, "none")
	if _, err := w.configuration(""); err != nil {
		t.Error("a root that does not exist is for others to complain about:", err)
	}
}

// A hook that can never be asked is told.
func TestHooksThatJudgeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user(t, `{"hooks": [{"match": "Write|Edit", "command": ["x"]}, {"match": "Bash", "command": ["x"]}, {"match": "exec_.*", "command": ["x"]}, {"match": "*", "command": ["x"]}]}`)
	if notes := w.held(t).notes; len(notes) != 1 || !strings.HasPrefix(notes[0], "hooks[0] judges nothing") {
		t.Errorf("%q", notes)
	}
}

// The path of a project is chosen by whoever made the folder: it can do nothing to a
// terminal, in a note, a table or an error.
func TestPathsAreInert(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.root = filepath.Join(w.project, "a\x1b]0;b\u202ec d\\e")
	file := w.write(t, filepath.Join(w.root, projectFile), `{"hooks": [{"command": ["x"]}], "limits": {"max_sessions": 2}}`)
	text, err := w.run(t, "config")
	if err != nil {
		t.Skip("no such name on this system: ", err)
	}
	w.root = filepath.Dir(filepath.Dir(file))
	notes := strings.Join(w.held(t).notes, "")
	trust, err := w.run(t, "trust")
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, file, `{"x": 1}`)
	_, err = w.configuration("")
	if err == nil {
		t.Fatal("taken")
	}
	for _, s := range []string{text, notes, trust, err.Error()} {
		if strings.ContainsAny(s, "\x1b\u202e") || !strings.Contains(s, `a\x1b]0;b\u202ec d`) {
			t.Errorf("%q", s)
		}
	}
}

// belay config shows every setting with its value and its source, as text and as data, and
// no secret.
func TestConfigCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user(t, `{"env": {"set": {"TOKEN": "canary"}}, "model": {"base_url": "https://canary:canary@example.org/v1"}}`)
	project := w.ofProject(t, `{"limits": {"max_sessions": 3}, "hooks": [{"command": ["sh"]}]}`)
	text, err := w.run(t, "config")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := w.run(t, "config", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var data struct {
		Root     string
		Settings map[string]struct {
			Value  any
			Source string
		}
		Project string `json:"project_file"`
		Trusted bool
		Ignored map[string]string
	}
	if err := json.Unmarshal([]byte(raw), &data); err != nil || strings.Count(raw, "\n") != 1 {
		t.Fatal(err, raw)
	}
	for _, s := range settings {
		if !strings.Contains(text, s.name+" ") {
			t.Errorf("%s is not shown", s.name)
		}
		if data.Settings[s.name].Source == "" {
			t.Errorf("%s has no source", s.name)
		}
	}
	for _, want := range []string{"limits.max_sessions           3  (" + project + ":1)", "not trusted", "ignored in it", "TOKEN", "example.org", "off: there is no endpoint"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text+raw, "canary") {
		t.Errorf("a secret is shown:\n%s%s", text, raw)
	}
	if data.Settings["limits.max_sessions"].Value != 3.0 || data.Trusted || data.Project != project || data.Ignored["hooks"] != project+":1" || data.Root != w.project {
		t.Errorf("%+v", data)
	}
	w.user(t, `{"x": 1}`)
	if _, err := w.run(t, "config"); code(err) != exitConfig {
		t.Error(err)
	}
}

// docs/config.md shows the settings in force. The part between the markers is written by
// `go test ./internal/cli -run TestConfigPage -update`, the rest by people.
func TestConfigPage(t *testing.T) {
	t.Parallel()
	const page = "../../docs/config.md"
	was, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(was), "<!-- settings -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- end -->\n")
	if !ok || !ok2 {
		t.Fatal("the markers are gone from", page)
	}
	var b strings.Builder
	b.WriteString("| setting | takes | built in | a project may | |\n| --- | --- | --- | --- | --- |\n")
	for _, s := range settings {
		builtin := "`" + oneValue(s.builtin) + "`"
		if s.name == "env.allow" { // is not the same on every system
			builtin = "see below"
		}
		doc := s.doc
		if s.env != nil {
			doc += "; variable `" + s.env.name + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.name, s.kind.words(), builtin, s.tighten.words, doc)
	}
	b.WriteString("\n`env.allow` holds PATH HOME USER LOGNAME SHELL LANG LANGUAGE LC_* TERM TMPDIR TZ; on Windows SYSTEMROOT WINDIR COMSPEC PATHEXT TEMP TMP USERPROFILE APPDATA LOCALAPPDATA PATH.\n")
	is := before + "<!-- settings -->\n" + b.String() + "<!-- end -->\n" + after
	switch {
	case is == string(was):
	case *update:
		if err := os.WriteFile(page, []byte(is), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not show the settings in force; run go test ./internal/cli -run TestConfigPage -update", page)
	}
	for name := range maps.Keys(map[string]bool{"BELAY_HOME": true, "BELAY_OFFLINE": true, "DO_NOT_TRACK": true}) {
		if !strings.Contains(is, name) {
			t.Errorf("%s is not in %s", name, page)
		}
	}
}

// Whatever stands in a file, it is taken or refused with its path, and never taken without
// all of its values in range.
func FuzzConfigFile(f *testing.F) {
	for _, s := range []string{every, "", "{}", `{"protect":["[[[[[[[[[[[[[[[[[[[["]} // {{{{{{{{{{{{{{{{{{{{{{`, `{"limits":{"max_sessions":1}}`, `{"hooks":[{"match":"(","command":["x"]}]}`, "// x\n{,}", "[", `{"a":{"a":{"a":1}}}`, "\ufeff{}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		file := &configFile{path: "FILE", raw: raw}
		got, err := file.parse()
		if err != nil {
			if !strings.HasPrefix(err.Error(), "FILE:") || len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\n\x1b\x00") {
				t.Errorf("%q", err)
			}
			return
		}
		for name, v := range got {
			i := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
			if i < 0 || v.v == nil || reflect.TypeOf(v.v) != reflect.TypeOf(settings[i].builtin) {
				t.Errorf("%s: %T", name, v.v)
				continue
			}
			if k, ok := settings[i].kind.(whole); ok && (v.v.(int64) < k.min || v.v.(int64) > k.max) {
				t.Errorf("%s: %v", name, v.v)
			}
		}
	})
}

// B3: the address of the user's provider is none for the key of another that a trusted project
// chooses.
func TestAddressStaysWithItsProvider(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ project, want string }{
		{`{"model": {"provider": "anthropic", "name": "m"}}`, ""},
		{`{"model": {"provider": "anthropic", "name": "m", "base_url": "http://127.0.0.2:1"}}`, "http://127.0.0.2:1"},
		{`{"model": {"provider": "openai-chat", "name": "m"}}`, "http://127.0.0.1:1"},
		{`{"model": {"name": "m"}}`, "http://127.0.0.1:1"},
	} {
		w := newWorld(t)
		w.user(t, `{"model": {"provider": "openai-chat", "name": "local", "base_url": "http://127.0.0.1:1"}}`)
		w.ofProject(t, c.project)
		if _, err := w.run(t, "trust"); err != nil {
			t.Fatal(err)
		}
		held := w.held(t)
		got := "none"
		w.models = func(_, _, base string, _ func(string) string) (model.Provider, error) {
			got = base
			return nil, nil
		}
		if _, err := w.provider(held); err != nil || got != c.want {
			t.Errorf("%s: %q, %v", c.project, got, err)
		}
	}
}
