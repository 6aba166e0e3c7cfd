package cli

import (
	"github.com/spf13/cobra"

	"github.com/belayhq/belay/internal/face/mcp"
)

func (p *program) mcp() *cobra.Command {
	return &cobra.Command{
		Use: "mcp", Short: "Serve the tools to an MCP client on standard input and output", Args: noArgs,
		Long: "Serve the tools over MCP on standard input and output, which carry protocol only.\n" +
			"At the end of the input, and on SIGINT, SIGTERM and SIGHUP, the server and all that it started end.",
		RunE: func(c *cobra.Command, _ []string) error {
			p.warnOnce()
			suite, _, err := p.suite(c)
			if err != nil {
				return err
			}
			err = mcp.Serve(c.Context(), suite, mcp.Config{Version: version}, p.in, p.out)
			if closeErr := suite.Close(); err == nil {
				err = closeErr
			}
			return err
		},
	}
}
