package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// B1: trust holds for a root and the bytes of its file; a change, another root and a
// removal end it.
func TestTrust(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const content = `{"hooks": [{"command": ["sh"]}], "limits": {"max_sessions": 3}}`
	file := w.ofProject(t, content)
	is := func(want bool, why string) {
		t.Helper()
		c := w.held(t)
		if c.trusted != want || (len(c.values["hooks"].v.([]hook)) == 1) != want || c.int("limits.max_sessions") != 3 {
			t.Errorf("%s: trusted %v, %+v", why, c.trusted, c.values["hooks"])
		}
	}
	is(false, "at first")
	out, err := w.run(t, "trust")
	if err != nil || !strings.Contains(out, "trusted: "+file) || !strings.Contains(out, `now holds: hooks = [{"match":"","command":["sh"]`) || strings.Contains(out, "max_sessions") {
		t.Errorf("%v\n%s", err, out)
	}
	is(true, "trusted")
	w.ofProject(t, content+" ")
	is(false, "changed")
	w.ofProject(t, content)
	is(true, "as it was")

	link := filepath.Join(w.home, "link")
	if err := os.Symlink(w.project, link); err == nil {
		w.root = link
		is(true, "the same root by a link")
	}
	copied := filepath.Join(w.home, "copy")
	w.write(t, filepath.Join(copied, projectFile), content)
	w.root = copied
	is(false, "the same bytes in another root")
	w.root = w.project

	if out, err := w.run(t, "trust", "--remove"); err != nil || !strings.Contains(out, "no longer trusted") {
		t.Error(out, err)
	}
	is(false, "removed")
	if out, err := w.run(t, "trust", "--remove"); err != nil || !strings.Contains(out, "not trusted") {
		t.Error(out, err)
	}
	entries, err := os.ReadDir(filepath.Join(w.vars["BELAY_HOME"], "trust"))
	if err != nil || len(entries) != 0 {
		t.Error("left in the state directory:", entries, err)
	}
}

// What cannot be trusted says so, and a broken file is not.
func TestTrustRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.run(t, "trust"); code(err) != exitFailed || !strings.Contains(err.Error(), "there is no") {
		t.Error("no file:", err)
	}
	w.ofProject(t, `{"hook": []}`)
	if _, err := w.run(t, "trust"); code(err) != exitConfig {
		t.Error("a broken file:", err)
	}
	w.ofProject(t, `{}`)
	w.vars["BELAY"] = "1"
	if _, err := w.run(t, "trust"); code(err) != exitRefused {
		t.Error("in what belay started:", err)
	}
	w.vars["BELAY"] = ""
	w.vars["BELAY_HOME"] = ""
	if _, err := w.run(t, "trust"); code(err) != exitFailed || !strings.Contains(err.Error(), "HOME") {
		t.Error("no place for the state:", err)
	}
	w.vars["BELAY_HOME"] = w.write(t, filepath.Join(w.home, "file"), "") // no folder can be made in it
	if _, err := w.configuration(""); code(err) != exitConfig {
		t.Log(err)
	}
	w.vars["BELAY_HOME"] = filepath.Join(w.home, "ok")
	if _, err := w.run(t, "trust"); err != nil || !w.held(t).trusted {
		t.Error(err)
	}
	// a file of the state that is damaged, or of another root, is no trust
	name := w.trustFile(w.project)
	for _, content := range []string{"", "{}", `{"root":"/","sha256":"` + w.held(t).sum + `"}`, `{"root":"` + w.project + `","sha256":""}`} {
		w.write(t, name, content)
		if w.held(t).trusted {
			t.Errorf("%q is trust", content)
		}
	}
}
