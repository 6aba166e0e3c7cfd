package mcp

import (
	"bytes"
	"encoding/json"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/tool"
)

// The keys under which the data of an outcome travels. No client shows _meta to
// a model; all show the text.
const (
	metaResult  = "belay/result"
	metaError   = "belay/error"
	metaMessage = "belay/message" // of the block of a completion message
)

// An answer is the outcome of a call, encoded. It is encoded once, by the
// goroutine of the call, and spliced into the line where the SDK's result has
// the marks.
type answer struct {
	text   []byte // a JSON string
	data   []byte // a JSON value, nil where there is none
	failed bool

	ends   []string // sessions whose end it reports
	beside []coding.Message
	settle func(written bool) // told once what became of it; nil where nobody wants to know
}

// The marks stand for text and data in the result that the SDK is given. That
// result holds nothing of the peer or of a tool, so they cannot occur in it
// otherwise.
const (
	markText = "belay.text"
	markData = "belay.data"
)

func resulted(r tool.Result) *answer {
	a := &answer{text: encodeJSON(r.Text), ends: r.Ends}
	if r.Data != nil {
		a.data = encodeJSON(r.Data)
	}
	return a
}

func failed(e *tool.Error) *answer {
	return &answer{text: encodeJSON(e.Message()), data: encodeJSON(e), failed: true}
}

// encodeJSON is json.Marshal without the escapes meant for HTML. It is nil for
// what cannot be encoded: the call has had its effect by then, so its text is
// sent without the data.
func encodeJSON(v any) (out []byte) {
	defer func() {
		if recover() != nil {
			out = nil
		}
	}()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// standIn is the answer as the SDK gets it.
func (a *answer) standIn() *sdk.CallToolResult {
	r := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: markText}}, IsError: a.failed}
	if a.data != nil {
		key := metaResult
		if a.failed {
			key = metaError
		}
		r.Meta = sdk.Meta{key: markData}
	}
	return r
}

// whole is the answer for a connection that is the SDK's.
func (a *answer) whole() *sdk.CallToolResult {
	var text string
	_ = json.Unmarshal(a.text, &text) // nil where it could not be encoded
	r := a.standIn()
	r.Content = []sdk.Content{&sdk.TextContent{Text: text}}
	for _, m := range a.beside {
		r.Content = append(r.Content, &sdk.TextContent{Text: m.Text, Meta: sdk.Meta{metaMessage: m.Data}})
	}
	for key := range r.Meta {
		r.Meta[key] = json.RawMessage(a.data)
	}
	return r
}

// appendInto appends an encoded result, with text and data in the place of the
// marks, and the messages behind the text. A nil answer leaves the result as it is.
func (a *answer) appendInto(line, result []byte) []byte {
	if a == nil {
		return append(line, result...)
	}
	head, tail, _ := bytes.Cut(result, []byte(`"`+markText+`"`))
	line = appendReplaced(line, head, `"`+markData+`"`, a.data)
	line = append(line, a.text...)
	for _, m := range a.beside { // the end of the last block is that of the stand-in's
		line = append(append(line, `},{"type":"text","text":`...), encodeJSON(m.Text)...)
		line = append(append(line, `,"_meta":{"`+metaMessage+`":`...), encodeJSON(m.Data)...)
		line = append(line, '}')
	}
	return appendReplaced(line, tail, `"`+markData+`"`, a.data)
}

func appendReplaced(line, src []byte, mark string, value []byte) []byte {
	before, after, found := bytes.Cut(src, []byte(mark))
	line = append(line, before...)
	if found {
		line = append(append(line, value...), after...)
	}
	return line
}

// broken is the outcome of a call in which something outside of the tool failed:
// nothing is known of what a mutating tool did.
func broken(effect tool.Effect) *tool.Error {
	if effect == tool.Mutating {
		return tool.NewError(tool.UncertainOutcome)
	}
	return tool.NewError(tool.ReadFailed, tool.Fact{Name: "reason", Value: "io"})
}

// own is the tool's error in err. A suite returns no other kind.
func own(err error, effect tool.Effect) *tool.Error {
	var e *tool.Error
	if errors.As(err, &e) {
		return e
	}
	return broken(effect)
}
