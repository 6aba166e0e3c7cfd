package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// httpServer is belay mcp --http; it gives its address once it serves.
func httpServer(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if m := regexp.MustCompile(`http://\S+/mcp`).FindString(lines.Text()); m != "" {
				said <- m
			}
		}
		close(said)
	}()
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	select {
	case url, ok := <-said:
		if !ok {
			t.Fatal("the server ended")
		}
		return url
	case <-time.After(30 * time.Second):
		t.Fatal("the server does not serve")
	}
	return ""
}

type withToken struct{ token string }

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	return http.DefaultTransport.RoundTrip(r)
}

// Over HTTP, in the program: two tokens are two runtimes, and a signal ends the server and
// all that either of them started.
func TestHTTPServerAndItsChildrenEnd_P4(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no SIGTERM, and a shell of another kind")
	}
	root := t.TempDir()
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("first\n\n  second \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := belay(t, "mcp", "--root", root, "--http", "127.0.0.1:0", "--token-file", tokens)
	url := httpServer(t, cmd)
	r, err := http.Post(url, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, r.Body)
	r.Body.Close()
	if r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %d", r.StatusCode)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i, token := range []string{"first", "second"} {
		client := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, nil)
		session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: withToken{token}}, MaxRetries: -1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "exec_command", Arguments: map[string]any{
			"cmd": fmt.Sprintf("env | grep -c BELAY_HTTP_TOKEN; echo $$ > pid%d; exec sleep 300", i), "yield_time_ms": 1000,
		}})
		if err != nil || result.IsError {
			t.Fatalf("%v %+v", err, result)
		}
		list, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "exec_list"})
		if err != nil {
			t.Fatal(err)
		}
		if text := list.Content[0].(*mcp.TextContent).Text; strings.Count(text, "session=") != 1 {
			t.Errorf("%s lists %q", token, text)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
		if code := cmd.ProcessState.ExitCode(); code != 143 {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the server did not end")
	}
	for i := range 2 {
		text, err := os.ReadFile(filepath.Join(root, fmt.Sprintf("pid%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || running(pid) {
			t.Errorf("process %q outlived its server (%v)", text, err)
		}
	}
}
