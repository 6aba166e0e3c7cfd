package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// Path is where the server answers.
	Path = "/mcp"

	// maxSessions bounds the talks of one token in the versions that have them, and
	// idleSession ends one that its client left without a word.
	maxSessions = 64
	idleSession = time.Hour
	// maxHeader bounds the head of a request, in bytes.
	maxHeader = 32 << 10
	// maxConns bounds the connections of all, also of those who have no token.
	maxConns = 1024
)

// A Runtime is what one token opens. Sessions, questions and processes of one mean
// nothing to another.
type Runtime struct {
	Token string
	Suite Suite
}

// ServeHTTP serves streamable HTTP at Path until ctx is done, or the listener fails.
// It closes the listener, not the suites.
//
// A request without one of the tokens is answered with 401 before its body is read.
// With loopback it has to name a loopback address as its host, and a web page as its
// origin never gets in unless it came from this very address: a page that a browser
// shows must not reach a server on the same machine. Bodies are bounded as lines are.
//
// When ctx is done the calls in flight are cancelled, and have 350 ms to answer.
func ServeHTTP(ctx context.Context, c Config, listener net.Listener, loopback bool, runtimes []Runtime) error {
	if c.beat == 0 {
		c.beat = beat
	}
	calls, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	w := &web{loopback: loopback}
	for _, r := range runtimes {
		w.rooms = append(w.rooms, newRoom(calls, c, r))
	}
	server := &http.Server{
		Handler: w, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0), // it would quote requests
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(&limited{Listener: listener, slots: make(chan struct{}, maxConns)}) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	stop()
	bounded, cancel := context.WithTimeout(context.Background(), inService.chance+inService.windUp)
	defer cancel()
	_ = server.Shutdown(bounded)
	_ = server.Close()
	var ending sync.WaitGroup
	for _, r := range w.rooms {
		for s := range r.server.Sessions() {
			ending.Go(func() { s.Close() })
		}
	}
	ended := make(chan struct{})
	go func() { ending.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-bounded.Done(): // a call that heeds nothing: closing its suite is the caller's next step
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// A web is the door: who comes in, and to which room.
type web struct {
	loopback bool
	rooms    []*room
}

// A room is one runtime. The SDK keeps the two ways of MCP over HTTP apart: with
// sessions up to 2025-11-25, without since.
type room struct {
	key      [sha256.Size]byte // of its token
	server   *sdk.Server
	posts    *posts
	sessions http.Handler
	single   http.Handler

	mu    sync.Mutex
	open  int // requests
	bytes int // of their bodies
}

func newRoom(calls context.Context, c Config, r Runtime) *room {
	f := newFace(calls, r.Suite, c, nil)
	f.posts = &posts{open: map[string]*post{}}
	server := f.server()
	get := func(*http.Request) *sdk.Server { return server }
	options := sdk.StreamableHTTPOptions{MaxRequestBodyBytes: maxLine, SessionTimeout: idleSession, PropagateRequestCancellation: true}
	single := options
	single.Stateless = true
	return &room{
		key: sha256.Sum256([]byte(r.Token)), server: server, posts: f.posts,
		sessions: sdk.NewStreamableHTTPHandler(get, &options), single: sdk.NewStreamableHTTPHandler(get, &single),
	}
}

func (w *web) ServeHTTP(out http.ResponseWriter, req *http.Request) {
	out.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case w.loopback && !isLoopback(req.Host):
		http.Error(out, "this host is not served here", http.StatusForbidden)
	case !sameOrigin(req):
		http.Error(out, "this origin is not served here", http.StatusForbidden)
	case req.URL.Path != Path:
		http.NotFound(out, req)
	default:
		room := w.room(req)
		if room == nil {
			out.Header().Set("WWW-Authenticate", `Bearer realm="belay"`)
			http.Error(out, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		room.serve(out, req)
	}
}

// room is that of the request's token. All tokens are compared, whichever it is.
func (w *web) room(req *http.Request) (found *room) {
	given := req.Header.Values("Authorization")
	if len(given) != 1 {
		return nil
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	key := sha256.Sum256([]byte(strings.TrimSpace(token)))
	for _, r := range w.rooms {
		if subtle.ConstantTimeCompare(key[:], r.key[:]) == 1 {
			found = r
		}
	}
	if !strings.EqualFold(scheme, "bearer") {
		return nil
	}
	return found
}

// isLoopback is about the host of a request, with or without a port.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

func sameOrigin(req *http.Request) bool {
	origins := req.Header.Values("Origin")
	if len(origins) == 0 {
		return true // no browser
	}
	u, err := url.Parse(origins[0])
	return len(origins) == 1 && err == nil && u.Host != "" && strings.EqualFold(u.Host, req.Host)
}

func (r *room) serve(out http.ResponseWriter, req *http.Request) {
	size := int(min(max(req.ContentLength, 0), maxLine+1))
	if req.ContentLength < 0 {
		size = maxLine // not told
	}
	if size > maxLine {
		http.Error(out, "the body is too large", http.StatusRequestEntityTooLarge)
		return
	}
	if !r.enter(size) {
		out.Header().Set("Retry-After", "1")
		http.Error(out, "too many requests are in flight; wait for answers", http.StatusServiceUnavailable)
		return
	}
	defer r.leave(size)
	handler, ok := r.handler(out, req)
	if !ok {
		return
	}
	watched := &watchedWriter{ResponseWriter: out}
	done := r.posts.begin(req, watched)
	defer done()
	handler.ServeHTTP(watched, req)
}

func (r *room) enter(size int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open >= maxFlight || r.bytes+size > maxFlightBytes {
		return false
	}
	r.open++
	r.bytes += size
	return true
}

func (r *room) leave(size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	r.bytes -= size
}

// handler tells the two ways apart: by the version in the head, else by the session,
// else by what the body says of its version. Where it reports false the request is
// answered.
func (r *room) handler(out http.ResponseWriter, req *http.Request) (http.Handler, bool) {
	if req.Header.Get("MCP-Protocol-Version") >= "2026-07-28" {
		return r.single, true
	}
	if req.Method != http.MethodPost || req.Header.Get("Mcp-Session-Id") != "" {
		return r.sessions, true
	}
	body, err := io.ReadAll(http.MaxBytesReader(out, req.Body, maxLine))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		http.Error(out, "the body is too large", http.StatusRequestEntityTooLarge)
		return nil, false
	case err != nil:
		http.Error(out, "the body cannot be read", http.StatusBadRequest)
		return nil, false
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte(sdk.MetaKeyProtocolVersion)) {
		return r.single, true
	}
	n := 0
	for range r.server.Sessions() {
		n++
	}
	if n >= maxSessions {
		out.Header().Set("Retry-After", "60")
		http.Error(out, "too many sessions are open; end some with DELETE", http.StatusServiceUnavailable)
		return nil, false
	}
	return r.sessions, true
}

// A limited listener has so many connections at once; who comes then waits in the
// system's queue.
type limited struct {
	net.Listener
	slots chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	l.slots <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, free: sync.OnceFunc(func() { <-l.slots })}, nil
}

type limitedConn struct {
	net.Conn
	free func()
}

func (c *limitedConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}
