//go:build !windows

package proctool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/belayhq/belay/tool"
)

// starts are the two tools that start something, with a command that leaves a file.
func starts(dir string) map[string]map[string]any {
	return map[string]map[string]any{
		"shell":        {"argv": []string{"sh", "-c", "touch ran; pwd"}, "workdir": dir},
		"exec_command": {"cmd": "touch ran; pwd", "workdir": dir},
	}
}

func ran(t *testing.T, dirs ...string) {
	t.Helper()
	for _, d := range dirs {
		if _, err := os.Stat(filepath.Join(d, "ran")); err == nil {
			t.Errorf("something ran in %s", filepath.Base(d))
		}
	}
}

// S1, SH-37: the working directory is checked again right before the start: what took its
// place between the approval and the start is not entered.
func TestWorkdirIsCheckedAgainAtTheStart(t *testing.T) {
	t.Parallel()
	for name, swap := range map[string]func(dir, out string) error{
		"link to the outside": func(dir, out string) error { return errors.Join(os.Rename(dir, dir+".old"), os.Symlink(out, dir)) },
		"link to itself": func(dir, out string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Symlink(dir+".old", dir))
		},
		"another directory": func(dir, out string) error { return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o755)) },
		"gone":              func(dir, out string) error { return os.Remove(dir) },
		"a file":            func(dir, out string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o755)) },
		"parent is a link": func(dir, out string) error {
			up := filepath.Dir(dir)
			return errors.Join(os.Rename(up, up+".old"), os.Symlink(up+".old", up))
		},
	} {
		for toolName, args := range starts("up/dir") {
			t.Run(toolName+"/"+name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, nil)
				out := t.TempDir()
				dir := filepath.Join(b.root, "up", "dir")
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				plan, e := b.prepare(toolName, args)
				if e != nil {
					t.Fatal(e.Message())
				}
				if err := swap(dir, out); err != nil {
					t.Fatal(err)
				}
				_, err := plan.Run(context.Background(), func(string) {})
				if err == nil {
					t.Fatal("it ran")
				}
				if e := b.contract(err); e.Code != tool.Workdir || e.Kind != tool.Refused || factsOf(e)["path"] != "up/dir" || factsOf(e)["reason"] == "" {
					t.Errorf("%s", e.Message())
				}
				ran(t, dir, dir+".old", out, filepath.Join(b.root, "up.old", "dir"))
			})
		}
	}
}

// S1: a directory that leads out, over a link or not, is refused before anything starts.
func TestWorkdirStaysInside(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	out := t.TempDir()
	for link, to := range map[string]string{"out": out, "in": "dir", "dir/up": ".."} {
		os.MkdirAll(filepath.Join(b.root, "dir"), 0o755)
		if err := os.Symlink(to, filepath.Join(b.root, link)); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(b.root, "file"), nil, 0o644)
	for _, c := range []struct {
		dir    string
		code   tool.Code
		reason string
	}{
		{"..", tool.OutsideRoot, ""}, {"dir/../..", tool.OutsideRoot, ""}, {out, tool.OutsideRoot, ""}, {"/", tool.OutsideRoot, ""},
		{"out", tool.Workdir, "link"}, {"in", tool.Workdir, "link"}, {"dir/up/dir", tool.Workdir, "link"}, {"out/x", tool.Workdir, "link"},
		{"none", tool.Workdir, "missing"}, {"file", tool.Workdir, "not_directory"}, {"file/x", tool.Workdir, "not_directory"},
	} {
		for name, args := range starts(c.dir) {
			_, e := b.prepare(name, args)
			if e == nil || e.Code != c.code || factsOf(e)["path"] != c.dir || factsOf(e)["reason"] != c.reason && c.reason != "" {
				t.Errorf("%s in %s: %v", name, c.dir, e)
			}
		}
	}
	inside := filepath.Join(b.root, "dir")
	for dir, want := range map[string]string{".": b.root, "dir": inside, "./dir/": inside, inside: inside, b.root: b.root} {
		for name, args := range starts(dir) {
			plan, e := b.prepare(name, args)
			if e != nil {
				t.Errorf("%s in %s: %s", name, dir, e.Message())
				continue
			}
			if got := plan.Action().Dir; got != want {
				t.Errorf("%s in %s: %s", name, dir, got)
			}
			r, err := plan.Run(context.Background(), func(string) {})
			if err != nil || !strings.HasSuffix(strings.TrimSpace(r.Text), want) {
				t.Errorf("%s in %s: %q, %v", name, dir, r.Text, err)
			}
		}
	}
}

