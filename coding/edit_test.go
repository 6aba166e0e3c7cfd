package coding

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belayhq/belay/tool"
)

// digest is what read says of a file.
func digest(t *testing.T, s *Suite, path string) string {
	t.Helper()
	_, data, e := do(t, s, "read", map[string]any{"path": path})
	if e != nil {
		t.Fatal(e)
	}
	return fmt.Sprint(data["sha256"])
}

type pair = map[string]any // old_text, new_text, all

func onDisk(t *testing.T, s *Suite, path, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(s.Root(), path))
	if err != nil || string(got) != want {
		t.Errorf("%s is %q (%v), want %q", path, got, err, want)
	}
}

// F9: literal, exactly once unless all, against the named content, all or
// nothing; what is not edited comes through byte for byte. The cases FI-18, FI-20,
// FI-21, FI-23 and FI-24 with their kind.
func TestEdits(t *testing.T) {
	t.Parallel()
	one := func(old, new string) []pair { return []pair{{"old_text": old, "new_text": new}} }
	for _, c := range []struct {
		name, before string
		edits        []pair
		after        string         // "" if refused
		want         map[string]any // facts of the result or the error
	}{
		{"a word", "a b c\n", one("b", "B"), "a B c\n", map[string]any{"changed": true, "committed": true, "created": false}},
		{"several, against the content as it is", "1 2 3\n", []pair{{"old_text": "1", "new_text": "2"}, {"old_text": "2", "new_text": "3"}}, "2 3 3\n", nil},
		{"in any order", "1 2\n", []pair{{"old_text": "2", "new_text": "b"}, {"old_text": "1", "new_text": "a"}}, "a b\n", nil},
		{"all", "x y x\n", []pair{{"old_text": "x", "new_text": "zz", "all": true}}, "zz y zz\n", nil},
		{"a deletion", "a\nb\nc\n", one("b\n", ""), "a\nc\n", nil},
		{"no final newline", "a\nb", one("b", "c"), "a\nc", nil},
		{"no change", "a\n", one("a", "a"), "a\n", map[string]any{"changed": false, "committed": false, "durable": false, "diff": ""}},

		{"FI-18 Latin-1", "const x = 1;\n// caf\xe9 note\n", one("x = 1", "x = 2"), "const x = 2;\n// caf\xe9 note\n", nil},
		{"FI-18 GBK", "const x = 1\n\xd6\xd0\xce\xc4\n", one("x = 1", "x = 2"), "const x = 2\n\xd6\xd0\xce\xc4\n", nil},
		{"UTF-16", "\xff\xfea\x00b\x00", one("a", "c"), "", map[string]any{"code": "not_text"}},
		{"NUL", "a\x00b", one("a", "c"), "", map[string]any{"code": "not_text"}},
		{"FI-20 mark, first line", "\xef\xbb\xbfint a = 1;\nint b = 2;\n", one("int a = 1;", "int a = 9;"), "\xef\xbb\xbfint a = 9;\nint b = 2;\n", nil},
		{"FI-20 mark, later line", "\xef\xbb\xbfint a = 1;\nint b = 2;\n", one("int b = 2;", "int b = 8;"), "\xef\xbb\xbfint a = 1;\nint b = 8;\n", nil},
		{"FI-20 mark, as read shows it", "\xef\xbb\xbfint a = 1;\n", one("\ufeffint a", "\ufeffint c"), "\xef\xbb\xbfint c = 1;\n", nil},
		{"FI-21 mixed line ends", "one\r\ntwo\nthree\r\nfour\n", one("two", "TWO"), "one\r\nTWO\nthree\r\nfour\n", nil},
		{"FI-21 as read shows it", "a\r\nb\r\nc\r\n", one("a\r\nb\r\n", "a\r\nB\r\n"), "a\r\nB\r\nc\r\n", nil},
		{"FI-21 other line ends", "a\r\nb\r\nc\r\n", one("a\nb\n", "a\nB\n"), "", map[string]any{"code": "no_match", "edit": 0, "near_line": 1, "differs": "line_ends"}},
		{"FI-24 blanks kept", "def f():\n    try:\n        a = 1\n\tb = 2\n", one("        a = 1\n", "        a = 10\n        c = 2\n"), "def f():\n    try:\n        a = 10\n        c = 2\n\tb = 2\n", nil},
		{"FI-24 other blanks", "x\n    x  =  3\n", one("    x = 3", "    x = 4"), "", map[string]any{"code": "no_match", "near_line": 2, "differs": "whitespace"}},
		{"FI-24 blanks at the end", "    return a  \n", one("return a  ", "return a + c  "), "    return a + c  \n", nil},
		{"other case", "Hello\n", one("hello", "x"), "", map[string]any{"code": "no_match", "near_line": 1, "differs": "case"}},
		{"all or nothing", "a b\n", []pair{{"old_text": "a", "new_text": "A"}, {"old_text": "zzz", "new_text": ""}}, "", map[string]any{"code": "no_match", "edit": 1}},
		{"twice", "x\ny\nx\n", one("x", "z"), "", map[string]any{"code": "ambiguous_match", "matches": 2, "lines": "[1 3]"}},
		{"overlapping", "abc\n", []pair{{"old_text": "ab", "new_text": "1"}, {"old_text": "bc", "new_text": "2"}}, "", map[string]any{"code": "invalid_argument", "argument": "edits[1]"}},
		{"empty old text", "abc\n", one("", "x"), "", map[string]any{"code": "invalid_argument", "argument": "edits[0].old_text"}},
		{"no edits", "abc\n", []pair{}, "", map[string]any{"code": "invalid_argument", "argument": "edits"}},
		{"no new text", "abc\n", []pair{{"old_text": "a"}}, "", map[string]any{"code": "invalid_argument", "argument": "edits[0].new_text"}},
		{"unknown name", "abc\n", []pair{{"old_text": "a", "new_text": "b", "old": "c"}}, "", map[string]any{"code": "invalid_argument", "argument": "edits[0].old"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := on(t, map[string]string{"f": c.before})
			sum := digest(t, s, "f")
			_, data, e := do(t, s, "edit", map[string]any{"path": "f", "expected_sha256": sum, "edits": c.edits})
			facts(t, c.name, data, c.want)
			if c.after == "" {
				if e == nil || e.Kind != tool.Refused {
					t.Errorf("not refused: %v", data)
				}
				onDisk(t, s, "f", c.before)
				return
			}
			if e != nil {
				t.Fatal(e.Message())
			}
			onDisk(t, s, "f", c.after)
			facts(t, c.name, data, map[string]any{"path": "f", "previous_sha256": sum, "sha256": digest(t, s, "f"), "size": len(c.after)})
			if len(data) != 10 {
				t.Errorf("%d names in the data, the contract has 10", len(data))
			}
		})
	}
	t.Run("FI-23 nothing is a pattern", func(t *testing.T) {
		t.Parallel()
		s := on(t, map[string]string{"t": "A PLACE B\n"})
		old := "PLACE"
		for _, n := range []string{"$&", "$$", "$`", "$'", "$1", "${x}", `\1`, `\0`, "&", "%s", `\n`, "$<n>"} {
			_, _, e := do(t, s, "edit", map[string]any{"path": "t", "expected_sha256": digest(t, s, "t"), "edits": one(old, n)})
			if e != nil {
				t.Fatal(n, e.Message())
			}
			onDisk(t, s, "t", "A "+n+" B\n")
			old = n
		}
	})
}

