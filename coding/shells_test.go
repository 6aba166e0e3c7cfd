//go:build linux || darwin || freebsd

package coding

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// P1: each shell runs a line, skips its start-up files unless login is asked for,
// and then reads them; what it started is ended with it. A shell that is not here is skipped by name.
func TestShells(t *testing.T) {
	t.Parallel()
	startup := map[string]string{ // what each reads at login, from HOME
		"sh": ".profile", "bash": ".bash_profile", "dash": ".profile", "zsh": ".zprofile", "fish": ".config/fish/config.fish", "busybox": ".profile",
	}
	for shell, file := range startup {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("no %s here", shell)
			}
			home := t.TempDir()
			for _, f := range []string{file, ".bashrc", ".zshrc", ".zshenv", ".zlogin", ".profile", ".config/fish/conf.d/x.fish"} {
				f = filepath.Join(home, f)
				if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
					t.Fatal(err)
				}
				os.WriteFile(f, []byte("echo started by "+filepath.Base(f)+"\n"), 0o644)
			}
			y := newYard(t, func(c *Config) {
				c.Shell = shell
				c.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "ENV=" + filepath.Join(home, ".profile")}
			})
			const line = `echo "a  b" | tr a-z A-Z; sh -c 'exit 3'`
			y.is("a line", y.start(line), "status", "exited", "exit_code", 3, "output", "A  B\n")
			y.is("by its path", y.start(line, "shell", path), "exit_code", 3, "output", "A  B\n")
			y.is("a terminal", y.start(line, "tty", true), "exit_code", 3, "output", "A  B\n")
			a := y.start(line, "login", true)
			if y.is("login", a, "exit_code", 3); !strings.Contains(a.str("output"), "started by "+filepath.Base(file)+"\n") || !strings.HasSuffix(a.str("output"), "A  B\n") {
				t.Errorf("login: %q", a.text)
			}
			y.is("a command that is none", y.start("no-such-command-here"), "status", "exited", "exit_code", 127)
			y.is("two lines", y.start("echo one\necho two"), "output", "one\ntwo\n")
			y.is("a quote and a newline in it", y.start("printf %s 'a\n\"b'"), "output", "a\n\"b")
			a = y.start("sleep 300 &\necho hi")
			y.is("what it leaves", a, "status", "exited", "output", "hi\n")
			y.gone("after the exit")
			a = y.start("echo up; sleep 300; echo more", "yield_time_ms", 1500)
			y.is("a long one", a, "status", "running", "output", "up\n")
			y.is("killed", y.do("exec_kill", m{"session_id": a.id()}), "status", "killed", "cleanup_completed", true)
			y.gone("after the kill")
			// one argument takes 128 KiB at most on Linux; what is over is refused with the limit
			a = y.start(": " + strings.Repeat("x", 200_000))
			if a.err != nil {
				y.is("too long", a, "code", "start_failed", "kind", "refused", "reason", "argument_too_long", "program", shell, "actual", 200_002)
			} else if _, err := os.Stat("/proc/self"); err == nil {
				t.Errorf("%q", a.text)
			}
		})
	}
}
