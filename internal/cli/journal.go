package cli

import (
	"bufio"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayhq/belay/internal/journal"
	"github.com/belayhq/belay/internal/termtext"
)

func (p *program) journal() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "journal FILE", Short: "Tell what a journal says after a crash",
		Long: "Tell from a journal which calls are finished, which may be repeated safely, and which are\n" +
			"uncertain: look at what those did before doing it again. Calls of a belay that is still\n" +
			"running are told as if it ended now. Exits with 0 whenever the file could be read.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("journal takes the path of one file")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := journal.Read(args[0])
			switch {
			case err != nil:
				return fmt.Errorf("%s: %w", inert(args[0]), err)
			case asJSON:
				return p.printJSON(r)
			}
			return p.printJournal(r)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as one JSON object")
	return c
}

func (p *program) printJournal(r journal.Report) error {
	out := bufio.NewWriter(p.out)
	for _, part := range []struct {
		title string
		calls []journal.State
	}{
		{"uncertain: look at what they did before doing it again", r.Uncertain},
		{"safe to repeat", r.Repeat},
		{"finished", r.Finished},
	} {
		fmt.Fprintf(out, "%s: %d\n", part.title, len(part.calls))
		for _, s := range part.calls {
			when := s.Started
			if when == nil {
				when = s.Ended
			}
			at := "-"
			if when != nil {
				at = when.Format(time.RFC3339)
			}
			fmt.Fprintf(out, "  %s  %s/%d  %s  id=%s", at, termtext.Preview(s.Run, 32), s.N, termtext.Preview(s.Tool, 64), termtext.Escape(s.ID))
			if s.Parent != "" {
				fmt.Fprintf(out, " parent=%s", termtext.Escape(s.Parent))
			}
			fmt.Fprintf(out, "  %s", s.Phase)
			if s.Kind != "" {
				fmt.Fprintf(out, " %s", termtext.Preview(string(s.Kind), 32))
			}
			if s.Code != "" {
				fmt.Fprintf(out, " %s", termtext.Preview(string(s.Code), 64))
			}
			fmt.Fprintln(out)
		}
	}
	if r.Torn > 0 {
		fmt.Fprintf(out, "%d records were cut off by a crash; what they were about was not acknowledged\n", r.Torn)
	}
	return out.Flush()
}
