//go:build unix

package coding

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belayhq/belay/guard"
	"github.com/belayhq/belay/tool"
)

// AP-01, AP-03, G1 and G2: belay has no allow rules; a hook that has them is shown the whole
// command as it would run, whatever is hung onto an allowed beginning. The rule here is
// the strictest one that a person would write: the line, or a pipe of allowed ones.
func TestAllowRulesSeeTheWholeCommand_G1(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{
		"git status": true, "git status -s": true, "git status | cat": true,
		"cd . && git --version | head -1": true, "grep -n 'a && b; c' /dev/null; git --version": true,
	}
	var seen []string
	s, err := New(Config{Root: t.TempDir(), Shell: "/bin/sh", Hooks: []guard.Hook{hookFunc(func(a tool.Action) (guard.Verdict, error) {
		line := a.Line
		if len(a.Argv) == 3 {
			line = a.Argv[2]
		}
		seen = append(seen, line)
		if allowed[line] {
			return guard.Verdict{}, nil
		}
		return guard.Verdict{Decision: guard.Ask, Reason: "no rule allows this"}, nil
	})}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, line := range []string{
		"git status && touch P", "git status; touch P", "git status\ntouch P", "git status $(touch P)", "git status `touch P`",
		"git status <(touch P)", "git status & touch P", "git status > P", "git -c core.fsmonitor='touch P; false' status",
		"git log --output=P", "find . -maxdepth 1 -name f -exec touch P \\;", "env touch P", "git status\r\ntouch P", "git status \u2028touch P",
	} {
		for name, args := range map[string]map[string]any{
			"shell":        {"argv": []string{"bash", "-c", line}},
			"exec_command": {"cmd": line},
		} {
			seen = nil
			if _, _, e := do(t, s, name, args); e == nil || e.Code != tool.ApprovalUnavailable {
				t.Errorf("%s %q: %v", name, line, e)
			}
			if len(seen) != 1 || seen[0] != line {
				t.Errorf("%s %q: the hook was shown %q", name, line, seen)
			}
		}
	}
	if _, err := os.Lstat(filepath.Join(s.Root(), "P")); err == nil {
		t.Error("something ran")
	}
	for line := range allowed {
		if strings.Contains(line, "git") {
			if _, _, e := do(t, s, "exec_command", map[string]any{"cmd": line}); e != nil {
				t.Errorf("%q: %v", line, e)
			}
		}
	}
}
