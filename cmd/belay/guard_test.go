//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// G3: in the host a guard's ask goes to the user, and is refused where nobody can be asked; its override
// code is for the user's screen only: no event, no transcript and no request to the model has it.
func TestGuardsInTheHost_G3(t *testing.T) {
	dir := t.TempDir() // not parallel: it sets a variable
	guard := filepath.Join(dir, "guard")
	if err := os.WriteFile(guard, []byte(`#!/bin/sh
case "$(cat)" in
*'touch asked'*) echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"is this meant"}}' ;;
*'touch denied'*) echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"not here","allowOnceCode":"CODE-4471"}}' ;;
esac
`), 0o700); err != nil {
		t.Fatal(err)
	}
	command, _ := json.Marshal([]string{guard})
	t.Setenv("BELAY_GUARD_COMMAND", string(command))
	ask1 := ask{"shell", `{"argv":["sh","-c","touch asked"]}`}
	denied := ask{"exec_command", `{"cmd":"touch denied"}`}
	c := inRPC(t, []say{
		{calls: []ask{ask1}}, {want: []string{"approval_unavailable"}, text: "one"},
		{calls: []ask{ask1}}, {want: []string{"approval_denied"}, text: "two"},
		{calls: []ask{ask1}}, {want: []string{"status=exited exit_code=0"}, text: "three"},
		{calls: []ask{denied}}, {want: []string{"denied: ", "not here"}, reject: []string{"4471"}, text: "four"},
	})
	made := func(name string) bool {
		_, err := os.Stat(filepath.Join(c.cmd.Dir, name))
		return err == nil
	}
	c.prompt("go", "one")
	c.do("hello", `"ui":true`)
	for _, yes := range []string{"false", "true"} {
		c.do("follow_up", `"text":"again"`)
		q := c.await("type", "ui_request")
		if q["reason"] != "guard_ask" || !strings.Contains(q["shown"].(string), "touch asked") || made("asked") {
			t.Errorf("%v, made %v", q, made("asked"))
		}
		if _, err := c.in.Write([]byte(`{"type":"ui_response","id":"` + q["id"].(string) + `","confirmed":` + yes + "}\n")); err != nil {
			t.Fatal(err)
		}
		c.await("type", "message", "text", map[string]string{"false": "two", "true": "three"}[yes])
		if made("asked") != (yes == "true") {
			t.Errorf("after %s: made %v", yes, made("asked"))
		}
	}
	c.do("follow_up", `"text":"and this"`)
	if n := c.await("type", "ui_notify"); !strings.Contains(n["text"].(string), "CODE-4471") {
		t.Errorf("%v", n)
	}
	if e := c.await("type", "tool_end"); e["code"] != "denied" || strings.Contains(encoded(e), "4471") {
		t.Errorf("%v", e)
	}
	c.await("type", "message", "text", "four")
	page := c.do("messages", "")
	if made("denied") || strings.Contains(encoded(page), "4471") || !strings.Contains(encoded(page), "not here") {
		t.Errorf("%v", page)
	}
}

func encoded(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
