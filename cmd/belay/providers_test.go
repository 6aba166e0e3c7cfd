package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// A say is what the model of a test answers to one request.
type say struct {
	want   []string // regular expressions on all texts of the request
	reject []string // and some that must match nowhere in it
	text   string
	calls  []ask
}

type ask struct{ name, args string }

// A vendor is a protocol: where it is served, and how an answer is spelled.
type vendor struct {
	provider, path string
	env            func(base string) []string
	authorized     func(http.Header) bool
	stream         func(w *sse, s say, n int)
}

const vendorKey = "k-secret-canary-81"

var vendors = []vendor{
	{
		provider: "openai", path: "/v1/responses",
		env: func(base string) []string {
			return []string{"OPENAI_BASE_URL=" + base + "/v1", "OPENAI_API_KEY=" + vendorKey}
		},
		authorized: func(h http.Header) bool { return h.Get("Authorization") == "Bearer "+vendorKey },
		stream: func(w *sse, s say, n int) {
			w.event("response.created", `{"response":{"id":"r","status":"in_progress","output":[],"error":null}}`)
			if s.text != "" {
				w.event("response.output_text.delta", `{"output_index":0,"delta":%s}`, quoted(s.text))
				w.event("response.output_item.done", `{"output_index":0,"item":{"type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","annotations":[],"text":%s}]}}`, quoted(s.text))
			}
			for i, c := range s.calls {
				w.event("response.output_item.done", `{"output_index":%d,"item":{"type":"function_call","id":"fc_%d_%d","call_id":"c_%d_%d","name":%s,"arguments":%s,"status":"completed"}}`, i+1, n, i, n, i, quoted(c.name), quoted(c.args))
			}
			w.event("response.completed", `{"response":{"id":"r","status":"completed","output":[],"usage":{"input_tokens":100,"output_tokens":9,"total_tokens":109}}}`)
		},
	},
	{
		provider: "openai-chat", path: "/v1/chat/completions",
		env: func(base string) []string {
			return []string{"OPENAI_BASE_URL=" + base + "/v1", "OPENAI_API_KEY=" + vendorKey}
		},
		authorized: func(h http.Header) bool { return h.Get("Authorization") == "Bearer "+vendorKey },
		stream: func(w *sse, s say, n int) {
			w.data(`{"choices":[{"index":0,"delta":{"role":"assistant","content":%s}}]}`, quoted(s.text))
			end := "stop"
			for i, c := range s.calls {
				end = "tool_calls"
				half := len(c.args) / 2
				w.data(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"id":"c_%d_%d","type":"function","function":{"name":%s,"arguments":%s}}]}}]}`, i, n, i, quoted(c.name), quoted(c.args[:half]))
				w.data(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}}]}`, i, quoted(c.args[half:]))
			}
			w.data(`{"choices":[{"index":0,"delta":{},"finish_reason":%s}]}`, quoted(end))
			w.data(`{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":9,"total_tokens":109}}`)
			w.write("data: [DONE]\n\n")
		},
	},
	{
		provider: "anthropic", path: "/v1/messages",
		env: func(base string) []string {
			return []string{"ANTHROPIC_BASE_URL=" + base, "ANTHROPIC_API_KEY=" + vendorKey}
		},
		authorized: func(h http.Header) bool { return h.Get("X-Api-Key") == vendorKey },
		stream: func(w *sse, s say, n int) {
			w.event("message_start", `{"message":{"id":"m","type":"message","role":"assistant","content":[],"model":"x","stop_reason":null,"usage":{"input_tokens":100,"output_tokens":1}}}`)
			at, end := 0, "end_turn"
			if s.text != "" {
				w.event("content_block_start", `{"index":0,"content_block":{"type":"text","text":""}}`)
				w.event("content_block_delta", `{"index":0,"delta":{"type":"text_delta","text":%s}}`, quoted(s.text))
				w.event("content_block_stop", `{"index":0}`)
				at++
			}
			for i, c := range s.calls {
				end = "tool_use"
				w.event("content_block_start", `{"index":%d,"content_block":{"type":"tool_use","id":"c_%d_%d","name":%s,"input":{}}}`, at, n, i, quoted(c.name))
				w.event("content_block_delta", `{"index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, at, quoted(c.args))
				w.event("content_block_stop", `{"index":%d}`, at)
				at++
			}
			w.event("message_delta", `{"delta":{"stop_reason":%s,"stop_sequence":null},"usage":{"output_tokens":9}}`, quoted(end))
			w.event("message_stop", `{}`)
		},
	},
}

func quoted(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.Encode(s)
	return strings.TrimSpace(b.String())
}

// An sse writes events in small pieces, as a network does.
type sse struct{ http.ResponseWriter }

func (w *sse) write(s string) {
	for len(s) > 0 {
		n := min(len(s), 61)
		io.WriteString(w.ResponseWriter, s[:n])
		w.ResponseWriter.(http.Flusher).Flush()
		s = s[n:]
	}
}

func (w *sse) data(format string, args ...any) {
	w.write("data: " + fmt.Sprintf(format, args...) + "\n\n")
}

// event is one whose data names it, too.
func (w *sse) event(name, format string, args ...any) {
	body := fmt.Sprintf(format, args...)
	joined := `{"type":` + quoted(name)
	if body != "{}" {
		joined += ","
	}
	w.write("event: " + name + "\ndata: " + joined + body[1:] + "\n\n")
}

// texts are all strings of a request.
func texts(v any, to *strings.Builder) {
	switch v := v.(type) {
	case string:
		to.WriteString(v + "\n")
	case []any:
		for _, x := range v {
			texts(x, to)
		}
	case map[string]any:
		for _, x := range v {
			texts(x, to)
		}
	}
}

// A vendorServer answers as the steps say. A step may use what an expression of one before it
// has matched in its first group: ${1}.
type vendorServer struct {
	*httptest.Server
	mu     sync.Mutex
	faults []string
	n      int
}

func serveVendor(t *testing.T, v vendor, steps []say) *vendorServer {
	t.Helper()
	s := &vendorServer{}
	taken := ""
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		fault := func(format string, args ...any) {
			s.faults = append(s.faults, fmt.Sprintf(format, args...))
			http.Error(w, `{"error":{"message":"the test does not expect this","type":"invalid_request_error"}}`, http.StatusBadRequest)
		}
		body, err := io.ReadAll(r.Body)
		var m any
		switch {
		case err != nil || json.Unmarshal(body, &m) != nil:
			fault("request %d is no JSON", s.n)
			return
		case r.URL.Path != v.path || !v.authorized(r.Header):
			fault("request %d goes to %s, or has not the key", s.n, r.URL.Path)
			return
		case s.n >= len(steps):
			fault("there are more than %d requests", len(steps))
			return
		}
		var all strings.Builder
		texts(m, &all)
		step := steps[s.n]
		for _, want := range step.want {
			found := regexp.MustCompile(want).FindStringSubmatch(all.String())
			if found == nil {
				fault("request %d has no %s", s.n, want)
				return
			}
			if len(found) > 1 {
				taken = found[1]
			}
		}
		for _, no := range step.reject {
			if regexp.MustCompile(no).MatchString(all.String()) {
				fault("request %d has %s", s.n, no)
				return
			}
		}
		for i := range step.calls {
			step.calls[i].args = strings.ReplaceAll(step.calls[i].args, "${1}", taken)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		v.stream(&sse{w}, step, s.n)
		s.n++
	}))
	t.Cleanup(s.Close)
	return s
}

// built is belay: the binary that BELAY names, or the test binary under its name.
func built(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := belay(t, args...)
	if file := os.Getenv("BELAY"); file != "" {
		c.Path, c.Err = file, nil
	}
	return c
}

// D1: with each protocol a model, through the program, edits a real file, runs a real test that fails
// before and passes after it, and is woken by a real background process.
func TestProviders_D1(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the work is a shell script")
	}
	t.Parallel()
	for _, v := range vendors {
		t.Run(v.provider, func(t *testing.T) {
			t.Parallel()
			server := serveVendor(t, v, []say{
				{want: []string{"make the sum right"}, text: "I look.", calls: []ask{
					{"read", `{"path":"sum.sh"}`}, {"shell", `{"argv":["sh","check.sh"]}`}}},
				{want: []string{`exit_code=1`, `(?m)sha256=([0-9a-f]{64})`}, calls: []ask{
					{"edit", `{"path":"sum.sh","expected_sha256":"${1}","edits":[{"old_text":"$1 - $2","new_text":"$1 + $2"}]}`}}},
				{want: []string{`\+echo \$\(\( \$1 \+ \$2 \)\)`}, text: "Now the test. Grüße \U0001f9d7", calls: []ask{
					{"shell", `{"argv":["sh","check.sh"]}`},
					{"exec_command", `{"cmd":"sleep 0.7; echo the long one passed","mode":"background","yield_time_ms":250}`}}},
				{want: []string{`status=exited exit_code=0`, "all right", `session=(\S+) status=running`}, text: "The short test passed; I wait for the long one."},
				{want: []string{"mode=background status=exited exit_code=0", "the long one passed", "untrusted"}, text: "Both passed."},
			})
			c := built(t, "run", "--json", "make the sum right")
			for name, content := range map[string]string{
				"sum.sh":   "echo $(( $1 - $2 ))\n",
				"check.sh": "test \"$(sh sum.sh 2 3)\" = 5 && echo all right\n",
			} {
				if err := os.WriteFile(filepath.Join(c.Dir, name), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			home := t.TempDir()
			c.Env = append(append(c.Env, v.env(server.URL)...), "BELAY_HOME="+home, "BELAY_MODEL="+v.provider+"/test-model")
			var out, stderr bytes.Buffer
			c.Stdout, c.Stderr = &out, &stderr
			err := c.Run()
			server.mu.Lock()
			defer server.mu.Unlock()
			if err != nil || len(server.faults) > 0 || server.n != 5 {
				t.Fatalf("%v, %d requests, %v:\n%s%s", err, server.n, server.faults, out.String(), stderr.String())
			}
			if b, _ := os.ReadFile(filepath.Join(c.Dir, "sum.sh")); string(b) != "echo $(( $1 + $2 ))\n" {
				t.Errorf("the file is %q", b)
			}
			for _, want := range []string{`"text":"Now the test. Grüße ` + "\U0001f9d7" + `"`, `"type":"notice"`, `"text":"Both passed."`, `"usage":{"input":100,"output":9}`, `{"type":"settled"}`} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %s in:\n%s", want, out.String())
				}
			}
			// The key is nowhere but in the request.
			files, _ := filepath.Glob(filepath.Join(home, "conversations", "*.jsonl"))
			kept := ""
			for _, f := range files {
				b, _ := os.ReadFile(f)
				kept += string(b)
			}
			if len(files) != 1 || strings.Contains(kept+out.String()+stderr.String(), vendorKey) {
				t.Errorf("%d conversations, or the key is told", len(files))
			}
		})
	}
}

// A provider that cannot be reached, that does not take the key, and that breaks off is exit 4, soon
// and in a sentence.
func TestProvidersThatFail(t *testing.T) {
	t.Parallel()
	refused := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"error":{"message":"no \u001b[31m such key","type":"invalid_request_error","code":"invalid_api_key"}}`)
	}))
	defer refused.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	t.Run("each", func(t *testing.T) {
		for _, v := range vendors {
			for base, want := range map[string]string{gone.URL: "cannot be reached", refused.URL: "does not accept the key"} {
				t.Run(v.provider+" "+want, func(t *testing.T) {
					t.Parallel()
					c := built(t, "run", "hi")
					c.Env = append(append(c.Env, v.env(base)...), "BELAY_MODEL="+v.provider+"/test-model")
					var out, stderr bytes.Buffer
					c.Stdout, c.Stderr = &out, &stderr
					began := time.Now()
					c.Run()
					if took := time.Since(began); took > 20*time.Second { // the contract's bound
						t.Errorf("it took %s", took)
					}
					if c.ProcessState.ExitCode() != 4 || out.Len() > 0 || !strings.Contains(stderr.String(), want) || strings.ContainsAny(stderr.String(), "\x1b") {
						t.Errorf("exit code %d, %q, %q", c.ProcessState.ExitCode(), out.String(), stderr.String())
					}
				})
			}
		}
	})
}

