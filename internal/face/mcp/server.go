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

// door is the one tool that the SDK knows. All calls are led to it, by whatever
// name: a tool that is not there is answered as a mistake that a model can mend,
// where the SDK would answer with a JSON-RPC error that some clients turn into a
// stack trace. It also saves the SDK's look into each schema at the start.
const door = "belay"

// callKey is the key of a call's context under which its *call is.
type callKey struct{}

// A face is a suite as an MCP server.
type face struct {
	suite Suite
	conn  *conn

	tools  map[string]tool.Definition
	listed []*sdk.Tool // in the suite's order
}

func newServer(suite Suite, c Config, conn *conn) *sdk.Server {
	f := &face{suite: suite, conn: conn, tools: map[string]tool.Definition{}}
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
	for _, d := range definitions {
		f.tools[d.Name] = d
		f.listed = append(f.listed, listing(d))
	}
	server.AddTool(&sdk.Tool{Name: door, InputSchema: json.RawMessage(`{"type":"object"}`)}, f.call)
	server.AddReceivingMiddleware(f.served)
	return server
}

// served is the outermost middleware. It lets through the methods that belay
// serves, and turns a panic in any of them into one answer; in the SDK it would
// end the process, and with it every child.
func (f *face) served(next sdk.MethodHandler) sdk.MethodHandler {
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
			p, _ := req.GetParams().(*sdk.CallToolParamsRaw)
			if p == nil {
				return next(ctx, method, req)
			}
			c := f.conn.find(p.Arguments)
			if c == nil { // never: receive put its id there
				return nil, &jsonrpc.Error{Code: codeInternal, Message: "internal error"}
			}
			c.tool, p.Name = p.Name, door
			ctx, cancel := context.WithCancel(context.WithValue(ctx, callKey{}, c))
			defer cancel()
			defer context.AfterFunc(c.ctx, cancel)()
			return next(ctx, method, req)
		case methodList:
			result, err = next(ctx, method, req)
			if list, ok := result.(*sdk.ListToolsResult); ok && len(list.Tools) > 0 { // not past its end
				list.Tools = f.listed
			}
			return result, err
		default: // what the SDK knows and belay declares no capability for
			return nil, &jsonrpc.Error{Code: codeNotFound, Message: "method not found"}
		}
	}
}

// call leaves the answer with the call in flight, for the connection to write,
// and gives the SDK its stand-in.
func (f *face) call(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	c := ctx.Value(callKey{}).(*call)
	d, known := f.tools[c.tool]
	if !known {
		c.answer = failed(tool.NewError(tool.UnknownTool))
	} else if e := refuseHidden(d, c.arguments); e != nil {
		c.answer = failed(e)
	} else {
		c.answer = f.run(ctx, d, tool.Call{ID: string(c.id), Name: d.Name, Args: c.arguments})
	}
	return c.answer.standIn(), nil
}

// run makes one call of the suite.
func (f *face) run(ctx context.Context, d tool.Definition, call tool.Call) (a *answer) {
	defer func() {
		if recover() != nil {
			a = failed(broken(d.Effect))
		}
	}()
	result, err := f.suite.Call(ctx, coding.Caller{}, call)
	if err != nil {
		return failed(own(err, d.Effect))
	}
	return resulted(result)
}
