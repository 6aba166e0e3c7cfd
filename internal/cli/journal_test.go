package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belayhq/belay/internal/journal"
	"github.com/belayhq/belay/tool"
)

// C8: belay journal tells the three answers, as text and as data, and names damage.
func TestJournalCommand_C8(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := filepath.Join(w.home, "j")
	j, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	call := func(id string, effect tool.Effect, replay tool.Replay) *journal.Entry {
		e, err := j.Start(journal.Call{ID: id, Parent: "p", Tool: "shell", Fingerprint: "f", Effect: effect, Replay: replay})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	call("open\x1b[2J", tool.Mutating, tool.Unsafe)
	call("again", tool.Mutating, tool.Idempotent)
	if err := call("done", tool.Mutating, tool.Unsafe).End(tool.Failed, tool.WriteFailed); err != nil {
		t.Fatal(err)
	}
	text, err := w.run(t, "journal", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"uncertain: look at what they did before doing it again: 1\n", "safe to repeat: 1\n", "finished: 1\n", `id=open\x1b[2J parent=p  started`, "id=again", "ended failed write_failed"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	raw, err := w.run(t, "journal", path, "--json")
	var data map[string]any
	if err != nil || json.Unmarshal([]byte(raw), &data) != nil {
		t.Fatal(err, raw)
	}
	for name, n := range map[string]int{"finished": 1, "safe_to_repeat": 1, "uncertain": 1} {
		if list, _ := data[name].([]any); len(list) != n {
			t.Errorf("%s: %v", name, data[name])
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := w.write(t, filepath.Join(w.home, "damaged"), strings.Replace(string(whole), `"id":"again"`, `"id":`, 1))
	if _, err := w.run(t, "journal", damaged); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Error(err)
	}
	torn := w.write(t, filepath.Join(w.home, "torn"), string(whole[:len(whole)-5]))
	if text, err := w.run(t, "journal", torn); err != nil || !strings.Contains(text, "1 records were cut off") || !strings.Contains(text, "finished: 0") {
		t.Error(text, err)
	}
	if _, err := w.run(t, "journal", filepath.Join(w.home, "none")); err == nil {
		t.Error("no file")
	}
	if _, err := w.run(t, "journal"); code(err) != exitUsage {
		t.Error(err)
	}
}
