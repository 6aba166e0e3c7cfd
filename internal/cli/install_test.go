package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailscale/hujson"
)

// Per client: into nothing, into a file with comments and odd forms, and again. All else
// of a file stays, byte for byte.
func TestInstall(t *testing.T) {
	t.Parallel()
	s := server{"/opt/be lay/belay", []string{"mcp"}}
	stdio := "\"belay\": {\n      \"type\": \"stdio\",\n      \"command\": \"/opt/be lay/belay\",\n      \"args\": [\"mcp\"]\n    }"
	plain := "\"belay\": {\n      \"command\": \"/opt/be lay/belay\",\n      \"args\": [\"mcp\"]\n    }"
	local := "\"belay\": {\n      \"type\": \"local\",\n      \"command\": [\"/opt/be lay/belay\", \"mcp\"],\n      \"enabled\": true\n    }"
	table := "[mcp_servers.belay]\ncommand = \"/opt/be lay/belay\"\nargs = [\"mcp\"]\n"
	for _, c := range []struct{ name, client, in, want string }{
		{"nothing", "claude-code", "", "{\n  \"mcpServers\": {\n    " + stdio + "\n  }\n}\n"},
		{"nothing", "vscode", " \n", "{\n  \"servers\": {\n    " + stdio + "\n  }\n}\n"},
		{"nothing", "zed", "", "{\n  \"context_servers\": {\n    " + plain + "\n  }\n}\n"},
		{"nothing", "opencode", "", "{\n  \"mcp\": {\n    " + local + "\n  }\n}\n"},
		{"nothing", "codex", "", table},
		{"an empty object", "gemini", "{}", "{\n  \"mcpServers\": {\n    " + plain + "\n  }\n}"},
		{"only a comment", "zed", "{\n  // none yet\n}\n", "{\n  // none yet\n\n  \"context_servers\": {\n    " + plain + "\n  }\n}\n"},
		{"comments", "vscode",
			"// mine\n{\n\t\"inputs\": [], /* x */ // y\n\t\"servers\": {\n\t\t// one\n\t\t\"a\": {\"command\": \"a\"}, // last\n\t\t// end\n\t},\n\t// over\n}\n// after",
			"// mine\n{\n\t\"inputs\": [], /* x */ // y\n\t\"servers\": {\n\t\t// one\n\t\t\"a\": {\"command\": \"a\"}, // last\n\t\t// end\n\t\t\"belay\": {\n\t\t\t\"type\": \"stdio\",\n\t\t\t\"command\": \"/opt/be lay/belay\",\n\t\t\t\"args\": [\"mcp\"]\n\t\t},\n\t},\n\t// over\n}\n// after"},
		{"no comma at the end, a comment", "zed",
			"{\n  \"theme\": \"x\" // dark\n}",
			"{\n  \"theme\": \"x\", // dark\n  \"context_servers\": {\n    " + plain + "\n  }\n}"},
		{"one line", "cursor", `{"mcpServers":{"a":{"command":"a"}},"z":1}`,
			`{"mcpServers":{"a":{"command":"a"}, "belay": {"command": "/opt/be lay/belay", "args": ["mcp"]}},"z":1}`},
		{"one line, nothing of ours", "cursor", `{"z":1e5}`, `{"z":1e5, "mcpServers": {"belay": {"command": "/opt/be lay/belay", "args": ["mcp"]}}}`},
		{"Windows", "gemini", "\xef\xbb\xbf{\r\n    \"a\": 1\r\n}\r\n",
			"\xef\xbb\xbf{\r\n    \"a\": 1,\r\n    \"mcpServers\": {\r\n        \"belay\": {\r\n            \"command\": \"/opt/be lay/belay\",\r\n            \"args\": [\"mcp\"]\r\n        }\r\n    }\r\n}\r\n"},
		{"another path, and settings of the user", "claude-code",
			"{\"mcpServers\": {\n  \"belay\": {\"type\": \"stdio\", \"command\": /* old */ \"/old\", \"args\": [\"mcp\", \"--read-only\"], \"env\": {\"A\": \"b\"}}}}",
			"{\"mcpServers\": {\n  \"belay\": {\"type\": \"stdio\", \"command\": /* old */ \"/opt/be lay/belay\", \"args\": [\"mcp\"], \"env\": {\"A\": \"b\"}}}}"},
		{"switched off", "opencode", `{"mcp": {"belay": {"type": "local", "command": ["/opt/be lay/belay", "mcp"], "enabled": false}}}`,
			`{"mcp": {"belay": {"type": "local", "command": ["/opt/be lay/belay", "mcp"], "enabled": false}}}`},
		{"a field is missing", "gemini", `{"mcpServers": {"belay": {"command": "/opt/be lay/belay", "trust": true}}}`,
			`{"mcpServers": {"belay": {"command": "/opt/be lay/belay", "trust": true, "args": ["mcp"]}}}`},
		{"there, spelled otherwise", "gemini", `{"mcpServers":{"belay":{"args":["mcp",],/**/"command":"\u002fopt\/be lay/belay"}}}`,
			`{"mcpServers":{"belay":{"args":["mcp",],/**/"command":"\u002fopt\/be lay/belay"}}}`},
		{"other tables", "codex", "model = \"x\" # [mcp_servers.belay]\n\n[mcp_servers.other]\ncommand = '''\n[mcp_servers.belay]\n'''\n[profiles.a]", "model = \"x\" # [mcp_servers.belay]\n\n[mcp_servers.other]\ncommand = '''\n[mcp_servers.belay]\n'''\n[profiles.a]\n\n" + table},
		{"another path, and settings of the user", "codex",
			"[ mcp_servers . \"belay\" ] # mine\ncommand='/old' # here\nargs = [ # two\n  \"mcp\", \"--read-only\" ]\r\nstartup_timeout_sec = 5\n[mcp_servers.belay.env]\nargs = \"x\"\n",
			"[ mcp_servers . \"belay\" ] # mine\ncommand=\"/opt/be lay/belay\" # here\nargs = [\"mcp\"]\r\nstartup_timeout_sec = 5\n[mcp_servers.belay.env]\nargs = \"x\"\n"},
		{"there, spelled otherwise", "codex", "[mcp_servers.belay]\nargs=[\n 'mcp', # x\n]\ncommand='/opt/be lay/belay'", "[mcp_servers.belay]\nargs=[\n 'mcp', # x\n]\ncommand='/opt/be lay/belay'"},
		{"fields are missing", "codex", "[mcp_servers.belay]\nenabled = false\n[x]\n", "[mcp_servers.belay]\ncommand = \"/opt/be lay/belay\"\nargs = [\"mcp\"]\nenabled = false\n[x]\n"},
		{"no line end", "codex", "[mcp_servers.belay]", "[mcp_servers.belay]\ncommand = \"/opt/be lay/belay\"\nargs = [\"mcp\"]"},
		{"Windows", "codex", "a = 1\r\n", "a = 1\r\n\r\n" + strings.ReplaceAll(table, "\n", "\r\n")},
	} {
		t.Run(c.client+": "+c.name, func(t *testing.T) {
			t.Parallel()
			got, err := clients[c.client].edit([]byte(c.in), s)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			again, err := clients[c.client].edit(bytes.Clone(got), s)
			if err != nil || string(again) != string(got) {
				t.Errorf("the second time changed it (%v):\n%s", err, again)
			}
		})
	}
	for name, c := range map[string]struct{ client, in string }{
		"no JSON":           {"zed", `{"a":}`},
		"half a file":       {"gemini", `{"a": {`},
		"a list":            {"zed", `[]`},
		"servers: a list":   {"cursor", `{"mcpServers": []}`},
		"entry: a text":     {"cursor", `{"mcpServers": {"belay": "x"}}`},
		"servers twice":     {"cursor", `{"mcpServers": {}, "mcpServers": {}}`},
		"entry twice":       {"cursor", `{"mcpServers": {"belay": {}, "belay": {}}}`},
		"by url":            {"cursor", `{"mcpServers": {"belay": {"url": "http://127.0.0.1:1/mcp"}}}`},
		"TOML: by url":      {"codex", "[mcp_servers.belay]\nurl = \"x\"\n"},
		"TOML: on one line": {"codex", "mcp_servers = { belay = { command = \"x\" } }\n"},
		"TOML: dotted":      {"codex", "mcp_servers.belay.command = \"x\"\n"},
		"TOML: half dotted": {"codex", "[mcp_servers]\nbelay.command = \"x\"\n"},
		"TOML: inline":      {"codex", "[mcp_servers]\nbelay = { command = \"x\" }\n"},
		"TOML: twice":       {"codex", "[mcp_servers.belay]\n[mcp_servers.belay]\n"},
		"TOML: a list":      {"codex", "[[mcp_servers.belay]]\n"},
		"TOML: open string": {"codex", "a = \"x\n"},
		"TOML: open list":   {"codex", "a = [\n1,\n"},
		"TOML: no TOML":     {"codex", "{}"},
	} {
		if got, err := clients[c.client].edit([]byte(c.in), s); err == nil {
			t.Errorf("%s: became %s", name, got)
		}
	}
}

