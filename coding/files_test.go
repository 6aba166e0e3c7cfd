package coding

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belayhq/belay/tool"
)

// on gives a suite on a fresh root with files in it. A name that ends in / is a
// directory, content that starts with "=> " a link.
func on(t *testing.T, files map[string]string) *Suite {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		target, link := strings.CutPrefix(content, "=> ")
		switch {
		case err != nil:
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		case link:
			err = os.Symlink(target, path)
		default:
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(Config{Root: root, Shell: "/bin/sh"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// do makes one call and gives the text, and the data of the result or the error.
func do(t *testing.T, s *Suite, name string, args map[string]any) (string, map[string]any, *tool.Error) {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Call(context.Background(), Caller{}, tool.Call{ID: "1", Name: name, Args: raw})
	var e *tool.Error
	text, value := r.Text, r.Data
	if err != nil {
		if !errors.As(err, &e) {
			t.Fatalf("%s: an error of type %T", name, err)
		}
		text, value = e.Message(), e
	}
	out, err := json.Marshal(value)
	var data map[string]any
	if err != nil || json.Unmarshal(out, &data) != nil {
		t.Fatalf("%s: no data: %v", name, err)
	}
	return text, data, e
}

func facts(t *testing.T, what string, data map[string]any, want map[string]any) {
	t.Helper()
	for name, value := range want {
		got, ok := data[name]
		if n, isNumber := got.(float64); isNumber && n == float64(int64(n)) {
			got = int64(n) // large ones would be spelled with an exponent
		}
		if !ok || fmt.Sprint(got) != fmt.Sprint(value) {
			t.Errorf("%s: %s is %v (there: %v), want %v", what, name, got, ok, value)
		}
	}
}

// F2, F3: what the contract says of a page, in data and in the header.
func TestReadResults(t *testing.T) {
	t.Parallel()
	s := on(t, map[string]string{
		"lf": "one\ntwo\nthree", "crlf": "\xef\xbb\xbfa\r\nb\r\n", "mixed": "a\nb\r\n", "binary": "\x00\xff\xfe", "empty": "",
		"odd \"name\"\n=": "x", "d/": "", "link": "=> lf", "utf": "ab€cd",
	})
	for _, c := range []struct {
		args   string
		header string
		want   map[string]any
	}{
		{`{"path":"lf"}`, "path=lf size=13 eof=true sha256=", map[string]any{"path": "lf", "size": 13, "offset": 0, "next_offset": nil, "eof": true, "first_line": 1, "changed": false, "encoding": "utf-8", "eol": "lf", "bom": false, "content": "one\ntwo\nthree"}},
		{`{"path":"lf","limit":4}`, "path=lf size=13 next_offset=4 eof=false sha256=", map[string]any{"next_offset": 4, "eof": false, "content": "one\n"}},
		{`{"path":"lf","offset":4,"limit":4}`, "path=lf size=13 offset=4 next_offset=8 eof=false", map[string]any{"first_line": nil, "content": "two\n"}},
		{`{"path":"lf","offset":-5}`, "path=lf size=13 offset=8 eof=true", map[string]any{"content": "three"}},
		{`{"path":"lf","offset":-500}`, "path=lf size=13 eof=true", map[string]any{"content": "one\ntwo\nthree"}},
		{`{"path":"lf","offset":500}`, "path=lf size=13 offset=13 eof=true", map[string]any{"content": "", "eof": true}},
		{`{"path":"lf","line":2}`, "path=lf size=13 offset=4 eof=true first_line=2", map[string]any{"first_line": 2, "content": "two\nthree"}},
		{`{"path":"crlf"}`, "", map[string]any{"eol": "crlf", "bom": true, "content": "\ufeffa\r\nb\r\n"}},
		{`{"path":"mixed"}`, "", map[string]any{"eol": "mixed"}},
		{`{"path":"binary"}`, "", map[string]any{"encoding": "base64", "content": base64.StdEncoding.EncodeToString([]byte("\x00\xff\xfe"))}},
		{`{"path":"empty"}`, "path=empty size=0 eof=true sha256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", map[string]any{"content": "", "eol": "none"}},
		{`{"path":"odd \"name\"\n="}`, `path="odd \"name\"\n=" size=1`, map[string]any{"path": "odd \"name\"\n="}},
		{`{"path":"link"}`, "path=lf ", map[string]any{"content": "one\ntwo\nthree"}},
		{`{"path":"utf","limit":4}`, "", map[string]any{"content": "ab", "next_offset": 2}},
		{`{"path":"lf","limit":99999999}`, "", map[string]any{"eof": true}},
	} {
		var args map[string]any
		if err := json.Unmarshal([]byte(c.args), &args); err != nil {
			t.Fatal(err)
		}
		text, data, e := do(t, s, "read", args)
		if e != nil {
			t.Errorf("%s: %v", c.args, e)
			continue
		}
		facts(t, c.args, data, c.want)
		if len(data) != 12 {
			t.Errorf("%s: %d names in the data, the contract has 12", c.args, len(data))
		}
		if !strings.HasPrefix(text, c.header) {
			t.Errorf("%s: header %q, want %q", c.args, strings.SplitN(text, "\n", 2)[0], c.header)
		}
		if content := data["content"].(string); content != "" && !strings.HasSuffix(text, "\n\n"+content) {
			t.Errorf("%s: the text does not end in the content: %q", c.args, text)
		}
	}
}

// F1, F4, F7, C7: refusals of the file tools, with the facts of the contract.
func TestFileRefusals(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("0", 64)
	s := on(t, map[string]string{
		"f": "content", "d/x": "", "out": "=> ../outside", "dirout": "=> ..", "in": "=> f", ".git/config": "x", "sub/.GIT/hooks/": "",
	})
	outside := filepath.Join(filepath.Dir(s.Root()), "outside")
	if err := os.WriteFile(outside, []byte("secret-canary"), 0o644); err != nil {
		t.Fatal(err)
	}
	sum := "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73" // of "content"
	for _, c := range []struct {
		tool string
		args map[string]any
		want map[string]any
	}{
		{"read", map[string]any{"path": "../outside"}, map[string]any{"code": "outside_root", "kind": "refused", "path": "../outside", "root": s.Root()}},
		{"read", map[string]any{"path": outside}, map[string]any{"code": "outside_root"}},
		{"read", map[string]any{"path": "out"}, map[string]any{"code": "outside_root"}},
		{"read", map[string]any{"path": "dirout/outside"}, map[string]any{"code": "outside_root"}},
		{"read", map[string]any{"path": "none"}, map[string]any{"code": "not_found", "path": "none"}},
		{"read", map[string]any{"path": "d"}, map[string]any{"code": "not_regular", "what": "directory"}},
		{"read", map[string]any{"path": "a\x00b"}, map[string]any{"code": "invalid_argument", "argument": "path"}},
		{"read", map[string]any{"path": ""}, map[string]any{"code": "invalid_argument", "argument": "path"}},
		{"read", map[string]any{"path": "f", "offset": 0, "line": 1}, map[string]any{"code": "invalid_argument", "argument": "line"}},
		{"read", map[string]any{"path": "f", "limit": -1}, map[string]any{"code": "invalid_argument", "argument": "limit"}},
		{"read", map[string]any{"path": "f", "line": 0}, map[string]any{"code": "invalid_argument", "argument": "line"}},
		{"replace", map[string]any{"path": "out", "content": "x", "expected_sha256": digest}, map[string]any{"code": "outside_root"}},
		{"replace", map[string]any{"path": "dirout/new", "content": "x", "create": true}, map[string]any{"code": "outside_root"}},
		{"replace", map[string]any{"path": "in", "content": "x", "expected_sha256": sum}, map[string]any{"code": "not_regular", "what": "link"}},
		{"replace", map[string]any{"path": "f", "content": "x", "expected_sha256": digest}, map[string]any{"code": "stale", "current_sha256": sum}},
		{"replace", map[string]any{"path": "f", "content": "x", "create": true}, map[string]any{"code": "exists", "current_sha256": sum}},
		{"replace", map[string]any{"path": "none", "content": "x", "expected_sha256": digest}, map[string]any{"code": "not_found"}},
		{"replace", map[string]any{"path": "no/dir", "content": "x", "create": true}, map[string]any{"code": "not_found"}},
		{"replace", map[string]any{"path": ".git/config", "content": "x", "create": true}, map[string]any{"code": "protected"}},
		{"replace", map[string]any{"path": "sub/.GIT/hooks/pre-commit", "content": "x", "create": true}, map[string]any{"code": "protected"}},
		{"replace", map[string]any{"path": "f", "content": "x", "create": true, "expected_sha256": sum}, map[string]any{"code": "invalid_argument", "argument": "expected_sha256"}},
		{"replace", map[string]any{"path": "f", "content": "x", "create": false}, map[string]any{"code": "invalid_argument", "argument": "expected_sha256"}},
		{"replace", map[string]any{"path": "f", "content": "x", "expected_sha256": strings.ToUpper(sum)}, map[string]any{"code": "invalid_argument", "argument": "expected_sha256"}},
		{"replace", map[string]any{"path": "f", "content": "x", "expected_sha256": sum, "mkdirs": true}, map[string]any{"code": "invalid_argument", "argument": "mkdirs"}},
		{"replace", map[string]any{"path": "f", "content": "?", "encoding": "base64", "expected_sha256": sum}, map[string]any{"code": "invalid_argument", "argument": "content"}},
		{"replace", map[string]any{"path": "f", "expected_sha256": sum}, map[string]any{"code": "invalid_argument", "argument": "content"}},
		{"replace", map[string]any{"path": "f", "content": nil, "expected_sha256": sum}, map[string]any{"code": "invalid_argument", "argument": "content"}},
	} {
		text, data, e := do(t, s, c.tool, c.args)
		if e == nil {
			t.Errorf("%s %v: not refused", c.tool, c.args)
			continue
		}
		facts(t, fmt.Sprint(c.tool, c.args), data, c.want)
		if strings.Contains(text, "canary") {
			t.Errorf("%s %v shows what is outside: %q", c.tool, c.args, text)
		}
	}
	got, err := os.ReadFile(outside)
	if err != nil || string(got) != "secret-canary" {
		t.Errorf("outside is %q, %v", got, err)
	}
	if got, err := os.ReadFile(filepath.Join(s.Root(), "f")); err != nil || string(got) != "content" {
		t.Errorf("f is %q, %v", got, err)
	}
}

// F4, F5: what the contract says of a commit.
func TestReplaceResults(t *testing.T) {
	t.Parallel()
	s := on(t, map[string]string{"f": "old"})
	text, data, _ := do(t, s, "replace", map[string]any{"path": "new/f", "content": "AP8=", "encoding": "base64", "create": true, "mkdirs": true})
	facts(t, "create", data, map[string]any{"path": "new/f", "size": 2, "previous_sha256": nil, "changed": true, "created": true, "committed": true, "durable": true})
	if len(data) != 8 || !strings.HasPrefix(text, "path=new/f sha256=") || strings.Contains(text, "\n") {
		t.Errorf("create: %q, %v", text, data)
	}
	if got, err := os.ReadFile(filepath.Join(s.Root(), "new/f")); err != nil || string(got) != "\x00\xff" {
		t.Errorf("new/f is %q, %v", got, err)
	}
	// content that is already there is a success that touches nothing, however it was asked for
	for _, args := range []map[string]any{
		{"path": "f", "content": "old", "create": true},
		{"path": "f", "content": "old", "expected_sha256": strings.Repeat("0", 64)},
	} {
		_, data, e := do(t, s, "replace", args)
		if e != nil {
			t.Errorf("%v: %v", args, e)
			continue
		}
		facts(t, "repeat", data, map[string]any{"changed": false, "created": false, "committed": false, "durable": false})
	}
}

// F7: a call whose context is done does nothing, and says whose doing it was.
func TestACancelledFileCallDoesNothing(t *testing.T) {
	t.Parallel()
	s := on(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.Call(ctx, Caller{}, tool.Call{Name: "replace", Args: json.RawMessage(`{"path":"f","content":"x","create":true}`)})
	var e *tool.Error
	if !errors.As(err, &e) || e.Code != tool.Cancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(filepath.Join(s.Root(), "f")); !os.IsNotExist(err) {
		t.Errorf("f is there: %v", err)
	}
}

// C6: limits are checked at the start, reported, and enforced.
func TestLimitsAreInForce(t *testing.T) {
	t.Parallel()
	for setting, c := range map[string]Config{
		"limits.max_page_bytes":   {Limits: Limits{MaxPageBytes: 1}},
		"limits.max_file_bytes":   {Limits: Limits{MaxFileBytes: -1}},
		"limits.max_output_bytes": {Limits: Limits{MaxOutputBytes: 1 << 40}},
		"limits.max_sessions":     {Limits: Limits{MaxSessions: 5000}},
		"limits.max_finished":     {Limits: Limits{MaxFinished: -1}},
		"limits.tail_bytes":       {Limits: Limits{TailBytes: 64001}},
		"env.shell":               {Env: Env{Shell: "all"}},
		"env.exec":                {Env: Env{Exec: "none"}},
		"env.set":                 {Env: Env{Set: map[string]string{"A=B": "x"}}},
	} {
		c.Root = t.TempDir()
		_, err := New(c)
		var bad *ConfigError
		if !errors.As(err, &bad) || bad.Setting != setting {
			t.Errorf("%s: %v", setting, err)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("no root was accepted")
	}

	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "f"), []byte(strings.Repeat("x", 9000)), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Root: root, Limits: Limits{MaxPageBytes: 4096, MaxFileBytes: 8000}, Shell: "/bin/sh"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, data, e := do(t, s, "read", map[string]any{"path": "f", "limit": 1 << 30})
	if e != nil {
		t.Fatal(e)
	}
	facts(t, "a page over the limit", data, map[string]any{"next_offset": 4096, "sha256": nil})
	_, data, _ = do(t, s, "replace", map[string]any{"path": "g", "content": strings.Repeat("x", 8001), "create": true})
	facts(t, "content over the limit", data, map[string]any{"code": "too_large", "what": "content", "limit": 8000, "actual": 8001})
	_, data, _ = do(t, s, "replace", map[string]any{"path": "f", "content": "x", "expected_sha256": strings.Repeat("0", 64)})
	facts(t, "a file over the limit", data, map[string]any{"code": "too_large", "what": "file", "limit": 8000, "actual": 9000})
	if r := s.Doctor(context.Background()); r.Limits.MaxPageBytes != 4096 || r.Limits.MaxSessions != 256 || len(r.Missing) != 0 {
		t.Errorf("doctor reports %+v", r)
	}
}
