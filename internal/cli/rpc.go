package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belayhq/belay/internal/face/stream"
)

func (p *program) rpc() *cobra.Command {
	var talk talkFlags
	c := &cobra.Command{
		Use: "rpc", Short: "Serve a conversation to another program", Args: noArgs,
		Long: "Serve a conversation to another program: requests on standard input, events and responses on\n" +
			"standard output, one JSON object a line. docs/host.md has the protocol.\n\n" +
			"At the end of the input, and on SIGINT, SIGTERM and SIGHUP, the conversation is saved, and all\n" +
			"that it started is ended.",
		RunE: func(c *cobra.Command, _ []string) error {
			which, err := talk.which(c)
			if err != nil {
				return err
			}
			h, err := p.host(c)
			if err != nil {
				return err
			}
			defer h.close()
			p.warnOnce()
			if isTerminal(p.in) {
				fmt.Fprintln(p.err, "belay: waiting for requests on standard input; see docs/host.md")
			}
			config, stop := h.face(which)
			defer stop()
			err = stream.RPC(c.Context(), config, p.in, p.out)
			var refused *stream.Refusal
			if errors.As(err, &refused) {
				return &exit{exitFailed, err}
			}
			return err
		},
	}
	talk.add(c)
	return c
}
