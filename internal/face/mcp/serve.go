// Package mcp serves a suite of tools to an MCP client over two streams.
//
// It promises that what the peer sends ends neither the server nor another
// request: a line that is no message is answered with an error, one that is too
// long is refused without being held, a panic is one answer. Each request is
// answered at most once, and exactly once unless the peer cancelled it; the
// lines of two messages never mix. Nothing but protocol is written.
//
// The completion message of a process that ended rides on the next result, once; it
// counts as delivered when that was written.
//
// It does not promise an answer to a request that the peer cancelled (MCP asks
// for none), nor to one that is still running when the server has to go. It
// takes no batches: MCP has none since 2025-06-18. The one request that it sends is the
// question to the user, to a client that declared that it can ask; the only
// notifications are progress, for a call that asked for it, and the acknowledgement that
// subscriptions/listen asks for. That there is a person behind a yes it cannot know: a
// client, or its hooks, can answer for the user.
//
// Requests run concurrently. A client is served until its input ends, its
// output is gone, or the context is done, whichever is first.
package mcp

import (
	"context"
	"io"
	"time"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/tool"
)

// A Suite is what is served: *[coding.Suite], in the program. It is called from
// many goroutines.
type Suite interface {
	// Definitions lists the tools in the order in which they are to be shown.
	// They are valid and do not change.
	Definitions() []tool.Definition

	// Call runs one tool. An error is always *[tool.Error].
	Call(ctx context.Context, caller coding.Caller, call tool.Call) (tool.Result, error)

	// Completion messages, as the methods of coding.Suite say.
	Waiting(coding.Boundary) int
	TakeBeside(b coding.Boundary, ends []string, room int) []coding.Message
	Delivered([]coding.Message)
	Return([]coding.Message)
	Observed(ids []string)
}

// Config is what the server says about itself.
type Config struct {
	Version string // of belay
	// Tools are the names of those that are served [all]; ReadOnly leaves out those
	// that can change something.
	Tools    []string
	ReadOnly bool
	// MaxWait takes the place of what a call may wait by the table of known clients
	// [that table]. The tools' own bounds hold all the same.
	MaxWait time.Duration

	beat time.Duration // between two messages of progress [beat]
}

// bounds are how long an end may take.
type bounds struct {
	// chance is how long requests that were read may go on after the end of the
	// input.
	chance time.Duration
	// windUp is how long calls that were cancelled may take to answer.
	windUp time.Duration
}

// With these `printf … | belay mcp` prints its answers, the program is gone
// 400 ms after the end of its input, and a client that kills a server 450 ms
// after it told it to go, as Claude Code does, finds it gone.
var inService = bounds{chance: 200 * time.Millisecond, windUp: 150 * time.Millisecond}

// Serve serves one client. It returns nil when the input has ended, ctx is done,
// or the output is gone; an error only where it could not start.
//
// At the end of the input, requests that were read have 200 ms to be answered.
// Then, and at once in the other cases, the calls in flight are cancelled, and
// have 150 ms to answer what became of them; an answer that comes later is
// dropped. What a call that takes longer still holds is ended by closing the
// suite, which is the caller's next step.
//
// Serve closes in. Where that does not end a Read under way, as for a standard
// input that the system cannot poll, one goroutine stays until the Read returns;
// it writes nothing any more. A write to out that fails with EPIPE ends the
// server; whether SIGPIPE ends the program before that is up to the program.
func Serve(ctx context.Context, suite Suite, c Config, in io.ReadCloser, out io.Writer) error {
	return serve(ctx, suite, c, in, out, inService)
}

func serve(ctx context.Context, suite Suite, c Config, in io.ReadCloser, out io.Writer, b bounds) error {
	if c.beat == 0 {
		c.beat = beat
	}
	calls, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	conn := newConn(calls, in, out)
	defer conn.Close()
	if _, err := newFace(calls, suite, c, conn).server().Connect(ctx, conn, nil); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-conn.broken.ch:
	case <-conn.ended.ch:
		conn.drain(b.chance, ctx.Done(), conn.broken.ch)
	}
	stop()
	conn.drain(b.windUp, nil, nil)
	return nil
}
