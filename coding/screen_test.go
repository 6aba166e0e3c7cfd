package coding

import (
	"strings"
	"testing"
	"time"
)

// P3, P5: what the terminal of a session shows, while it runs and after its end;
// exact only if nothing that mattered is gone. Sessions on pipes have no screen.
func TestScreenOfASession(t *testing.T) {
	t.Parallel()
	s := on(t, nil)
	start := func(cmd string) string {
		t.Helper()
		_, data, e := do(t, s, "exec_command", map[string]any{"cmd": cmd, "tty": true, "cols": 40, "rows": 6, "yield_time_ms": 250})
		if e != nil {
			t.Fatal(e.Message())
		}
		return data["session_id"].(string)
	}
	show := func(id string) map[string]any {
		t.Helper()
		_, data, e := do(t, s, "exec_output", map[string]any{"session_id": id, "view": "screen"})
		if e != nil {
			t.Fatal(e.Message())
		}
		return data
	}
	id := start(`printf 'one\ntwo\n\033[2;1Hmid\033[6n'; sleep 300`)
	for range 200 {
		if data := show(id); strings.Contains(data["output"].(string), "mid") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	facts(t, "running", show(id), map[string]any{
		"status": "running", "output": "one\nmid", "rows": 6, "cols": 40, "cursor_row": 1, "cursor_col": 3, "exact": true,
	})
	_, data, e := do(t, s, "write_stdin", map[string]any{"session_id": id, "cols": 60, "rows": 10, "yield_time_ms": 250})
	if e != nil {
		t.Fatal(data)
	}
	facts(t, "resized", show(id), map[string]any{"rows": 10, "cols": 60, "exact": false})
	do(t, s, "exec_kill", map[string]any{"session_id": id})

	id = start(`i=0; while [ $i -lt 30000 ]; do echo "line $i ........................"; i=$((i+1)); done; echo end; exit 3`)
	for range 6 {
		if _, data, _ := do(t, s, "exec_wait", map[string]any{"session_ids": []string{id}, "timeout_ms": 10000}); data["timed_out"] == false {
			break
		}
	}
	after := show(id)
	facts(t, "ended", after, map[string]any{"status": "exited", "exit_code": 3, "exact": false})
	if !strings.HasSuffix(after["output"].(string), "line 29999 ........................\nend") {
		t.Errorf("ended: shows %q", after["output"])
	}

	_, data, _ = do(t, s, "exec_command", map[string]any{"cmd": "true", "yield_time_ms": 10000})
	_, data, _ = do(t, s, "exec_output", map[string]any{"session_id": data["session_id"], "view": "screen"})
	facts(t, "pipes", data, map[string]any{"code": "invalid_argument", "argument": "view"})
}
