package mcp

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/belayhq/belay/internal/jsontext"
)

// FuzzWalkerAgreesWithEncodingJSON holds the walker to the grammar of
// encoding/json, and the pieces that it cuts to what encoding/json reads.
func FuzzWalkerAgreesWithEncodingJSON(f *testing.F) {
	for _, s := range []string{
		``, ` `, `{}`, `[]`, `null`, `true`, `falsey`, `nul`, `0`, `-0`, `01`, `-`, `1.`, `.5`, `1e`, `1e+`, `1E-05`, `1.5e3x`,
		`""`, `"`, `"\"`, `"\u12`, `"\u12aG"`, `"\uABcd"`, `"\x"`, "\"\x1f\"", "\"\x7f\"", `"é"`, "\"\xff\"",
		`{"a":1,"b":[1,2,{"c":null}]}`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{a:1}`, `[1,]`, `[,]`, `[1 2]`, `{} {}`, ` [ 1 , 2 ] `, "[1]\n", "[1]\x00",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":"b"},"requestId":5}}`,
		`{"\u0069d":1,"id":2}`, strings.Repeat("[", 999) + strings.Repeat("]", 999),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w := jsontext.Walker{Text: []byte(text)}
		w.Space()
		got, want := w.Value() && w.End(), json.Valid([]byte(text))
		if got != want && (!want || depth(text) <= jsontext.MaxDepth) {
			t.Fatalf("%q: walker says %v, encoding/json %v", text, got, want)
		}
		m, no := parse([]byte(text))
		if no != nil {
			if no.code == codeParse && want && utf8.ValidString(text) && depth(text) <= jsontext.MaxDepth {
				t.Fatalf("%q is JSON, and refused as none", text)
			}
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &members); err != nil {
			t.Fatalf("%q was taken for an object: %v", text, err)
		}
		for name, part := range map[string][]byte{"id": m.id, "method": m.method, "params": m.params} {
			if whole := string(members[name]); whole != string(part) && !(name == "params" && whole == "null" && part == nil) {
				t.Fatalf("%q: %s is %q, encoding/json has %q", text, name, part, whole)
			}
		}
		if m.params == nil || m.params[0] != '{' || m.id == nil {
			return
		}
		var params, without map[string]json.RawMessage
		if err := json.Unmarshal(m.params, &params); err != nil {
			t.Fatal(err)
		}
		if string(params["arguments"]) != string(m.arguments) {
			t.Fatalf("%q: arguments are %q, encoding/json has %q", text, m.arguments, params["arguments"])
		}
		if err := json.Unmarshal(m.withoutArguments(), &without); err != nil {
			t.Fatalf("%q without its arguments: %s: %v", text, m.withoutArguments(), err)
		}
		if string(without["arguments"]) != string(m.id) {
			t.Fatalf("%q without its arguments: %s", text, m.withoutArguments())
		}
		delete(params, "arguments")
		delete(without, "arguments")
		a, _ := json.Marshal(params)
		b, _ := json.Marshal(without)
		if string(a) != string(b) {
			t.Fatalf("%q lost more than its arguments: %s", text, m.withoutArguments())
		}
	})
}

// depth is how deep the text may be nested: an upper bound.
func depth(text string) int {
	deepest, now := 0, 0
	for _, r := range text {
		switch r {
		case '[', '{':
			now++
			deepest = max(deepest, now)
		case ']', '}':
			now--
		}
	}
	return deepest
}

// FuzzIDComesBack holds that an id is answered as it was spelled, or not taken.
func FuzzIDComesBack(f *testing.F) {
	for _, s := range []string{`0`, `-0`, `1`, `-1`, `1.0`, `1e3`, `9007199254740992`, `9007199254740993`, `99999999999999999999`, `""`, `"x"`, `"\u0000"`, `"\ud800"`, `"a\"b"`, `"é"`, `null`, `true`, `{}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line := `{"jsonrpc":"2.0","method":"ping","id":` + text + `}`
		m, no := parse([]byte(line))
		if no != nil || m.id == nil {
			return
		}
		id, ok := parseID(m.id)
		if !ok {
			return
		}
		if got := string(appendID(nil, id)); got != string(m.id) {
			t.Fatalf("%q came back as %q", m.id, got)
		}
		// by the same spelling the handler and a cancellation find the call
		if again, ok := parseID(m.id); !ok || again != id {
			t.Fatalf("%q is two ids", m.id)
		}
	})
}

func TestDepthIsBounded(t *testing.T) {
	t.Parallel()
	p := newPeer(t, newSuite()).hello()
	for _, n := range []int{jsontext.MaxDepth + 1, 1_000_000} {
		p.send(strings.Repeat("[", n) + strings.Repeat("]", n))
		if r := p.reply(); r.Error == nil || r.Error.Code != codeParse {
			t.Errorf("%d deep: %+v", n, r)
		}
		p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_stdin","arguments":` + strings.Repeat(`{"a":`, n) + `1` + strings.Repeat("}", n) + `}}`)
		if r := p.reply(); r.Error == nil || r.Error.Code != codeParse {
			t.Errorf("%d deep: %+v", n, r)
		}
	}
	p.silent("end")
}

// FuzzAnyLineIsAnsweredAtMostOnce sends a line to a server that is up, and wants
// at most one message for it, one that is needed where the line is no message,
// and a server that lives on.
func FuzzAnyLineIsAnsweredAtMostOnce(f *testing.F) {
	for _, s := range []string{
		`x`, ``, `{}`, `[]`, `null`, "\xff", "{\"a\":\x00}", initialize, initialized,
		callOf("1", "write_stdin", `{"text":"a"}`), callOf(`"a"`, "read", `{"text":"gone"}`), callOf("1", "replace", `{}`), callOf("1", "nope", `5`),
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","_meta":{"progressToken":[]}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","inputResponses":{"a":{"action":"accept"}},"requestState":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":null}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"result":null}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\n") || len(line) > 60_000 || strings.Contains(line, `shell`) || strings.Contains(line, `exec_wait`) || strings.Contains(line, `exec_output`) || strings.Contains(line, `\u`) {
			return // what waits for the test, by any spelling of its name
		}
		p := newPeer(t, newSuite()).hello()
		p.send(line)
		first := p.sendUntil(`{"jsonrpc":"2.0","id":"fuzz-end","method":"no/such"}`, `"fuzz-end"`)
		if _, no := parse([]byte(line)); no != nil && no.code == codeParse && strings.Trim(line, " \t\r") != "" && len(first) == 0 {
			first = append(first, p.line()) // a refusal waits for nobody, and so may come a little later
		}
		if len(first) > 1 && !strings.Contains(line, "subscriptions/listen") {
			t.Fatalf("%q was answered by %q", line, first)
		}
		if _, no := parse([]byte(line)); no != nil && strings.Trim(line, " \t\r") != "" && len(first) == 0 {
			var m map[string]json.RawMessage
			if json.Unmarshal([]byte(line), &m) != nil || m["result"] == nil && m["error"] == nil {
				p.line() // fails the test where nothing comes
			}
		}
	})
}

// sendUntil sends a request and returns the lines before its answer.
func (p *peer) sendUntil(request, id string) (before []string) {
	p.t.Helper()
	p.send(request)
	for {
		line := p.line()
		if string(decode(p.t, line).ID) == id {
			return before
		}
		before = append(before, line)
	}
}
