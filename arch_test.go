// Package belay_test holds the house to its plan: which package may import which
// (the floors), what may be used in one place only, and that every requirement that
// docs/security.md claims has a test that names it.
package belay_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/belayhq/belay"

// floors lists every package of the module. A package imports only lower floors, and
// on its own floor what besides allows.
var floors = [][]string{
	0: {"tool", "internal/jsontext", "internal/termtext", "internal/capture", "internal/textedit", "internal/delivery"},
	1: {"internal/worktree", "internal/proc", "internal/spool", "internal/osfile", "internal/journal"},
	2: {"internal/jobs", "guard", "approve"},
	3: {"internal/border", "internal/filetool", "internal/proctool", "internal/dispatch"},
	4: {"coding"},
	5: {"internal/host/model", "internal/host/model/openai", "internal/host/model/anthropic", "internal/host/model/scripted",
		"internal/host/transcript", "internal/host/agent", "internal/host/models"},
	6: {"internal/face/mcp", "internal/face/tui", "internal/face/stream"},
	7: {"internal/cli"},
	8: {"cmd/belay"},
}

// besides are the imports inside a floor.
var besides = map[string][]string{
	"tool":                          {"internal/jsontext"},
	"internal/journal":              {"internal/osfile"},
	"internal/filetool":             {"internal/border"},
	"internal/proctool":             {"internal/border"},
	"internal/dispatch":             {"internal/border"},
	"internal/host/model/openai":    {"internal/host/model"},
	"internal/host/model/anthropic": {"internal/host/model"},
	"internal/host/model/scripted":  {"internal/host/model"},
	"internal/host/agent":           {"internal/host/model", "internal/host/transcript"},
	"internal/host/models": {"internal/host/model", "internal/host/model/openai", "internal/host/model/anthropic",
		"internal/host/model/scripted"},
}

// onlyHere names what has one home. An import covers the packages below it; a use is
// a package and a name in it, where * is any rest of the name.
var onlyHere = []struct {
	what    string
	imports []string
	uses    []string
	homes   []string
}{
	{
		what:    "starting a process",
		imports: []string{"os/exec", "github.com/creack/pty"},
		uses: []string{"os.StartProcess", "syscall.ForkExec", "syscall.StartProcess", "syscall.Exec", "syscall.CreateProcess*",
			"golang.org/x/sys/unix.Exec", "golang.org/x/sys/windows.CreateProcess*", "golang.org/x/sys/windows.ShellExecute*"},
		homes: []string{"internal/proc"},
	},
	{
		what:    "golang.org/x/sys",
		imports: []string{"golang.org/x/sys"},
		homes:   []string{"internal/proc", "internal/worktree", "internal/spool", "internal/cli"},
	},
	{
		what:    "the terminal emulator",
		imports: []string{"github.com/charmbracelet/x/vt"},
		homes:   []string{"internal/proctool"},
	},
	{
		what:    "the UI toolkit",
		imports: []string{"charm.land"},
		homes:   []string{"internal/face/tui"},
	},
	{
		what:    "the MCP SDK",
		imports: []string{"github.com/modelcontextprotocol/go-sdk", "github.com/google/jsonschema-go"},
		homes:   []string{"internal/face/mcp"},
	},
	{
		what:    "the OpenAI SDK",
		imports: []string{"github.com/openai"},
		homes:   []string{"internal/host/model/openai"},
	},
	{
		what:    "the Anthropic SDK",
		imports: []string{"github.com/anthropics"},
		homes:   []string{"internal/host/model/anthropic"},
	},
	{
		what:    "JSON with comments",
		imports: []string{"github.com/tailscale/hujson"},
		homes:   []string{"internal/cli"},
	},
	{
		// With the usual ways to a standard stream that do not say so. In mcp a
		// stray line on stdout breaks the protocol.
		what:    "standard streams, exit and flags",
		imports: []string{"flag", "github.com/spf13/cobra", "github.com/spf13/pflag"},
		uses: []string{"os.Stdin", "os.Stdout", "os.Stderr", "os.Exit", "syscall.Stdin", "syscall.Stdout", "syscall.Stderr", "syscall.Exit",
			"fmt.Print*", "fmt.Scan", "fmt.Scanln", "fmt.Scanf", "log.Print*", "log.Fatal*", "log.Panic*", "log.Default", "log.Output", "log.Writer",
			"log/slog.Default", "log/slog.Debug*", "log/slog.Info*", "log/slog.Warn*", "log/slog.Error*", "log/slog.Log", "log/slog.LogAttrs", "log/slog.With",
			"golang.org/x/sys/unix.Exit", "golang.org/x/sys/windows.GetStdHandle", "golang.org/x/sys/windows.ExitProcess",
			"builtin.print", "builtin.println"},
		homes: []string{"internal/cli", "cmd/belay"},
	},
	{
		what:    "the network",
		imports: []string{"net/http", "net/rpc", "net/smtp"},
		uses:    []string{"net.Dial*", "net.Listen*", "net.Dialer", "net.Lookup*", "net.Resolver", "crypto/tls.Dial*", "crypto/tls.Listen"},
		homes:   []string{"internal/cli", "internal/host/model/...", "internal/face/mcp"},
	},
}

