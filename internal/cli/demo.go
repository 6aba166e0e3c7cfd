package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayhq/belay/approve"
	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/tool"
)

func (p *program) demo() *cobra.Command {
	return &cobra.Command{
		Use: "demo", Short: "Show the whole job on a fresh temporary worktree, offline", Args: noArgs,
		Long: "Make a fresh temporary worktree and do the whole job in it with real files and real\n" +
			"processes. Each step is checked: exits with 0 only if all of them held.",
		RunE: func(c *cobra.Command, _ []string) error {
			p.warnOnce()
			return p.runDemo(c.Context())
		},
	}
}

// A demo is one run: the suite on its own worktree, and what was seen so far.
type demo struct {
	*program
	ctx   context.Context
	dir   string // with the worktree in it
	suite *coding.Suite
	talk  *demoHost // of the steps that have a model, or nil
	rows  []string
	bad   int

	digest  string // of notes.txt, as last told
	session string // of the long command
	child   int    // a process that the long command started
	asker   approve.Asker
}

// A demoUser says yes to what is shown, as a person at a dialog would.
type demoUser struct{ *demo }

func (u demoUser) Ask(_ context.Context, p tool.Prompt) (bool, error) {
	fmt.Fprintf(u.out, "   ?? %s: send %d bytes: %s\n   ?? the user says: yes\n", p.Title, p.Bytes, p.Shown)
	return true, nil
}

func (p *program) runDemo(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "belay-demo-")
	if err != nil {
		return fmt.Errorf("no temporary worktree: %w", err)
	}
	defer os.RemoveAll(dir)
	root := filepath.Join(dir, "worktree")
	for name, content := range map[string]string{
		filepath.Join(root, "notes.txt"): "buy rope\ncheck anchor\n",
		filepath.Join(dir, "secret.txt"): "not for agents\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644)); err != nil {
			return err
		}
	}
	if err := os.Symlink(filepath.Join("..", "secret.txt"), filepath.Join(root, "innocent.txt")); err != nil {
		return fmt.Errorf("no link in the temporary worktree: %w", err)
	}
	suite, err := coding.New(coding.Config{Root: root, Environ: p.environ, Shell: demoShell, Keeper: keeper()})
	if err != nil {
		return err
	}
	d := &demo{program: p, ctx: ctx, dir: dir, suite: suite}
	fmt.Fprintf(p.out, "belay %s on %s\n", version, root)
	for _, step := range demoSteps {
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(p.out, "\n== %s\n", step.title)
		err := step.do(d)
		verdict := "held"
		if err != nil {
			verdict = "FAILED: " + oneLine(err)
			d.bad++
			fmt.Fprintln(p.out, "   "+verdict)
		}
		d.rows = append(d.rows, fmt.Sprintf("  %-60s %s", step.title, verdict))
	}
	if err := d.close(); err != nil {
		d.bad++
		d.rows = append(d.rows, "  "+oneLine(err))
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, err := fmt.Fprintf(p.out, "\n%s\n\n%d of %d steps held\n", strings.Join(d.rows, "\n"), len(demoSteps)-d.bad, len(demoSteps)); err != nil {
		return err
	}
	if d.bad > 0 {
		return &exit{code: exitFailed, err: fmt.Errorf("%d steps failed", d.bad)}
	}
	return nil
}

// call makes one tool call, shows it and its answer, and gives the result as data.
func (d *demo) call(name string, args map[string]any) (map[string]any, error) {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false) // it is shown
	if err := enc.Encode(args); err != nil {
		return nil, err
	}
	raw := bytes.TrimSpace(line.Bytes())
	fmt.Fprintf(d.out, "-> %s %s\n", name, raw)
	result, err := d.suite.Call(d.ctx, coding.Caller{Asker: d.asker}, tool.Call{ID: "demo", Name: name, Args: raw})
	var e *tool.Error
	text := result.Text
	if errors.As(err, &e) {
		text = e.Message()
	}
	for line := range strings.Lines(text) {
		fmt.Fprintln(d.out, "   "+strings.TrimRight(line, "\n"))
	}
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(result.Data)
	if err != nil {
		return nil, err
	}
	var data map[string]any
	return data, json.Unmarshal(out, &data)
}

// refused makes a call that has to be refused with a code.
func (d *demo) refused(want tool.Code, name string, args map[string]any) (*tool.Error, error) {
	_, err := d.call(name, args)
	var e *tool.Error
	if !errors.As(err, &e) || e.Code != want || e.Kind != tool.Refused {
		return nil, fmt.Errorf("not refused with %s", want)
	}
	return e, nil
}

func (d *demo) onDisk(want string) error {
	got, err := os.ReadFile(filepath.Join(d.suite.Root(), "notes.txt"))
	if err != nil {
		return err
	}
	if string(got) != want {
		return fmt.Errorf("notes.txt is not what it should be")
	}
	return nil
}

const (
	before = "buy rope\ncheck anchor\n"
	after  = "buy rope\ncheck anchor twice\n"
	edited = "buy two ropes\ncheck anchor twice\n"
)

func sha(content string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(content))) }

func (d *demo) edit(old, new, digest string) map[string]any {
	return map[string]any{"path": "notes.txt", "expected_sha256": digest, "edits": []any{map[string]any{"old_text": old, "new_text": new}}}
}