// What an edit adds is all that it changes, whatever the file: without the new text the
// old one is left, and the client reads what was meant.
func FuzzInstallKeepsTheRest(f *testing.F) {
	for _, seed := range []string{"{}", "{/**/}", "{\n}", `{"mcpServers":{}}`, "{\"a\":1,\n}", "{\"mcpServers\":{\"a\":{}\n,//x\n}}", `{"a":{},"mcpServers":{"b":1,}}`, "//\n{\"x\":\n1}"} {
		f.Add([]byte(seed))
	}
	s := server{"/x", []string{"mcp"}}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 10_000 || bytes.Contains(in, []byte("belay")) {
			return
		}
		out, err := clients["gemini"].edit(bytes.Clone(in), s)
		if err != nil {
			return
		}
		standard, err := hujson.Standardize(append(bytes.Clone(bytes.TrimPrefix(out, []byte("\xef\xbb\xbf"))), '\n'))
		if err != nil {
			t.Fatalf("%q became %q, which is no JSON: %v", in, out, err)
		}
		var is struct {
			MCPServers map[string]any `json:"mcpServers"`
		}
		if json.Unmarshal(standard, &is) == nil {
			if belay, _ := is.MCPServers["belay"].(map[string]any); belay["command"] != "/x" {
				t.Errorf("%q became %q", in, out)
			}
		}
		if len(bytes.TrimSpace(bytes.TrimPrefix(in, []byte("\xef\xbb\xbf")))) == 0 {
			return
		}
		at := 0 // the old text, in order
		for _, b := range out {
			if at < len(in) && in[at] == b {
				at++
			}
		}
		if at < len(in) {
			t.Errorf("%q lost something: %q", in, out)
		}
		again, err := clients["gemini"].edit(bytes.Clone(out), s)
		if err != nil || !bytes.Equal(again, out) {
			t.Errorf("the second time (%v): %q became %q", err, out, again)
		}
	})
}

