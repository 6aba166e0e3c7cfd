package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/internal/host/model/anthropic"
	"github.com/belayhq/belay/internal/host/model/openai"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		if err := goleak.Find(); err != nil {
			fmt.Println("leaked goroutines:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// hang is far over what anything here takes, also on a loaded machine.
const hang = 60 * time.Second

// A dialect is one protocol: how its provider is made, and what its server says.
type dialect struct {
	name, path string
	provider   func(base string, t model.Timing) model.Closer
	// whole is an answer with the text "Grüße, world", two parallel calls and 17 of 100
	// tokens cached, with events that nobody knows in between.
	whole []string
	// plain is an answer "hi" without calls.
	plain []string
	// failed is an error within the stream, in a stream that said "hi" before.
	failed []string
	// says is an event with a text of n letters.
	says func(n int) string
}

func sse(event, data string) string {
	if event == "" {
		return "data: " + data + "\n\n"
	}
	return "event: " + event + "\ndata: " + data + "\n\n"
}

// typed is an event that carries its name in its data, too.
func typed(data string) string {
	var e struct{ Type string }
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		panic(data)
	}
	return sse(e.Type, data)
}

const name = "test-model"

var dialects = []dialect{
	{
		name: "responses", path: "/v1/responses",
		provider: func(base string, t model.Timing) model.Closer {
			return openai.NewResponses(openai.Config{Model: name, BaseURL: base + "/v1", Key: "key0815aaaabbbbccccddddeeeeffff", Timing: t})
		},
		whole: []string{
			typed(`{"type":"response.created","response":{"id":"r","status":"in_progress","output":[],"error":null}}`),
			": a comment\n\n",
			typed(`{"type":"response.output_text.delta","delta":"Grü","output_index":0}`),
			typed(`{"type":"response.brand_new","delta":"not text","item":{"type":"unheard_of"},"output_index":[1,{"a":null}]}`),
			typed(`{"type":"response.output_text.delta","delta":"ße, world","output_index":0}`),
			typed(`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Grüße, world","annotations":[]}]}}`),
			typed(`{"type":"response.function_call_arguments.delta","delta":"{\"pa","output_index":1}`),
			typed(`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"read","arguments":"{\"path\":\"a\"}","status":"completed"}}`),
			typed(`{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"fc_2","call_id":"c2","name":"shell","arguments":"{\"argv\":[\"ls\"]}","status":"completed"}}`),
			typed(`{"type":"response.completed","response":{"id":"r","status":"completed","output":[],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":17},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":109}}}`),
		},
		plain: []string{
			typed(`{"type":"response.output_text.delta","delta":"hi"}`),
			typed(`{"type":"response.completed","response":{"status":"completed","output":[]}}`),
		},
		failed: []string{
			typed(`{"type":"response.output_text.delta","delta":"hi"}`),
			typed(`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"we are sorry"}}}`),
		},
		says: func(n int) string {
			return typed(`{"type":"response.output_text.delta","delta":"` + strings.Repeat("x", n) + `"}`)
		},
	},
	{
		name: "chat", path: "/v1/chat/completions",
		provider: func(base string, t model.Timing) model.Closer {
			return openai.NewChat(openai.Config{Model: name, BaseURL: base + "/v1/", Key: "key0815aaaabbbbccccddddeeeeffff", Timing: t})
		},
		whole: []string{
			sse("", `{"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`),
			": keep-alive\n\n",
			sse("", `{"choices":[{"index":0,"delta":{"content":"Grüße, "},"finish_reason":null}]}`),
			sse("", `{"object":"brand.new","news":[1,2]}`),
			sse("", `{"choices":[{"index":0,"delta":{"content":"world","novel":{"a":1}}}]}`),
			sse("", `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":""}}]}}]}`),
			sse("", `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"shell","arguments":"{\"argv\":"}}]}}]}`),
			sse("", `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}}]}`),
			sse("", `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"a\"}"}},{"index":1,"function":{"arguments":"[\"ls\"]}"}}]}}]}`),
			sse("", `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`),
			sse("", `{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":9,"total_tokens":109,"prompt_tokens_details":{"cached_tokens":17},"completion_tokens_details":{"reasoning_tokens":3}}}`),
			sse("", `[DONE]`),
		},
		plain: []string{
			sse("", `{"choices":[{"index":0,"delta":{"content":"hi"}}]}`),
			sse("", `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`),
		},
		failed: []string{
			sse("", `{"choices":[{"index":0,"delta":{"content":"hi"}}]}`),
			sse("", `{"error":{"message":"we are sorry","type":"server_error","code":null}}`),
		},
		says: func(n int) string {
			return sse("", `{"choices":[{"index":0,"delta":{"content":"`+strings.Repeat("x", n)+`"}}]}`)
		},
	},
	{
		name: "messages", path: "/v1/messages",
		provider: func(base string, t model.Timing) model.Closer {
			return anthropic.New(anthropic.Config{Model: name, BaseURL: base, Key: "key0815aaaabbbbccccddddeeeeffff", Timing: t})
		},
		whole: []string{
			typed(`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"x","stop_reason":null,"usage":{"input_tokens":80,"cache_read_input_tokens":17,"cache_creation_input_tokens":3,"output_tokens":1}}}`),
			typed(`{"type":"ping"}`),
			typed(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
			typed(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grü"}}`),
			typed(`{"type":"brand_new","index":0,"delta":{"type":"text_delta","text":"not text"}}`),
			typed(`{"type":"content_block_delta","index":0,"delta":{"type":"novel_delta","text":"not text"}}`),
			typed(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ße, world"}}`),
			typed(`{"type":"content_block_stop","index":0}`),
			typed(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"read","input":{}}}`),
			typed(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}`),
			typed(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}`),
			typed(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"a\"}"}}`),
			typed(`{"type":"content_block_stop","index":1}`),
			typed(`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"c2","name":"shell","input":{}}}`),
			typed(`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"argv\":[\"ls\"]}"}}`),
			typed(`{"type":"content_block_stop","index":2}`),
			typed(`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9,"output_tokens_details":{"thinking_tokens":3}}}`),
			typed(`{"type":"message_stop"}`),
		},
		plain: []string{
			typed(`{"type":"message_start","message":{"usage":{"input_tokens":1,"output_tokens":1}}}`),
			typed(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hi"}}`),
			typed(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`),
			typed(`{"type":"message_stop"}`),
		},
		failed: []string{
			typed(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hi"}}`),
			typed(`{"type":"error","error":{"type":"overloaded_error","message":"we are sorry"}}`),
		},
		says: func(n int) string {
			return typed(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`) +
				typed(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+strings.Repeat("x", n)+`"}}`)
		},
	},
}

// each runs a test for every protocol.
func each(t *testing.T, test func(t *testing.T, d dialect)) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

// A server answers requests with a handler and keeps what they said.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	bodies  []map[string]any
	headers []http.Header
}

func serve(t *testing.T, d dialect, handle func(w http.ResponseWriter, r *http.Request, n int)) *server {
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var body map[string]any
		if err := json.Unmarshal(raw, &body); err != nil || r.URL.Path != d.path || r.Method != "POST" {
			t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		}
		s.mu.Lock()
		s.bodies, s.headers = append(s.bodies, body), append(s.headers, r.Header)
		n := len(s.bodies)
		s.mu.Unlock()
		handle(w, r, n)
	}))
	t.Cleanup(s.Close)
	return s
}