// A variable that chooses another provider does not send its key to the address that stands beside
// the first one; a key is never read from a file.
func TestKeysGoWhereTheyBelong(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("X-Api-Key") + r.Header.Get("Authorization")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	home := t.TempDir()
	config := filepath.Join(home, "config.jsonc")
	if err := os.WriteFile(config, fmt.Appendf(nil, `{"model": {"provider": "openai-chat", "name": "local", "base_url": %q}}`, server.URL+"/v1"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(env ...string) (int, string) {
		c := belay(t, "run", "hi")
		c.Env = append(append(c.Env, "BELAY_HOME="+home, "HTTPS_PROXY=http://127.0.0.1:1"), env...)
		out, _ := c.CombinedOutput()
		return c.ProcessState.ExitCode(), string(out)
	}
	if code, out := run(); code != 4 || len(asked) != 1 || <-asked != "" { // a local server that wants no key
		t.Errorf("%d, %s", code, out)
	}
	// anthropic's own address is not reached here: the proxy is not there
	if code, out := run("BELAY_MODEL=anthropic/x", "ANTHROPIC_API_KEY="+vendorKey); code != 4 || len(asked) != 0 {
		t.Errorf("%d, %d requests, %s", code, len(asked), out)
	}
	if code, out := run("BELAY_MODEL=openai-chat/other", "OPENAI_API_KEY=mine"); code != 4 || len(asked) != 1 || <-asked != "Bearer mine" {
		t.Errorf("%d, %s", code, out)
	}
	if err := os.WriteFile(config, []byte(`{"model": {"provider": "openai", "name": "x", "key": "k"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := run(); code != 3 || !strings.Contains(out, "key") {
		t.Errorf("%d, %s", code, out)
	}
}