func TestFloorsAndHomes(t *testing.T) {
	t.Parallel()
	for _, c := range inspect(os.DirFS(".")) {
		t.Error(c)
	}
}

func TestClaimsHaveTests(t *testing.T) {
	t.Parallel()
	for _, c := range claims(os.DirFS(".")) {
		t.Error(c)
	}
}

// goFiles calls f for each Go file of the module with its parsed syntax, whatever
// platform it is for. Nested modules, testdata and hidden folders are not the
// module's.
func goFiles(fsys fs.FS, f func(name string, set *token.FileSet, file *ast.File)) (complaints []string) {
	err := fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if name == "." {
				return nil
			}
			base := e.Name()
			if base[0] == '.' || base[0] == '_' || base == "testdata" || base == "vendor" || base == "node_modules" {
				return fs.SkipDir
			}
			if _, err := fs.Stat(fsys, name+"/go.mod"); err == nil {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, src, parser.ParseComments)
		if err != nil {
			return err
		}
		f(name, set, file)
		return nil
	})
	if err != nil {
		complaints = append(complaints, err.Error())
	}
	return complaints
}

// inspect checks the files that are no tests.
func inspect(fsys fs.FS) (complaints []string) {
	floor := map[string]int{}
	for n, pkgs := range floors {
		for _, p := range pkgs {
			floor[p] = n
		}
	}
	seen := false
	failed := goFiles(fsys, func(name string, set *token.FileSet, file *ast.File) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		seen = true
		pkg := path.Dir(name)
		complain := func(pos token.Pos, format string, args ...any) {
			complaints = append(complaints, fmt.Sprintf("%s:%d: ", name, set.Position(pos).Line)+fmt.Sprintf(format, args...))
		}
		own, listed := floor[pkg]
		if !listed {
			complain(file.Package, "package %s is on no floor", pkg)
			return
		}
		names := map[string]string{} // local name of an import to its path
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			local := path.Base(imported)
			if spec.Name != nil {
				local = spec.Name.Name
			}
			if local == "." {
				complain(spec.Pos(), "a dot import of %s hides what is used from it", imported)
			}
			if imported == "C" {
				complain(spec.Pos(), "cgo: the binary is built without")
			}
			names[local] = imported
			if sub, ok := strings.CutPrefix(imported, module+"/"); ok {
				its, listed := floor[sub]
				switch {
				case !listed:
					complain(spec.Pos(), "imports %s, which is on no floor", sub)
				case its > own || its == own && !slices.Contains(besides[pkg], sub):
					complain(spec.Pos(), "floor %d must not import %s (floor %d)", own, sub, its)
				}
				continue
			}
			known := !strings.Contains(strings.Split(imported, "/")[0], ".")
			for _, r := range onlyHere {
				for _, i := range r.imports {
					if imported != i && !strings.HasPrefix(imported, i+"/") {
						continue
					}
					known = true
					if !isHome(r.homes, pkg) {
						complain(spec.Pos(), "import of %s (%s) is only for %s", imported, r.what, strings.Join(r.homes, ", "))
					}
				}
			}
			if !known {
				complain(spec.Pos(), "dependency %s has no home in onlyHere", imported)
			}
		}
		use := func(pos token.Pos, used string) {
			for _, r := range onlyHere {
				for _, u := range r.uses {
					prefix, open := strings.CutSuffix(u, "*")
					if (used == u || open && strings.HasPrefix(used, prefix)) && !isHome(r.homes, pkg) {
						complain(pos, "use of %s (%s) is only for %s", used, r.what, strings.Join(r.homes, ", "))
					}
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				// An identifier with an Obj is a variable that has the name of a
				// package.
				if x, ok := n.X.(*ast.Ident); ok && x.Obj == nil && names[x.Name] != "" {
					use(n.Pos(), names[x.Name]+"."+n.Sel.Name)
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && f.Obj == nil {
					use(n.Pos(), "builtin."+f.Name)
				}
			}
			return true
		})
	})
	if complaints = append(failed, complaints...); !seen && len(complaints) == 0 {
		complaints = append(complaints, "no Go files found")
	}
	return complaints
}

