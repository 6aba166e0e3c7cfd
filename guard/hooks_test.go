//go:build !windows

package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belayhq/belay/internal/proc"
	"github.com/belayhq/belay/tool"
)

func reasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return 0
}

// GU-01, G2: exit code 2 denies every kind of call, with standard error as the reason,
// whatever is on standard output.
func TestExitTwoDenies(t *testing.T) {
	t.Parallel()
	p := &Program{External: script(t, `cat >/dev/null; printf '\033[31mno-41\033[0m\n' >&2; echo '{"junk'; exit 2`)}
	for _, a := range []tool.Action{
		run, {Tool: "shell", Argv: []string{"touch", "RAN"}}, {Tool: "replace", Input: map[string]string{"path": "RAN3"}},
	} {
		v, err := p.Check(context.Background(), a)
		if err != nil || v.Decision != Deny || v.Reason != "no-41" || v.Unavailable {
			t.Errorf("%s: %+v, %v", a.Tool, v, err)
		}
	}
}

// GU-02, G3: a guard that crashes, is missing or cannot be run blocks where it is set to
// block, tells which of these it was, and is visibly unavailable where it is not.
func TestAGuardThatCannotDecide(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, c := range []struct {
		name string
		argv []string
		want Reason
		says string
	}{
		{"exit 1", []string{file("a", "#!/bin/sh\nexit 1\n", 0o755)}, Exited, "exit code 1"},
		{"exit 2 is no answer of dcg", []string{file("a2", "#!/bin/sh\nexit 2\n", 0o755)}, Exited, "exit code 2"},
		{"exit 127", []string{file("b", "#!/bin/sh\nexit 127\n", 0o755)}, Exited, "exit code 127"},
		{"a crash", []string{file("c", "#!/bin/sh\nkill -SEGV $$\n", 0o755)}, Signaled, "signal SEGV"},
		{"no such path", []string{filepath.Join(dir, "none")}, Missing, "does not exist"},
		{"no such name", []string{"belay-test-no-such-guard"}, Missing, "does not exist"},
		{"no program", []string{file("e", "#!/bin/sh\nexit 0\n", 0o644)}, 0, ""},
		{"a folder", []string{dir}, NotExecutable, "no program"},
		{"a script that is missing", []string{"sh", filepath.Join(dir, "none.sh")}, Exited, "exit code"},
		{"no interpreter", []string{file("g", "#!/nonexistent/sh\nexit 0\n", 0o755)}, Interpreter, "interpreter"},
		{"junk", []string{"echo", "no JSON"}, BadAnswer, "none of its protocol"},
		{"half of an answer", []string{"printf", `{"hookSpecificOutput":{"permissionDecision":"allow"}`}, BadAnswer, "protocol"},
		{"an object without a decision", []string{"echo", `{"systemMessage":"hi"}`}, BadAnswer, "protocol"},
		{"two answers", []string{"echo", `{"decision":"allow"}{"decision":"block"}`}, BadAnswer, "protocol"},
		{"an unknown decision", []string{"echo", `{"hookSpecificOutput":{"permissionDecision":"maybe"}}`}, BadAnswer, "protocol"},
		{"none configured", nil, Missing, "does not exist"},
	} {
		x := external(dir, c.argv...)
		open, err := (&Command{x}).Check(context.Background(), run)
		if err != nil || open.Decision != Allow || !open.Unavailable || !strings.Contains(open.Reason, c.says) {
			t.Errorf("%s, open: %+v, %v", c.name, open, err)
		}
		x.Block = true
		v, err := (&Command{x}).Check(context.Background(), run)
		var e *Error
		if !errors.As(err, &e) || c.want != 0 && e.Reason != c.want || v != (Verdict{}) {
			t.Errorf("%s, blocking: %+v, %v", c.name, v, err)
			continue
		}
		if len(c.argv) > 0 && (!strings.Contains(e.Explain(), c.argv[0]) || strings.Contains(e.Error(), c.argv[0])) {
			t.Errorf("%s: the program is named where it should not be, or the other way round: %q, %q", c.name, e.Error(), e.Explain())
		}
	}
}

