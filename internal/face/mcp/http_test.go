package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belayhq/belay/coding"
)

// A site is a server over HTTP on a port of its own.
type site struct {
	t      *testing.T
	addr   string
	client *http.Client
	stop   func() // and wait
}

func newSite(t *testing.T, loopback bool, runtimes ...Runtime) *site {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- ServeHTTP(ctx, Config{Version: "1.2.3"}, listener, loopback, runtimes) }()
	transport := &http.Transport{}
	s := &site{t: t, addr: listener.Addr().String(), client: &http.Client{Transport: transport, Timeout: hang}}
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-served:
			if err != nil {
				t.Errorf("ServeHTTP: %v", err)
			}
		case <-time.After(hang):
			t.Fatal("the server did not end")
		}
		transport.CloseIdleConnections()
	}
	t.Cleanup(s.stop)
	return s
}

// post is the status and the body of one request.
func (s *site) post(body string, change func(*http.Request)) (int, string) {
	s.t.Helper()
	req, err := http.NewRequest("POST", "http://"+s.addr+Path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer one")
	if change != nil {
		change(req)
	}
	r, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(text)
}

// Who does not get in, and that nothing is read of what they send.
func TestTheDoorOverHTTP(t *testing.T) {
	t.Parallel()
	s := newSite(t, true, Runtime{"one", newSuite()}, Runtime{"two", newSuite()})
	header := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = values }
	}
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"as it should be":        {nil, 200},
		"the other token":        {header("Authorization", "bearer two"), 200},
		"no token":               {header("Authorization"), 401},
		"a wrong token":          {header("Authorization", "Bearer One"), 401},
		"an empty token":         {header("Authorization", "Bearer "), 401},
		"another scheme":         {header("Authorization", "Basic one"), 401},
		"two tokens":             {header("Authorization", "Bearer one", "Bearer two"), 401},
		"another host":           {func(r *http.Request) { r.Host = "evil.example" }, 403},
		"another host, a port":   {func(r *http.Request) { r.Host = "evil.example:80" }, 403},
		"a host that looks so":   {func(r *http.Request) { r.Host = "127.0.0.1.evil.example" }, 403},
		"localhost":              {func(r *http.Request) { r.Host = "localhost:1" }, 200},
		"::1":                    {func(r *http.Request) { r.Host = "[::1]:80" }, 200},
		"a web page":             {header("Origin", "https://evil.example"), 403},
		"a web page of nowhere":  {header("Origin", "null"), 403},
		"a page of another port": {header("Origin", "http://127.0.0.1:1"), 403},
		"its own page":           {header("Origin", "http://"+s.addr), 200},
		"two origins":            {header("Origin", "http://"+s.addr, "http://evil.example"), 403},
		"another path":           {func(r *http.Request) { r.URL.Path = "/" }, 404},
		"another type":           {header("Content-Type", "text/plain"), 415},
		"GET without a session":  {func(r *http.Request) { r.Method, r.Body = "GET", nil; r.ContentLength = 0 }, 400},
		"an unknown session":     {header("Mcp-Session-Id", "x"), 404},
		"PUT":                    {func(r *http.Request) { r.Method = "PUT" }, 405},
	} {
		if got, text := s.post(initialize, c.change); got != c.want || strings.Contains(text, "evil") {
			t.Errorf("%s: %d %s", name, got, text)
		}
	}
	if got, _ := s.post(strings.Repeat("x", maxLine+1), nil); got != 413 {
		t.Errorf("a body over the bound: %d", got)
	}
	chunked := func(r *http.Request) { r.ContentLength = -1 }
	if got, _ := s.post(strings.Repeat("x", maxLine+1), chunked); got != 413 {
		t.Errorf("a body over the bound, in chunks: %d", got)
	}
	if got, text := s.post(`{`, nil); got != 400 {
		t.Errorf("no JSON: %d %s", got, text)
	}
	s.stop()
	if _, err := net.DialTimeout("tcp", s.addr, time.Second); err == nil {
		t.Error("the port is still served")
	}

	open := newSite(t, false, Runtime{"one", newSuite()})
	if got, _ := open.post(initialize, func(r *http.Request) { r.Header.Del("Authorization"); r.Host = "some.example" }); got != 401 {
		t.Errorf("any address, no token: %d", got)
	}
}