// stream sends events in pieces of so many bytes.
func stream(w http.ResponseWriter, piece int, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	all := strings.Join(events, "")
	for len(all) > 0 {
		n := min(piece, len(all))
		io.WriteString(w, all[:n])
		w.(http.Flusher).Flush()
		all = all[n:]
	}
}

func ask(t *testing.T, d dialect, base string, timing model.Timing) (model.Provider, context.Context) {
	p := d.provider(base, timing)
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	t.Cleanup(func() { cancel(); p.Close() })
	return p, ctx
}

var question = model.Request{Messages: []model.Message{{Role: model.User, Text: "hello"}}}

func reason(err error) model.Reason {
	var e *model.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return 0
}

// A whole answer is the same however its bytes are cut, and whatever unknown stands in it.
func TestWholeAnswer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d dialect) {
		for _, piece := range []int{1, 3, 64, 1 << 20} {
			for _, ends := range []string{"\n", "\r\n"} {
				s := serve(t, d, func(w http.ResponseWriter, _ *http.Request, _ int) {
					stream(w, piece, strings.ReplaceAll(strings.Join(d.whole, ""), "\n", ends))
				})
				p, ctx := ask(t, d, s.URL, model.Timing{})
				var pieces []string
				a, err := p.Stream(ctx, question, func(s string) { pieces = append(pieces, s) })
				if err != nil {
					t.Fatal(err)
				}
				if a.Text != "Grüße, world" || strings.Join(pieces, "") != a.Text || len(pieces) != 2 || a.Stop != model.ToolUse || a.Native != nil {
					t.Errorf("%+v %q", a, pieces)
				}
				if want := []model.Call{{ID: "c1", Name: "read", Args: `{"path":"a"}`}, {ID: "c2", Name: "shell", Args: `{"argv":["ls"]}`}}; !slices.Equal(a.Calls, want) {
					t.Errorf("%+v", a.Calls)
				}
				u := a.Usage
				if u.CacheWrite = 0; u != (model.Usage{Input: 100, CacheRead: 17, Output: 9, Reasoning: 3}) {
					t.Errorf("%+v", a.Usage)
				}
			}
		}
	})
}