// G2: what the dcg protocol says, and a deny that is final whatever comes after it.
func TestAnswers(t *testing.T) {
	t.Parallel()
	deny := `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"}}`
	for _, c := range []struct {
		name, body       string
		command, program Decision
		reason           string
	}{
		{"no output", "", Allow, Allow, ""},
		{"blanks", "echo; echo '  '", Allow, Allow, ""},
		{"a byte-order mark", `printf '\357\273\277'`, Allow, Allow, ""},
		{"deny", "echo '" + deny + "'", Deny, Deny, "no"},
		{"deny behind a byte-order mark", `printf '\357\273\277'; echo '` + deny + "'", Deny, Deny, "no"},
		{"deny with colours on stderr", "echo noise >&2; echo '" + deny + "'", Deny, Deny, "no"},
		{"deny, then a failure", "echo '" + deny + "'; exit 1", Deny, Deny, "no"},
		{"deny, then a crash", "echo '" + deny + "'; kill -SEGV $$", Deny, Deny, "no"},
		{"ask", `echo '{"hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"sure?"}}'`, Ask, Ask, "sure?"},
		{"defer", `echo '{"hookSpecificOutput":{"permissionDecision":"defer"}}'`, Ask, Ask, ""},
		{"allow", `echo '{"hookSpecificOutput":{"permissionDecision":"allow","permissionDecisionReason":"fine"}}'`, Allow, Allow, ""},
		{"the older form", `echo '{"decision":"block","reason":"old"}'`, Deny, Deny, "old"},
		{"continue", `echo '{"continue":false,"stopReason":"halt"}'`, Deny, Deny, "halt"},
		{"strictest wins", `echo '{"decision":"approve","hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"b"}}'`, Deny, Deny, "b"},
		{"strictest wins 2", `echo '{"decision":"block","reason":"a","hookSpecificOutput":{"permissionDecision":"allow"}}'`, Deny, Deny, "a"},
		{"a change of the call (G1)", `echo '{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"command":"rm"}}}'`, Deny, Deny,
			"The guard wants this call changed, and belay changes no call."},
	} {
		x := script(t, "cat >/dev/null\n"+c.body)
		x.Block = true
		for i, h := range []Hook{&Command{x}, &Program{External: x}} {
			v, err := h.Check(context.Background(), run)
			if want := []Decision{c.command, c.program}[i]; err != nil || v.Decision != want || v.Reason != c.reason || v.Unavailable {
				t.Errorf("%s, %T: %+v, %v, want %v", c.name, h, v, err, want)
			}
		}
	}
}

// G2: hooks of others make remarks; an answer that got lost behind one is not taken
// for none, and a name that is given twice is not taken at all.
func TestRemarksAndLostAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body string
		want Reason
	}{
		{"echo checking...", 0},
		{`echo '{"systemMessage":"hi","suppressOutput":true}'`, 0},
		{`echo checking; echo '{"decision":"block"}'`, BadAnswer},
		{`echo '{"decision":"block"'`, BadAnswer},
		{`echo '{"decision":"block","decision":"approve"}'`, BadAnswer},
		{`echo '{"hookSpecificOutput":{"permissionDecision":"deny","x":"","permissionDecision":"allow"}}'`, BadAnswer},
		{`echo '{"hookSpecificOutput":[]}'`, BadAnswer},
		{`echo '{"continue":"false"}'`, BadAnswer},
		{`echo '{"decision":["block"]}'`, BadAnswer},
		{`exit 1`, Exited},
		{`exit 127`, Exited},
	} {
		x := script(t, c.body)
		x.Block = true
		v, err := (&Program{External: x}).Check(context.Background(), run)
		if reasonOf(err) != c.want || v.Decision != Allow {
			t.Errorf("%s: %+v, %v", c.body, v, err)
		}
	}
}

// GU-05: a guard that does not read its input, however long that is.
func TestInputIsNotRead(t *testing.T) {
	t.Parallel()
	big := tool.Action{Tool: "replace", Input: map[string]string{"content": strings.Repeat("x", 2_000_000)}}
	for body, want := range map[string]Decision{"exit 2": Deny, "exec 0<&-\nsleep 1\nexit 0": Allow} {
		p := &Program{External: script(t, body)}
		p.Block = true
		if v, err := p.Check(context.Background(), big); err != nil || v.Decision != want {
			t.Errorf("%s: %+v, %v", body, v, err)
		}
	}
}

// G2: input and output move at once, both larger than any pipe.
func TestInputAndOutputMoveAtOnce(t *testing.T) {
	t.Parallel()
	p := &Program{External: script(t, `cat`)} // gives the payload back, which decides nothing
	p.Block = true
	a := tool.Action{Tool: "replace", Input: map[string]string{"content": strings.Repeat("x", 400_000)}}
	if v, err := p.Check(context.Background(), a); err != nil || v.Decision != Allow {
		t.Errorf("%+v, %v", v, err)
	}
}

