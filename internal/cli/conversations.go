package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayhq/belay/internal/host/transcript"
)

// conversationsDir is where conversations are kept, or "" where the environment names no
// place.
func (p *program) conversationsDir() string {
	if dir := p.stateDir(); dir != "" {
		return filepath.Join(dir, "conversations")
	}
	return ""
}

// errNowhere is a fault of the environment.
var errNowhere = &exit{exitConfig, errors.New("there is no place for conversations: set HOME or BELAY_HOME")}

func (p *program) conversations() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "conversations", Short: "List the stored conversations", Args: noArgs,
		Long: "List the stored conversations, the last used first. They hold command lines, approved input and\n" +
			"output, in files of mode 0600: review one before you share it.",
		Example: "  belay conversations\n  belay run -r ID 'and now the tests'\n  belay conversations rm ID",
		RunE: func(*cobra.Command, []string) error {
			dir := p.conversationsDir()
			if dir == "" {
				return errNowhere
			}
			list, err := transcript.In(dir).List()
			if err != nil {
				return err
			}
			if asJSON {
				return p.printJSON(map[string]any{"conversations": append([]transcript.Info{}, list...)})
			}
			return p.printConversations(list)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print them as one JSON object")
	c.AddCommand(&cobra.Command{
		Use: "rm ID…", Short: "Remove conversations for good",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("conversations rm takes the ID of a conversation; belay conversations lists them")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir := p.conversationsDir()
			if dir == "" {
				return errNowhere
			}
			var failed error
			for _, id := range args {
				if err := transcript.In(dir).Remove(id); err != nil {
					failed = errors.Join(failed, unnamed(err, id))
				}
			}
			return failed
		},
	})
	return c
}

// unnamed says of what it is an error where the error could not: an ID that is none is not
// repeated by the transcript.
func unnamed(err error, id string) error {
	var e *transcript.Error
	if errors.As(err, &e) && e.Conversation == "" {
		return &named{e, id}
	}
	return err
}

type named struct {
	error *transcript.Error
	id    string
}

func (n *named) Error() string {
	return fmt.Sprintf("conversation %s: %s", inert(n.id), n.error.Reason)
}
func (n *named) Unwrap() error { return n.error }

func (p *program) printConversations(list []transcript.Info) error {
	if len(list) == 0 {
		fmt.Fprintln(p.err, "belay: no conversations are stored")
	}
	var b strings.Builder
	for _, i := range list {
		title := inert(i.Title)
		switch {
		case i.Damaged:
			title = "(damaged)"
		case title == "":
			title = "(nothing was said)"
		}
		fmt.Fprintf(&b, "%s  %s  %s\n    %s\n", i.ID, i.Modified.Local().Format(time.DateTime), inert(i.Root), title)
	}
	_, err := fmt.Fprint(p.out, b.String())
	return err
}