// A stream that ends before the answer does is a cut, wherever that is; no call comes of
// it. What the user saw by then is told.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d dialect) {
		all := strings.Join(d.whole, "")
		step := 41
		if os.Getenv("BELAY_TEST_LONG") != "" {
			step = 1
		}
		for _, abort := range []bool{false, true} { // a clean end of the body, and a broken connection
			var at int
			s := serve(t, d, func(w http.ResponseWriter, _ *http.Request, _ int) {
				stream(w, 1<<20, all[:at])
				if abort {
					panic(http.ErrAbortHandler)
				}
			})
			p, ctx := ask(t, d, s.URL, model.Timing{})
			complete := false
			for at = 0; at < len(all); at += step {
				var shown strings.Builder
				a, err := p.Stream(ctx, question, func(s string) { shown.WriteString(s) })
				if shown.String() != a.Text || !strings.HasPrefix("Grüße, world", a.Text) {
					t.Fatalf("at %d: shown %q, returned %q", at, shown.String(), a.Text)
				}
				if err == nil { // only the farewell was cut
					complete = true
					if len(a.Calls) != 2 || a.Stop != model.ToolUse || a.Calls[1].Args != `{"argv":["ls"]}` {
						t.Fatalf("at %d of %d: %+v", at, len(all), a)
					}
					continue
				}
				var e *model.Error
				if complete || !errors.As(err, &e) || e.Reason != model.Cut || len(a.Calls) != 0 || a.Text != "" && !e.Begun || !e.Temporary() {
					t.Fatalf("at %d of %d, abort %v: %+v, %#v", at, len(all), abort, a, err)
				}
			}
		}
	})
}

// A server that stops sending is given up after the idle time, and only the waiting counts.
func TestStall(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d dialect) {
		for _, events := range [][]string{nil, d.plain[:1], d.whole[:5]} {
			released := make(chan struct{})
			s := serve(t, d, func(w http.ResponseWriter, r *http.Request, _ int) {
				if events != nil {
					stream(w, 1<<20, events...)
				}
				<-r.Context().Done() // the client hangs up
				close(released)
			})
			p, ctx := ask(t, d, s.URL, model.Timing{Idle: 150 * time.Millisecond, Connect: 5 * time.Second})
			began := time.Now()
			a, err := p.Stream(ctx, question, nil)
			var e *model.Error
			if !errors.As(err, &e) || e.Reason != model.Stalled || e.Begun != (a.Text != "") || time.Since(began) > hang/2 {
				t.Errorf("%+v, %v", a, err)
			}
			select {
			case <-released:
			case <-time.After(hang):
				t.Error("the connection is still open")
			}
		}
		s := serve(t, d, func(w http.ResponseWriter, _ *http.Request, _ int) {
			for _, e := range d.whole { // each one has to be waited for
				stream(w, 1<<20, e)
				time.Sleep(10 * time.Millisecond)
			}
		})
		p, ctx := ask(t, d, s.URL, model.Timing{Idle: 500 * time.Millisecond})
		if _, err := p.Stream(ctx, question, func(string) { time.Sleep(700 * time.Millisecond) }); err != nil {
			t.Error("a slow reader is no stall:", err)
		}
	})
}

// Who cancels gets the error of the context, at once, and the connection is closed.
func TestCancel(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d dialect) {
		for _, events := range [][]string{nil, d.plain[:1], d.whole[:6]} {
			arrived, released := make(chan struct{}), make(chan struct{})
			s := serve(t, d, func(w http.ResponseWriter, r *http.Request, _ int) {
				if events != nil {
					stream(w, 1<<20, events...)
				}
				close(arrived)
				<-r.Context().Done()
				close(released)
			})
			p, ctx := ask(t, d, s.URL, model.Timing{})
			ctx, cancel := context.WithCancel(ctx)
			go func() { <-arrived; cancel() }()
			_, err := p.Stream(ctx, question, nil)
			var own *model.Error
			if !errors.Is(err, context.Canceled) || errors.As(err, &own) {
				t.Errorf("%v", err)
			}
			select {
			case <-released:
			case <-time.After(hang):
				t.Error("the connection is still open")
			}
		}
	})
}