// F9: edits chain by the digest of the last one; a repeated edit is stale, with
// the digest in force.
func TestEditsChain(t *testing.T) {
	t.Parallel()
	s := on(t, map[string]string{"f": "0\n"})
	first := digest(t, s, "f")
	sum := first
	for i := range 5 {
		_, data, e := do(t, s, "edit", map[string]any{"path": "f", "expected_sha256": sum, "edits": []pair{{"old_text": fmt.Sprint(i), "new_text": fmt.Sprint(i + 1)}}})
		if e != nil {
			t.Fatal(e)
		}
		sum = fmt.Sprint(data["sha256"])
	}
	onDisk(t, s, "f", "5\n")
	_, data, _ := do(t, s, "edit", map[string]any{"path": "f", "expected_sha256": first, "edits": []pair{{"old_text": "0", "new_text": "1"}}})
	facts(t, "repeated", data, map[string]any{"code": "stale", "current_sha256": sum})
	for what, c := range map[string]struct {
		path string
		want string
	}{"missing": {"none", "not_found"}, "outside": {"../f", "outside_root"}, "protected": {".git/config", "protected"}} {
		_, data, _ := do(t, s, "edit", map[string]any{"path": c.path, "expected_sha256": sum, "edits": []pair{{"old_text": "a", "new_text": "b"}}})
		facts(t, what, data, map[string]any{"code": c.want})
	}
}

