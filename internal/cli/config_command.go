package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belayhq/belay/internal/termtext"
)

// configFlag is the value of the global flag --config.
func configFlag(c *cobra.Command) string {
	if f := c.Flag("config"); f != nil {
		return f.Value.String()
	}
	return ""
}

func (p *program) config() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "config", Short: "Show every setting, its value and where it comes from", Args: noArgs,
		Long: "Show every setting with its value and where that comes from: a flag, a variable, the project's\n" +
			"file, the user's file, or built in. A project's file can only make belay do less until\n" +
			"it is trusted: see belay trust. Values of env.set are not shown.",
		RunE: func(c *cobra.Command, _ []string) error {
			held, err := p.configuration(configFlag(c))
			if err != nil {
				return err
			}
			if asJSON {
				return p.printJSON(p.configJSON(held))
			}
			return p.printConfig(held)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as one JSON object")
	return c
}

type valueJSON struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
}

func (p *program) configJSON(c *configuration) any {
	values := make(map[string]valueJSON, len(settings))
	for _, s := range settings {
		v := c.values[s.name]
		values[s.name] = valueJSON{shown(v.v), v.source}
	}
	ignored := map[string]string{}
	for _, i := range c.ignored {
		ignored[i.name] = i.at
	}
	return struct {
		Root      string               `json:"root"`
		Settings  map[string]valueJSON `json:"settings"`
		Project   string               `json:"project_file"` // "" if there is none
		Trusted   bool                 `json:"trusted"`
		Ignored   map[string]string    `json:"ignored"` // settings of the project's file, and where they stand
		Telemetry string               `json:"telemetry"`
		Notes     []string             `json:"notes"`
	}{c.root, values, c.project, c.trusted, ignored, p.telemetryState(c), append([]string{}, c.notes...)}
}

func (p *program) printConfig(c *configuration) error {
	var b strings.Builder
	width := 0
	for _, s := range settings {
		width = max(width, len(s.name))
	}
	for _, s := range settings {
		v := c.values[s.name]
		fmt.Fprintf(&b, "%-*s  %s  (%s)\n", width, s.name, oneValue(shown(v.v)), inert(v.source))
	}
	fmt.Fprintf(&b, "\n%-*s  %s\n", width, "root", inert(c.root))
	switch {
	case c.project == "":
		fmt.Fprintf(&b, "%-*s  none\n", width, "project file")
	case c.trusted:
		fmt.Fprintf(&b, "%-*s  %s, trusted\n", width, "project file", inert(c.project))
	default:
		fmt.Fprintf(&b, "%-*s  %s, not trusted: it can only make belay do less\n", width, "project file", inert(c.project))
	}
	for _, i := range c.ignored {
		fmt.Fprintf(&b, "%-*s  %s (%s)\n", width, "ignored in it", i.name, inert(i.at))
	}
	fmt.Fprintf(&b, "%-*s  %s\n", width, "telemetry", p.telemetryState(c))
	for _, n := range c.notes {
		fmt.Fprintf(&b, "%-*s  %s\n", width, "note", n)
	}
	_, err := fmt.Fprint(p.out, b.String())
	return err
}

// oneValue is a value as it could stand in a file, on one line that hides nothing.
func oneValue(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return "?"
	}
	return termtext.Escape(strings.TrimSuffix(b.String(), "\n"))
}