// C6: sessions that clients leave open are bounded.
func TestSessionsOverHTTPAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, true, Runtime{"one", newSuite()}, Runtime{"two", newSuite()})
	for i := range maxSessions {
		if got, text := s.post(initialize, nil); got != 200 {
			t.Fatalf("session %d: %d %s", i, got, text)
		}
	}
	if got, _ := s.post(initialize, nil); got != 503 {
		t.Errorf("over the bound: %d", got)
	}
	if got, _ := s.post(initialize, func(r *http.Request) { r.Header.Set("Authorization", "Bearer two") }); got != 200 {
		t.Errorf("one token fills up another: %d", got)
	}
}

// bearer adds the token to what a client sends.
type bearer struct {
	http.RoundTripper
	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}

// enter is the SDK's client with a token; its user answers as told.
func (s *site) enter(token, version string, answer func() *sdk.ElicitResult) (context.Context, *sdk.ClientSession) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	s.t.Cleanup(cancel)
	var options *sdk.ClientOptions
	if answer != nil {
		options = &sdk.ClientOptions{ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) { return answer(), nil }}
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, options)
	transport := &http.Transport{}
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint: "http://" + s.addr + Path, HTTPClient: &http.Client{Transport: bearer{transport, token}}, MaxRetries: -1,
	}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { session.Close(); transport.CloseIdleConnections() })
	return ctx, session
}

func ask1(t *testing.T, ctx context.Context, session *sdk.ClientSession, name string, args any) (string, map[string]any) {
	t.Helper()
	r, err := session.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(r.Content) != 1 || r.StructuredContent != nil {
		t.Fatalf("%s: %+v", name, r)
	}
	key := metaResult
	if r.IsError {
		key = metaError
	}
	data, _ := r.Meta[key].(map[string]any)
	return r.Content[0].(*sdk.TextContent).Text, data
}

// In every version a client over HTTP gets what one over pipes gets, is asked for its
// yes, and shares nothing with a client of another token.
func TestClientsOverHTTP(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the session is a cat")
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			var rooms []Runtime
			for _, token := range []string{"one", "two"} {
				suite, err := coding.New(coding.Config{Root: t.TempDir(), Environ: os.Environ(), Shell: "/bin/sh"})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := suite.Close(); err != nil {
						t.Error(err)
					}
				})
				rooms = append(rooms, Runtime{token, suite})
			}
			s := newSite(t, true, rooms...)
			result := &sdk.ElicitResult{Action: "accept", Content: map[string]any{"decision": "send once"}}
			ctx, one := s.enter("one", version, func() *sdk.ElicitResult { return result })
			if got := one.InitializeResult(); got.ProtocolVersion != version {
				t.Fatalf("speaks %s", got.ProtocolVersion)
			}
			list, err := one.ListTools(ctx, nil)
			if err != nil || len(list.Tools) != 10 {
				t.Fatalf("list: %v, %+v", err, list)
			}
			large := strings.Repeat("a\"\\\u2028<é😀\x1b", 10_000)
			if _, data := ask1(t, ctx, one, "replace", map[string]any{"path": "a", "content": large, "create": true}); data["committed"] != true {
				t.Fatalf("replace: %v", data)
			}
			text, data := ask1(t, ctx, one, "read", map[string]any{"path": "a", "limit": 200_000})
			if data["content"] != large || !strings.HasSuffix(text, large) {
				t.Errorf("the content came back changed: %.200s", text)
			}
			_, data = ask1(t, ctx, one, "exec_command", map[string]any{"cmd": "cat", "stdin": "open", "yield_time_ms": 250})
			id := data["session_id"]
			if _, data = ask1(t, ctx, one, "write_stdin", map[string]any{"session_id": id, "chars": "yes\n"}); data["output"] != "yes\n" {
				t.Errorf("approved input: %v", data)
			}
			result = &sdk.ElicitResult{Action: "decline"}
			if _, data = ask1(t, ctx, one, "write_stdin", map[string]any{"session_id": id, "chars": "no\n"}); data["code"] != "approval_denied" {
				t.Errorf("declined input: %v", data)
			}

			ctx, two := s.enter("two", version, nil)
			for name, args := range map[string]map[string]any{
				"write_stdin": {"session_id": id}, "exec_output": {"session_id": id}, "exec_kill": {"session_id": id}, "exec_wait": {"session_ids": []any{id}},
			} {
				if _, data := ask1(t, ctx, two, name, args); data["code"] != "unknown_session" {
					t.Errorf("%s with a session of another token: %v", name, data)
				}
			}
			if _, data := ask1(t, ctx, two, "exec_list", nil); fmt.Sprint(data["sessions"]) != "[]" {
				t.Errorf("another token lists %v", data)
			}
			if _, data := ask1(t, ctx, two, "read", map[string]any{"path": "a"}); data["code"] != "not_found" {
				t.Errorf("the roots are not apart: %v", data)
			}
			if _, data := ask1(t, ctx, two, "nope", nil); data["code"] != "unknown_tool" {
				t.Errorf("%v", data)
			}
			ctx, again := s.enter("one", version, nil)
			if _, data := ask1(t, ctx, again, "exec_output", map[string]any{"session_id": id}); data["output"] != "yes\n" {
				t.Errorf("the same token on another connection: %v", data)
			}
			s.stop() // with sessions open
		})
	}
}