// Each status has its reason, with what the server said for the user's screen only.
func TestRefusals(t *testing.T) {
	t.Parallel()
	openAI := func(code, kind string) string {
		return fmt.Sprintf(`{"error":{"message":"the secret sentence","type":%q,"code":%q}}`, kind, code)
	}
	claude := func(kind string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":"the secret sentence"}}`, kind)
	}
	cases := []struct {
		status int
		body   string
		want   model.Reason
		code   string
	}{
		{401, openAI("invalid_api_key", "invalid_request_error"), model.Auth, "invalid_api_key"},
		{401, claude("authentication_error"), model.Auth, "authentication_error"},
		{403, "", model.Auth, ""},
		{400, openAI("", "invalid_request_error"), model.BadRequest, "invalid_request_error"},
		{400, openAI("context_length_exceeded", "invalid_request_error"), model.TooLong, "context_length_exceeded"},
		{400, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"input length and `max_tokens` exceed context limit: 188240 + 16384 > 200000, decrease input length or `max_tokens` and try again\"}}", model.TooLong, "invalid_request_error"},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}`, model.TooLong, "invalid_request_error"},
		{413, claude("request_too_large"), model.TooLong, "request_too_large"},
		{404, openAI("model_not_found", "invalid_request_error"), model.BadRequest, "model_not_found"},
		{422, `{"detail":[{"loc":["body"],"msg":"the secret sentence"}]}`, model.BadRequest, ""},
		{307, "", model.BadRequest, ""},
		{429, openAI("rate_limit_exceeded", "tokens"), model.RateLimited, "rate_limit_exceeded"},
		{429, openAI("insufficient_quota", "insufficient_quota"), model.Quota, "insufficient_quota"},
		{429, claude("rate_limit_error"), model.RateLimited, "rate_limit_error"},
		{402, "", model.Quota, ""},
		{500, `{"error":"the secret sentence"}`, model.Overloaded, ""},
		{502, "<html>the secret sentence</html>", model.Overloaded, ""},
		{503, strings.Repeat("x", 1<<20), model.Overloaded, ""},
		{529, claude("overloaded_error"), model.Overloaded, "overloaded_error"},
		{400, openAI("odd code: the secret sentence", "x y"), model.BadRequest, ""},
	}
	each(t, func(t *testing.T, d dialect) {
		s := serve(t, d, func(w http.ResponseWriter, _ *http.Request, n int) {
			c := cases[n-1]
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
			if c.status == 429 {
				w.Header().Set("Retry-After", "7")
			}
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		})
		p, ctx := ask(t, d, s.URL, model.Timing{})
		for _, c := range cases {
			a, err := p.Stream(ctx, question, nil)
			var e *model.Error
			if !errors.As(err, &e) {
				t.Errorf("%d: %v", c.status, err)
				continue
			}
			after := time.Duration(0)
			if c.status == 429 {
				after = 7 * time.Second
			}
			if e.Reason != c.want || e.Status != c.status || e.Code != c.code || e.Begun || e.RetryAfter != after || a.Text != "" {
				t.Errorf("%d %s: %#v", c.status, c.body[:min(len(c.body), 80)], e)
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("C5: %v", err)
			}
			if strings.Contains(c.body, `"the secret sentence`) && !strings.Contains(e.Detail, "the secret sentence") || len(e.Detail) > 512 {
				t.Errorf("%d: detail %q", c.status, e.Detail)
			}
		}
		if len(s.bodies) != len(cases) {
			t.Errorf("%d requests for %d answers: something was repeated", len(s.bodies), len(cases))
		}
	})
}

// A server that quotes the key does so in vain, wherever it does, and a page that a proxy answers
// with is no answer that was cut off: it is not asked for again.
func TestKeyIsStruckAndPagesAreTold(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d dialect) {
		var key string
		s := serve(t, d, func(w http.ResponseWriter, r *http.Request, n int) {
			key = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + r.Header.Get("X-Api-Key")
			quoted := []string{"bad key " + key, strings.Repeat("x", 490) + " " + key, "sk \\u001b[0m" + key[:5] + "\\u200b" + key[5:]}[min(n-1, 2)]
			said := fmt.Sprintf(`{"type":"error","error":{"type":"authentication_error","code":%q,"message":"%s"}}`, key, quoted)
			switch n {
			case 1, 2, 3:
				w.WriteHeader(401)
				io.WriteString(w, said)
			case 4:
				stream(w, 1000, sse("error", said))
			case 5:
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				io.WriteString(w, "<html>log in</html>")
			case 6:
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, `{"choices":[{"message":{"content":"hi"}}]}`)
			}
		})
		p, ctx := ask(t, d, s.URL, model.Timing{})
		for n := range 6 {
			_, err := p.Stream(ctx, question, nil)
			var e *model.Error
			if !errors.As(err, &e) {
				t.Fatalf("%d: %v", n, err)
			}
			if len(key) < 6 {
				t.Fatalf("the key of the test is too short: %q", key)
			}
			bare := regexp.MustCompile(`[^a-z0-9]`).ReplaceAllString(e.Detail+e.Code+err.Error(), "")
			for at := range len(key) - 12 {
				if strings.Contains(bare, key[at:at+12]) {
					t.Errorf("%d: %q %q", n, e.Code, e.Detail)
					break
				}
			}
			if n == 5 && (e.Reason != model.Protocol || e.Code != "no_stream" || e.Temporary()) {
				t.Errorf("%#v", e)
			}
			if n == 4 && (e.Reason != model.Protocol || e.Code != "web_page" || e.Temporary()) {
				t.Errorf("%#v", e)
			}
		}
	})
}

