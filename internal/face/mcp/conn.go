package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belayhq/belay/internal/jsontext"
)

const (
	// maxLine bounds one message of the peer, in bytes without its line end.
	// The largest that makes sense, a replace of some megabytes, fits.
	maxLine = 8 << 20
	// maxFlight and maxFlightBytes bound the requests that are read and not yet
	// answered, and the answers that wait for the peer to read. Clients send a few
	// at a time; what is over is refused, not queued. The reserve is for what is no call of a tool, so that a client
	// that fills up on long calls still gets its pings answered.
	maxFlight      = 512
	flightReserve  = 64
	maxFlightBytes = 64 << 20
	// maxRefusals bounds the refusals that wait for the peer to read. What is over
	// is dropped: a peer that sends and does not read has no use for them.
	maxRefusals = 1024
	// maxErrorText bounds the text of an error, in bytes: some texts of the SDK
	// quote the request.
	maxErrorText = 512

	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
	methodCancelled   = "notifications/cancelled"
	methodCall        = "tools/call"
	methodList        = "tools/list"
)

// A conn is the SDK's connection over two streams, one message a line. It takes
// the place of the SDK's own, which ends at the first malformed line, drops the
// answers in flight at end of input, takes the digits from large ids, and
// encodes a large result several times.
//
// Read is called by one goroutine of the SDK, Write and Close by many.
type conn struct {
	in    io.ReadCloser
	lines lines // of Read
	out   io.Writer
	calls context.Context // done when all calls in flight have to end

	mu       sync.Mutex
	flight   map[jsonrpc.ID]*call // by the id, until the answer is handed over for writing
	open     int                  // requests whose answer is not yet written, refusals among them
	bytes    int                  // of their lines, and of answers that wait to be written
	refusals int                  // that wait to be written
	settled  chan struct{}        // holds one: a request was answered

	writing sync.Mutex // held over one whole message, so that none is interleaved

	ended  event // the input ended
	broken event // the output refused
	closed event
}

// A call is one request in flight.
type call struct {
	id        []byte // as the peer spells it
	method    string
	size      int  // of its line
	cancelled bool // under conn.mu: the peer wants no answer any more

	// of a tools/call, for the middleware and the handler, one goroutine
	ctx       context.Context // done when the peer cancels it, or all calls have to end
	cancel    context.CancelFunc
	tool      string
	arguments []byte
	answer    *answer
}

// An event happens once.
type event struct {
	once sync.Once
	ch   chan struct{}
}

func (e *event) happen() { e.once.Do(func() { close(e.ch) }) }
func (e *event) happened() bool {
	select {
	case <-e.ch:
		return true
	default:
		return false
	}
}

func newConn(calls context.Context, in io.ReadCloser, out io.Writer) *conn {
	return &conn{
		calls: calls, in: in, out: out,
		lines:   lines{r: bufio.NewReaderSize(in, 64<<10)},
		flight:  map[jsonrpc.ID]*call{},
		settled: make(chan struct{}, 1),
		ended:   event{ch: make(chan struct{})},
		broken:  event{ch: make(chan struct{})},
		closed:  event{ch: make(chan struct{})},
	}
}

// Connect makes a conn its own transport.
func (c *conn) Connect(context.Context) (sdk.Connection, error) { return c, nil }

func (c *conn) SessionID() string { return "" }

// Close ends Read, as far as closing the input does, and Write.
func (c *conn) Close() error {
	var err error
	c.closed.once.Do(func() {
		close(c.closed.ch)
		err = c.in.Close()
	})
	return err
}

// Read returns the next message for the SDK. What is none it answers itself. It
// reports the end of the input only when the connection is closed: for the SDK
// that is the moment from which it writes no answer any more.
func (c *conn) Read(context.Context) (jsonrpc.Message, error) {
	for !c.closed.happened() {
		line, err := c.lines.next()
		var long *longLine
		switch {
		case errors.As(err, &long):
			if id, ok := idOfLongLine(long.head, long.tail); ok {
				c.refuse(id, &refusal{codeInvalidRequest, fmt.Sprintf("the message is over %d bytes", maxLine)})
			}
			continue
		case err != nil: // the end, or an input that fails: nothing more will come
			c.ended.happen()
			<-c.closed.ch
			return nil, io.EOF
		}
		if msg := c.receive(line); msg != nil {
			return msg, nil
		}
	}
	return nil, io.EOF
}