// GU-07: a process that the guard leaves behind with its output is neither waited for
// nor left alive.
func TestLeftBehindWithTheOutput(t *testing.T) {
	t.Parallel()
	c := &Command{script(t, `sleep 30147 & echo $! > "$(dirname "$0")/hk.pid"; exit 0`)}
	c.Block = true
	began := time.Now()
	v, err := c.Check(context.Background(), run)
	if err != nil || v.Decision != Allow {
		t.Errorf("%+v, %v", v, err)
	}
	if d := time.Since(began); d > hang/2 {
		t.Errorf("took %v", d)
	}
	if pid := pidIn(t, c.Root, "hk.pid"); alive(pid) {
		t.Error("what the guard started is alive")
	}
}

// GU-09: no shell comes near the command; blanks and signs in the path of the guard
// work; the guard sees the command byte for byte, once.
func TestNothingIsPasted(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "dir with spaces")
	file := filepath.Join(dir, "h $x.sh")
	if err := errors.Join(os.Mkdir(dir, 0o755),
		os.WriteFile(file, []byte("#!/bin/sh\ncat > \"$(dirname \"$0\")/in.json\"\nexit 0\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	line := `printf '%s' 'a"b > 3 $(touch INJ) ` + "`touch INJ`" + ` \u \\ é <&>'; true # '"' $$` + "\u2028"
	c := &Command{external(root, file)}
	c.Block = true
	work := filepath.Join(root, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Check(context.Background(), tool.Action{Tool: "exec_command", Line: line, Dir: work}); err != nil || v.Decision != Allow {
		t.Fatalf("%+v, %v", v, err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(read(t, dir, "in.json")), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": work, "tool_input": map[string]any{"command": line}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("payload %q\nwant    %q", got, want)
	}
	for _, name := range []string{"INJ", "3"} {
		for _, where := range []string{root, dir, work} {
			if _, err := os.Stat(filepath.Join(where, name)); err == nil {
				t.Errorf("%s was made in %s", name, where)
			}
		}
	}
}

// G2: the input of shell is judged with its argv; and the guard runs in the directory in
// which the command would, without the token of a client, but is found from the root.
func TestWhatAndWhereAGuardJudges(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	work := filepath.Join(root, "work")
	hook := "#!/bin/sh\ncat > \"$BELAY_PROJECT_DIR/in.json\"; pwd > \"$CLAUDE_PROJECT_DIR/pwd\"; env > \"$CLAUDE_PROJECT_DIR/env\"\n"
	if err := errors.Join(os.MkdirAll(filepath.Join(root, ".hooks"), 0o755), os.MkdirAll(filepath.Join(work, ".hooks"), 0o755),
		os.WriteFile(filepath.Join(root, ".hooks/h.sh"), []byte(hook), 0o755),
		os.WriteFile(filepath.Join(work, ".hooks/h.sh"), []byte("#!/bin/sh\necho chosen by the model > \"$BELAY_PROJECT_DIR/bad\"\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	x := external(root, ".hooks/h.sh")
	x.Env = append(x.Env, "BELAY_HTTP_TOKEN=canary", "BELAY_SESSION=mine", "CLAUDE_PROJECT_DIR=/elsewhere")
	x.Block = true
	a := tool.Action{Tool: "shell", Argv: []string{"bash", "-s", "it's"}, Stdin: "echo EOF\nEOF\nrm -rf x", Dir: work}
	if v, err := (&Command{x}).Check(context.Background(), a); err != nil || v.Decision != Allow {
		t.Fatalf("%+v, %v", v, err)
	}
	var got struct {
		Input bashInput `json:"tool_input"`
	}
	if err := json.Unmarshal([]byte(read(t, root, "in.json")), &got); err != nil {
		t.Fatal(err)
	}
	if want := "bash -s 'it'\\''s' <<'EOF_'\necho EOF\nEOF\nrm -rf x\nEOF_"; got.Input.Command != want {
		t.Errorf("judged %q, want %q", got.Input.Command, want)
	}
	if fmt.Sprint(got.Input.Argv) != fmt.Sprint(a.Argv) || got.Input.Stdin != a.Stdin {
		t.Errorf("%+v", got.Input)
	}
	resolved, err := filepath.EvalSymlinks(work)
	if err != nil {
		t.Fatal(err)
	}
	if pwd := strings.TrimSpace(read(t, root, "pwd")); pwd != work && pwd != resolved {
		t.Errorf("started in %s", pwd)
	}
	env := read(t, root, "env")
	if strings.Contains(env, "canary") || strings.Contains(env, "BELAY_SESSION=mine") || !strings.Contains(env, "DCG_NO_SELF_HEAL=1") {
		t.Errorf("environment:\n%s", env)
	}
	if _, err := os.Stat(filepath.Join(root, "bad")); err == nil {
		t.Error("the program was looked for in the directory that the call chose")
	}
}

// G2: a line for another kind of shell is judged as what it is.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a    tool.Action
		want string
	}{
		{tool.Action{Line: "a | b"}, "a | b"},
		{tool.Action{Line: "a | b", Shell: "zsh"}, "a | b"},
		{tool.Action{Line: "a | b", Shell: "/bin/bash"}, "a | b"},
		{tool.Action{Line: "a | b", Shell: `C:\x\PowerShell.exe`}, "a | b"},
		{tool.Action{Line: "import os", Shell: "python3"}, "python3 -c 'import os'"},
		{tool.Action{Line: "a | b", Shell: "./bash"}, "./bash -c 'a | b'"},
		{tool.Action{Argv: []string{"cat"}, Stdin: "x\n"}, "cat <<'EOF'\nx\nEOF"},
		{tool.Action{Tool: "read", Stdin: "x"}, ""},
	} {
		if got := CommandLine(c.a); got != c.want {
			t.Errorf("%+v: %q, want %q", c.a, got, c.want)
		}
	}
}

// G2: a Command judges starts only; a Program what it matches, under both names.
func TestCoverage(t *testing.T) {
	t.Parallel()
	x := script(t, `exit 2`)
	c := &Command{x}
	c.Block = true
	for _, name := range []string{"read", "replace", "edit", "write_stdin", "exec_kill"} {
		if v, err := c.Check(context.Background(), tool.Action{Tool: name}); err != nil || v.Decision != Allow || c.Covers(name) {
			t.Errorf("a Command judged %s: %+v, %v", name, v, err)
		}
	}
	for _, m := range []struct {
		pattern string
		yes, no []string
	}{
		{"", []string{"shell", "read", "write_stdin"}, nil},
		{"*", []string{"shell", "read"}, nil},
		{"Bash", []string{"shell", "exec_command"}, []string{"read", "bash", "write_stdin"}},
		{"shell", []string{"shell"}, []string{"exec_command"}},
		{"exec_.*", []string{"exec_command", "exec_kill"}, []string{"shell"}},
		{"replace|edit", []string{"replace", "edit"}, []string{"shell", "editor", "replaced"}},
		{"Ba", nil, []string{"shell"}},
		{"Write", nil, []string{"replace", "write_stdin"}},
	} {
		match, err := ParseMatch(m.pattern)
		if err != nil {
			t.Fatal(err)
		}
		p := &Program{External: x, Match: match}
		for _, name := range m.yes {
			if v, err := p.Check(context.Background(), tool.Action{Tool: name}); !p.Covers(name) || err != nil || v.Decision != Deny {
				t.Errorf("%q does not match %s: %+v, %v", m.pattern, name, v, err)
			}
		}
		for _, name := range m.no {
			if v, err := p.Check(context.Background(), tool.Action{Tool: name}); p.Covers(name) || err != nil || v.Decision != Allow {
				t.Errorf("%q matches %s: %+v, %v", m.pattern, name, v, err)
			}
		}
	}
	if _, err := ParseMatch("("); err == nil {
		t.Error("a broken pattern was taken")
	}
}

// G2: bounded in time; the whole session is ended at the bound.
func TestTimeIsBounded(t *testing.T) {
	t.Parallel()
	x := script(t, `trap '' TERM; sleep 30148 & echo $! > "$(dirname "$0")/a.pid"; echo $$ > "$(dirname "$0")/b.pid"; while :; do sleep 1; done`)
	x.Timeout = 300 * time.Millisecond
	x.Block = true
	_, err := (&Command{x}).Check(context.Background(), run)
	if reasonOf(err) != TimedOut || !strings.Contains(err.Error(), "300 ms") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"a.pid", "b.pid"} {
		if b, err := os.ReadFile(filepath.Join(x.Root, name)); err == nil && len(b) > 0 && alive(pidIn(t, x.Root, name)) {
			t.Errorf("%s is alive", name)
		}
	}
	if d := (&External{}).timeout(); d != 5*time.Second {
		t.Error("built-in time:", d)
	}
	if d := (&External{Timeout: time.Hour}).timeout(); d != MaxTimeout {
		t.Error("longest time:", d)
	}
	// a deny that was said before the time was over is a deny, also in an open posture
	x = script(t, `echo '{"decision":"block","reason":"no"}'; exec sleep 30149`)
	x.Timeout = 2 * time.Second
	if v, err := (&Command{x}).Check(context.Background(), run); err != nil || v.Decision != Deny {
		t.Errorf("%+v, %v", v, err)
	}
}

// G2: bounded in output. Noise on standard error takes nothing from a denial.
func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	x := script(t, `exec yes`)
	x.Block = true
	for _, h := range []Hook{&Command{x}, &Program{External: x}} {
		if _, err := h.Check(context.Background(), run); reasonOf(err) != TooMuchOutput {
			t.Errorf("%T: %v", h, err)
		}
	}
	x = script(t, `head -c 524289 /dev/zero | tr '\0' ' '`) // one over, and at its end by itself
	x.Block = true
	if _, err := (&Command{x}).Check(context.Background(), run); reasonOf(err) != TooMuchOutput {
		t.Error(err)
	}
	x = script(t, `head -c 524288 /dev/zero | tr '\0' ' '`)
	x.Block = true
	if v, err := (&Command{x}).Check(context.Background(), run); err != nil || v.Decision != Allow {
		t.Errorf("%+v, %v", v, err)
	}
	p := &Program{External: script(t, `echo first >&2; head -c 3000000 /dev/zero | tr '\0' x >&2; exit 2`)}
	v, err := p.Check(context.Background(), run)
	if err != nil || v.Decision != Deny || !strings.HasPrefix(v.Reason, "first\n") || len(v.Reason) > MaxReason {
		t.Errorf("%v %d bytes, %v", v.Decision, len(v.Reason), err)
	}
}

// G3: a cancelled check always blocks, also in an open posture, and ends the guard.
func TestACancelledCheckBlocks(t *testing.T) {
	t.Parallel()
	x := script(t, `echo $$ > "$(dirname "$0")/pid"; echo '{"decision":"approve"}'; exec sleep 30150`)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { _, err := Chain{&Command{x}}.Check(ctx, run); done <- err }()
	pid := pidIn(t, x.Root, "pid")
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(hang):
		t.Fatal("hangs")
	}
	if alive(pid) {
		t.Error("the guard is alive")
	}
	// before it starts, for every kind of hook, covered or not, present or not
	for _, h := range []Hook{&Command{x}, &Program{External: x}, &Command{external(x.Root, "/none")}, Chain{always(Allow, "")}} {
		for _, a := range []tool.Action{run, {Tool: "read"}} {
			if v, err := h.Check(ctx, a); !errors.Is(err, context.Canceled) || v != (Verdict{}) {
				t.Errorf("%T: %+v, %v", h, v, err)
			}
		}
	}
	late, cancel2 := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel2()
	if _, err := (&Command{x}).Check(late, run); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// G3: of a denial the model sees an allowlist of fields, and nothing by which the user
// can override it, wherever that stands and however it is dressed.
func TestOverrideIsForTheUserOnly(t *testing.T) {
	t.Parallel()
	const code, hash = "48291", "48291fedcba9876543210"
	out := map[string]any{"hookSpecificOutput": map[string]any{
		"hookEventName": "PreToolUse", "permissionDecision": "deny",
		"permissionDecisionReason": "\x1b[31mBLOCKED\x1b[0m rm -rf. Code: 482\x1b[1m91. Run: dcg allow-once 48291 or ALLOW-ONCE: zz9",
		"ruleId":                   "core.fs:rm-rf", "packId": "core", "severity": "critical", "confidence": 0.9,
		"allowOnceCode": code, "allowOnceFullHash": hash, "somethingNew": "canary",
		"remediation": map[string]any{"safeAlternative": "rm -ri (not " + hash + ")", "explanation": "It is gone for good.",
			"allowOnceCommand": "dcg allow-once 48291"},
	}}
	raw, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	x := script(t, `cat "$(dirname "$0")/out"; echo "override with 48291" >&2`)
	if err := os.WriteFile(filepath.Join(x.Root, "out"), raw, 0o644); err != nil {
		t.Fatal(err)
	}
	exit2 := script(t, `cat "`+x.Root+`/out"; echo "override with 48291, dcg allow-once 777" >&2; exit 2`)
	for _, h := range []Hook{&Command{x}, &Program{External: x}, &Program{External: exit2}} {
		v, err := Chain{h}.Check(context.Background(), run)
		if err != nil || v.Decision != Deny {
			t.Fatalf("%+v, %v", v, err)
		}
		for _, secret := range []string{code, hash, "zz9", "777", "canary", "fedcba", "\x1b"} {
			if strings.Contains(v.Reason, secret) {
				t.Errorf("the model sees %q in %q", secret, v.Reason)
			}
		}
		if !strings.Contains(v.UserOnly, "dcg allow-once 48291") {
			t.Errorf("the user sees %q", v.UserOnly)
		}
	}
	v, _ := (&Command{x}).Check(context.Background(), run)
	for _, want := range []string{"BLOCKED rm -rf", "rule: core.fs:rm-rf critical", "why: It is gone for good.", "instead: rm -ri"} {
		if !strings.Contains(v.Reason, want) {
			t.Errorf("%q is not in %q", want, v.Reason)
		}
	}
}

// G1: a guard sees a call once, many are judged at once, and none sees another's.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	p := &Program{External: script(t, `in=$(cat); case $in in *deny-me*) echo "$in" >&2; exit 2;; esac`)}
	p.Block = true
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			line := fmt.Sprintf("echo %d", i)
			if i%2 == 0 {
				line = fmt.Sprintf("deny-me %d;", i)
			}
			v, err := p.Check(context.Background(), tool.Action{Tool: "exec_command", Line: line})
			if want := i%2 == 0; err != nil || (v.Decision == Deny) != want || want && !strings.Contains(v.Reason, line) {
				t.Errorf("%q: %+v, %v", line, v, err)
			}
		})
	}
	wg.Wait()
}

