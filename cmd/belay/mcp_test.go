package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// belay is the command line of the real program: the test binary under its name.
func belay(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe)
	c.Args = append([]string{"belay"}, args...)
	c.Dir = t.TempDir()
	c.Env = append(os.Environ(), "BELAY_HOME="+t.TempDir(), "SHELL=/bin/sh")
	return c
}

// A real client, the SDK's own, lists the tools and calls each of them.
func TestTheSDKsClientUsesEachTool(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.txt"), []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: belay(t, "mcp", "--root", root)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()

	list, err := session.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for _, d := range list.Tools {
		missing[d.Name] = true
	}
	// call makes one call, and gives the text, and the data of result or error.
	call := func(name string, args map[string]any) (string, map[string]any, bool) {
		t.Helper()
		delete(missing, name)
		r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(r.Content) != 1 || r.StructuredContent != nil {
			t.Fatalf("%s: %d blocks, structured %v", name, len(r.Content), r.StructuredContent)
		}
		data, _ := r.Meta["belay/result"].(map[string]any)
		if r.IsError {
			data, _ = r.Meta["belay/error"].(map[string]any)
		}
		if data == nil {
			t.Fatalf("%s: no data in %v", name, r.Meta)
		}
		return r.Content[0].(*mcp.TextContent).Text, data, r.IsError
	}
	want := func(name string, data map[string]any, facts ...any) {
		t.Helper()
		for i := 0; i < len(facts); i += 2 {
			if got := fmt.Sprint(data[facts[i].(string)]); got != fmt.Sprint(facts[i+1]) {
				t.Errorf("%s: %s is %s, want %v", name, facts[i], got, facts[i+1])
			}
		}
	}

	text, data, _ := call("read", map[string]any{"path": "a.txt"})
	want("read", data, "content", "one\n", "size", 4, "eof", true)
	digest := fmt.Sprint(data["sha256"])
	if !strings.Contains(text, "sha256="+digest) || !strings.HasSuffix(text, "\n\none\n") {
		t.Errorf("read: %q", text)
	}
	_, data, _ = call("replace", map[string]any{"path": "a.txt", "content": "two\n", "expected_sha256": digest})
	want("replace", data, "committed", true, "durable", true, "previous_sha256", digest)
	text, data, isError := call("replace", map[string]any{"path": "a.txt", "content": "three\n", "expected_sha256": digest})
	if want("replace", data, "code", "stale", "kind", "refused"); !isError || !strings.HasPrefix(text, "stale: ") {
		t.Errorf("stale replace: %q", text)
	}
	_, data, _ = call("edit", map[string]any{"path": "a.txt", "expected_sha256": data["current_sha256"], "edits": []any{map[string]any{"old_text": "two", "new_text": "2"}}})
	want("edit", data, "committed", true, "size", 2)
	_, data, _ = call("shell", map[string]any{"argv": []string{"/bin/sh", "-c", "cat; exit 4"}, "stdin": "given"})
	want("shell", data, "status", "exited", "exit_code", 4, "stdout", "given")
	_, data, _ = call("exec_command", map[string]any{"cmd": "echo ready; sleep 300", "yield_time_ms": 250})
	want("exec_command", data, "status", "running")
	id := data["session_id"]
	_, data, _ = call("write_stdin", map[string]any{"session_id": id, "yield_time_ms": 250})
	want("write_stdin", data, "status", "running")
	_, data, isError = call("write_stdin", map[string]any{"session_id": id, "chars": "x"})
	if want("write_stdin", data, "code", "approval_unavailable"); !isError {
		t.Error("input was written without the user's yes")
	}
	_, data, _ = call("exec_wait", map[string]any{"until": "output", "timeout_ms": 100})
	if sessions, _ := data["sessions"].([]any); len(sessions) != 1 {
		t.Errorf("exec_wait: %v", data)
	}
	_, data, _ = call("exec_output", map[string]any{"session_id": id})
	want("exec_output", data, "output", "ready\n", "eof", false)
	text, data, _ = call("exec_wait", map[string]any{"session_ids": []any{id}, "until": "output", "timeout_ms": 100})
	if want("exec_wait", data, "timed_out", true); !strings.Contains(text, "session="+fmt.Sprint(id)) {
		t.Errorf("exec_wait: %q", text)
	}
	text, data, _ = call("exec_list", nil)
	if sessions, _ := data["sessions"].([]any); len(sessions) != 1 || !strings.Contains(text, "session="+fmt.Sprint(id)) {
		t.Errorf("exec_list: %q", text)
	}
	_, data, _ = call("exec_kill", map[string]any{"session_id": id})
	want("exec_kill", data, "status", "killed", "cleanup_completed", true)
	if len(missing) > 0 {
		t.Errorf("listed and not called: %v", missing)
	}
}