// receive is the message of a line for the SDK, nil where there is nothing for
// it.
func (c *conn) receive(line []byte) jsonrpc.Message {
	m, no := parse(line)
	switch {
	case no != nil && no.code == codeParse:
		c.refuse(nil, no) // what was read of it up to the fault may mean something else
		return nil
	case no != nil:
		if !m.response {
			c.refuse(m.id, no)
		}
		return nil
	}
	if m.method == nil {
		if !m.response {
			c.refuse(m.id, &refusal{codeInvalidRequest, "a request has a method"})
			return nil
		}
		msg, err := jsonrpc.DecodeMessage(line)
		if err != nil {
			return nil
		}
		return msg
	}
	if m.method[0] != '"' {
		c.refuse(m.id, &refusal{codeInvalidRequest, "the method is a string"})
		return nil
	}
	method := jsontext.Unquote(m.method)
	if m.id == nil {
		return c.notification(method, &m)
	}
	id, ok := parseID(m.id)
	if !ok {
		c.refuse(nil, &refusal{codeInvalidRequest, "an id is a string or a number, of at most 512 bytes"})
		return nil
	}
	if strings.HasPrefix(method, "notifications/") { // the SDK would heed a cancellation before it refuses it
		c.refuse(m.id, &refusal{codeInvalidRequest, "a notification has no id"})
		return nil
	}
	if m.params != nil && m.params[0] != '{' {
		c.refuse(m.id, &refusal{codeInvalidParams, "the params are an object"})
		return nil
	}
	if no := c.take(id, &call{id: m.id, method: method, size: len(line), arguments: m.arguments}); no != nil {
		c.refuse(m.id, no)
		return nil
	}
	req := &jsonrpc.Request{ID: id, Method: method, Params: m.params}
	if method == methodCall && m.params != nil {
		req.Params = m.withoutArguments()
	}
	return req
}

// notification lets through what has a meaning here. The SDK queues
// notifications without a bound, and one that nobody waits for needs no place.
func (c *conn) notification(method string, m *message) jsonrpc.Message {
	switch method {
	case methodInitialized:
		return &jsonrpc.Request{Method: method, Params: m.params}
	case methodCancelled:
		if id, ok := parseID(m.requestID); ok {
			c.cancel(id)
		}
	}
	return nil
}

// cancel ends a call in flight, whose answer the peer does not want any more. Any
// other id changes nothing: clients cancel what was answered long ago. The SDK
// is not told. It would cancel a moment later, in a goroutine of its own, and by
// then the id may be that of another call.
func (c *conn) cancel(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	request := c.flight[id]
	if request == nil || request.method == methodInitialize { // which MCP lets nobody cancel
		return
	}
	request.cancelled = true
	if request.cancel != nil {
		request.cancel()
	}
}

// take makes a request one in flight.
func (c *conn) take(id jsonrpc.ID, request *call) *refusal {
	most := maxFlight
	if request.method != methodCall {
		most += flightReserve
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.flight[id] != nil:
		return &refusal{codeInvalidRequest, "a request of this id is in flight"}
	case c.open >= most, c.bytes+request.size > maxFlightBytes:
		return &refusal{codeBusy, "too many requests are in flight; wait for answers"}
	}
	if request.method == methodCall {
		request.ctx, request.cancel = context.WithCancel(c.calls)
	}
	c.flight[id] = request
	c.open++
	c.bytes += request.size
	return nil
}

// find is the call of a tools/call in flight, by what withoutArguments left in
// the place of its arguments.
func (c *conn) find(literal []byte) *call {
	id, ok := parseID(literal)
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flight[id]
}

// Write writes one message. The answer to a request that the peer cancelled is
// dropped, as MCP asks. That the output is gone is no error here: the SDK would
// stop to hand over answers, and nobody could tell any more when the calls in
// flight are done. Serve learns it from broken.
func (c *conn) Write(_ context.Context, msg jsonrpc.Message) error {
	response, ok := msg.(*jsonrpc.Response)
	if !ok {
		line, err := jsonrpc.EncodeMessage(msg)
		if err != nil {
			return err
		}
		c.send(append(line, '\n'))
		return nil
	}
	c.mu.Lock()
	request := c.flight[response.ID]
	delete(c.flight, response.ID) // first: the peer may use the id again once it has the answer
	c.mu.Unlock()
	if request == nil {
		return nil // never: every id that the SDK knows was taken by receive
	}
	defer c.settle(request)
	written := false
	defer func() { request.answer.became(written && response.Error == nil) }()
	if request.cancelled {
		return nil
	}
	line := encode(response, request.answer)
	c.mu.Lock()
	c.bytes += len(line)
	request.size += len(line)
	c.mu.Unlock()
	written = c.send(line)
	return nil
}

func (c *conn) settle(request *call) {
	if request.cancel != nil {
		request.cancel()
	}
	c.mu.Lock()
	c.open--
	c.bytes -= request.size
	c.mu.Unlock()
	select {
	case c.settled <- struct{}{}:
	default:
	}
}