// P9: a state that one token was handed means nothing to another.
func TestStateOfAnotherToken_P9(t *testing.T) {
	t.Parallel()
	a, b := newSuite(), newSuite()
	a.asking, b.asking = true, true
	s := newSite(t, true, Runtime{"one", a}, Runtime{"two", b})
	call := func(token, more string) (code string, state string) {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"edit","arguments":{}` + more +
			`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + elicits + `}}}`
		status, text := s.post(body, func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("MCP-Protocol-Version", "2026-07-28")
			r.Header.Set("Mcp-Method", "tools/call")
			r.Header.Set("Mcp-Name", "edit")
		})
		if status != 200 && status != 400 {
			t.Fatalf("%d %s", status, text)
		}
		if _, data, ok := strings.Cut(text, "data: "); ok {
			text, _, _ = strings.Cut(data, "\n")
		}
		var m struct {
			Error  *struct{ Message string }
			Result struct {
				RequestState string
				Meta         map[string]map[string]any `json:"_meta"`
			}
		}
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		code, _ = m.Result.Meta[metaError]["code"].(string)
		if m.Error != nil {
			code = m.Error.Message
		}
		return code, m.Result.RequestState
	}
	_, state := call("one", "")
	retry := fmt.Sprintf(`,"inputResponses":{%q:%s},"requestState":%q`, questionID, strings.Replace(accept, "send", "run", 1), state)
	if state == "" {
		t.Fatal("not asked")
	}
	if code, _ := call("two", retry); code != errForged.Message {
		t.Errorf("the other token: %q", code)
	}
	if code, _ := call("one", retry); code != "" {
		t.Errorf("its own token: %q", code)
	}
}

// A call that runs when the server is told to go is cancelled, and the server does not
// wait for what heeds nothing.
func TestShutdownOverHTTP(t *testing.T) {
	t.Parallel()
	suite := newSuite()
	ended := make(chan error, 1)
	suite.onCall = func(err error) { ended <- err }
	s := newSite(t, true, Runtime{"one", suite})
	ctx, session := s.enter("one", "2026-07-28", nil)
	answered := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "shell"})
		answered <- err
	}()
	suite.began(t)
	s.stop()
	if err := <-ended; err == nil || !strings.HasPrefix(err.Error(), "uncertain") {
		t.Errorf("the call ended with %v", err)
	}
	<-answered
}

func callParams(name string, args any) *sdk.CallToolParams {
	return &sdk.CallToolParams{Name: name, Arguments: args}
}

// call1 is the texts of a result's blocks.
func call1(t *testing.T, ctx context.Context, session *sdk.ClientSession, name string, args any) (texts []string) {
	t.Helper()
	r, err := session.CallTool(ctx, callParams(name, args))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, c := range r.Content {
		texts = append(texts, c.(*sdk.TextContent).Text)
	}
	return texts
}
