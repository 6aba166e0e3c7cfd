package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// P9, P10: in the program, by a real client of either way, input reaches a process after
// the user's yes, and does not after a no.
func TestInputIsApprovedByElicitation_P9_P10(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			shown := make(chan string, 10)
			answer := &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "send once"}}
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					shown <- r.Params.Message
					return answer, nil
				},
			})
			session, err := client.Connect(ctx, &mcp.CommandTransport{Command: belay(t, "mcp", "--root", t.TempDir())}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			call := func(name string, args map[string]any) map[string]any {
				t.Helper()
				r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
				if err != nil {
					t.Fatal(err)
				}
				key := "belay/result"
				if r.IsError {
					key = "belay/error"
				}
				data, _ := r.Meta[key].(map[string]any)
				return data
			}
			id := call("exec_command", map[string]any{"cmd": "cat", "stdin": "open", "yield_time_ms": 250})["session_id"]
			data := call("write_stdin", map[string]any{"session_id": id, "chars": "one\n", "yield_time_ms": 1000})
			if data["output"] != "one\n" || fmt.Sprint(data["written_bytes"]) != "4" {
				t.Errorf("after a yes: %v", data)
			}
			select {
			case message := <-shown:
				if !strings.Contains(message, "cat") || !strings.Contains(message, `one\n`) || !strings.Contains(message, "4 bytes") {
					t.Errorf("shown: %q", message)
				}
			default:
				t.Error("nobody was asked")
			}
			answer = &mcp.ElicitResult{Action: "cancel"}
			if data = call("write_stdin", map[string]any{"session_id": id, "chars": "two\n"}); data["code"] != "approval_denied" {
				t.Errorf("after a no: %v", data)
			}
			answer = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "send once"}}
			if data = call("write_stdin", map[string]any{"session_id": id, "close": true, "yield_time_ms": 5000}); data["status"] != "exited" {
				t.Errorf("after the end of file: %v", data)
			}
			if data = call("exec_output", map[string]any{"session_id": id}); data["output"] != "one\n" {
				t.Errorf("the session got %v", data["output"])
			}
		})
	}
}
