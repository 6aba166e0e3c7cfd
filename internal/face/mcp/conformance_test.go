package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/belayhq/belay/approve"
	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/tool"
)

// conformanceEnv makes the test binary a server for scripts/conformance.sh: the one of
// ServeHTTP, with the tools that the public conformance suite asks for, as far as a suite
// of belay can have them. The suite sends no token; that is put in front of the door.
const conformanceEnv = "BELAY_TEST_CONFORMANCE"

func serveConformance(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	calls, stop := context.WithCancel(ctx)
	defer stop()
	r := newRoom(calls, Config{Version: "1.2.3", beat: 10 * time.Millisecond}, Runtime{"token", fixtures{}})
	door := &web{loopback: true, rooms: []*room{r}}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req.Header.Set("Authorization", "Bearer token")
		door.ServeHTTP(w, req)
	})}
	fmt.Printf("http://%s%s\n", listener.Addr(), Path)
	go func() { <-ctx.Done(); server.Close() }()
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// fixtures are a suite whose tools do what the conformance suite expects of their names.
type fixtures struct{ silent }

func (fixtures) Definitions() []tool.Definition {
	none := json.RawMessage(`{"type":"object","properties":{}}`)
	return []tool.Definition{
		def("test_simple_text", tool.ReadOnly, tool.Safe, none),
		def("test_error_handling", tool.ReadOnly, tool.Safe, none),
		def("test_tool_with_progress", tool.ReadOnly, tool.Safe, none),
		def("test_elicitation", tool.Mutating, tool.Unsafe, json.RawMessage(`{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`)),
		def("test_input_required_result_elicitation", tool.Mutating, tool.Unsafe, none),
		def("test_input_required_result_request_state", tool.Mutating, tool.Unsafe, none),
		def("test_input_required_result_tampered_state", tool.Mutating, tool.Unsafe, none),
		def("test_input_required_result_capabilities", tool.Mutating, tool.Unsafe, none),
		def("json_schema_2020_12_tool", tool.ReadOnly, tool.Safe, json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"}},"allOf":[{"anyOf":[{"required":["name"]},{"required":["address"]}]}],"if":{"required":["name"]},"then":{},"else":{},"additionalProperties":false}`)),
	}
}

func (fixtures) Call(ctx context.Context, caller coding.Caller, call tool.Call) (tool.Result, error) {
	switch call.Name {
	case "test_simple_text":
		return tool.Result{Text: "This is a simple text response for testing."}, nil
	case "test_error_handling":
		return tool.Result{}, tool.NewError(tool.ReadFailed)
	case "test_tool_with_progress":
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
		return tool.Result{Text: "done"}, nil
	case "json_schema_2020_12_tool":
		return tool.Result{Text: "ok"}, nil
	}
	err := approve.New(0).Do(ctx, caller.Asker, tool.Prompt{Reason: "input", Title: "t", Shown: "s"}, nil, func(context.Context) error { return nil })
	switch {
	case err == approve.ErrUnavailable:
		return tool.Result{}, tool.NewError(tool.ApprovalUnavailable)
	case err != nil:
		return tool.Result{Text: "User response: no"}, nil
	}
	return tool.Result{Text: "User response: yes"}, nil
}

// conformanceMain is the helper mode.
func conformanceMain() bool {
	if os.Getenv(conformanceEnv) == "" {
		return false
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Minute) // it does not outlive a script that was killed
	defer stop()
	go func() { // nor one that closes its input
		var b [1]byte
		os.Stdin.Read(b[:])
		stop()
	}()
	if err := serveConformance(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}