// The same for TOML. Where the file had no table of ours, all that it had stays in front.
func FuzzInstallKeepsTheRestOfTOML(f *testing.F) {
	for _, seed := range []string{"", "a = 1", "[x]\r\na = [\n'b', # c\n]\r\n", "a = \"\"\"\n[mcp_servers.belay]\n\"\"\"\n", "[mcp_servers.belay]\nargs=[]\n[x]", "[mcp_servers.belay]\ncommand = 'x' # y\n"} {
		f.Add([]byte(seed))
	}
	s := server{"/x", []string{"mcp"}}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 10_000 {
			return
		}
		out, err := inTOML(bytes.Clone(in), s)
		if err != nil {
			return
		}
		is, err := scanTOML(out)
		if err != nil || is.table < 0 {
			t.Fatalf("%q became %q: %v", in, out, err)
		}
		for _, e := range []entry{{"command", `"/x"`}, {"args", `["mcp"]`}} {
			if at, ok := is.values[e.key]; !ok || !tomlSame(out[at.from:at.to], e.value) {
				t.Errorf("%q became %q", in, out)
			}
		}
		if was, err := scanTOML(in); err == nil && was.table < 0 && !bytes.HasPrefix(out, in) {
			t.Errorf("%q lost something: %q", in, out)
		}
		if again, err := inTOML(bytes.Clone(out), s); err != nil || !bytes.Equal(again, out) {
			t.Errorf("the second time (%v): %q became %q", err, out, again)
		}
	})
}

