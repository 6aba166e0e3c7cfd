package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/guard"
	"github.com/belayhq/belay/internal/host/model"
)

func (p *program) doctor() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "doctor", Short: "Show what is in force, and what is missing", Args: noArgs,
		Long: "Show the security warning, the limits in force, the shell, and what of it works here.\n" +
			"Exits with 1 if something that belay needs is missing.",
		RunE: func(c *cobra.Command, _ []string) error {
			suite, held, err := p.suite(c)
			if err != nil {
				return err
			}
			r := report{Report: suite.Doctor(c.Context()), Model: p.modelState(held), Conversations: p.conversationsDir()}
			r.Guard = p.tryGuards(c.Context(), held, &r.Missing)
			if err := suite.Close(); err != nil {
				return err
			}
			if asJSON {
				err = p.printJSON(r)
			} else {
				shell := r.Shell
				if shell == "" {
					shell = "none found"
				}
				pty := "available"
				if !r.PTY {
					pty = "not available: tty is refused"
				}
				kept := "end too"
				if !r.Keeper {
					kept = "live on: there is no keeper"
				}
				rows := [][2]string{
					{"root", r.Root},
					{"shell", shell},
					{"terminal", pty},
					{"if belay is killed", "what it started will " + kept},
					{"guards", r.Guard},
					{"environment", "shell: " + r.EnvShell + ", exec_command: " + r.EnvExec},
					{"protected names", strings.Join(r.Protect, " ")},
					{"temporary files", r.Temp},
					{"platform", r.Platform},
					{"version", version},
					{"model", r.Model},
					{"conversations", cmp.Or(r.Conversations, "not kept: neither HOME nor BELAY_HOME is set")},
					{"largest page", fmt.Sprint(r.Limits.MaxPageBytes, " bytes")},
					{"largest file", fmt.Sprint(r.Limits.MaxFileBytes, " bytes that is digested and replaced")},
					{"output kept", fmt.Sprint(r.Limits.MaxOutputBytes, " bytes a stream, ", r.Limits.TailBytes, " a session")},
					{"sessions", fmt.Sprint(r.Limits.MaxSessions, " running, ", r.Limits.MaxFinished, " ended")},
				}
				var b strings.Builder
				fmt.Fprintf(&b, "%s\n\n", r.Warning)
				for _, row := range rows {
					fmt.Fprintf(&b, "%-16s %s\n", row[0], row[1])
				}
				for _, m := range r.Missing {
					fmt.Fprintf(&b, "%-16s %s\n", "MISSING", strings.ReplaceAll(m, "\n", " "))
				}
				_, err = fmt.Fprint(p.out, b.String())
			}
			if err == nil && len(r.Missing) > 0 {
				return &exit{exitFailed, errors.New("something that belay needs is missing")}
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}

// A report is what doctor says: that of the tools, and what the host stands on.
type report struct {
	coding.Report
	Model         string `json:"model"`
	Conversations string `json:"conversations"` // the directory
}

// modelState says whether the model could be asked. Nothing is sent. That there is none is no
// fault: the tools work without.
func (p *program) modelState(held *configuration) string {
	m, err := p.provider(held)
	if err != nil {
		first, _, _ := strings.Cut(strings.ReplaceAll(err.Error(), "\n", " "), ". Providers")
		return "none: " + first
	}
	if c, ok := m.(model.Closer); ok {
		_ = c.Close()
	}
	return inert(held.text("model.provider") + "/" + held.text("model.name"))
}

// tryGuards lets the guard judge a harmless command and says what came of it. One that
// is configured and cannot be used is missing.
func (p *program) tryGuards(ctx context.Context, held *configuration, missing *[]string) string {
	hooks, err := held.guards(p.environ)
	if err != nil || len(hooks) == 0 {
		return "none"
	}
	var list []string
	for _, h := range hooks {
		g, ok := h.(*guard.Command)
		if !ok {
			continue
		}
		posture := "lets pass what it cannot decide"
		if g.Block {
			posture = "blocks what it cannot decide"
		}
		probe := g.Try(ctx)
		state := "answers"
		if probe.Err != nil {
			state = "does not answer"
			*missing = append(*missing, "the guard: "+probe.Err.Explain())
		}
		if v := g.Version(ctx); v != "" && probe.Err == nil {
			state += " (" + v + ")"
		}
		list = append(list, state+", "+posture)
	}
	if n := len(hooks) - len(list); n > 0 {
		list = append(list, fmt.Sprintf("hooks: %d", n))
	}
	return strings.Join(list, "; ")
}
