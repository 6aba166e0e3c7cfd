package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/termtext"
	"github.com/belayhq/belay/tool"
)

// maxCall bounds the arguments read from standard input, as a request over MCP is
// bounded.
const maxCall = 8 << 20

func (p *program) call() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "call TOOL [JSON|-]",
		Short: "Make one tool call and print its result",
		Long: "Make one tool call. The arguments are a JSON object, or - to read it from standard input.\n" +
			"Prints the text that a model would see. What the call started is ended when it returns.\n\n" +
			"Exits with 0 for any result (also of a command that failed), 5 if the call was refused,\n" +
			"6 if its outcome is uncertain, 1 if it failed.",
		Example: `  belay call read '{"path":"go.mod"}'
  belay call shell '{"argv":["go","test","./..."]}'
  belay call --json exec_command '{"cmd":"echo hi; exit 3"}'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usage("call takes the name of a tool and its arguments as JSON")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			raw := "{}"
			if len(args) == 2 {
				raw = args[1]
			}
			if raw == "-" {
				in, err := io.ReadAll(io.LimitReader(p.in, maxCall+1))
				if err != nil {
					return fmt.Errorf("reading the arguments: %w", err)
				}
				if len(in) > maxCall {
					return usage("the arguments are over %d bytes", maxCall)
				}
				raw = string(in)
			}
			return p.oneCall(c, tool.Call{ID: "call", Name: args[0], Args: json.RawMessage(raw)}, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, `print {"result": …} or {"error": …}`)
	return c
}

func (p *program) oneCall(c *cobra.Command, call tool.Call, asJSON bool) error {
	p.warnOnce()
	suite, _, err := p.suite(c)
	if err != nil {
		return err
	}
	// A signal is no cancellation, which gives what runs two seconds: it ends the program.
	p.hurriedBy(suite.Hurry)
	defer context.AfterFunc(c.Context(), func() { suite.Close() })()
	result, callErr := suite.Call(c.Context(), coding.Caller{Asker: p.asker(), Notify: p.notify}, call)
	running := suite.Running()
	closeErr := suite.Close() // before anything is printed: its processes end when it returns

	var e *tool.Error
	switch errors.As(callErr, &e); {
	case asJSON && e != nil:
		err = p.printJSON(map[string]any{"error": e})
	case asJSON:
		err = p.printJSON(map[string]any{"result": result.Data})
	case e != nil:
		_, err = fmt.Fprintln(p.err, e.Message())
	default:
		_, err = fmt.Fprintln(p.out, p.forScreen(result.Text))
	}
	if call.Name == "exec_command" && len(running) > 0 {
		fmt.Fprintln(p.err, "belay: the command was still running after yield_time_ms, and was ended: call keeps nothing.\n"+
			"Use shell with timeout_ms, or the MCP server.")
	}
	switch {
	case e != nil:
		return &exit{code: exitOf(e)}
	case err != nil:
		return err
	}
	return closeErr
}

// forScreen is a text as it is printed: as it is for a pipe, and without what would act
// on a terminal for one, since the content of a file is anybody's.
func (p *program) forScreen(text string) string {
	if !isTerminal(p.out) {
		return text
	}
	return string(termtext.Clean([]byte(text)))
}

// isTerminal tells whether a stream is a terminal, or another device of characters.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// notify shows a text on the terminal of the program and nowhere else: a model that
// reads what belay prints must not see it.
//
// It does not wait for a question that stands.
func (p *program) notify(text string) {
	done := useConsole()
	go func() {
		defer done()
		oneConsole.Lock()
		defer oneConsole.Unlock()
		c, err := openConsole()
		if err != nil {
			return
		}
		defer c.close()
		_ = c.write("belay: " + termtext.Escape(text) + "\r\n")
	}()
}

// printJSON writes one line of JSON, without the escapes that are meant for HTML.
func (p *program) printJSON(v any) error {
	enc := json.NewEncoder(p.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
