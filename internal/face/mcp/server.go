package mcp

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/tool"
)

// listTTL is how long a client may keep the list of tools and the answer to
// server/discover, in milliseconds. Both are fixed for the life of the process;
// the bound is for clients that keep them past it, over an update of belay.
const listTTL = 5 * 60 * 1000

// stray is the name under which calls of unknown tools are led to their answer.
// The SDK would answer with a JSON-RPC error, which some clients turn into a
// stack trace; a model can mend a wrong name when it is told. It is not listed,
// and no tool can have it: a hyphen is not allowed in their names.
const stray = "unknown-tool"

// A face is a suite as an MCP server.
type face struct {
	suite Suite
	conn  *conn
	calls context.Context // done when calls in flight have to end
}

func newServer(suite Suite, c Config, conn *conn, calls context.Context) *sdk.Server {
	f := &face{suite: suite, conn: conn, calls: calls}
	definitions := visible(suite.Definitions())
	server := sdk.NewServer(&sdk.Implementation{Name: "belay", Version: c.Version}, &sdk.ServerOptions{
		Instructions: instructions(definitions),
		// Without this the SDK adds logging; diagnostics go to standard error.
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: false}},
		// The SDK's own values are "stale at once" and "public".
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) {
			c.TTLMs, c.CacheScope = listTTL, "private"
		},
	})
	var listed []*sdk.Tool
	known := map[string]bool{}
	for _, d := range definitions {
		t := listing(d)
		listed = append(listed, t)
		known[d.Name] = true
		server.AddTool(t, f.handler(d))
	}
	server.AddTool(&sdk.Tool{Name: stray, InputSchema: json.RawMessage(`{"type":"object"}`)}, f.unknown)
	server.AddReceivingMiddleware(served(listed, known))
	return server
}

// served is the outermost middleware. It lets through the methods that belay
// serves, and turns a panic in any of them into one answer; in the SDK it would
// end the process, and with it every child.
func served(listed []*sdk.Tool, known map[string]bool) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
			defer func() {
				if recover() != nil { // the value may hold anything: it goes nowhere (C5)
					result, err = nil, &jsonrpc.Error{Code: codeInternal, Message: "internal error"}
				}
			}()
			switch method {
			case methodInitialize, methodInitialized, methodCancelled, "ping", "server/discover", "subscriptions/listen":
				return next(ctx, method, req)
			case methodCall:
				if p, ok := req.GetParams().(*sdk.CallToolParamsRaw); ok && !known[p.Name] {
					p.Name = stray
				}
				return next(ctx, method, req)
			case methodList:
				result, err = next(ctx, method, req)
				// the SDK sorts by name; the suite's order is the one to be shown
				if list, ok := result.(*sdk.ListToolsResult); ok && len(list.Tools) > 0 {
					list.Tools = listed
				}
				return result, err
			default: // what the SDK knows and belay declares no capability for
				return nil, &jsonrpc.Error{Code: codeNotFound, Message: "method not found"}
			}
		}
	}
}

// handler answers the calls of one tool.
func (f *face) handler(d tool.Definition) sdk.ToolHandler {
	hidden := hiddenArguments[d.Name]
	return func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return f.answer(req, func(c *call) *answer {
			if e := refuseHidden(d, hidden, c.arguments); e != nil {
				return failed(e)
			}
			return f.run(ctx, d, tool.Call{ID: string(c.id), Name: d.Name, Args: c.arguments})
		})
	}
}

func (f *face) unknown(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	return f.answer(req, func(*call) *answer { return failed(tool.NewError(tool.UnknownTool)) })
}

// answer leaves the answer with the call in flight, for the connection to write,
// and gives the SDK its stand-in.
func (f *face) answer(req *sdk.CallToolRequest, work func(*call) *answer) (*sdk.CallToolResult, error) {
	c := f.conn.find(req.Params.Arguments)
	if c == nil { // never: receive put its id there
		return nil, &jsonrpc.Error{Code: codeInternal, Message: "internal error"}
	}
	c.answer = work(c)
	return c.answer.standIn(), nil
}

// run makes one call of the suite. It ends with the request or with the server,
// whichever is first.
func (f *face) run(ctx context.Context, d tool.Definition, call tool.Call) (a *answer) {
	defer func() {
		if recover() != nil {
			a = failed(broken(d.Effect))
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.calls, cancel)()
	result, err := f.suite.Call(ctx, coding.Caller{}, call)
	if err != nil {
		return failed(own(err, d.Effect))
	}
	return resulted(result)
}