// What says that it failed is read up to a bound, however much it says.
func TestEndlessRefusal(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d dialect) {
		s := serve(t, d, func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.WriteHeader(503)
			for n, err := 0, error(nil); err == nil; n++ {
				if _, err = w.Write(make([]byte, 1<<16)); n > 4096 {
					t.Error("256 MiB of it were taken")
					return
				}
			}
		})
		p, ctx := ask(t, d, s.URL, model.Timing{})
		if _, err := p.Stream(ctx, question, nil); reason(err) != model.Overloaded {
			t.Error(err)
		}
	})
}

// An error within the stream, an event that is no JSON, and an answer without end.
func TestBadStreams(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d dialect) {
		for _, c := range []struct {
			name   string
			events []string
			want   model.Reason
		}{
			{"failed", d.failed, model.Overloaded},
			{"no JSON", []string{d.plain[0], d.plain[1][:strings.Index(d.plain[1], "{")] + "{oops\n\n"}, model.Protocol},
			{"huge line", []string{d.says(40 << 20)}, model.Protocol},
			{"no end", slices.Repeat([]string{d.says(1 << 20)}, 20), model.Protocol},
		} {
			s := serve(t, d, func(w http.ResponseWriter, _ *http.Request, _ int) { stream(w, 1<<20, c.events...) })
			p, ctx := ask(t, d, s.URL, model.Timing{})
			size := 0
			a, err := p.Stream(ctx, question, func(s string) { size += len(s) })
			var e *model.Error
			if !errors.As(err, &e) || e.Reason != c.want || len(a.Calls) != 0 || size != len(a.Text) || size > model.MaxAnswer || e.Begun != (size > 0) {
				t.Errorf("%s: %#v, %d bytes", c.name, err, size)
			}
			if err != nil && strings.Contains(err.Error(), "sorry") {
				t.Errorf("C5: %v", err)
			}
		}
	})
}

// What cannot be reached is told as that: no listener, no such host, no TLS on the other
// side, a socket that is never accepted.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connects, and never speaks TLS
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	each(t, func(t *testing.T, d dialect) {
		for base, code := range map[string]string{"http://" + gone.Addr().String(): "connection_refused", "https://" + silent.Addr().String(): "timeout"} {
			p, ctx := ask(t, d, base, model.Timing{Connect: 200 * time.Millisecond})
			_, err := p.Stream(ctx, question, nil)
			var e *model.Error
			if !errors.As(err, &e) || e.Reason != model.Unreachable || e.Code != code || e.Begun || strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("%s: %#v", base, err)
			}
		}
	})
}

// A provider asks nobody without a key where it knows that one is needed, and without a
// model; an impossible conversation is refused here, and with a name.
func TestRefusedBeforehand(t *testing.T) {
	t.Parallel()
	for _, p := range []model.Provider{openai.NewResponses(openai.Config{Model: "m"}), openai.NewChat(openai.Config{Model: "m", BaseURL: openai.DefaultBaseURL + "/"}),
		anthropic.New(anthropic.Config{Model: "m"})} {
		if _, err := p.Stream(t.Context(), question, nil); reason(err) != model.Auth {
			t.Errorf("%T: %v", p, err)
		}
	}
	each(t, func(t *testing.T, d dialect) {
		p, ctx := ask(t, d, "http://127.0.0.1:1", model.Timing{})
		for _, r := range []model.Request{
			{}, {Messages: []model.Message{{Role: "system", Text: "x"}}},
			{Messages: []model.Message{{Role: model.User, Text: "x"}, {Role: model.Assistant, Calls: []model.Call{{ID: "a", Name: "read"}}}, {Role: model.User, Text: "y"}}},
			{Messages: []model.Message{{Role: model.User, Text: "x"}, {Role: model.Result, CallID: "a"}}},
		} {
			if _, err := p.Stream(ctx, r, nil); reason(err) != model.BadRequest {
				t.Errorf("%+v: %v", r, err)
			}
		}
	})
}