// On disk: a dry run changes nothing, a write keeps the mode and follows the user's link,
// and a file that changed meanwhile is left alone.
func TestInstallOnDisk(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	var out bytes.Buffer
	p := &program{out: &out, err: &out, root: ".", getenv: func(name string) string {
		if name == "HOME" {
			return home
		}
		return ""
	}}
	run := func(args ...string) string {
		t.Helper()
		out.Reset()
		c := p.install()
		c.SetArgs(args)
		c.SilenceErrors, c.SilenceUsage = true, true
		if err := c.ExecuteContext(t.Context()); err != nil {
			return err.Error()
		}
		return out.String()
	}
	kept := filepath.Join(home, "dotfiles", "settings.json")
	link := filepath.Join(home, ".gemini", "settings.json")
	for _, dir := range []string{kept, link} {
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(kept, []byte("{\n  \"a\": 1 // \x1b[31m tab\t\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kept, link); err != nil {
		t.Skip(err)
	}
	before, _ := os.ReadFile(kept)
	said := run("gemini")
	if after, _ := os.ReadFile(kept); string(after) != string(before) || !strings.Contains(said, "+    \"belay\": {") || !strings.Contains(said, "Nothing was changed") || strings.Contains(said, "\x1b") {
		t.Errorf("dry run: %q\n%s", said, after)
	}
	said = run("gemini", "--write")
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	info, err = os.Stat(kept)
	if after, _ := os.ReadFile(kept); err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(string(after), "\"belay\": {") || !strings.Contains(said, "has belay now") {
		t.Errorf("written: %q %v\n%s", said, info.Mode(), after)
	}
	if said = run("gemini", "--write"); !strings.Contains(said, "already") {
		t.Errorf("again: %q", said)
	}
	if said = run("codex", "--write"); !strings.Contains(said, "has belay now") {
		t.Errorf("a new file: %q", said)
	}
	if text, err := os.ReadFile(filepath.Join(home, ".codex", "config.toml")); err != nil || !strings.HasPrefix(string(text), "[mcp_servers.belay]\ncommand = \"/") {
		t.Errorf("%v: %s", err, text)
	}
	project := t.TempDir()
	p.root = project
	for name := range clients {
		if said = run(name, "--project", "--write"); !strings.Contains(said, "has belay now") {
			t.Errorf("%s, project: %q", name, said)
		}
		text, err := os.ReadFile(filepath.Join(project, filepath.FromSlash(clients[name].project[0])))
		if err != nil || !strings.Contains(string(text), `"belay"`) || strings.Contains(string(text), project) {
			t.Errorf("%s, project: %v %s", name, err, text)
		}
	}
	if err := commitClientFile(t.Context(), t.TempDir(), kept, before, []byte("{}"), true); err == nil {
		t.Error("a file that changed meanwhile was overwritten")
	}
	if err := commitClientFile(t.Context(), t.TempDir(), kept, nil, []byte("{}"), false); err == nil {
		t.Error("a file that came meanwhile was overwritten")
	}
	if said = run("emacs"); !strings.Contains(said, "claude-code, codex") {
		t.Errorf("unknown: %q", said)
	}
	if err := os.WriteFile(kept, []byte("{,}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said = run("gemini", "--write"); !strings.Contains(said, "is no JSON; it was not changed") {
		t.Errorf("broken: %q", said)
	}
}