// drain waits until every request is answered, at most for bound, and not once
// one of the two channels is closed; either may be nil.
func (c *conn) drain(bound time.Duration, unless, or <-chan struct{}) {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	for {
		c.mu.Lock()
		open := c.open
		c.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-c.settled:
		case <-unless:
			return
		case <-or:
			return
		case <-timer.C:
			return
		}
	}
}

// refuse answers a line that does not reach the SDK. An id that is in flight is
// not named: its own answer is still to come.
func (c *conn) refuse(literal []byte, no *refusal) {
	id, ok := parseID(literal)
	c.mu.Lock()
	if !ok || c.flight[id] != nil {
		id = jsonrpc.ID{}
	}
	if c.refusals == maxRefusals {
		c.mu.Unlock()
		return
	}
	c.refusals++
	c.open++
	c.mu.Unlock()
	// Not here: this is the one who reads, and who has to see the end of the input
	// also where the peer reads nothing any more.
	go func() {
		c.send(encode(&jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: no.code, Message: no.text}}, nil))
		c.mu.Lock()
		c.refusals--
		c.mu.Unlock()
		c.settle(&call{})
	}()
}

// send reports whether the line is written.
func (c *conn) send(line []byte) bool {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.closed.happened() || c.broken.happened() {
		return false
	}
	if n, err := c.out.Write(line); err != nil || n < len(line) {
		c.broken.happen()
		return false
	}
	return true
}

// encode is the line of a response.
func encode(response *jsonrpc.Response, a *answer) []byte {
	size := 128 + len(response.Result)
	if a != nil {
		size += len(a.text) + len(a.data)
	}
	line := append(make([]byte, 0, size), `{"jsonrpc":"2.0","id":`...)
	line = appendID(line, response.ID)
	if response.Error != nil {
		fault, err := json.Marshal(wireError(response.Error))
		if err != nil { // data of the SDK that is no JSON
			fault = []byte(`{"code":-32603,"message":"internal error"}`)
		}
		line = append(append(line, `,"error":`...), fault...)
	} else {
		line = append(line, `,"result":`...)
		line = a.appendInto(line, response.Result)
	}
	return append(line, "}\n"...)
}

// wireError is an error of the SDK for the peer: with a code, where the SDK gives
// none, and without the request that it quotes in some places.
func wireError(err error) *jsonrpc.Error {
	out := jsonrpc.Error{Code: codeInvalidRequest, Message: err.Error()}
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		out.Code, out.Data = wire.Code, wire.Data
	}
	out.Message, _, _ = strings.Cut(out.Message, ": unmarshaling ")
	out.Message = strings.ToValidUTF8(out.Message, "")
	if len(out.Message) > maxErrorText {
		n := maxErrorText
		for !utf8.RuneStart(out.Message[n]) {
			n--
		}
		out.Message = out.Message[:n]
	}
	return &out
}

// lines cuts a stream at its line feeds.
type lines struct {
	r *bufio.Reader
}

// A longLine is a line over maxLine of which the rest was skipped.
type longLine struct {
	head []byte // the first maxLine bytes
	tail []byte // the last bytes, enough for an id at the end
}

func (*longLine) Error() string { return "mcp: a line is too long" }

// next is the next line that is not blank, without its end, in memory of its
// own. What the stream ends with counts as a line. A longLine is not the end;
// any other error is.
func (l lines) next() ([]byte, error) {
	for {
		line, err := l.line()
		if line = bytes.TrimRight(line, " \t\r\n"); len(line) > 0 || err != nil {
			return line, err
		}
	}
}

func (l lines) line() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(bytes.TrimRight(part, "\r\n")) > maxLine {
			return nil, l.skip(append(line, part...), err)
		}
		if need := len(line) + len(part); need > cap(line) {
			// doubled: append alone would copy a long line five times over
			line = append(make([]byte, 0, max(need, min(2*cap(line), maxLine))), line...)
		}
		line = append(line, part...)
		switch {
		case err == nil, err == io.EOF && len(line) > 0:
			return line, nil
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

// skip reads on to the end of a line that is too long; err is what its last part
// came with. An input that fails will say so again.
func (l lines) skip(head []byte, err error) *longLine {
	const keep = 2 * maxID
	tail := bytes.Clone(head[max(0, len(head)-keep):])
	for err == bufio.ErrBufferFull {
		var part []byte
		part, err = l.r.ReadSlice('\n')
		tail = append(tail, part...)
		tail = append(tail[:0], tail[max(0, len(tail)-keep):]...)
	}
	return &longLine{head: head[:maxLine], tail: bytes.TrimRight(tail, "\r\n")}
}