// conversation has everything that can be in one.
var conversation = model.Request{
	System: "Be short.", MaxTokens: 77,
	Tools: []model.Tool{{Name: "read", Description: "reads", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`)}},
	Messages: []model.Message{
		{Role: model.User, Text: "hello\u2028<b>"},
		{Role: model.Assistant, Text: "I look.", Calls: []model.Call{{ID: "c1", Name: "read", Args: `{"path":"a"}`}, {ID: "c2", Name: "read", Args: `{"path":`}}},
		{Role: model.Result, CallID: "c1", Text: "content"},
		{Role: model.Result, CallID: "c2", Text: "invalid_argument", Failed: true},
		{Role: model.User, Text: "[a notice]"},
		{Role: model.Assistant, Native: &model.Native{By: "another", JSON: json.RawMessage(`[{"type":"secret"}]`)}}, // an empty answer
		{Role: model.User, Text: "and now?"},
	},
}

// What a request says in each protocol, whole.
func TestRequest(t *testing.T) {
	t.Parallel()
	schema := `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`
	want := map[string]string{
		"responses": `{"model":"test-model","store":false,"stream":true,"instructions":"Be short.","max_output_tokens":77,
			"tools":[{"type":"function","name":"read","description":"reads","strict":false,"parameters":` + schema + `}],
			"input":[{"role":"user","content":"hello\u2028<b>"},{"role":"assistant","content":"I look."},
			{"type":"function_call","call_id":"c1","name":"read","arguments":"{\"path\":\"a\"}"},
			{"type":"function_call","call_id":"c2","name":"read","arguments":"{\"malformed_arguments\":\"{\\\"path\\\":\"}"},
			{"type":"function_call_output","call_id":"c1","output":"content"},{"type":"function_call_output","call_id":"c2","output":"invalid_argument"},
			{"role":"user","content":"[a notice]"},{"role":"user","content":"and now?"}]}`,
		"chat": `{"model":"test-model","stream":true,"stream_options":{"include_usage":true},"max_tokens":77,
			"tools":[{"type":"function","function":{"name":"read","description":"reads","parameters":` + schema + `}}],
			"messages":[{"role":"system","content":"Be short."},{"role":"user","content":"hello\u2028<b>"},
			{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}},
			{"id":"c2","type":"function","function":{"name":"read","arguments":"{\"malformed_arguments\":\"{\\\"path\\\":\"}"}}]},
			{"role":"tool","tool_call_id":"c1","content":"content"},{"role":"tool","tool_call_id":"c2","content":"invalid_argument"},
			{"role":"user","content":"[a notice]"},{"role":"user","content":"and now?"}]}`,
		"messages": `{"model":"test-model","stream":true,"max_tokens":77,"system":[{"type":"text","text":"Be short.","cache_control":{"type":"ephemeral"}}],
			"tools":[{"name":"read","description":"reads","input_schema":` + schema + `}],
			"messages":[{"role":"user","content":[{"type":"text","text":"hello\u2028<b>"}]},
			{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"read","input":{"path":"a"}},
			{"type":"tool_use","id":"c2","name":"read","input":{"malformed_arguments":"{\"path\":"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"content"}]},
			{"type":"tool_result","tool_use_id":"c2","is_error":true,"content":[{"type":"text","text":"invalid_argument"}]},
			{"type":"text","text":"[a notice]"},{"type":"text","text":"and now?","cache_control":{"type":"ephemeral"}}]}]}`,
	}
	each(t, func(t *testing.T, d dialect) {
		s := serve(t, d, func(w http.ResponseWriter, _ *http.Request, _ int) { stream(w, 1<<20, d.plain...) })
		p, ctx := ask(t, d, s.URL, model.Timing{})
		a, err := p.Stream(ctx, conversation, nil)
		if err != nil || a.Text != "hi" || a.Stop != model.Done || len(a.Calls) != 0 {
			t.Fatalf("%+v, %v", a, err)
		}
		var w any
		if err := json.Unmarshal([]byte(want[d.name]), &w); err != nil {
			t.Fatal(err)
		}
		wanted, _ := json.Marshal(w)
		got, _ := json.Marshal(s.bodies[0])
		if string(got) != string(wanted) {
			t.Errorf("got\n%s\nwant\n%s", got, wanted)
		}
		h := s.headers[0]
		if h.Get("Authorization")+h.Get("X-Api-Key") != map[string]string{"messages": "key0815aaaabbbbccccddddeeeeffff"}[d.name]+map[string]string{"chat": "Bearer key0815aaaabbbbccccddddeeeeffff", "responses": "Bearer key0815aaaabbbbccccddddeeeeffff"}[d.name] {
			t.Errorf("the key goes as %q, %q", h.Get("Authorization"), h.Get("X-Api-Key"))
		}
	})
}

// Reasoning goes back to the model that it came from, unchanged and in its place, and to
// nobody else.
func TestReasoningGoesBack(t *testing.T) {
	t.Parallel()
	answers := map[string][]string{
		"responses": {
			typed(`{"type":"response.output_item.done","item":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"SEALED"}}`),
			typed(`{"type":"response.output_item.done","item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"read","arguments":"{}","status":"completed"}}`),
			typed(`{"type":"response.completed","response":{"status":"completed","output":[]}}`),
		},
		"chat": {
			sse("", `{"choices":[{"index":0,"delta":{"reasoning_content":"SEA"}}]}`),
			sse("", `{"choices":[{"index":0,"delta":{"reasoning_content":"LED"}}]}`),
			sse("", `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":"{}"}}]}}]}`),
			sse("", `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`),
		},
		"messages": {
			typed(`{"type":"message_start","message":{"usage":{"input_tokens":1}}}`),
			typed(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`),
			typed(`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`),
			typed(`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"SEALED"}}`),
			typed(`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"SEALED too"}}`),
			typed(`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"c1","name":"read","input":{}}}`),
			typed(`{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`),
			typed(`{"type":"message_stop"}`),
		},
	}
	want := map[string]string{
		"responses": `[{"encrypted_content":"SEALED","id":"rs_1","summary":[],"type":"reasoning"},{"arguments":"{}","call_id":"c1","id":"fc_1","name":"read","status":"completed","type":"function_call"}]`,
		"chat":      `"reasoning_content":"SEALED"`,
		"messages":  `[{"signature":"SEALED","thinking":"hm","type":"thinking"},{"data":"SEALED too","type":"redacted_thinking"},{"id":"c1","input":{},"name":"read","type":"tool_use"}]`,
	}
	each(t, func(t *testing.T, d dialect) {
		s := serve(t, d, func(w http.ResponseWriter, _ *http.Request, n int) {
			if n == 1 {
				stream(w, 1<<20, answers[d.name]...)
				return
			}
			stream(w, 1<<20, d.plain...)
		})
		p, ctx := ask(t, d, s.URL, model.Timing{})
		a, err := p.Stream(ctx, question, func(s string) { t.Errorf("shown: %q", s) })
		if err != nil || a.Native == nil || len(a.Calls) != 1 || a.Calls[0].ID != "c1" {
			t.Fatalf("%+v, %v", a, err)
		}
		raw, _ := json.Marshal(a.Message()) // through a transcript
		var kept model.Message
		if err := json.Unmarshal(raw, &kept); err != nil {
			t.Fatal(err)
		}
		r := model.Request{Messages: append(slices.Clone(question.Messages), kept, model.Message{Role: model.Result, CallID: "c1", Text: "x"})}
		if _, err := p.Stream(ctx, r, nil); err != nil {
			t.Fatal(err)
		}
		kept.Native.By = "another"
		if _, err := p.Stream(ctx, r, nil); err != nil {
			t.Fatal(err)
		}
		got, _ := json.Marshal(s.bodies[1])
		inside := want[d.name]
		if d.name == "responses" {
			inside = strings.Trim(inside, "[]")
		}
		if !strings.Contains(string(got), inside) || strings.Count(string(got), `"c1"`) != 2 {
			t.Errorf("%s\nlacks\n%s", got, inside)
		}
		if got, _ := json.Marshal(s.bodies[2]); strings.Contains(string(got), "SEALED") || !strings.Contains(string(got), `"c1"`) {
			t.Errorf("another model gets %s", got)
		}
	})
}

// Servers that speak Chat Completions with an accent.
func TestChatAccents(t *testing.T) {
	t.Parallel()
	d := dialects[1]
	for name, c := range map[string]struct {
		events []string
		want   string // name args, and the IDs that have to be kept
		stop   model.Stop
	}{
		"one number for all calls": {[]string{
			sse("", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"n\":1}"}}]}}]}`),
			sse("", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"read","arguments":"{\"n\":2}"}}]}}]}`),
			sse("", `{"choices":[{"delta":{},"finish_reason":"stop"}]}`)}, `a read {"n":1};b read {"n":2};`, model.ToolUse},
		"the ID comes late": {[]string{
			sse("", `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}`),
			sse("", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"}"}}]},"finish_reason":"tool_calls"}]}`)}, `a read {};`, model.ToolUse},
		"no usage, no DONE, text with the end": {[]string{
			sse("", `{"choices":[{"delta":{"content":"x"},"finish_reason":"eos"}]}`)}, ``, model.Done},
		"an error that is none": {[]string{
			sse("", `{"choices":[{"delta":{"content":"x"},"finish_reason":null}],"error":null}`),
			sse("", `{"choices":[{"delta":{"content":null},"finish_reason":"stop"}],"error":null,"usage":null}`)}, ``, model.Done},
		"the length is reached": {[]string{
			sse("", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"pa"}}]},"finish_reason":"length"}]}`)}, `a read {"pa;`, model.Length},
		"filtered": {[]string{sse("", `{"choices":[{"delta":{"refusal":"no"},"finish_reason":"content_filter"}]}`)}, ``, model.Filtered},
	} {
		s := serve(t, d, func(w http.ResponseWriter, _ *http.Request, _ int) { stream(w, 1<<20, c.events...) })
		p, ctx := ask(t, d, s.URL, model.Timing{})
		a, err := p.Stream(ctx, question, nil)
		got := ""
		for _, c := range a.Calls {
			got += c.ID + " " + c.Name + " " + c.Args + ";"
		}
		if err != nil || got != c.want || a.Stop != c.stop {
			t.Errorf("%s: %q %+v, %v", name, got, a, err)
		}
	}
	// no IDs at all, and the same twice: each call gets one of its own
	s := serve(t, d, func(w http.ResponseWriter, _ *http.Request, _ int) {
		stream(w, 1<<20, sse("", `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"a"}},{"index":1,"id":"x","function":{"name":"b"}},{"index":2,"id":"x","function":{"name":"c"}}]},"finish_reason":"stop"}]}`))
	})
	p, ctx := ask(t, d, s.URL, model.Timing{})
	a, err := p.Stream(ctx, question, nil)
	if err != nil || len(a.Calls) != 3 || a.Calls[1].ID != "x" || a.Calls[0].ID == "" || a.Calls[2].ID == "x" || a.Calls[2].ID == a.Calls[0].ID {
		t.Errorf("%+v, %v", a, err)
	}
}

