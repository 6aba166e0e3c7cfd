package mcp

import (
	"encoding/json"
	"unicode/utf8"
)

// maxDepth is how deep lists and objects may be nested in one message. The SDK
// stops at the same depth; nothing that a tool takes comes near it.
const maxDepth = 1000

// A walker steps once through JSON text and copies nothing. A large request is
// one long string: encoding/json would scan it once to find where the message
// ends, once more for the params, once more for the arguments. Methods report
// false where the text is not JSON; the walker is of no use after that.
//
// It holds the text to the grammar as encoding/json does (a fuzz test compares
// the two), but for UTF-8, which is the caller's to check.
type walker struct {
	text  []byte
	at    int // the next byte
	depth int
}

func (w *walker) space() {
	for w.at < len(w.text) {
		switch w.text[w.at] {
		case ' ', '\t', '\r', '\n':
			w.at++
		default:
			return
		}
	}
}

// peek is the next byte, 0 at the end of the text.
func (w *walker) peek() byte {
	if w.at < len(w.text) {
		return w.text[w.at]
	}
	return 0
}

func (w *walker) take(b byte) bool {
	if w.peek() != b {
		return false
	}
	w.at++
	return true
}

// end reports whether nothing but white space is left.
func (w *walker) end() bool {
	w.space()
	return w.at == len(w.text)
}

// value steps over one value that starts at the next byte.
func (w *walker) value() bool {
	switch w.peek() {
	case '{':
		return w.object(func([]byte) bool { return w.value() })
	case '[':
		return w.list()
	case '"':
		return w.str()
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

// object steps over one object. For each member it calls visit with the name as
// it is spelled, quotes included; visit steps over the value, which starts at
// the next byte.
func (w *walker) object(visit func(name []byte) bool) bool {
	if w.depth++; w.depth > maxDepth || !w.take('{') {
		return false
	}
	defer func() { w.depth-- }()
	w.space()
	if w.take('}') {
		return true
	}
	for {
		start := w.at
		if !w.str() {
			return false
		}
		name := w.text[start:w.at]
		w.space()
		if !w.take(':') {
			return false
		}
		w.space()
		if !visit(name) {
			return false
		}
		w.space()
		if w.take('}') {
			return true
		}
		if !w.take(',') {
			return false
		}
		w.space()
	}
}

func (w *walker) list() bool {
	if w.depth++; w.depth > maxDepth || !w.take('[') {
		return false
	}
	defer func() { w.depth-- }()
	w.space()
	if w.take(']') {
		return true
	}
	for {
		if !w.value() {
			return false
		}
		w.space()
		if w.take(']') {
			return true
		}
		if !w.take(',') {
			return false
		}
		w.space()
	}
}

// plain marks the bytes that stand for themselves inside a string.
var plain = func() (t [256]bool) {
	for b := 0x20; b < len(t); b++ {
		t[b] = b != '"' && b != '\\'
	}
	return t
}()

func (w *walker) str() bool {
	if !w.take('"') {
		return false
	}
	text, at := w.text, w.at
	for {
		for at < len(text) && plain[text[at]] {
			at++
		}
		if at == len(text) {
			return false
		}
		switch text[at] {
		case '"':
			w.at = at + 1
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

func (w *walker) word(word string) bool {
	if len(w.text)-w.at < len(word) || string(w.text[w.at:w.at+len(word)]) != word {
		return false
	}
	w.at += len(word)
	return true
}

func (w *walker) number() bool {
	w.take('-')
	if !w.take('0') && !w.digits() {
		return false
	}
	if w.take('.') && !w.digits() {
		return false
	}
	if w.take('e') || w.take('E') {
		if !w.take('+') {
			w.take('-')
		}
		return w.digits()
	}
	return true
}

func (w *walker) digits() bool {
	start := w.at
	for c := w.peek(); '0' <= c && c <= '9'; c = w.peek() {
		w.at++
	}
	return w.at > start
}

// unquote is the string that a literal spells. The literal is well-formed.
func unquote(literal []byte) string {
	inner := literal[1 : len(literal)-1]
	for _, b := range inner {
		if b == '\\' {
			var s string
			if json.Unmarshal(literal, &s) != nil {
				return ""
			}
			return s
		}
	}
	return string(inner)
}

// object steps through text that is known to be one JSON object, and calls visit
// for each member. It reports false, with some members visited, where it is none.
func object(text []byte, visit func(name string, value []byte)) bool {
	if !utf8.Valid(text) {
		return false
	}
	w := walker{text: text}
	w.space()
	return w.object(func(name []byte) bool {
		start := w.at
		ok := w.value()
		if ok {
			visit(unquote(name), text[start:w.at])
		}
		return ok
	}) && w.end()
}
