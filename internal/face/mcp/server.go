package mcp

import (
	"context"
	"encoding/json"
	"strconv"
	"sync/atomic"

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
	suite   Suite
	config  Config
	calls   context.Context // done when all calls have to end
	conn    *conn           // nil over HTTP, where the SDK has the connections
	desk    *desk
	counter atomic.Uint64 // of calls over HTTP, whose own ids may be the same in two sessions
	posts   *posts        // nil but over HTTP

	tools  map[string]tool.Definition
	listed []*sdk.Tool // in the suite's order
}

func newFace(calls context.Context, suite Suite, c Config, conn *conn) *face {
	return &face{suite: suite, config: c, calls: calls, conn: conn, desk: newDesk(), tools: map[string]tool.Definition{}, listed: []*sdk.Tool{}}
}

func (f *face) server() *sdk.Server {
	definitions := f.config.visible(f.suite.Definitions())
	server := sdk.NewServer(&sdk.Implementation{Name: "belay", Version: f.config.Version}, &sdk.ServerOptions{
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
			c := f.request(p)
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

// request is the call of a tools/call.
func (f *face) request(p *sdk.CallToolParamsRaw) *call {
	if f.conn != nil {
		return f.conn.find(p.Arguments)
	}
	return &call{id: strconv.AppendUint(nil, f.counter.Add(1), 10), ctx: f.calls, arguments: p.Arguments}
}

// call leaves the answer with the call in flight, for the connection to write,
// and gives the SDK its stand-in. Over HTTP the SDK gets the answer itself.
func (f *face) call(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	c := ctx.Value(callKey{}).(*call)
	end := every(ctx, f.config.beat, req.Session, req.Params.GetProgressToken())
	a, q, err := f.outcome(ctx, c, req)
	end()
	if err != nil {
		return nil, err
	}
	if q != nil {
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{questionID: q.params}, RequestState: q.state}, nil
	}
	f.load(a, c.tool, req)
	if f.conn == nil {
		f.posts.load(req, a)
		return a.whole(), nil
	}
	c.answer = a
	return a.standIn(), nil
}

// outcome is an answer, or the question that has to be answered first. The error is one
// of the request, not of the call.
func (f *face) outcome(ctx context.Context, c *call, req *sdk.CallToolRequest) (*answer, *question, error) {
	d, known := f.tools[c.tool]
	if !known {
		return failed(tool.NewError(tool.UnknownTool)), nil, nil
	}
	if e := refuseHidden(d, c.arguments); e != nil {
		return failed(e), nil, nil
	}
	can := eraOf(req)
	if req.Params.RequestState != "" {
		e, err := f.desk.resume(req.Params, d.Name, c.arguments, can == modern)
		if err == errForged {
			return nil, nil, err
		}
		if err != nil {
			return failed(own(err, d.Effect)), nil, nil
		}
		a, q := e.attend(ctx)
		return a, q, nil
	}
	args := c.arguments
	if hasPace(d) {
		name := ""
		if info := req.ClientInfo(); info != nil {
			name = info.Name
		}
		args = paced(d, args, paceOf(name), req.Params.GetProgressToken() != nil, f.config.MaxWait)
	}
	call := tool.Call{ID: string(c.id), Name: d.Name, Args: args}
	switch can {
	case legacy:
		return f.run(ctx, coding.Caller{Asker: dialog{req.Session}}, d, call), nil, nil
	case modern:
		a, q := f.send(d, call, c.arguments).attend(ctx)
		return a, q, nil
	}
	return f.run(ctx, coding.Caller{}, d, call), nil, nil
}

// send starts a call that can outlive its request.
func (f *face) send(d tool.Definition, call tool.Call, asked []byte) *errand {
	ctx, cancel := context.WithCancel(f.calls)
	e := &errand{desk: f.desk, name: d.Name, args: asked, cancel: cancel, asked: make(chan *question), done: make(chan *answer, 1)}
	go func() {
		defer cancel()
		e.done <- f.run(ctx, coding.Caller{Asker: e}, d, call)
	}()
	return e
}

// run makes one call of the suite.
func (f *face) run(ctx context.Context, caller coding.Caller, d tool.Definition, call tool.Call) (a *answer) {
	defer func() {
		if recover() != nil {
			a = failed(broken(d.Effect))
		}
	}()
	result, err := f.suite.Call(ctx, caller, call)
	if err != nil {
		return failed(own(err, d.Effect))
	}
	return resulted(result)
}