// OpenAI's own models are asked in their newer words, and what it knows of reasoning only
// where it is about.
func TestOpenAIsOwn(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"gpt-5": true, "gpt-5.1-codex-mini": true, "o3": true, "o4-mini": true, "codex-mini-latest": true, "openai/gpt-5": true,
		"gpt-4o": false, "gpt-4.1": false, "gpt-5-chat-latest": false, "gpt-oss-120b": false, "olmo": false, "o": false, "": false} {
		s := serve(t, dialects[0], func(w http.ResponseWriter, _ *http.Request, _ int) { stream(w, 1<<20, dialects[0].plain...) })
		p := openai.NewResponses(openai.Config{Model: name, BaseURL: s.URL + "/v1"})
		defer p.Close()
		_, err := p.Stream(t.Context(), question, nil)
		if name == "" {
			if reason(err) != model.BadRequest {
				t.Error(err)
			}
			continue
		}
		if _, has := s.bodies[0]["include"]; err != nil || has != want {
			t.Errorf("%s: %v, %v", name, s.bodies[0]["include"], err)
		}
		if h := s.headers[0]; h.Get("Authorization") != "" {
			t.Errorf("%s: without a key %q is sent", name, h.Get("Authorization"))
		}
	}
}

// Keys and addresses come from the vendors' own variables, where nothing else is set, and
// from nowhere else.
func TestEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "ambient")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("OPENAI_ORG_ID", "ambient")
	t.Setenv("ANTHROPIC_API_KEY", "ambient")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "ambient")
	for _, d := range dialects {
		s := serve(t, d, func(w http.ResponseWriter, _ *http.Request, _ int) { stream(w, 1<<20, d.plain...) })
		p, ctx := ask(t, d, s.URL, model.Timing{})
		if _, err := p.Stream(ctx, question, nil); err != nil {
			t.Fatal(err)
		}
		for name, values := range s.headers[0] {
			if strings.Contains(strings.Join(values, " "), "ambient") {
				t.Errorf("%s: %s: %q", d.name, name, values)
			}
		}
	}
	env := map[string]string{"OPENAI_API_KEY": " k\n", "OPENAI_BASE_URL": "b", "OPENAI_ORG_ID": "o", "OPENAI_PROJECT_ID": "p",
		"ANTHROPIC_API_KEY": "k", "ANTHROPIC_AUTH_TOKEN": "t", "ANTHROPIC_BASE_URL": "b"}
	get := func(name string) string { return env[name] }
	if got := (openai.Config{Model: "m", BaseURL: "set"}).FromEnv(get); got != (openai.Config{Model: "m", BaseURL: "set", Key: "k", Organization: "o", Project: "p"}) {
		t.Errorf("%+v", got)
	}
	if got := (anthropic.Config{Key: "set"}).FromEnv(get); got != (anthropic.Config{Key: "set", Token: "t", BaseURL: "b"}) {
		t.Errorf("%+v", got)
	}
}

// One provider serves several requests at once.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d dialect) {
		s := serve(t, d, func(w http.ResponseWriter, _ *http.Request, _ int) { stream(w, 16, d.whole...) })
		p, ctx := ask(t, d, s.URL, model.Timing{})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if a, err := p.Stream(ctx, question, nil); err != nil || a.Text != "Grüße, world" || len(a.Calls) != 2 {
					t.Errorf("%+v, %v", a, err)
				}
			})
		}
		wg.Wait()
	})
}
