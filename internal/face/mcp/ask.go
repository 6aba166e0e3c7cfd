package mcp

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belayhq/belay/approve"
	"github.com/belayhq/belay/tool"
)

// The user is asked by elicitation: the client shows a form with one choice. Up to
// 2025-11-25 that is a request of the server, under way while the call waits. Since
// 2026-07-28 a server sends no requests: the answer to the call says what has to be
// asked, the client asks, and calls again with the answer. The call is parked
// meanwhile, with the plan that was shown; the second request answers the question
// and gets the result of the first. Its arguments are compared and never run.
//
// A yes is "accept" with the one value of the form that says yes. Everything else is
// a no: the SDK looks at less than that, and lets a client be asked that did not say
// that it can.

const (
	// maxParked bounds the calls that wait for a second request. A gate shows one
	// question at a time, so it is reached only where there are several gates.
	maxParked = 8
	// questionID is the name of the one question of an answer.
	questionID = "approval"
	decision   = "decision"
	deny       = "deny"
)

// An era is how a client of a request can be asked.
type era int

const (
	mute   era = iota // not at all
	legacy            // by a request of the server
	modern            // by the answer to its own
)

// eraOf reads what this request declares. In 2026-07-28 nothing is remembered from
// one request to the next. A client that mixes the two ways on one connection is not
// asked: the SDK goes by the connection, and would not do what is meant here.
func eraOf(req *sdk.CallToolRequest) era {
	const first = "2026-07-28"
	if req.Session == nil || req.Params == nil {
		return mute
	}
	session := req.Session.InitializeParams()
	if session == nil {
		return mute
	}
	e := legacy
	capabilities := session.Capabilities
	if version, _ := req.Params.Meta[sdk.MetaKeyProtocolVersion].(string); version >= first {
		e = modern
		if _, declared := req.Params.Meta[sdk.MetaKeyClientCapabilities]; !declared {
			return mute
		}
		capabilities = req.ClientCapabilities()
	}
	if (e == modern) != (session.ProtocolVersion >= first) || capabilities == nil || capabilities.Elicitation == nil {
		return mute
	}
	if form := capabilities.Elicitation; form.Form == nil && form.URL != nil {
		return mute
	}
	return e
}

// form is a question as the client gets it, and the value that says yes.
func form(p tool.Prompt) (params *sdk.ElicitParams, yes string) {
	var b strings.Builder
	switch p.Reason {
	case "input":
		yes = "send once"
		fmt.Fprintf(&b, "Send this input to the running process?\n\nProcess: %s\nSession: %s\nInput (%d bytes, escaped): %s", p.Title, p.SessionID, p.Bytes, p.Shown)
	default:
		yes = "run once"
		fmt.Fprintf(&b, "A guard asks you before this runs.\n\n%s\n%s", p.Title, p.Shown)
	}
	// No default: an SDK fills a default in where the user left the form empty.
	schema := fmt.Sprintf(`{"type":"object","properties":{%q:{"type":"string","title":"Decision","description":"This covers this one time only.","enum":[%q,%q]}},"required":[%q]}`,
		decision, deny, yes, decision)
	return &sdk.ElicitParams{Mode: "form", Message: b.String(), RequestedSchema: json.RawMessage(schema)}, yes
}

// said reports whether an answer is the explicit yes.
func said(answer sdk.InputResponse, yes string) bool {
	r, ok := answer.(*sdk.ElicitResult)
	if !ok || r == nil || r.Action != "accept" {
		return false
	}
	value, ok := r.Content[decision].(string)
	return ok && value == yes
}

// A dialog asks by a request of the server, on the session of a call.
type dialog struct{ session *sdk.ServerSession }

func (d dialog) Ask(ctx context.Context, p tool.Prompt) (bool, error) {
	params, yes := form(p)
	r, err := d.session.Elicit(ctx, params) // with ctx it is withdrawn
	var wire *jsonrpc.Error
	if errors.As(err, &wire) && wire.Code == codeNotFound {
		return false, approve.ErrUnavailable // declared, and not there
	}
	return err == nil && said(r, yes), nil
}

// An errand is a call that can outlive its request. One request at a time attends
// it: the first until a question comes up, then the one that brings the answer.
type errand struct {
	desk   *desk
	name   string // of the tool
	args   []byte
	cancel context.CancelFunc
	asked  chan *question
	done   chan *answer // holds one
}

// A question is one that a client was handed in an answer, and has not answered.
type question struct {
	errand  *errand
	params  *sdk.ElicitParams
	yes     string
	session string
	digest  [sha256.Size]byte
	state   string
	reply   chan bool // holds one
	void    bool      // what it was about is gone; under the desk's mu
}