// A raw is a client without a library.
type raw struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // what came on standard output, closed at its end
	hold  chan chan struct{}
}

func rawClient(t *testing.T, args ...string) *raw {
	t.Helper()
	r := &raw{t: t, cmd: belay(t, append([]string{"mcp"}, args...)...), lines: make(chan string, 100), hold: make(chan chan struct{}, 1)}
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.lines)
		for s := bufio.NewReaderSize(out, 1<<10); ; {
			select {
			case until := <-r.hold: // the reader of standard output is somewhere else
				<-until
			default:
			}
			line, err := s.ReadString('\n')
			if line != "" {
				r.lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			r.cmd.Process.Kill()
			r.cmd.Wait()
		}
	})
	r.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	r.answer("i")
	r.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return r
}

func (r *raw) send(line string) {
	r.t.Helper()
	if _, err := io.WriteString(r.in, line+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

// answer waits for the answer to an id. Everything on standard output has to be a
// JSON-RPC message on one line.
func (r *raw) answer(id any) map[string]any {
	r.t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case line, ok := <-r.lines:
			if !ok {
				r.t.Fatal("the server is gone")
			}
			var m map[string]any
			if err := json.Unmarshal([]byte(line), &m); err != nil || m["jsonrpc"] != "2.0" || !strings.HasSuffix(line, "\n") {
				r.t.Fatalf("standard output carries %q", line)
			}
			if fmt.Sprint(m["id"]) == fmt.Sprint(id) {
				return m
			}
		case <-timeout:
			r.t.Fatalf("no answer to %v", id)
		}
	}
}

