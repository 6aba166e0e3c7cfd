package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belayhq/belay/internal/termtext"
	"github.com/belayhq/belay/internal/textedit"
	"github.com/belayhq/belay/internal/worktree"
)

// A client is a program whose configuration names MCP servers.
type client struct {
	title string
	// user and project are where its file is: of the user, and of one project. More than
	// one name means the first that is there, or else the first.
	user    func(p *program) []string
	project []string
	// edit puts a server into the text of the file, or leaves it as it is.
	edit func(text []byte, s server) ([]byte, error)
	// workspace is how the client writes the folder that it has open, where it starts
	// servers elsewhere.
	workspace string
}

// A server is how belay is started.
type server struct {
	Command string
	Args    []string
}

var clients = map[string]client{
	"claude-code": {
		title: "Claude Code", project: []string{".mcp.json"}, user: home(".claude.json"),
		edit: inJSON("mcpServers", func(s server) any { return stdioServer{"stdio", s.Command, s.Args} }),
	},
	"codex": {
		title: "Codex", project: []string{".codex/config.toml"}, edit: inTOML,
		user: func(p *program) []string {
			if dir := p.getenv("CODEX_HOME"); dir != "" {
				return []string{filepath.Join(dir, "config.toml")}
			}
			return home(".codex/config.toml")(p)
		},
	},
	"cursor": {
		title: "Cursor", project: []string{".cursor/mcp.json"}, user: home(".cursor/mcp.json"), workspace: "${workspaceFolder}",
		edit: inJSON("mcpServers", func(s server) any { return plainServer(s) }),
	},
	"vscode": {
		title: "VS Code", project: []string{".vscode/mcp.json"}, user: func(p *program) []string { return p.appData("Code", "User", "mcp.json") },
		workspace: "${workspaceFolder}",
		edit:      inJSON("servers", func(s server) any { return stdioServer{"stdio", s.Command, s.Args} }),
	},
	"zed": {
		title: "Zed", project: []string{".zed/settings.json"}, user: func(p *program) []string { return p.zedSettings() },
		edit: inJSON("context_servers", func(s server) any { return plainServer(s) }),
	},
	"gemini": {
		title: "Gemini CLI", project: []string{".gemini/settings.json"}, user: home(".gemini/settings.json"),
		edit: inJSON("mcpServers", func(s server) any { return plainServer(s) }),
	},
	"opencode": {
		title: "opencode", project: []string{"opencode.json", "opencode.jsonc"},
		user: func(p *program) []string {
			dir := p.getenv("XDG_CONFIG_HOME")
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(p.home(), ".config")
			}
			return []string{filepath.Join(dir, "opencode", "opencode.json"), filepath.Join(dir, "opencode", "opencode.jsonc")}
		},
		edit: inJSON("mcp", func(s server) any {
			return localServer{"local", append([]string{s.Command}, s.Args...), true}
		}),
	},
}

// The forms in which the clients want a server. The order of the fields is that of the
// clients' own documentation.
type (
	plainServer struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	stdioServer struct {
		Type    string   `json:"type"`
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	localServer struct {
		Type    string   `json:"type"`
		Command []string `json:"command"`
		Enabled bool     `json:"enabled"`
	}
)

// serverName is the name of belay's entry.
const serverName = "belay"

func (p *program) home() string {
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if dir := p.getenv(name); filepath.IsAbs(dir) {
			return dir
		}
	}
	return ""
}

func home(name string) func(*program) []string {
	return func(p *program) []string { return []string{filepath.Join(p.home(), filepath.FromSlash(name))} }
}

func (p *program) install() *cobra.Command {
	var write, project bool
	names := slices.Sorted(maps.Keys(clients))
	c := &cobra.Command{
		Use: "install CLIENT", Short: "Add belay to the configuration of an MCP client",
		Long: "Print the change that adds belay to the configuration of a client: " + strings.Join(names, ", ") + ".\n" +
			"With --write it is made; all else in the file stays as it is, byte for byte. Without --root the\n" +
			"server works on the folder that the client has open.",
		Example:   "  belay install claude-code\n  belay install codex --write\n  belay install vscode --project --write",
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("install takes one client: %s", strings.Join(names, ", "))
			}
			if _, ok := clients[args[0]]; !ok {
				return usage("there is no client %q; known: %s", args[0], strings.Join(names, ", "))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			to := clients[args[0]]
			s, err := p.asServer(c.Flags().Changed("root"), project, to)
			if err != nil {
				return err
			}
			file, err := p.clientFile(to, project)
			if err != nil {
				return err
			}
			return p.installIn(c.Context(), to, file, s, write)
		},
	}
	c.Flags().BoolVar(&write, "write", false, "make the change")
	c.Flags().BoolVar(&project, "project", false, "in the file of the project, the root or the current folder, and not in that of the user")
	return c
}