// F9: git, the second judge, applies the diff of a result to the old content and
// gets the new.
func TestGitAppliesTheDiff(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git")
	}
	long := strings.Repeat("line\n", 200)
	for name, c := range map[string]struct{ file, before, old, new string }{
		"plain":            {"f", long + "x\n" + long, "x\n", "y\nz\n"},
		"no final newline": {"f", "a\nb", "b", "c"},
		"newline added":    {"f", "a\nb", "b", "b\n"},
		"CRLF":             {"f", "a\r\nb\r\n", "b", "c"},
		"odd name":         {"dir/a b\"c\té.txt", "a\n", "a", "b"},
		"emptied":          {"f", "a\n", "a\n", ""},
		"through a link":   {"link/f", "a\n", "a", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := on(t, map[string]string{"real/": "", "link": "=> real"})
			// git knows a file by its own place, whichever way it was named
			name := filepath.Join(s.Root(), c.file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(c.before), 0o644)); err != nil {
				t.Fatal(err)
			}
			_, data, e := do(t, s, "edit", map[string]any{"path": filepath.Join(s.Root(), c.file), "expected_sha256": digest(t, s, c.file), "edits": []pair{{"old_text": c.old, "new_text": c.new}}})
			if e != nil {
				t.Fatal(e.Message())
			}
			facts(t, name, data, map[string]any{"diff_omitted_bytes": 0})
			after, err := os.ReadFile(filepath.Join(s.Root(), c.file))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(s.Root(), c.file), []byte(c.before), 0o644); err != nil {
				t.Fatal(err)
			}
			apply := exec.Command(git, "apply", "--whitespace=nowarn", "-")
			apply.Dir = s.Root()
			apply.Stdin = strings.NewReader(data["diff"].(string))
			apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(s.Root()), "GIT_CONFIG_GLOBAL=/dev/null")
			if out, err := apply.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s\n%s", err, out, data["diff"])
			}
			onDisk(t, s, c.file, string(after))
		})
	}
}

// The diff of a result is bounded, and says how much of it is left out.
func TestDiffIsBounded(t *testing.T) {
	t.Parallel()
	var before strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&before, "x line %d\n", i)
	}
	s := on(t, map[string]string{"f": before.String()})
	text, data, e := do(t, s, "edit", map[string]any{"path": "f", "expected_sha256": digest(t, s, "f"), "edits": []pair{{"old_text": "x line", "new_text": "y line", "all": true}}})
	if e != nil {
		t.Fatal(e)
	}
	omitted, _ := data["diff_omitted_bytes"].(float64)
	if len(data["diff"].(string)) > 8<<10 || omitted == 0 || !strings.Contains(text, fmt.Sprintf("diff_omitted_bytes=%d", int64(omitted))) {
		t.Errorf("%d bytes of diff, %v omitted", len(data["diff"].(string)), omitted)
	}
	if out, err := json.Marshal(data); err != nil || len(out) > 20<<10 {
		t.Errorf("%d bytes of data, %v", len(out), err)
	}
}
