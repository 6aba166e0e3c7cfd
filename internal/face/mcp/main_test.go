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
	"github.com/belayhq/belay/tool"
)

// serveEnv makes the test binary a server on its standard streams, for the tests
// that need a process.
const serveEnv = "BELAY_TEST_SERVE_MCP"

func TestMain(m *testing.M) {
	if conformanceMain() {
		os.Exit(0)
	}
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

// A suite is tools of a few lines.
type suite struct {
	silent
	tools []*fake

	started chan string   // the ids of calls that began and wait
	release chan struct{} // ends the calls of exec_wait, which heeds nothing else, and exec_output
	onCall  func(error)   // told how each call ended; may be nil
	asking  bool          // each call asks first
}

func newSuite() *suite {
	s := &suite{started: make(chan string, 1024), release: make(chan struct{})}
	text := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)
	none := json.RawMessage(`{"type":"object"}`)
	s.tools = []*fake{
		{def("write_stdin", tool.Mutating, tool.Unsafe, text), func(_ context.Context, a *tool.Arguments, _ tool.Call) (tool.Result, error) {
			got := a.Text("text", "")
			if err := a.Err(); err != nil {
				return tool.Result{}, err
			}
			return tool.Result{Text: got, Data: map[string]any{"text": got, "n": len(got)}}, nil
		}},
		{def("exec_command", tool.Mutating, tool.Unsafe, json.RawMessage(`{
			"type": "object",
			"properties": {"cmd": {"type": "string"}, "notify_on_exit": {"type": "boolean"}, "text": {"type":"string"}, "completion_mode": {"type":"string"}},
			"required": ["cmd"]}`)), func(_ context.Context, a *tool.Arguments, _ tool.Call) (tool.Result, error) {
			return tool.Result{Text: a.NeedText("cmd") + a.Text("completion_mode", "")}, a.Err()
		}},
		{def("shell", tool.Mutating, tool.Unsafe, none), func(ctx context.Context, _ *tool.Arguments, call tool.Call) (tool.Result, error) {
			s.started <- call.ID
			<-ctx.Done()
			return tool.Result{}, tool.NewError(tool.UncertainOutcome).CausedBy(ctx.Err())
		}},
		{def("exec_wait", tool.ReadOnly, tool.Safe, none), func(_ context.Context, _ *tool.Arguments, call tool.Call) (tool.Result, error) {
			s.started <- call.ID
			<-s.release
			return tool.Result{Text: "released"}, nil
		}},
		{def("replace", tool.Mutating, tool.Idempotent, none), func(context.Context, *tool.Arguments, tool.Call) (tool.Result, error) {
			panic("secret-canary")
		}},
		{def("read", tool.ReadOnly, tool.Safe, text), func(_ context.Context, a *tool.Arguments, _ tool.Call) (tool.Result, error) {
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
		{def("exec_ack", tool.Mutating, tool.Idempotent, none), func(context.Context, *tool.Arguments, tool.Call) (tool.Result, error) {
			return tool.Result{Text: "acknowledged"}, nil
		}},
		{def("exec_kill", tool.Mutating, tool.Idempotent, none), nil},
		{def("exec_output", tool.ReadOnly, tool.Safe, none), func(ctx context.Context, _ *tool.Arguments, call tool.Call) (tool.Result, error) {
			s.started <- call.ID
			select {
			case <-s.release:
				return tool.Result{Text: "released"}, nil
			case <-ctx.Done():
				return tool.Result{}, tool.Stopped(ctx.Err())
			}
		}},
		{def("exec_list", tool.ReadOnly, tool.Safe, none), nil},
		{def("edit", tool.Mutating, tool.Idempotent, none), nil},
	}
	return s
}

func def(name string, effect tool.Effect, replay tool.Replay, schema json.RawMessage) tool.Definition {
	return tool.Definition{Name: name, Description: "Does " + strings.ReplaceAll(name, "_", " ") + " <&>.", Schema: schema, Effect: effect, Replay: replay}
}

func (s *suite) Definitions() (all []tool.Definition) {
	for _, f := range s.tools {
		all = append(all, f.definition)
	}
	return all
}

func (s *suite) Call(ctx context.Context, caller coding.Caller, call tool.Call) (result tool.Result, err error) {
	if s.onCall != nil {
		defer func() { s.onCall(err) }()
	}
	if err := ctx.Err(); err != nil {
		return tool.Result{}, tool.Stopped(err)
	}
	if s.asking {
		if err := ask(ctx, caller); err != nil {
			return tool.Result{}, err
		}
	}
	for _, f := range s.tools {
		if f.definition.Name == call.Name && f.run != nil {
			return f.run(ctx, tool.ParseArguments(call.Args), call)
		}
	}
	return tool.Result{Text: "ok"}, nil
}

type badData struct{}

func (badData) MarshalJSON() ([]byte, error) { panic("secret-canary") }

type fake struct {
	definition tool.Definition
	run        func(context.Context, *tool.Arguments, tool.Call) (tool.Result, error)
}