// S1, P1: a call that is cancelled before the start is cancelled, and nothing ran.
func TestCancelledBeforeTheStart(t *testing.T) {
	t.Parallel()
	for name, args := range starts(".") {
		b := newBench(t, nil)
		plan, e := b.prepare(name, args)
		if e != nil {
			t.Fatal(e.Message())
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := plan.Run(ctx, func(string) {})
		if err == nil {
			t.Fatal("it ran")
		}
		if e := b.contract(err); e.Code != tool.Cancelled || e.Kind != tool.Refused || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %s", name, e.Message())
		}
		if ran(t, b.root); len(b.table.Jobs()) != 0 {
			t.Error("a session is left")
		}
	}
}

// G1: what a guard is shown is what runs, and changing the copy changes nothing.
func TestActionIsACopy(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	plan, e := b.prepare("shell", map[string]any{"argv": []string{"echo", "yes"}, "stdin": "in"})
	if e != nil {
		t.Fatal(e.Message())
	}
	a := plan.Action()
	if !slices.Equal(a.Argv, []string{"echo", "yes"}) || a.Stdin != "in" || a.Dir != b.root || a.Tool != "shell" || a.Consent != nil {
		t.Errorf("%+v", a)
	}
	a.Argv[0], a.Argv[1] = "touch", "ran"
	r, err := plan.Run(context.Background(), func(string) {})
	if err != nil || r.Data.(shellData).Stdout != "yes\n" {
		t.Errorf("%q, %v", r.Text, err)
	}
	ran(t, b.root)
	plan, e = b.prepare("exec_command", map[string]any{"cmd": "echo a"})
	if e != nil || plan.Action().Line != "echo a" || plan.Action().Dir != b.root {
		t.Error(e)
	}
}

// S7: what a child gets.
func TestEnvironmentForChildren(t *testing.T) {
	t.Parallel()
	base := []string{
		"PATH=/bin", "HOME=/h", "LC_ALL=C", "LC_X=1", "LANG=de", "TERM=xterm", "AWS_SECRET=s", "BELAY_HTTP_TOKEN=t", "MYPATH=x", "PATHX=y",
		"TWICE=a", "TWICE=b", "junk", "", "EMPTY=", "PWD=/old", "PAGER=less",
	}
	for _, c := range []struct {
		name   string
		e      Environment
		policy Policy
		tty    bool
		has    string // blank separated
		hasNot string
	}{
		{"allowlist", Environment{Allow: DefaultAllow}, Allowlist, false,
			"PATH=/bin HOME=/h LC_ALL=C LC_X=1 LANG=de BELAY=1 AI_AGENT=belay TERM=dumb NO_COLOR=1 PAGER=cat GIT_PAGER=cat GIT_TERMINAL_PROMPT=0 PWD=/w",
			"AWS_SECRET= BELAY_HTTP_TOKEN= MYPATH= PATHX= TWICE= EMPTY= junk"},
		{"inherit", Environment{}, Inherit, false, "PATH=/bin AWS_SECRET=s TWICE=b EMPTY= TERM=dumb PAGER=cat PWD=/w", "BELAY_HTTP_TOKEN= TWICE=a junk PWD=/old"},
		{"terminal", Environment{}, Inherit, true, "TERM=xterm-256color COLORTERM=truecolor PAGER=less BELAY=1", "NO_COLOR= GIT_PAGER="},
		{"set wins", Environment{Allow: []string{"PATH"}, Set: map[string]string{"PATH": "/mine", "PAGER": "most", "TERM": "vt52", "BELAY": "", "BELAY_HTTP_TOKEN": "t"}}, Allowlist, false,
			"PATH=/mine PAGER=most TERM=vt52 BELAY=", "HOME= BELAY_HTTP_TOKEN="},
		{"the token is no match for any list", Environment{Allow: []string{"*"}}, Allowlist, false, "AWS_SECRET=s", "BELAY_HTTP_TOKEN="},
		{"a beginning", Environment{Allow: []string{"PATH*"}}, Allowlist, false, "PATH=/bin PATHX=y", "MYPATH="},
	} {
		c.e.Base, c.e.Exec = base, c.policy
		c.e.prepare()
		got := c.e.forChild(c.policy, "/w", c.tty)
		for _, kv := range strings.Fields(c.has) {
			if !slices.Contains(got, kv) {
				t.Errorf("%s: no %s in %q", c.name, kv, got)
			}
		}
		for _, kv := range strings.Fields(c.hasNot) {
			if slices.ContainsFunc(got, func(g string) bool { return strings.HasPrefix(g, kv) }) {
				t.Errorf("%s: %s in %q", c.name, kv, got)
			}
		}
		names := map[string]bool{}
		for _, kv := range got {
			name, _, _ := strings.Cut(kv, "=")
			if names[name] {
				t.Errorf("%s: %s twice", c.name, name)
			}
			names[name] = true
		}
	}
}

