package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/dispatch"
	"github.com/belayhq/belay/tool"
)

// serveEnv makes the test binary a server on its standard streams, for the tests
// that need a process.
const serveEnv = "BELAY_TEST_SERVE_MCP"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		signal.Ignore(syscall.SIGPIPE) // as the program does
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err := serve(ctx, newSuite(), Config{Version: "1.2.3"}, os.Stdin, os.Stdout, bounds{chance: patient.chance, windUp: inService.windUp}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// A suite is real tools of a few lines behind the real corridor.
type suite struct {
	corridor *dispatch.Corridor

	started chan string   // the ids of calls that began and wait
	release chan struct{} // ends the calls of exec_wait, which heeds nothing else, and exec_output
	onCall  func(error)   // told how each call ended; may be nil
}

func newSuite(more ...tool.Tool) *suite {
	s := &suite{started: make(chan string, 1024), release: make(chan struct{})}
	text := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)
	none := json.RawMessage(`{"type":"object"}`)
	tools := []tool.Tool{
		&fake{def("write_stdin", tool.Mutating, tool.Unsafe, text), func(_ context.Context, a *tool.Arguments, _ tool.Call) (tool.Result, error) {
			got := a.Text("text", "")
			if err := a.Err(); err != nil {
				return tool.Result{}, err
			}
			return tool.Result{Text: got, Data: map[string]any{"text": got, "n": len(got)}}, nil
		}},
		&fake{def("exec_command", tool.Mutating, tool.Unsafe, json.RawMessage(`{
			"type": "object",
			"properties": {"cmd": {"type": "string"}, "notify_on_exit": {"type": "boolean"}, "text": {"type":"string"}, "completion_mode": {"type":"string"}},
			"required": ["cmd"]}`)), func(_ context.Context, a *tool.Arguments, _ tool.Call) (tool.Result, error) {
			return tool.Result{Text: a.NeedText("cmd") + a.Text("completion_mode", "")}, a.Err()
		}},
		&fake{def("shell", tool.Mutating, tool.Unsafe, none), func(ctx context.Context, _ *tool.Arguments, call tool.Call) (tool.Result, error) {
			s.started <- call.ID
			<-ctx.Done()
			return tool.Result{}, tool.NewError(tool.UncertainOutcome).CausedBy(ctx.Err())
		}},
		&fake{def("exec_wait", tool.ReadOnly, tool.Safe, none), func(_ context.Context, _ *tool.Arguments, call tool.Call) (tool.Result, error) {
			s.started <- call.ID
			<-s.release
			return tool.Result{Text: "released"}, nil
		}},
		&fake{def("replace", tool.Mutating, tool.Idempotent, none), func(context.Context, *tool.Arguments, tool.Call) (tool.Result, error) {
			panic("secret-canary")
		}},
		&fake{def("read", tool.ReadOnly, tool.Safe, text), func(_ context.Context, a *tool.Arguments, _ tool.Call) (tool.Result, error) {
			switch a.Text("text", "") {
			case "gone":
				return tool.Result{}, tool.NewError(tool.NotFound, tool.Fact{Name: "path", Value: "a b"})
			case "panic in the data":
				return tool.Result{Text: "done", Data: badData{}}, nil
			case "no data":
				return tool.Result{Text: "<&>\u2028é"}, nil
			}
			return tool.Result{}, a.Err()
		}},
		&fake{def("exec_ack", tool.Mutating, tool.Idempotent, none), func(context.Context, *tool.Arguments, tool.Call) (tool.Result, error) {
			return tool.Result{Text: "acknowledged"}, nil
		}},
		&fake{def("exec_kill", tool.Mutating, tool.Idempotent, none), nil},
		&fake{def("exec_output", tool.ReadOnly, tool.Safe, none), func(ctx context.Context, _ *tool.Arguments, call tool.Call) (tool.Result, error) {
			s.started <- call.ID
			select {
			case <-s.release:
				return tool.Result{Text: "released"}, nil
			case <-ctx.Done():
				return tool.Result{}, tool.Stopped(ctx.Err())
			}
		}},
		&fake{def("exec_list", tool.ReadOnly, tool.Safe, none), nil},
		&fake{def("edit", tool.Mutating, tool.Idempotent, none), nil},
	}
	var err error
	if s.corridor, err = dispatch.New(append(tools, more...)...); err != nil {
		panic(err)
	}
	return s
}

func def(name string, effect tool.Effect, replay tool.Replay, schema json.RawMessage) tool.Definition {
	return tool.Definition{Name: name, Description: "Does " + strings.ReplaceAll(name, "_", " ") + " <&>.", Schema: schema, Effect: effect, Replay: replay}
}

func (s *suite) Definitions() []tool.Definition { return s.corridor.Definitions() }

func (s *suite) Call(ctx context.Context, caller coding.Caller, call tool.Call) (tool.Result, error) {
	result, err := s.corridor.Call(ctx, caller.Reporter, call)
	if s.onCall != nil {
		s.onCall(err)
	}
	return result, err
}

type badData struct{}

func (badData) MarshalJSON() ([]byte, error) { panic("secret-canary") }

type fake struct {
	definition tool.Definition
	run        func(context.Context, *tool.Arguments, tool.Call) (tool.Result, error)
}

func (f *fake) Definition() tool.Definition { return f.definition }
func (f *fake) Prepare(_ context.Context, call tool.Call) (tool.Plan, error) {
	return &plan{f, call}, nil
}

type plan struct {
	*fake
	call tool.Call
}

func (p *plan) Action() tool.Action { return tool.Action{Tool: p.call.Name} }
func (p *plan) Close()              {}
func (p *plan) Run(ctx context.Context, _ tool.Reporter) (tool.Result, error) {
	if p.run == nil {
		return tool.Result{Text: "ok"}, nil
	}
	return p.run(ctx, tool.ParseArguments(p.call.Args), p.call)
}
