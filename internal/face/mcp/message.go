package mcp

import (
	"bytes"
	"regexp"
	"strconv"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/belayhq/belay/internal/jsontext"
)

// A message is one line of the peer, as it is spelled there: each field is a
// part of the line, nil where it is not given.
type message struct {
	version, id, method, params []byte
	response                    bool // it has a result or an error

	// of the params, where they are an object
	arguments, requestID []byte
	argumentsAt          int // where in params the arguments start
}

// A refusal is why a line is no message that can be handled.
type refusal struct {
	code int64
	text string
}

const (
	codeParse          = jsonrpc.CodeParseError
	codeInvalidRequest = jsonrpc.CodeInvalidRequest
	codeInvalidParams  = jsonrpc.CodeInvalidParams
	codeNotFound       = jsonrpc.CodeMethodNotFound
	codeInternal       = jsonrpc.CodeInternalError
	// codeBusy is of the range that JSON-RPC leaves to servers, below the part
	// of it that MCP reserves.
	codeBusy = -32000
)

// parse takes one line apart. What it found before a refusal stays in the
// message, so that the refusal can name the request.
func parse(line []byte) (m message, no *refusal) {
	if !utf8.Valid(line) {
		return m, &refusal{codeParse, "the line is not UTF-8"}
	}
	w := jsontext.Walker{Text: line}
	w.Space()
	if w.Peek() != '{' {
		if w.Value() && w.End() {
			return m, &refusal{codeInvalidRequest, "a message is one JSON object; there are no batches"}
		}
		return m, &refusal{codeParse, "the line is not JSON"}
	}
	twice := false
	set := func(field *[]byte, value []byte) {
		twice = twice || *field != nil
		*field = value
	}
	ok := w.Object(func(name []byte) bool {
		start := w.At
		var field *[]byte
		switch jsontext.Unquote(name) {
		case "jsonrpc":
			field = &m.version
		case "id":
			field = &m.id
		case "method":
			field = &m.method
		case "result", "error":
			m.response = true
		case "params":
			ok := m.walkParams(&w, set)
			if ok {
				set(&m.params, line[start:w.At])
			}
			return ok
		}
		ok := w.Value()
		// a number at the very end of a line that was cut may go on
		if ok && field != nil && w.At < len(line) {
			set(field, line[start:w.At])
		}
		return ok
	})
	switch {
	case !ok || !w.End():
		return m, &refusal{codeParse, "the line is not JSON"}
	case twice:
		return m, &refusal{codeInvalidRequest, "a name is given twice"}
	case string(m.version) != `"2.0"`:
		return m, &refusal{codeInvalidRequest, `jsonrpc is not "2.0"`}
	}
	if string(m.params) == "null" {
		m.params = nil
	}
	return m, nil
}

// walkParams steps over the params, and notes of them what the connection has to
// know, so that the arguments of a call are stepped over once only.
func (m *message) walkParams(w *jsontext.Walker, set func(*[]byte, []byte)) bool {
	if w.Peek() != '{' {
		return w.Value()
	}
	params := w.At
	return w.Object(func(name []byte) bool {
		start := w.At
		if !w.Value() {
			return false
		}
		switch jsontext.Unquote(name) {
		case "arguments":
			m.argumentsAt = start - params
			set(&m.arguments, w.Text[start:w.At])
		case "requestId":
			set(&m.requestID, w.Text[start:w.At])
		}
		return true
	})
}

// withoutArguments is the params with the id in the place of the arguments. The
// SDK decodes params twice, and copies the arguments each time; it is given a
// small text instead, by which the handler finds them again.
func (m *message) withoutArguments() []byte {
	if m.arguments == nil {
		rest := bytes.TrimLeft(m.params[1:], " \t\r\n")
		out := append([]byte(`{"arguments":`), m.id...)
		if rest[0] != '}' {
			out = append(out, ',')
		}
		return append(out, rest...)
	}
	out := append([]byte(nil), m.params[:m.argumentsAt]...)
	out = append(out, m.id...)
	return append(out, m.params[m.argumentsAt+len(m.arguments):]...)
}

// maxID bounds the spelling of a request's id, in bytes. Clients use small
// numbers or UUIDs.
const maxID = 512

// parseID is the SDK's form of an id, for any spelling. A string is kept with its
// escapes. The SDK makes an int64 of a number by way of a float64, which loses
// the digits of large ones and fractions: a number that it would not give back
// as it came travels as a string that starts with NUL, followed by the spelling.
// No other string can start so: in JSON a NUL has to be escaped.
func parseID(literal []byte) (jsonrpc.ID, bool) {
	if len(literal) == 0 || len(literal) > maxID {
		return jsonrpc.ID{}, false
	}
	var value any
	switch c := literal[0]; {
	case c == '"':
		value = string(literal[1 : len(literal)-1])
	case c == '-' || '0' <= c && c <= '9':
		const exact = 1 << 53 // the whole numbers that a float64 holds
		n, err := strconv.ParseInt(string(literal), 10, 64)
		if err == nil && -exact <= n && n <= exact && strconv.FormatInt(n, 10) == string(literal) {
			value = float64(n)
		} else {
			value = "\x00" + string(literal)
		}
	default: // null, or what is no id
		return jsonrpc.ID{}, false
	}
	id, err := jsonrpc.MakeID(value)
	return id, err == nil
}

// appendID spells an id as it came.
func appendID(line []byte, id jsonrpc.ID) []byte {
	switch v := id.Raw().(type) {
	case int64:
		return strconv.AppendInt(line, v, 10)
	case string:
		if v != "" && v[0] == 0 {
			return append(line, v[1:]...)
		}
		line = append(line, '"')
		line = append(line, v...) // with its escapes: see parseID
		return append(line, '"')
	default:
		return append(line, "null"...)
	}
}

// lastID finds the id where it is the last member of a message, as the
// TypeScript SDK writes it: nothing but the end of the outermost object follows,
// so a well-formed line has no other reading.
var lastID = regexp.MustCompile(`[,{][ \t\r\n]*"id"[ \t\r\n]*:[ \t\r\n]*(-?[0-9]+|"[^"\\\x00-\x1f]*")[ \t\r\n]*\}[ \t\r\n]*$`)

// idOfLongLine looks for the id of a request of which only the beginning and the
// end were kept. ok is false for what is certainly no request.
func idOfLongLine(head, tail []byte) (id []byte, ok bool) {
	// cut by bytes, so perhaps inside of a character
	for i := 1; i <= utf8.UTFMax && i <= len(head); i++ {
		if utf8.RuneStart(head[len(head)-i]) {
			if !utf8.FullRune(head[len(head)-i:]) {
				head = head[:len(head)-i]
			}
			break
		}
	}
	m, _ := parse(head)
	if m.response {
		return nil, false
	}
	if m.id != nil {
		return m.id, true
	}
	if found := lastID.FindSubmatch(tail); found != nil && utf8.Valid(found[1]) {
		return found[1], true
	}
	return nil, true
}
