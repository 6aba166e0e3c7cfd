package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belayhq/belay/tool"
)

func (p *program) tools() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "tools", Short: "Print the definitions of the tools", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			suite, _, err := p.suite(c)
			if err != nil {
				return err
			}
			defer suite.Close()
			if asJSON {
				return p.printJSON(toolsJSON(suite.Definitions()))
			}
			var b strings.Builder
			for _, d := range suite.Definitions() {
				risks := make([]string, len(d.Risks))
				for i, r := range d.Risks {
					risks[i] = string(r)
				}
				if len(risks) == 0 {
					risks = []string{"none"}
				}
				fmt.Fprintf(&b, "%s\n  %s\n  effect %s, replay %s, risks %s\n  fingerprint %s\n\n",
					d.Name, d.Description, d.Effect, d.Replay, strings.Join(risks, " "), d.Fingerprint())
			}
			b.WriteString(tool.Disclaimer + "\n")
			_, err = fmt.Fprint(p.out, b.String())
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print them as JSON, with their schemas")
	return c
}

type toolJSON struct {
	tool.Definition
	Fingerprint string `json:"fingerprint"`
}

func toolsJSON(definitions []tool.Definition) any {
	list := make([]toolJSON, len(definitions))
	for i, d := range definitions {
		if d.Risks == nil {
			d.Risks = []tool.Risk{}
		}
		list[i] = toolJSON{d, d.Fingerprint()}
	}
	return struct {
		Note  string     `json:"note"`
		Tools []toolJSON `json:"tools"`
	}{tool.Disclaimer, list}
}
