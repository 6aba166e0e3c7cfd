package jsontext

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzGrammarIsEncodingJSONs holds the walker to what encoding/json takes for JSON.
func FuzzGrammarIsEncodingJSONs(f *testing.F) {
	for _, s := range []string{
		``, ` `, `{}`, `[]`, `null`, `true`, `falsey`, `nul`, `0`, `-0`, `01`, `-`, `1.`, `.5`, `1e`, `1e+`, `1E-05`, `1.5e3x`,
		`""`, `"`, `"\"`, `"\u12`, `"\u12aG"`, `"\uABcd"`, `"\x"`, "\"\x1f\"", "\"\x7f\"", `"é"`, "\"\xff\"",
		`{"a":1,"b":[1,2,{"c":null}]}`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{a:1}`, `[1,]`, `[,]`, `[1 2]`, `{} {}`, ` [ 1 , 2 ] `, "[1]\n", "[1]\x00",
		strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w := Walker{Text: []byte(text)}
		w.Space()
		got, want := w.Value() && w.End(), json.Valid([]byte(text))
		if got != want && (!want || strings.Count(text, "[")+strings.Count(text, "{") <= MaxDepth) {
			t.Fatalf("%q: walker says %v, encoding/json %v", text, got, want)
		}
	})
}

// FuzzUnquoteIsEncodingJSONs holds the strings that are read to those that
// encoding/json reads, and finds what it would replace.
func FuzzUnquoteIsEncodingJSONs(f *testing.F) {
	for _, s := range []string{`""`, `"a\"b\\c\/\b\f\n\r\t"`, `"\u0041\u00e9\u20ac"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\ud83d\ud83d\ude00"`, `"\ud83d\u0041"`, `"\\ud83d"`, `"é\u2028"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, literal string) {
		var want string
		if !utf8.ValidString(literal) || literal == "" || literal[0] != '"' || json.Unmarshal([]byte(literal), &want) != nil || literal[len(literal)-1] != '"' {
			return
		}
		if got := Unquote([]byte(literal)); got != want {
			t.Fatalf("%s is %q, encoding/json has %q", literal, got, want)
		}
		replaced := strings.Count(want, "\ufffd") > strings.Count(literal, "\ufffd")+strings.Count(strings.ToLower(literal), `\ufffd`)
		if got := LoneSurrogate([]byte(literal)); replaced && !got {
			t.Fatalf("%s: the lone surrogate was not found", literal)
		} else if got && !strings.Contains(want, "\ufffd") {
			t.Fatalf("%s: a lone surrogate was made up", literal)
		}
	})
}
