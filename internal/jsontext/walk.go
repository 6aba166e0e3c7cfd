// Package jsontext steps through JSON text without copying it: what a message holds
// is cut out of it, not decoded.
//
// It promises the grammar of encoding/json, which a fuzz test holds it to, at a
// tenth of its cost for one long string. It decides nothing about names that occur
// twice and numbers that do not fit: that is for who asks. Nothing is kept; each
// Walker belongs to one goroutine.
package jsontext

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how deep lists and objects may be nested. The MCP SDK stops at the
// same depth; nothing that a tool takes comes near it.
const MaxDepth = 1000

// A Walker steps once through JSON text and copies nothing. A large request is
// one long string: encoding/json would scan it once to find where the message
// ends, once more for the params, once more for the arguments. Methods report
// false where the text is not JSON; the walker is of no use after that.
//
// It holds the text to the grammar as encoding/json does (a fuzz test compares
// the two), but for UTF-8, which is the caller's to check.
type Walker struct {
	Text  []byte
	At    int // the next byte
	depth int
}

// Space steps over white space.
func (w *Walker) Space() {
	for w.At < len(w.Text) {
		switch w.Text[w.At] {
		case ' ', '\t', '\r', '\n':
			w.At++
		default:
			return
		}
	}
}

// Peek is the next byte, 0 at the end of the text.
func (w *Walker) Peek() byte {
	if w.At < len(w.Text) {
		return w.Text[w.At]
	}
	return 0
}

// Take steps over a byte if it is the next one.
func (w *Walker) Take(b byte) bool {
	if w.Peek() != b {
		return false
	}
	w.At++
	return true
}

// End reports whether nothing but white space is left.
func (w *Walker) End() bool {
	w.Space()
	return w.At == len(w.Text)
}

// Value steps over one value that starts at the next byte.
func (w *Walker) Value() bool {
	switch w.Peek() {
	case '{':
		return w.Object(func([]byte) bool { return w.Value() })
	case '[':
		return w.List(w.Value)
	case '"':
		return w.Quoted()
	case 't':
		return w.word("true")
	case 'f':
		return w.word("false")
	case 'n':
		return w.word("null")
	default:
		return w.number()
	}
}

// Object steps over one object. For each member it calls visit with the name as
// it is spelled, quotes included; visit steps over the value, which starts at
// the next byte.
func (w *Walker) Object(visit func(name []byte) bool) bool {
	if w.depth++; w.depth > MaxDepth || !w.Take('{') {
		return false
	}
	defer func() { w.depth-- }()
	w.Space()
	if w.Take('}') {
		return true
	}
	for {
		start := w.At
		if !w.Quoted() {
			return false
		}
		name := w.Text[start:w.At]
		w.Space()
		if !w.Take(':') {
			return false
		}
		w.Space()
		if !visit(name) {
			return false
		}
		w.Space()
		if w.Take('}') {
			return true
		}
		if !w.Take(',') {
			return false
		}
		w.Space()
	}
}

// List steps over one list. For each element it calls visit, which steps over it;
// it starts at the next byte.
func (w *Walker) List(visit func() bool) bool {
	if w.depth++; w.depth > MaxDepth || !w.Take('[') {
		return false
	}
	defer func() { w.depth-- }()
	w.Space()
	if w.Take(']') {
		return true
	}
	for {
		if !visit() {
			return false
		}
		w.Space()
		if w.Take(']') {
			return true
		}
		if !w.Take(',') {
			return false
		}
		w.Space()
	}
}

// plain marks the bytes that stand for themselves inside a string.
var plain = func() (t [256]bool) {
	for b := 0x20; b < len(t); b++ {
		t[b] = b != '"' && b != '\\'
	}
	return t
}()

// Quoted steps over one string.
func (w *Walker) Quoted() bool {
	if !w.Take('"') {
		return false
	}
	text, at := w.Text, w.At
	for {
		for at < len(text) && plain[text[at]] {
			at++
		}
		if at == len(text) {
			return false
		}
		switch text[at] {
		case '"':
			w.At = at + 1
			return true
		case '\\':
			if at+1 == len(text) {
				return false
			}
			switch text[at+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				at += 2
			case 'u':
				if at+6 > len(text) {
					return false
				}
				for _, h := range text[at+2 : at+6] {
					if (h < '0' || h > '9') && (h|0x20 < 'a' || h|0x20 > 'f') {
						return false
					}
				}
				at += 6
			default:
				return false
			}
		default: // a control character
			return false
		}
	}
}

func (w *Walker) word(word string) bool {
	if len(w.Text)-w.At < len(word) || string(w.Text[w.At:w.At+len(word)]) != word {
		return false
	}
	w.At += len(word)
	return true
}

func (w *Walker) number() bool {
	w.Take('-')
	if !w.Take('0') && !w.digits() {
		return false
	}
	if w.Take('.') && !w.digits() {
		return false
	}
	if w.Take('e') || w.Take('E') {
		if !w.Take('+') {
			w.Take('-')
		}
		return w.digits()
	}
	return true
}

func (w *Walker) digits() bool {
	start := w.At
	for c := w.Peek(); '0' <= c && c <= '9'; c = w.Peek() {
		w.At++
	}
	return w.At > start
}

// Unquote is the string that a literal spells. The literal is well-formed and in
// UTF-8. A surrogate that is not half of a pair becomes U+FFFD, as encoding/json
// has it: see LoneSurrogate.
func Unquote(literal []byte) string {
	inner := literal[1 : len(literal)-1]
	next := bytes.IndexByte(inner, '\\')
	if next < 0 {
		return string(inner)
	}
	out := make([]byte, 0, len(inner))
	for next >= 0 {
		out = append(out, inner[:next]...)
		inner = inner[next:]
		if inner[1] != 'u' {
			out = append(out, escaped[inner[1]])
			inner = inner[2:]
		} else {
			r := unit(inner)
			inner = inner[6:]
			if utf16.IsSurrogate(r) {
				// half of a pair, or U+FFFD, and then what follows stands for itself
				if r = utf16.DecodeRune(r, unit(inner)); r != utf8.RuneError {
					inner = inner[6:]
				}
			}
			out = utf8.AppendRune(out, r)
		}
		next = bytes.IndexByte(inner, '\\')
	}
	return string(append(out, inner...))
}

// escaped is what the character behind a backslash stands for.
var escaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unit is the UTF-16 code unit of the \u escape that b starts with, or -1.
func unit(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// LoneSurrogate tells whether a literal spells a surrogate that is not half of a
// pair, which no text can hold. The literal is well-formed.
func LoneSurrogate(literal []byte) bool {
	for i := 0; ; {
		next := bytes.IndexByte(literal[i:], '\\')
		if next < 0 {
			return false
		}
		i += next
		switch r := unit(literal[i:]); {
		case r < 0:
			i += 2
		case !utf16.IsSurrogate(r):
			i += 6
		case utf16.DecodeRune(r, unit(literal[i+6:])) == utf8.RuneError:
			return true
		default:
			i += 12
		}
	}
}

// Object steps through text that is known to be one JSON object, and calls visit
// for each member. It reports false, with some members visited, where it is none.
func Object(text []byte, visit func(name string, value []byte)) bool {
	if !utf8.Valid(text) {
		return false
	}
	w := Walker{Text: text}
	w.Space()
	return w.Object(func(name []byte) bool {
		start := w.At
		ok := w.Value()
		if ok {
			visit(Unquote(name), text[start:w.At])
		}
		return ok
	}) && w.End()
}