// Ask parks the call.
func (e *errand) Ask(ctx context.Context, p tool.Prompt) (bool, error) {
	q, nonce, ok := e.desk.park(ctx, e, p)
	if !ok {
		return false, approve.ErrUnavailable
	}
	defer func() {
		if errors.Is(context.Cause(ctx), approve.ErrGone) {
			e.desk.void(q) // the second request, which comes yet, is told so
			return
		}
		e.desk.take(nonce)
	}()
	select {
	case e.asked <- q:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	select {
	case yes := <-q.reply:
		return yes, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// attend waits for the outcome, or for a question. While a request attends, its end
// is that of the errand.
func (e *errand) attend(ctx context.Context) (*answer, *question) {
	stop := context.AfterFunc(ctx, e.cancel)
	select {
	case a := <-e.done:
		stop()
		return a, nil
	case q := <-e.asked:
		if stop() {
			return nil, q
		}
		return <-e.done, nil
	}
}

// A desk holds the parked calls of one runtime. What it signs means nothing to
// another.
type desk struct {
	key    [32]byte
	mu     sync.Mutex
	parked map[nonce]*question
}

type nonce [16]byte

func newDesk() *desk {
	d := &desk{parked: map[nonce]*question{}}
	rand.Read(d.key[:]) // does not fail
	return d
}

// A state is what travels to the client and back: nonce, end as Unix milliseconds,
// digest of what was asked for, and a MAC over the three.
const stateSize = len(nonce{}) + 8 + sha256.Size + sha256.Size

func (d *desk) park(ctx context.Context, e *errand, p tool.Prompt) (*question, nonce, bool) {
	q := &question{errand: e, session: p.SessionID, digest: digestOf(e.name, p.SessionID, e.args), reply: make(chan bool, 1)}
	q.params, q.yes = form(p)
	end, ok := ctx.Deadline()
	if most := time.Now().Add(approve.MaxTimeout); !ok || end.After(most) {
		end = most
	}
	var n nonce
	rand.Read(n[:])
	state := binary.BigEndian.AppendUint64(append(make([]byte, 0, stateSize), n[:]...), uint64(end.UnixMilli()))
	state = append(state, q.digest[:]...)
	state = append(state, d.mac(state)...)
	q.state = base64.RawURLEncoding.EncodeToString(state)

	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.parked) >= maxParked {
		maps.DeleteFunc(d.parked, func(_ nonce, q *question) bool { return q.void })
	}
	if len(d.parked) >= maxParked {
		return nil, n, false
	}
	d.parked[n] = q
	return q, n, true
}

func (d *desk) mac(state []byte) []byte {
	h := hmac.New(sha256.New, d.key[:])
	h.Write([]byte("belay approval 1"))
	h.Write(state)
	return h.Sum(nil)
}

// take is the question of a nonce, once.
func (d *desk) take(n nonce) *question {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.parked[n]
	delete(d.parked, n)
	return q
}

// void leaves a question to be answered to nobody: the outcome of its call is known, and
// waits for the second request as long as there is room.
func (d *desk) void(q *question) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q.void = true
}

// errForged is for a state that nobody here signed. That is no mistake of a model, and
// MCP wants it to be rejected as a request.
var errForged = &jsonrpc.Error{Code: codeInvalidParams, Message: "the requestState is not one of this server"}

// resume gives a question the answer of a second request, and says which errand to
// attend. A state that is not ours changes nothing; one of ours is used up, whatever
// the answer is. The error is errForged or a *tool.Error.
func (d *desk) resume(p *sdk.CallToolParamsRaw, name string, args []byte, can bool) (*errand, error) {
	state, err := base64.RawURLEncoding.Strict().DecodeString(p.RequestState)
	if err != nil || len(state) != stateSize {
		return nil, errForged
	}
	signed := state[:len(state)-sha256.Size]
	if !hmac.Equal(d.mac(signed), state[len(signed):]) {
		return nil, errForged
	}
	n := nonce(signed[:len(nonce{})])
	end := time.UnixMilli(int64(binary.BigEndian.Uint64(signed[len(n):])))
	if !time.Now().Before(end) {
		return nil, tool.NewError(tool.ApprovalTimeout)
	}
	q := d.take(n)
	if q == nil {
		return nil, tool.NewError(tool.ApprovalDenied, tool.Fact{Name: "reason", Value: "used"})
	}
	yes := can && len(p.InputResponses) == 1 && said(p.InputResponses[questionID], q.yes)
	if digest := digestOf(name, q.session, args); !hmac.Equal(digest[:], q.digest[:]) || !hmac.Equal(digest[:], signed[len(n)+8:]) {
		yes = false
	}
	q.reply <- yes
	return q.errand, nil
}

// digestOf is what two requests for the same have in common: a client may spell the
// arguments anew.
func digestOf(name, session string, args []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, field := range [][]byte{[]byte(name), []byte(session), canonical(args)} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(field)))
		h.Write(n[:])
		h.Write(field)
	}
	h.Sum(sum[:0])
	return sum
}

func canonical(text []byte) []byte {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return text
	}
	out, err := json.Marshal(v)
	if err != nil {
		return text
	}
	return out
}