// start runs a command that writes its process id to a file and lives on, and
// gives that id.
func (r *raw) start(ignoring bool) int {
	r.t.Helper()
	file := filepath.Join(r.cmd.Dir, "pid")
	trap := ""
	if ignoring {
		trap = "trap '' TERM INT HUP; "
	}
	args, _ := json.Marshal(map[string]any{"cmd": trap + "sh -c 'echo $$ > pid.new; mv pid.new pid; while :; do sleep 1; done'", "yield_time_ms": 250})
	r.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec_command","arguments":` + string(args) + `}}`)
	r.answer(2)
	for range 500 {
		if b, err := os.ReadFile(file); err == nil {
			pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
			if err != nil {
				r.t.Fatal(err)
			}
			return pid
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Fatal("the command did not start")
	return 0
}

// P4: however the server is told to go, it and all that it started are gone, and
// the exit code says how it was told.
func TestTheServerAndItsChildrenEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		end      func(*raw)
		code     int
		ignoring bool
	}{
		{"end of input", func(r *raw) { r.in.Close() }, 0, false},
		{"end of input, children ignore TERM", func(r *raw) { r.in.Close() }, 0, true},
		{"SIGTERM", func(r *raw) { r.cmd.Process.Signal(syscall.SIGTERM) }, 143, false},
		{"SIGINT", func(r *raw) { r.cmd.Process.Signal(os.Interrupt) }, 130, true},
		{"SIGHUP", func(r *raw) { r.cmd.Process.Signal(syscall.SIGHUP) }, 143, false},
		{"SIGKILL", func(r *raw) { r.cmd.Process.Kill() }, -1, false},
		{"SIGKILL, children ignore TERM", func(r *raw) { r.cmd.Process.Kill() }, -1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := rawClient(t)
			child := r.start(c.ignoring)
			if !running(child) {
				t.Fatal("the child is not running")
			}
			c.end(r)
			for range r.lines { // to the end of standard output
			}
			ended := make(chan error, 1)
			go func() { ended <- r.cmd.Wait() }()
			select {
			case <-ended:
			case <-time.After(20 * time.Second): // against a hang only
				t.Fatal("the server lives on")
			}
			if got := r.cmd.ProcessState.ExitCode(); got != c.code {
				t.Errorf("exit code %d, want %d", got, c.code)
			}
			for range 500 { // after a SIGKILL it is the keeper that ends it
				if c.code >= 0 || !running(child) {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if running(child) {
				t.Error("a child lives on")
			}
		})
	}
}

// Standard output carries protocol only, whatever the commands print and however
// calls fail; the first-run warning goes to standard error.
func TestStandardOutputIsProtocolOnly(t *testing.T) {
	t.Parallel()
	r := rawClient(t)
	for i, params := range []string{
		`{"name":"shell","arguments":{"argv":["/bin/sh","-c","echo out; echo err >&2; echo tty > /dev/tty"]}}`,
		`{"name":"shell","arguments":{"argv":["no-such-program"]}}`,
		`{"name":"no_such_tool","arguments":{}}`,
		`{"name":"read","arguments":{"path":"../x"}}`,
		`{"name":"read","arguments":"nonsense"}`,
		`{"name":"exec_command","arguments":{"cmd":"printf '\\033]0;title\\007{\\n}\\n'"}}`,
	} {
		r.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, 10+i, params))
		r.answer(10 + i)
	}
	r.send(`{"jsonrpc":"2.0","id":99,"method":"no/such"}`)
	r.answer(99)
	r.in.Close()
	for line := range r.lines {
		t.Errorf("after the last answer: %q", line)
	}
	if err := r.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// P4: a client that stops reading, sends a line that is no message and goes away,
// ends the server and its children like any other.
func TestAClientThatDoesNotReadHoldsNothing(t *testing.T) {
	t.Parallel()
	r := rawClient(t)
	child := r.start(false)
	unread := make(chan struct{})
	r.hold <- unread // from here on nobody reads standard output
	if err := os.WriteFile(filepath.Join(r.cmd.Dir, "big"), make([]byte, 256<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		r.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"read","arguments":{"path":"big","limit":262144}}}`, 100+i))
	}
	time.Sleep(200 * time.Millisecond) // the answers fill the pipe
	for range 100 {
		r.send(`garbage`)
	}
	r.in.Close()
	ended := make(chan struct{})
	go func() {
		r.cmd.Process.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second): // against a hang only
		t.Error("the server lives on")
	}
	if running(child) {
		t.Error("a child lives on")
	}
	close(unread)
}

// P4: a keeper that was lost is replaced with the next command, and is told of what
// runs since before.
func TestALostKeeperIsReplaced(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc to find the keeper in")
	}
	r := rawClient(t)
	child := r.start(false)
	keeper := 0
	list, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range list {
		stat, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(stat), ") ")
		args, _ := os.ReadFile(filepath.Dir(file) + "/cmdline")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(r.cmd.Process.Pid) && strings.HasSuffix(string(args), "\x00keeper\x00") {
			keeper, _ = strconv.Atoi(filepath.Base(filepath.Dir(file)))
		}
	}
	if keeper == 0 {
		t.Fatal("no keeper")
	}
	lost, err := os.FindProcess(keeper)
	if err != nil {
		t.Fatal(err)
	}
	if err := lost.Kill(); err != nil {
		t.Fatal(err)
	}
	for i := 0; running(keeper) && i < 500; i++ {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // its end is seen
	r.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"exec_command","arguments":{"cmd":"true"}}}`)
	r.answer(5)
	r.cmd.Process.Kill()
	r.cmd.Wait()
	for i := 0; running(child) && i < 500; i++ {
		time.Sleep(10 * time.Millisecond)
	}
	if running(child) {
		t.Error("a child lives on")
	}
}
