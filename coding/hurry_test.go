//go:build !windows

package coding

import (
	"testing"
	"time"
)

// P4: a second signal takes the grace, and never the clean-up: what ignores SIGTERM and has 30 s left is
// killed at once, and its end is proven as ever.
func TestHurryTakesTheGrace_P4(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "")
	_, data, e := do(t, p.s, "exec_command", map[string]any{"cmd": "trap '' TERM; echo up; while :; do sleep 1; done", "yield_time_ms": 500})
	if e != nil {
		t.Fatal(e.Message())
	}
	killed := make(chan map[string]any, 1)
	go func() {
		_, data, _ := do(t, p.s, "exec_kill", map[string]any{"session_id": data["session_id"], "grace_ms": 30_000})
		killed <- data
	}()
	select {
	case data := <-killed:
		t.Fatalf("it did not ignore SIGTERM: %v", data)
	case <-time.After(300 * time.Millisecond):
	}
	p.s.Hurry()
	select {
	case data := <-killed:
		facts(t, "the kill", data, map[string]any{"status": "killed", "signal": "KILL", "cleanup_completed": true})
	case <-time.After(20 * time.Second):
		t.Error("the grace was not taken")
	}
}