// asServer is how a client starts this program. In a project's file, which others read
// too, it is the name: where the program is differs between machines.
func (p *program) asServer(rooted, project bool, to client) (server, error) {
	s := server{Command: serverName, Args: []string{"mcp"}}
	if !project {
		exe, err := os.Executable()
		if err != nil {
			return s, errors.New("it is not known where this program is")
		}
		s.Command = exe
	}
	switch {
	case rooted && !project:
		root, err := filepath.Abs(p.root)
		if err != nil {
			return s, errors.New("--root has no absolute path")
		}
		s.Args = append(s.Args, "--root", root)
	case to.workspace != "":
		s.Args = append(s.Args, "--root", to.workspace)
	}
	return s, nil
}

// clientFile is the file, with links resolved: a file that is kept elsewhere is changed
// there.
func (p *program) clientFile(to client, project bool) (string, error) {
	var names []string
	if project {
		for _, name := range to.project {
			names = append(names, filepath.Join(p.root, filepath.FromSlash(name)))
		}
	} else {
		names = to.user(p)
	}
	if len(names) == 0 || !project && !filepath.IsAbs(names[0]) {
		return "", &exit{exitConfig, errors.New("the home directory is not known; see --project")}
	}
	file := names[0]
	for _, name := range slices.Backward(names) {
		if _, err := os.Lstat(name); err == nil {
			file = name
		}
	}
	if resolved, err := filepath.EvalSymlinks(file); err == nil {
		file = resolved
	}
	return filepath.Abs(file)
}

// maxClientFile bounds a configuration, in bytes. That of Claude Code has some megabytes
// after a year.
const maxClientFile = 32 << 20

func (p *program) installIn(ctx context.Context, to client, file string, s server, write bool) error {
	old, there, err := readClientFile(file)
	if err != nil {
		return &exit{exitConfig, fmt.Errorf("%s %w", file, err)}
	}
	text, err := to.edit(old, s)
	if err != nil {
		return &exit{exitConfig, fmt.Errorf("%s %w; it was not changed", file, err)}
	}
	if string(text) == string(old) && there {
		_, err = fmt.Fprintf(p.out, "%s has belay already: %s\n", to.title, file)
		return err
	}
	if !write {
		diff, omitted := textedit.Diff(filepath.ToSlash(file), old, text, 64<<10)
		if omitted > 0 {
			diff += fmt.Sprintf("(%d bytes more)\n", omitted)
		}
		_, err = fmt.Fprintf(p.out, "%s\nNothing was changed. With --write it is.\n", termtext.Clean([]byte(diff)))
		return err
	}
	if err := commitClientFile(ctx, p.lockDir(), file, old, text, there); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "%s has belay now: %s\nIt takes effect when %s starts again.\n", to.title, file, to.title)
	return err
}

func readClientFile(file string) (text []byte, there bool, err error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, errors.New("cannot be looked at")
	case !info.Mode().IsRegular():
		return nil, false, errors.New("is no regular file")
	case info.Size() > maxClientFile:
		return nil, false, errors.New("is too large")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, false, why(err)
	}
	defer f.Close()
	text, err = io.ReadAll(io.LimitReader(f, maxClientFile+1))
	if err != nil || len(text) > maxClientFile {
		return nil, false, errors.New("cannot be read")
	}
	return text, true, nil
}

// commitClientFile writes atomically, and only over what was read: clients write to their
// files as well.
func commitClientFile(ctx context.Context, lockDir, file string, old, text []byte, there bool) error {
	dir := filepath.Dir(file)
	for { // the nearest folder that is there
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			return errors.New("there is no folder for " + file)
		}
		dir = up
	}
	name, err := filepath.Rel(dir, file)
	if err != nil {
		return errors.New("cannot write " + file)
	}
	tree, err := worktree.Open(dir, worktree.Options{LockDir: lockDir})
	if err != nil {
		return errors.New("cannot open " + dir)
	}
	defer tree.Close()
	expect := worktree.Expect{Create: true, Mkdirs: true}
	if there {
		sum := sha256.Sum256(old)
		expect = worktree.Expect{SHA256: hex.EncodeToString(sum[:])}
	}
	if _, err := tree.Commit(ctx, filepath.ToSlash(name), text, expect); err != nil {
		return fmt.Errorf("%s was not changed: %w", file, err)
	}
	return nil
}

// asJSON is a value as one line, without the escapes that are meant for HTML.
func asJSON(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // texts and lists of texts
	return strings.TrimSuffix(b.String(), "\n")
}
