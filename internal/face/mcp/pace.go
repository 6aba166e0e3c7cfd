package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belayhq/belay/internal/jsontext"
	"github.com/belayhq/belay/tool"
)

// beat is how often a call says that it is still running. The shortest limit of a
// known client that counts from the last message is 60 s.
const beat = 10 * time.Second

// A pace is what one client puts up with: what takes longer it drops, and the model
// sees an error where there was a wait. Names of clients decide nothing else.
type pace struct {
	client string // a part of its name, in lower case
	// wait is the longest that a call may only wait; quiet is the same for a
	// request without a progress token.
	wait, quiet time.Duration
	// tokens is max_output_tokens where a call does not say; 0 leaves it to the tool.
	tokens int
}

// paces are measured, but for Gemini's wait, which is its documentation's. Each stays
// under the limit of its client: Codex gives up after 300 s, whatever the progress, and
// cuts a result at about 12,000 characters; opencode gives up 60 s after the last
// message; Gemini after 600 s. Claude Code goes on in the background by itself.
var paces = []pace{
	{client: "codex", wait: 240 * time.Second, quiet: 240 * time.Second, tokens: 2500},
	{client: "opencode", wait: 600 * time.Second, quiet: 45 * time.Second},
	{client: "gemini", wait: 480 * time.Second, quiet: 480 * time.Second},
	{client: "claude-code", wait: 1800 * time.Second, quiet: 1800 * time.Second},
}

// unknown is for every other client: the SDKs that most are made with give up after
// 60 s, and only if asked to count from the last progress do they.
var unknown = pace{wait: 50 * time.Second, quiet: 50 * time.Second}

// waits are the arguments that say how long a call only waits, with the tool's
// own default.
var waits = map[string]struct {
	argument string
	byItself time.Duration
}{
	"exec_wait":   {"timeout_ms", 60 * time.Second},
	"write_stdin": {"yield_time_ms", 5 * time.Second},
}

func paceOf(client string) pace {
	client = strings.ToLower(client)
	for _, p := range paces {
		if strings.Contains(client, p.client) {
			return p
		}
	}
	return unknown
}

// hasPace tells whether it matters for a tool who the client is, which is not free to
// know: the file tools need it never.
func hasPace(d tool.Definition) bool {
	_, waits := waits[d.Name]
	return waits || d.Replay == tool.Unsafe || d.Name == "exec_output"
}

// paced is the arguments of a call as the client can take its result: a wait that
// ends in time, with what it has then, and as much output as is shown. longest, if it
// is not 0, takes the place of the client's own. What is no object is left to the tool
// to refuse, and so is every value that is not what it should be.
func paced(d tool.Definition, args []byte, p pace, token bool, longest time.Duration) []byte {
	limit := p.quiet
	if token {
		limit = p.wait
	}
	if longest > 0 {
		limit = longest
	}
	if w, ok := waits[d.Name]; ok {
		asked, given := member(args, w.argument)
		ms, err := strconv.ParseInt(string(asked), 10, 64)
		switch {
		case !given && w.byItself > limit, given && err == nil && ms > limit.Milliseconds() && ms <= 300_000:
			args = withMember(args, w.argument, strconv.FormatInt(limit.Milliseconds(), 10))
		}
	}
	if p.tokens > 0 && hasProperty(d.Schema, "max_output_tokens") {
		if _, given := member(args, "max_output_tokens"); !given {
			args = withMember(args, "max_output_tokens", strconv.Itoa(p.tokens))
		}
	}
	return args
}

func member(text []byte, name string) (value []byte, given bool) {
	jsontext.Object(text, func(n string, v []byte) {
		if n == name {
			value, given = v, true
		}
	})
	return value, given
}

// withMember is an object with one member set. nil stands for an empty object.
func withMember(text []byte, name, value string) []byte {
	if text == nil {
		text = []byte("{}")
	}
	found := false
	out, ok := filterMembers(text, func(n string, v []byte) []byte {
		if n != name {
			return v
		}
		found = true
		return []byte(value)
	})
	if !ok {
		return text
	}
	if found {
		return out
	}
	comma := ","
	if len(out) == 2 {
		comma = ""
	}
	return append(out[:len(out)-1], comma+string(encodeJSON(name))+":"+value+"}"...)
}

func hasProperty(schema json.RawMessage, name string) bool {
	properties, _ := member(schema, "properties")
	_, ok := member(properties, name)
	return ok
}

// A pulse tells a client every beat that its call is still running, if it gave a
// token for that.
type pulse struct {
	mu    sync.Mutex
	timer *time.Timer // nil once it is over
}

// every starts the pulse of a call; end returns when nothing more will be said: MCP
// wants no progress after the answer.
func every(ctx context.Context, interval time.Duration, session *sdk.ServerSession, token any) (end func()) {
	if token == nil || session == nil {
		return func() {}
	}
	start := time.Now()
	p := &pulse{}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(interval, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.timer == nil || ctx.Err() != nil {
			return
		}
		gone := time.Since(start)
		_ = session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
			ProgressToken: token, Progress: gone.Seconds(), Message: fmt.Sprintf("running for %d s", int(gone.Seconds())),
		})
		p.timer.Reset(interval)
	})
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer.Stop()
		p.timer = nil
	}
}