// A guard is shown what is text only: what it would see of other bytes is not what runs.
func TestNoText(t *testing.T) {
	t.Parallel()
	x := script(t, ``)
	x.Block = true
	if _, err := (&Command{x}).Check(context.Background(), tool.Action{Tool: "shell", Argv: []string{"echo", "\xff"}}); reasonOf(err) != NoText {
		t.Error(err)
	}
}

// G3: doctor sees whether a guard would be there, whatever its posture.
func TestTry(t *testing.T) {
	t.Parallel()
	x := script(t, `case $1 in --version) printf 'dcg \033[1m0.6.8\033[0m\nmore\n';; esac`)
	p := (&Command{x}).Try(context.Background())
	if p.Path != x.Argv[0] || p.Err != nil || p.Verdict.Decision != Allow {
		t.Errorf("%+v", p)
	}
	if v := x.Version(context.Background()); v != "dcg 0.6.8" {
		t.Errorf("version %q", v)
	}
	gone := external(x.Root, "/nonexistent/guard")
	if p := (&Command{gone}).Try(context.Background()); p.Path != "" || p.Err == nil || p.Err.Reason != Missing {
		t.Errorf("%+v", p)
	}
	broken := script(t, `exit 3`)
	match, _ := ParseMatch("read")
	if p := (&Program{External: broken, Match: match}).Try(context.Background()); p.Path == "" || p.Err == nil || p.Err.Reason != Exited {
		t.Errorf("%+v", p)
	}
	if gone.Version(context.Background()) != "" || broken.Version(context.Background()) != "" {
		t.Error("a version out of nothing")
	}
}

// G2: what is kept of a program's output is bounded, however much it writes.
func TestKeptOutputIsBounded(t *testing.T) {
	t.Parallel()
	o := output{full: make(chan struct{})}
	piece := make([]byte, 60_000)
	for range 40 {
		o.write(proc.Stderr, piece)
		o.write(proc.Stdout, piece)
	}
	stdout, stderr := o.take()
	if len(stdout) != maxOutput+1 || len(stderr) != maxStderr {
		t.Errorf("kept %d and %d bytes", len(stdout), len(stderr))
	}
	<-o.full
}

// BenchmarkCheck is what a guard adds to a start: mostly the start of the guard itself.
func BenchmarkCheck(b *testing.B) {
	c := &Command{external(b.TempDir(), "true")}
	c.Block = true
	for b.Loop() {
		if _, err := c.Check(context.Background(), run); err != nil {
			b.Fatal(err)
		}
	}
}