func isHome(homes []string, pkg string) bool {
	return slices.ContainsFunc(homes, func(h string) bool {
		below, all := strings.CutSuffix(h, "/...")
		return pkg == below || all && strings.HasPrefix(pkg, below+"/")
	})
}

// claimsFile has tables with rows | ID | control | tests |. Tests are package.TestName,
// separated by commas; package is the folder or the end of its path. A test of scripts
// can be narrowed to one of them: package.TestName/script. The word docs alone stands
// for a boundary that is documented and not enforced.
const claimsFile = "docs/security.md"

var (
	idCell   = regexp.MustCompile(`^[A-Z][0-9]{1,2}$`)
	testCell = regexp.MustCompile(`^(.+)\.((?:Test|Fuzz)\w*)(?:/([\w.-]+))?$`)
)

// claims checks every row of claimsFile: the tests exist, and each names the ID in its
// own name or in a comment on it or in it (or in its script).
func claims(fsys fs.FS) (complaints []string) {
	doc, err := fs.ReadFile(fsys, claimsFile)
	if err != nil {
		return []string{err.Error()}
	}
	type fn struct{ name, comments string }
	tests := map[string][]fn{} // by folder
	complaints = goFiles(fsys, func(name string, _ *token.FileSet, file *ast.File) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil {
				continue
			}
			var text strings.Builder
			if f.Doc != nil {
				text.WriteString(f.Doc.Text())
			}
			for _, c := range file.Comments {
				if c.Pos() > f.Pos() && c.End() < f.End() {
					text.WriteString("\n" + c.Text())
				}
			}
			tests[path.Dir(name)] = append(tests[path.Dir(name)], fn{f.Name.Name, text.String()})
		}
	})
	rows := map[string]bool{}
	for i, line := range strings.Split(string(doc), "\n") {
		complain := func(format string, args ...any) {
			complaints = append(complaints, fmt.Sprintf("%s:%d: ", claimsFile, i+1)+fmt.Sprintf(format, args...))
		}
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00"), "|")
		id := strings.Trim(cells[0], " `*")
		if !idCell.MatchString(id) {
			continue
		}
		if rows[id] {
			complain("%s has a second row", id)
		}
		rows[id] = true
		if len(cells) != 3 || strings.TrimSpace(cells[1]) == "" {
			complain("%s: a row is | ID | control | tests |", id)
			continue
		}
		claimed := strings.Split(strings.ReplaceAll(cells[2], "`", ""), ",")
		for _, test := range claimed {
			test = strings.TrimSpace(test)
			if test == "docs" {
				if id[0] != 'B' && id[0] != 'R' || len(claimed) != 1 {
					complain("%s: docs alone is for boundaries (B) and reporting (R)", id)
				}
				continue
			}
			m := testCell.FindStringSubmatch(test)
			if m == nil {
				complain("%s: %q is not package.TestName", id, test)
				continue
			}
			found, names := false, false
			for _, dir := range slices.Sorted(maps.Keys(tests)) {
				if dir != m[1] && !strings.HasSuffix(dir, "/"+m[1]) && (dir != "." || m[1] != path.Base(module)) {
					continue
				}
				for _, f := range tests[dir] {
					if f.name == m[2] {
						found = true
						names = names || namesID(id, f.name, f.comments+"\n"+script(fsys, dir, m[3]))
					}
				}
			}
			switch {
			case !found:
				complain("%s: there is no test %s", id, test)
			case !names:
				complain("%s: %s does not name it, neither in its name nor in a comment", id, test)
			}
		}
	}
	if len(rows) == 0 {
		complaints = append(complaints, claimsFile+": no row claims anything")
	}
	return complaints
}

