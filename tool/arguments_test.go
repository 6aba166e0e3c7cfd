package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// read stands for the way a tool asks for its arguments.
func read(raw string) (path string, n int64, flag bool, list []string, pairs [][2]string, err error) {
	a := ParseArguments(json.RawMessage(raw))
	path = a.NeedText("path")
	n = a.Int("n", Range{Default: 7, Min: 1, Max: 100})
	flag = a.Bool("flag")
	list = a.Texts("list")
	a.OneOf("mode", "a", "b")
	a.Int("wait", Range{Default: 250, Min: 250, Max: 30000, Clamp: true})
	a.Each("pairs", func(in *Arguments) {
		pairs = append(pairs, [2]string{in.NeedText("old"), in.Text("new", "-")})
	})
	err = a.Err()
	return
}

// C7: unknown arguments and wrong types are refused, and the error names the
// argument and what it takes.
func TestArgumentsAreStrict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ raw, argument, expects string }{
		{``, "path", "required"},
		{`{}`, "path", "required"},
		{`[]`, "arguments", "a JSON object"},
		{`null`, "path", "required"},
		{`[null]`, "arguments", "a JSON object"},
		{`"x"`, "arguments", "a JSON object"},
		{`{"path":"a"`, "arguments", "one well-formed"},
		{`{"path":"a","\ud800":1}`, "arguments", "one well-formed"},
		{`{"path":"a"}{}`, "arguments", "one well-formed"},
		{`{"path":"a"} x`, "arguments", "one well-formed"},
		{"{\"path\":\"\xff\"}", "arguments", "UTF-8"},
		{`{"path":1}`, "path", "a string"},
		{`{"path":null}`, "path", "a string"},
		{`{"path":["a"]}`, "path", "a string"},
		{`{"Path":"a"}`, "path", "required"},
		{`{"path":"a","PATH":"b"}`, "PATH", "no such argument; known: path n flag"},
		{`{"path":"a","path":"b"}`, "path", "once"},
		{`{"path":"a","p\u0061th":"b"}`, "path", "once"},
		{`{"path":"a","":1}`, "", "no such argument"},
		{`{"path":"a","` + strings.Repeat("é", 300) + `":1}`, strings.Repeat("é", 32) + "…", "no such argument"},
		{`{"path":"\ud800"}`, "path", "a string"},
		{`{"path":"\udc00\ud800"}`, "path", "a string"},
		{`{"path":"\ud83dx"}`, "path", "a string"},
		{`{"path":"a","n":"5"}`, "n", "a whole number from 1 to 100"},
		{`{"path":"a","n":1.5}`, "n", "a whole number"},
		{`{"path":"a","n":true}`, "n", "a whole number"},
		{`{"path":"a","n":0}`, "n", "from 1 to 100"},
		{`{"path":"a","n":101}`, "n", "from 1 to 100"},
		{`{"path":"a","n":-1}`, "n", "from 1 to 100"},
		{`{"path":"a","n":9223372036854775808}`, "n", "from 1 to 100"},
		{`{"path":"a","n":1e400}`, "n", "a whole number"},
		{`{"path":"a","wait":-1}`, "wait", "not negative"},
		{`{"path":"a","flag":"true"}`, "flag", "true or false"},
		{`{"path":"a","flag":1}`, "flag", "true or false"},
		{`{"path":"a","list":"x"}`, "list", "a list of strings"},
		{`{"path":"a","list":["x",1]}`, "list[1]", "a string"},
		{`{"path":"a","mode":"c"}`, "mode", "one of: a b"},
		{`{"path":"a","pairs":{}}`, "pairs", "a list of objects"},
		{`{"path":"a","pairs":[1]}`, "pairs[0]", "a JSON object"},
		{`{"path":"a","pairs":[{"old":"x"},{"new":"y"}]}`, "pairs[1].old", "required"},
		{`{"path":"a","pairs":[{"old":"x","OLD":"y"}]}`, "pairs[0].OLD", "known: old new"},
	} {
		_, _, _, _, _, err := read(c.raw)
		var e *Error
		if !errors.As(err, &e) || e.Code != InvalidArgument || e.Kind != Refused {
			t.Errorf("%.80s: got %v, want invalid_argument", c.raw, err)
			continue
		}
		if e.Facts[0] != (Fact{"argument", c.argument}) || !strings.Contains(fmt.Sprint(e.Facts[1].Value), c.expects) {
			t.Errorf("%.80s: got %v, want argument %q, expects %q", c.raw, e.Facts, c.argument, c.expects)
		}
	}
}

func TestArgumentsAreRead(t *testing.T) {
	t.Parallel()
	path, n, flag, list, pairs, err := read(` {"n":12.0,"path":"a\ud83d\ude00\\ud800b","flag":true,"list":["","x"],"wait":99999,"mode":"b","pairs":[{"old":"1"},{"old":"","new":""}]} `)
	if err != nil {
		t.Fatal(err)
	}
	if path != `a😀\ud800b` || n != 12 || !flag || !reflect.DeepEqual(list, []string{"", "x"}) || !reflect.DeepEqual(pairs, [][2]string{{"1", "-"}, {"", ""}}) {
		t.Errorf("got %q %d %v %q %q", path, n, flag, list, pairs)
	}
	if _, n, _, _, _, err := read(`{"path":""}`); n != 7 || err != nil {
		t.Errorf("defaults: %d, %v", n, err)
	}
}

// Clamped values move to the nearest end, however large they are.
func TestRangeClamps(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]int64{`{"x":0}`: 250, `{"x":300}`: 300, `{"x":99999999999}`: 30000, `{"x":1e30}`: 30000, `{}`: 10000} {
		a := ParseArguments(json.RawMessage(raw))
		got := a.Int("x", Range{Default: 10000, Min: 250, Max: 30000, Clamp: true})
		if got != want || a.Err() != nil {
			t.Errorf("%s: got %d (%v), want %d", raw, got, a.Err(), want)
		}
	}
}

// FuzzArgumentsNeverGuess holds that whatever is accepted means the same to a
// strict second reader: every name occurs once, exactly as spelled.
func FuzzArgumentsNeverGuess(f *testing.F) {
	for _, s := range []string{`{"path":"a"}`, `{"path":"a","n":5,"flag":false,"list":[]}`, `{"path":"\ud83d\ude00"}`, `{"p\u0061th":"b"}`, `{"path":"\ud800"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		path, n, _, _, _, err := read(raw)
		if err != nil {
			return
		}
		var m map[string]any
		if json.Unmarshal([]byte(raw), &m) != nil {
			t.Fatalf("accepted what is no JSON object: %q", raw)
		}
		if m["path"] != path {
			t.Fatalf("path read as %q, a second reader has %q", path, m["path"])
		}
		if v, ok := m["n"]; ok && v != float64(n) {
			t.Fatalf("n read as %d, a second reader has %v", n, v)
		}
		if strings.ContainsRune(path, '�') && !strings.Contains(raw, "�") && !strings.Contains(strings.ToLower(raw), `\ufffd`) {
			t.Fatalf("a character was replaced: %q became %q", raw, path)
		}
	})
}
