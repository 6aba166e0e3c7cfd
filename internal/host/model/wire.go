package model

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
	"time"
)

// Timing bounds a request. Zero is the value in brackets.
type Timing struct {
	// Connect bounds one attempt to reach the server, names and TLS included [5 s].
	Connect time.Duration
	// Idle bounds each wait for more of the answer, the first of them included [5 min:
	// a model on a small machine reads a long conversation for minutes before it says
	// anything; the big services send signs of life].
	Idle time.Duration
}

const (
	maxErrorBody = 64 << 10  // bytes read of an answer that is an error
	maxHeader    = 256 << 10 // bytes
)

// NewClient makes an HTTP client for streams. Its errors are an *Error, also for each
// status that is not 2xx, whose body it reads itself: the libraries of the vendors lose the
// status if a proxy answers with a page. A redirect is such a status, too, and not
// followed: a key would go along. The caller closes its idle connections.
func NewClient(t Timing) *http.Client {
	if t.Connect <= 0 {
		t.Connect = 5 * time.Second
	}
	if t.Idle <= 0 {
		t.Idle = 5 * time.Minute
	}
	return &http.Client{
		Transport: &watch{Timing: t, Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			ForceAttemptHTTP2:      true,
			MaxResponseHeaderBytes: maxHeader,
			IdleConnTimeout:        90 * time.Second,
		}},
	}
}

// watch knows how far a request came, and ends one that stands still.
type watch struct {
	*http.Transport
	Timing
}

var (
	errIdle    = errors.New("nothing came for the idle time")
	errConnect = errors.New("no connection in time")
)

func (w *watch) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	var connected atomic.Bool
	connect := time.AfterFunc(w.Connect, func() { cancel(errConnect) })
	timer := time.AfterFunc(math.MaxInt64, func() { cancel(errIdle) })
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		connect.Stop()
		timer.Reset(w.Idle)
		connected.Store(true)
	}})
	resp, err := w.Transport.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	connect.Stop()
	if err != nil {
		defer cancel(nil)
		switch {
		case req.Context().Err() != nil:
			return nil, req.Context().Err()
		case !connected.Load():
			return nil, unreachable(ctx, err)
		case context.Cause(ctx) == errIdle:
			return nil, &Error{Reason: Stalled}
		}
		return nil, &Error{Reason: Cut}
	}
	resp.Body = &body{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, timer: timer, idle: w.Idle}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, refused(resp)
	}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind {
	case "text/html":
		resp.Body.Close()
		return nil, &Error{Reason: Protocol, Status: resp.StatusCode, Code: "web_page", Detail: "a web page came in place of an answer: the address may be wrong, or a proxy asks for a login"}
	case "application/json":
		defer resp.Body.Close()
		e := refused(resp)
		e.Reason, e.Code = Protocol, cmp.Or(e.Code, "no_stream")
		return nil, e
	}
	return resp, nil
}

// refused reads what an answer without success says, in the forms that are about: those
// of the vendors, and those of servers that speak their protocols. A proxy may answer
// with a page instead, and then the status says it all.
func refused(resp *http.Response) *Error {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what came of it is enough
	code, kind, detail := said(raw)
	return Refusal(resp.StatusCode, resp.Header, code, kind, detail)
}

func said(raw []byte) (code, kind, detail string) {
	type problem struct {
		Code    any    `json:"code"` // some servers give a number
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	var body struct {
		problem
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(raw, &body) != nil {
		return "", "", ""
	}
	p := body.problem
	if err := json.Unmarshal(body.Error, &p); err != nil {
		_ = json.Unmarshal(body.Error, &p.Message) // a bare sentence, or nothing at all
	}
	if p.Message == "" && len(body.Detail) > 0 {
		p.Message = string(body.Detail)
	}
	code, _ = p.Code.(string)
	return code, p.Type, p.Message
}

// StreamRefusal is Refusal for an error that came as an event of a stream.
func StreamRefusal(raw []byte) *Error {
	code, kind, detail := said(raw)
	return Refusal(0, nil, code, kind, detail)
}

// unreachable says what stood in the way, as far as it is known.
func unreachable(ctx context.Context, err error) *Error {
	e := &Error{Reason: Unreachable, Detail: line(err.Error())}
	var (
		name *net.DNSError
		cert *tls.CertificateVerificationError
	)
	switch {
	case context.Cause(ctx) == errConnect:
		e.Code = "timeout"
	case errors.As(err, &name):
		e.Code = "unknown_host"
	case errors.As(err, &cert):
		e.Code = "certificate"
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Code = "connection_refused"
	}
	return e
}

// body is an answer that is being read, by one goroutine.
type body struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	idle   time.Duration
}

func (b *body) Read(p []byte) (int, error) {
	b.timer.Reset(b.idle) // only the waiting counts, not what the reader does between
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	switch {
	case err == nil, err == io.EOF:
		return n, err
	case context.Cause(b.ctx) == errIdle:
		return n, &Error{Reason: Stalled}
	}
	return n, &Error{Reason: Cut}
}

func (b *body) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}