// namesID looks for the ID as a word of its own in the comments, or as a part of a
// Go name: TestF1Escapes and TestReadF1, but neither TestUTF8 nor TestF12.
func namesID(id, name, comments string) bool {
	return regexp.MustCompile(`(^|[a-z0-9_])`+id+`([^0-9]|$)`).MatchString(name) ||
		regexp.MustCompile(`(^|[^A-Za-z0-9])`+id+`([^A-Za-z0-9]|$)`).MatchString(comments)
}

// script is the text of the script of that name in the folder's testdata, or "".
func script(fsys fs.FS, dir, name string) (text string) {
	if name == "" {
		return ""
	}
	fs.WalkDir(fsys, path.Join(dir, "testdata"), func(p string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && (e.Name() == name || strings.TrimSuffix(e.Name(), path.Ext(p)) == name) {
			if b, err := fs.ReadFile(fsys, p); err == nil {
				text = string(b)
			}
		}
		return nil
	})
	return text
}

// tree is a made-up module: file names and contents.
func tree(files map[string]string) fs.FS {
	m := fstest.MapFS{}
	for name, src := range files {
		m[name] = &fstest.MapFile{Data: []byte(src)}
	}
	return m
}

// Each rule of inspect is broken once, and must say so; and what is allowed must
// pass.
func TestInspectCanFail(t *testing.T) {
	t.Parallel()
	const here = `"` + module + `/`
	cases := []struct {
		name, file, src string
		want            string // part of the one complaint; "" for none
	}{
		{"upward", "internal/jobs/x.go", "package jobs\nimport _ " + here + `coding"`, "floor 2 must not import coding (floor 4)"},
		{"downward", "internal/jobs/x.go", "package jobs\nimport _ " + here + `internal/proc"`, ""},
		{"sideways", "internal/jobs/x.go", "package jobs\nimport _ " + here + `guard"`, "floor 2 must not import guard (floor 2)"},
		{"faces", "internal/face/mcp/x.go", "package mcp\nimport _ " + here + `internal/face/tui"`, "must not import internal/face/tui"},
		{"agent and model", "internal/host/agent/x.go", "package agent\nimport _ " + here + `internal/host/model"`, ""},
		{"agent and a vendor", "internal/host/agent/x.go", "package agent\nimport _ " + here + `internal/host/model/openai"`, "must not import internal/host/model/openai"},
		{"model and agent", "internal/host/model/x.go", "package model\nimport _ " + here + `internal/host/agent"`, "must not import internal/host/agent"},
		{"unlisted package", "internal/util/x.go", "package util", "package internal/util is on no floor"},
		{"unlisted import", "internal/cli/x.go", "package cli\nimport _ " + here + `internal/util"`, "imports internal/util, which is on no floor"},
		{"other platform", "internal/jobs/x_windows.go", "//go:build windows\n\npackage jobs\nimport _ " + here + `internal/cli"`, "must not import internal/cli"},
		{"build tag", "internal/jobs/x.go", "//go:build never\n\npackage jobs\nimport _ \"os/exec\"", "import of os/exec"},
		{"test file", "internal/jobs/x_test.go", "package jobs\nimport _ \"os/exec\"", "no Go files found"},
		{"os/exec", "guard/x.go", "package guard\nimport \"os/exec\"\nvar _ exec.Cmd", "import of os/exec (starting a process) is only for internal/proc"},
		{"os/exec at home", "internal/proc/x.go", "package proc\nimport _ \"os/exec\"", ""},
		{"pty", "internal/proctool/x.go", "package proctool\nimport _ \"github.com/creack/pty\"", "import of github.com/creack/pty"},
		{"StartProcess", "coding/x.go", "package coding\nimport \"os\"\nvar _ = os.StartProcess", "use of os.StartProcess"},
		{"StartProcess by alias", "coding/x.go", "package coding\nimport sys \"os\"\nvar _ = sys.StartProcess", "use of os.StartProcess"},
		{"ForkExec", "internal/jobs/x_linux.go", "package jobs\nimport \"syscall\"\nfunc f() { syscall.ForkExec(\"\", nil, nil) }", "use of syscall.ForkExec"},
		{"CreateProcessAsUser", "internal/cli/x_windows.go", "package cli\nimport \"golang.org/x/sys/windows\"\nvar _ = windows.CreateProcessAsUser", "use of golang.org/x/sys/windows.CreateProcessAsUser"},
		{"x/sys", "internal/journal/x.go", "package journal\nimport _ \"golang.org/x/sys/unix\"", "import of golang.org/x/sys/unix"},
		{"x/sys at home", "internal/spool/x.go", "package spool\nimport _ \"golang.org/x/sys/windows\"", ""},
		{"emulator", "internal/termtext/x.go", "package termtext\nimport _ \"github.com/charmbracelet/x/vt\"", "import of github.com/charmbracelet/x/vt"},
		{"toolkit", "internal/cli/x.go", "package cli\nimport _ \"charm.land/bubbletea/v2\"", "import of charm.land/bubbletea/v2"},
		{"MCP SDK", "internal/cli/x.go", "package cli\nimport _ \"github.com/modelcontextprotocol/go-sdk/mcp\"", "import of github.com/modelcontextprotocol/go-sdk/mcp"},
		{"model SDK", "internal/host/model/anthropic/x.go", "package anthropic\nimport _ \"github.com/openai/openai-go/v3\"", "import of github.com/openai/openai-go/v3"},
		{"model SDK 2", "internal/host/agent/x.go", "package agent\nimport _ \"github.com/anthropics/anthropic-sdk-go\"", "import of github.com/anthropics/anthropic-sdk-go"},
		{"new dependency", "internal/cli/x.go", "package cli\nimport _ \"example.org/left-pad\"", "dependency example.org/left-pad has no home"},
		{"Stdout", "internal/face/mcp/x.go", "package mcp\nimport \"os\"\nvar w = os.Stdout", "use of os.Stdout"},
		{"Stdin", "internal/face/stream/x.go", "package stream\nimport \"os\"\nfunc f() any { return struct{ r *os.File }{os.Stdin} }", "use of os.Stdin"},
		{"Stderr", "guard/x.go", "package guard\nimport \"os\"\nvar w = os.Stderr", "use of os.Stderr"},
		{"Exit", "coding/x.go", "package coding\nimport \"os\"\nfunc f() { os.Exit(1) }", "use of os.Exit"},
		{"streams at home", "internal/cli/x.go", "package cli\nimport \"os\"\nvar w = os.Stdout", ""},
		{"Println", "internal/jobs/x.go", "package jobs\nimport \"fmt\"\nfunc f() { fmt.Println() }", "use of fmt.Println"},
		{"Fprintln", "internal/jobs/x.go", "package jobs\nimport \"fmt\"\nfunc f() { fmt.Fprintln(nil); fmt.Sscan(\"\") }", ""},
		{"println", "internal/jobs/x.go", "package jobs\nfunc f() { println() }", "use of builtin.println"},
		{"own print", "internal/jobs/x.go", "package jobs\nfunc print(...any) {}\nfunc f() { print() }", ""},
		{"log", "internal/jobs/x.go", "package jobs\nimport \"log\"\nfunc f() { log.Fatalf(\"\") }", "use of log.Fatalf"},
		{"slog", "internal/jobs/x.go", "package jobs\nimport \"log/slog\"\nfunc f() { slog.Info(\"\") }", "use of log/slog.Info"},
		{"own logger", "internal/jobs/x.go", "package jobs\nimport \"log/slog\"\nfunc f(l *slog.Logger) { l.Info(\"\") }", ""},
		{"variable named os", "internal/jobs/x.go", "package jobs\nimport \"os\"\nvar _ = os.Getpid\nfunc f(os struct{ Stdout int }) { _ = os.Stdout }", ""},
		{"flag", "internal/jobs/x.go", "package jobs\nimport _ \"flag\"", "import of flag"},
		{"cobra", "coding/x.go", "package coding\nimport _ \"github.com/spf13/cobra\"", "import of github.com/spf13/cobra"},
		{"http", "guard/x.go", "package guard\nimport _ \"net/http\"", "import of net/http"},
		{"http below", "coding/x.go", "package coding\nimport _ \"net/http/pprof\"", "import of net/http/pprof"},
		{"http in a model", "internal/host/model/openai/x.go", "package openai\nimport _ \"net/http\"", ""},
		{"http in the agent", "internal/host/agent/x.go", "package agent\nimport _ \"net/http\"", "import of net/http"},
		{"dial", "internal/jobs/x.go", "package jobs\nimport \"net\"\nvar _ = net.DialTimeout", "use of net.DialTimeout"},
		{"addresses", "internal/jobs/x.go", "package jobs\nimport (\"net\"; \"net/url\")\nvar _ net.IP\nvar _ url.URL", ""},
		{"dot import", "internal/jobs/x.go", "package jobs\nimport . \"os\"\nvar w = Stdout", "a dot import of os"},
		{"cgo", "internal/proc/x.go", "package proc\nimport \"C\"", "cgo"},
		{"syntax", "internal/proc/x.go", "package", "expected 'IDENT'"},
		{"nested module", "tools/x.go", "package tools", "package tools is on no floor"},
	}
	for _, c := range cases {
		got := inspect(tree(map[string]string{c.file: c.src}))
		switch {
		case c.want == "" && len(got) != 0:
			t.Errorf("%s: %q", c.name, got)
		case c.want != "" && (len(got) == 0 || !strings.Contains(got[0], c.want)):
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := inspect(tree(map[string]string{"tools/go.mod": "", "tools/x.go": "package tools", "internal/x/testdata/x.go": "package", ".x/x.go": "package",
		"tool/x.go": "package tool"})); len(got) != 0 {
		t.Errorf("not of the module: %q", got)
	}
}

// Every rule needs a home that exists, or it forbids by a misspelling.
func TestHomesAreOnFloors(t *testing.T) {
	t.Parallel()
	all := slices.Concat(floors...)
	if s := slices.Sorted(slices.Values(all)); len(slices.Compact(s)) != len(all) {
		t.Error("a package is on two floors")
	}
	for _, r := range onlyHere {
		for _, h := range r.homes {
			if !slices.Contains(all, strings.TrimSuffix(h, "/...")) {
				t.Errorf("%s: home %s is on no floor", r.what, h)
			}
		}
	}
	for from, tos := range besides {
		for _, p := range append(tos, from) {
			if !slices.Contains(all, p) {
				t.Errorf("besides: %s is on no floor", p)
			}
		}
	}
}

func TestClaimsCanFail(t *testing.T) {
	t.Parallel()
	const head = "# Controls\n\n| ID | control | tests |\n| --- | --- | --- |\n"
	tests := map[string]string{
		"internal/worktree/a_test.go": "package worktree\nimport \"testing\"\n// F2: bounded.\nfunc TestBounded(t *testing.T) {}\nfunc TestF1Escapes(t *testing.T) {}\n" +
			"func TestInside(t *testing.T) {\n\t// proves F5, too\n}\nfunc TestUTF8(t *testing.T) {}\nfunc helper() {}\n// nothing\nfunc FuzzF9(f *testing.F) {}\n",
		"internal/face/mcp/b_windows_test.go":  "package mcp\nimport \"testing\"\nfunc TestC7(t *testing.T) {}\n",
		"cmd/belay/script_test.go":             "package main\nimport \"testing\"\nfunc TestScript(t *testing.T) {}\n",
		"cmd/belay/testdata/script/call.txtar": "# C7: named\nexec belay\n",
		"arch_test.go":                         "package belay_test\nimport \"testing\"\n// C1\nfunc TestHouse(t *testing.T) {}\n",
	}
	for _, c := range []struct{ name, rows, want string }{
		{"good", "| F1 | os.Root | worktree.TestF1Escapes |\n| `F2` | pages | `internal/worktree.TestBounded` |\n| F5 | rename | worktree.TestInside |\n" +
			"| F9 | edit | worktree.FuzzF9 |\n| C7 | strict | mcp.TestC7, cmd/belay.TestScript/call, face/mcp.TestC7 |\n| B1 | said | docs |\n| C1 | a \\| b | belay.TestHouse |", ""},
		{"no such test", "| F1 | x | worktree.TestGone |", "F1: there is no test worktree.TestGone"},
		{"no such package", "| F1 | x | nowhere.TestF1Escapes |", "there is no test nowhere.TestF1Escapes"},
		{"half a package name", "| F1 | x | tree.TestF1Escapes |", "there is no test tree.TestF1Escapes"},
		{"not named", "| F2 | x | worktree.TestF1Escapes |", "worktree.TestF1Escapes does not name it"},
		{"UTF8 is not F8", "| F8 | x | worktree.TestUTF8 |", "does not name it"},
		{"one of two", "| F1 | x | worktree.TestF1Escapes, worktree.TestBounded |", "worktree.TestBounded does not name it"},
		{"not in the script", "| C2 | x | cmd/belay.TestScript/call |", "does not name it"},
		{"no such script", "| C7 | x | cmd/belay.TestScript/gone |", "does not name it"},
		{"no test", "| F1 | x | |", `F1: "" is not package.TestName`},
		{"a helper", "| F1 | x | worktree.helper |", "is not package.TestName"},
		{"docs for a control", "| F1 | x | docs |", "docs alone is for boundaries"},
		{"docs and a test", "| B1 | x | docs, worktree.TestF1Escapes |", "docs alone is for boundaries"},
		{"twice", "| B1 | x | docs |\n| B1 | x | docs |", "B1 has a second row"},
		{"no control", "| B1 | | docs |", "a row is"},
		{"two cells", "| B1 | docs |", "a row is"},
		{"empty", "", "no row claims anything"},
	} {
		files := maps.Clone(tests)
		files[claimsFile] = head + c.rows + "\n"
		got := claims(tree(files))
		switch {
		case c.want == "" && len(got) != 0:
			t.Errorf("%s: %q", c.name, got)
		case c.want != "" && (len(got) == 0 || !strings.Contains(got[0], c.want)):
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := claims(tree(tests)); len(got) == 0 {
		t.Error("a missing file claims nothing, and that is no complaint")
	}
}