var demoSteps = []struct {
	title string
	do    func(*demo) error
}{
	{"read a file, with the digest of the whole", func(d *demo) error {
		r, err := d.call("read", map[string]any{"path": "notes.txt"})
		if err != nil {
			return err
		}
		d.digest, _ = r["sha256"].(string)
		if r["content"] != before || len(d.digest) != 64 {
			return errors.New("the content or its digest is missing")
		}
		return nil
	}},
	{"replace it by that digest, atomically", func(d *demo) error {
		r, err := d.call("replace", map[string]any{"path": "notes.txt", "content": after, "expected_sha256": d.digest})
		if err != nil {
			return err
		}
		if r["committed"] != true || r["previous_sha256"] != d.digest {
			return errors.New("the commit was not reported")
		}
		return d.onDisk(after)
	}},
	{"edit it by exact text, with a diff", func(d *demo) error {
		e, err := d.refused(tool.NoMatch, "edit", d.edit("check  anchor", "x", sha(after)))
		if err != nil {
			return err
		}
		if !strings.Contains(e.Message(), "differs=whitespace") {
			return errors.New("it was not told how the nearest text differs")
		}
		r, err := d.call("edit", d.edit("buy rope", "buy two ropes", sha(after)))
		if err != nil {
			return err
		}
		if !strings.Contains(fmt.Sprint(r["diff"]), "+buy two ropes") || r["committed"] != true {
			return errors.New("the diff was not shown")
		}
		return d.onDisk(edited)
	}},
	{"a stale replace is refused, nothing is lost", func(d *demo) error {
		e, err := d.refused(tool.Stale, "replace", map[string]any{"path": "notes.txt", "content": "mine\n", "expected_sha256": d.digest})
		if err != nil {
			return err
		}
		if !strings.Contains(e.Message(), "current_sha256=") {
			return errors.New("the current digest was not told")
		}
		return d.onDisk(edited)
	}},
	{"a path out of the root is refused", func(d *demo) error {
		_, err := d.refused(tool.OutsideRoot, "read", map[string]any{"path": "../secret.txt"})
		return err
	}},
	{"so is a link that leads out", func(d *demo) error {
		_, err := d.refused(tool.OutsideRoot, "read", map[string]any{"path": "innocent.txt"})
		return err
	}},
	{"a failing command is a result with its exit code", func(d *demo) error {
		r, err := d.call("shell", map[string]any{"argv": demoFailing})
		if err != nil {
			return err
		}
		if r["status"] != "exited" || r["exit_code"] != float64(3) || !strings.Contains(fmt.Sprint(r["stdout"]), "out") || !strings.Contains(fmt.Sprint(r["stderr"]), "err") {
			return errors.New("not exit code 3 with both streams")
		}
		return nil
	}},
	{"a long command yields a session", func(d *demo) error {
		r, err := d.call("exec_command", map[string]any{"cmd": demoLong, "yield_time_ms": 250})
		if err != nil {
			return err
		}
		d.session, _ = r["session_id"].(string)
		if r["status"] != "running" || d.session == "" {
			return errors.New("it is not running")
		}
		return nil
	}},
	{"polling it shows what came since", func(d *demo) error {
		var seen strings.Builder
		for range 20 {
			r, err := d.call("write_stdin", map[string]any{"session_id": d.session, "yield_time_ms": 500})
			if err != nil {
				return err
			}
			fmt.Fprint(&seen, r["output"])
			if strings.Contains(seen.String(), "tick 3") {
				break
			}
		}
		log, err := d.call("exec_output", map[string]any{"session_id": d.session})
		if err != nil {
			return err
		}
		for line := range strings.Lines(fmt.Sprint(log["output"])) {
			if _, err := fmt.Sscanf(line, "child %d", &d.child); err == nil {
				break
			}
		}
		if d.child == 0 || !alive(d.child) {
			return errors.New("the child of the command was not seen alive")
		}
		if !strings.Contains(seen.String(), "tick 3") {
			return errors.New("its output did not come")
		}
		return nil
	}},
	{"input needs the user's yes: without a way to ask, refused", func(d *demo) error {
		_, err := d.refused(tool.ApprovalUnavailable, "write_stdin", map[string]any{"session_id": d.session, "chars": "y\n"})
		return err
	}},
	{"approved input reaches a program on a real terminal", func(d *demo) error {
		if demoAsking == "" {
			fmt.Fprintln(d.out, "   left out: this system has no terminal for it")
			return nil
		}
		r, err := d.call("exec_command", map[string]any{"cmd": demoAsking, "tty": true, "cols": 80, "rows": 24, "yield_time_ms": 500})
		if err != nil {
			return err
		}
		d.asker = demoUser{d}
		defer func() { d.asker = nil }()
		r, err = d.call("write_stdin", map[string]any{"session_id": r["session_id"], "chars": "Ada\n", "yield_time_ms": 10000})
		if err != nil {
			return err
		}
		if r["status"] != "exited" || !strings.Contains(fmt.Sprint(r["output"]), "hello Ada on a terminal of 24 80") {
			return errors.New("the input did not arrive")
		}
		return nil
	}},
	{"killing it ends its children too", func(d *demo) error {
		r, err := d.call("exec_kill", map[string]any{"session_id": d.session})
		if err != nil {
			return err
		}
		if r["status"] != "killed" || r["cleanup_completed"] != true {
			return errors.New("the end was not proven")
		}
		for range 50 {
			if !alive(d.child) {
				return nil
			}
			time.Sleep(20 * time.Millisecond)
		}
		return errors.New("a child is still alive")
	}},
	{"two background runs wake the model once, with both results", demoWakes},
	{"a service that ends well wakes nobody", demoDoesNotWake},
	{"a model's input is refused where nobody can be asked", demoRefuses},
	{"after a crash the journal tells what is uncertain", demoCrash},
}