// P1: how each shell is given a line without its start-up files, and with them.
func TestShellArgv(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ shell, plain, login string }{
		{"bash", "bash --noprofile --norc -c LINE", "bash -l -c LINE"},
		{"/usr/bin/zsh", "/usr/bin/zsh -f -c LINE", "/usr/bin/zsh -l -c LINE"},
		{"fish", "fish --no-config -c LINE", "fish -l -c LINE"},
		{"/bin/sh", "/bin/sh -c LINE", "/bin/sh -l -c LINE"},
		{"dash", "dash -c LINE", "dash -l -c LINE"},
		{"busybox", "busybox sh -c LINE", "busybox sh -l -c LINE"},
		{"nu", "nu -c LINE", "nu -l -c LINE"},
		{"pwsh", "pwsh -NoLogo -NonInteractive -NoProfile -Command LINE", "pwsh -NoLogo -NonInteractive -Command LINE"},
		{`C:\Windows\System32\cmd.exe`, `C:\Windows\System32\cmd.exe /d /s /c LINE`, `C:\Windows\System32\cmd.exe /d /s /c LINE`},
	} {
		if got := strings.Join(ShellArgv(c.shell, "LINE", false), " "); got != c.plain {
			t.Errorf("%s: %s", c.shell, got)
		}
		if got := strings.Join(ShellArgv(c.shell, "LINE", true), " "); got != c.login {
			t.Errorf("%s, login: %s", c.shell, got)
		}
	}
	// What begins like an option is a command line all the same.
	for shell, want := range map[string]string{"bash": " ", "fish": " ", "busybox": " ", "unknown": " ", "pwsh": "", "cmd.exe": ""} {
		for _, line := range []string{"-x", "+x", "--help"} {
			if argv := ShellArgv(shell, line, true); argv[len(argv)-1] != want+line {
				t.Errorf("%s %s: %q", shell, line, argv)
			}
		}
	}
	if got := UserShell([]string{"SHELL=", "X=1"}); got != DefaultShell {
		t.Error(got)
	}
	if got := UserShell([]string{"SHELL=/bin/zsh"}); got != "/bin/zsh" {
		t.Error(got)
	}
}

// P4: leftovers in a result are bounded and counted.
func TestLeftoversAreBoundedAndCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	plan, e := b.prepare("exec_command", map[string]any{"cmd": "i=0; while [ $i -lt 25 ]; do sleep 300 & i=$((i+1)); done; seq 1 20000", "max_output_tokens": 11250})
	if e != nil {
		t.Fatal(e.Message())
	}
	r, err := plan.Run(context.Background(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	d := r.Data.(sessionData)
	if d.Ended == nil || d.Ended.Count != 25 || len(d.Ended.Names) != maxNamed || !strings.Contains(r.Text, `"count":25`) {
		t.Errorf("%+v", d.Ended)
	}
	if len(r.Text) >= maxText || d.OmittedBytes == 0 {
		t.Errorf("%d bytes", len(r.Text))
	}
}
