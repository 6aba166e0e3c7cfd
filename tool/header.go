package tool

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// A Header builds the one line of key=value facts at the top of a result. The
// zero value is an empty one.
type Header struct {
	b strings.Builder
}

// Fact adds name=value. A string that has blanks, quotes, an equals sign or
// anything that does not show as itself becomes a JSON string, so that a file
// name can neither end the line nor pass for another fact. nil becomes null.
func (h *Header) Fact(name string, value any) {
	if h.b.Len() > 0 {
		h.b.WriteByte(' ')
	}
	h.b.WriteString(name)
	h.b.WriteByte('=')
	v := reflect.ValueOf(value)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Invalid, reflect.Pointer:
		h.b.WriteString("null")
	case reflect.String:
		h.b.WriteString(quote(v.String()))
	default:
		// lists and records are few; they are spelled as JSON, without blanks
		out, err := marshal(v.Interface())
		if err != nil {
			out = []byte("null")
		}
		h.b.WriteString(graphic(string(out)))
	}
}

// String is the line without its end.
func (h *Header) String() string { return h.b.String() }

// Text is the header line, and, where there is content, an empty line and the
// content.
func (h *Header) Text(content string) string {
	if content == "" {
		return h.b.String()
	}
	return h.b.String() + "\n\n" + content
}

func quote(s string) string {
	plain := s != "" && s != "null"
	for _, r := range s {
		if r == ' ' || r == '"' || r == '=' || r == '\\' || r == unicode.ReplacementChar || !unicode.IsGraphic(r) || unicode.IsSpace(r) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	out, err := marshal(s)
	if err != nil {
		return `""`
	}
	return graphic(string(out))
}

// graphic replaces what does not show as itself in a JSON text by \u escapes.
func graphic(json string) string {
	var b strings.Builder
	for _, r := range json {
		switch {
		case r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r):
			b.WriteRune(r)
		case r >= 0x10000:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
