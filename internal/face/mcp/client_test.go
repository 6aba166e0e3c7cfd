package mcp

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

var versions = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

// The SDK's own client, over pipes in memory and over a process, in every
// protocol version: what it lists, and what it gets for each kind of outcome.
func TestClient(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		for name, connect := range map[string]func(*testing.T) sdk.Transport{"memory": inMemory, "process": inProcess} {
			t.Run(version+" "+name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(context.Background(), hang)
				defer cancel()
				client := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, nil)
				session, err := client.Connect(ctx, connect(t), &sdk.ClientSessionOptions{ProtocolVersion: version})
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := session.Close(); err != nil {
						t.Errorf("close: %v", err)
					}
				}()
				got := session.InitializeResult()
				if capabilities, _ := json.Marshal(got.Capabilities); got.ProtocolVersion != version || got.Instructions == "" || string(capabilities) != `{"tools":{}}` {
					t.Errorf("handshake: %+v, %s", got, capabilities)
				}
				list, err := session.ListTools(ctx, nil)
				if err != nil || len(list.Tools) != 10 || list.CacheScope != "private" {
					t.Fatalf("list: %v, %+v", err, list)
				}
				for i, d := range (Config{}).visible(newSuite().Definitions()) {
					if got := list.Tools[i]; got.Name != d.Name || got.Description != d.Description || got.OutputSchema != nil {
						t.Errorf("tool %d: %+v", i, got)
					}
				}

				call := func(name string, arguments any) *sdk.CallToolResult {
					t.Helper()
					r, err := session.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: arguments})
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					if len(r.Content) != 1 || r.StructuredContent != nil {
						t.Fatalf("%s: %+v", name, r)
					}
					return r
				}
				text := strings.Repeat("a\"\\\u2028<é😀\x1b", 10_000)
				r := call("write_stdin", map[string]any{"text": text})
				data, _ := r.Meta[metaResult].(map[string]any)
				if r.IsError || r.Content[0].(*sdk.TextContent).Text != text || data["text"] != text || data["n"] != float64(len(text)) {
					t.Errorf("the text came back changed: %.200v", r.Meta)
				}
				r = call("read", map[string]any{"text": "gone"})
				data, _ = r.Meta[metaError].(map[string]any)
				if !r.IsError || r.Content[0].(*sdk.TextContent).Text != "not_found: There is no such file or folder.\npath=\"a b\"" || data["code"] != "not_found" || data["kind"] != "refused" || data["path"] != "a b" {
					t.Errorf("error: %+v", r)
				}
				if r = call("nope", nil); !r.IsError || !strings.HasPrefix(r.Content[0].(*sdk.TextContent).Text, "unknown_tool: ") {
					t.Errorf("unknown tool: %+v", r)
				}

				impatient, stop := context.WithTimeout(ctx, 50*time.Millisecond)
				defer stop()
				if _, err := session.CallTool(impatient, &sdk.CallToolParams{Name: "shell"}); err == nil {
					t.Error("a call that the client cancelled succeeded")
				}
				if r = call("write_stdin", map[string]any{"text": "after"}); r.IsError {
					t.Errorf("after a cancel: %+v", r)
				}
			})
		}
	}
}

func inMemory(t *testing.T) sdk.Transport {
	server, client := net.Pipe()
	served := make(chan error, 1)
	go func() {
		err := Serve(context.Background(), newSuite(), Config{Version: "1.2.3"}, server, server)
		server.Close()
		served <- err
	}()
	t.Cleanup(func() {
		client.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return &sdk.IOTransport{Reader: client, Writer: client}
}

func inProcess(t *testing.T) sdk.Transport {
	return &sdk.CommandTransport{Command: command(t), TerminateDuration: hang}
}

// The list is what it is, however often and in which protocol version it is
// asked for: a client's prompt cache depends on it.
func TestListIsStable(t *testing.T) {
	t.Parallel()
	var tools []json.RawMessage
	for range 2 {
		p := newPeer(t, newSuite()).hello()
		for range 2 {
			p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			var list struct{ Tools json.RawMessage }
			if err := json.Unmarshal(p.reply().Result, &list); err != nil {
				t.Fatal(err)
			}
			tools = append(tools, list.Tools)
		}
		p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
		var list struct{ Tools json.RawMessage }
		if err := json.Unmarshal(p.reply().Result, &list); err != nil {
			t.Fatal(err)
		}
		tools = append(tools, list.Tools)
	}
	for _, other := range tools[1:] {
		if string(other) != string(tools[0]) {
			t.Errorf("two lists differ:\n%s\n%s", tools[0], other)
		}
	}
}
