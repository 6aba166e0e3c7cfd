package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/tailscale/hujson"
)

// inJSON edits a file of JSON, with comments or without: the member belay of the object
// that group names. Nothing is encoded anew but that member; where it stands already with
// the same meaning, nothing at all.
func inJSON(group string, form func(server) any) func([]byte, server) ([]byte, error) {
	return func(text []byte, s server) ([]byte, error) {
		bom := []byte("\xef\xbb\xbf")
		body, hadBOM := bytes.CutPrefix(text, bom)
		if !hadBOM {
			bom = nil
		}
		out, err := putMember(body, group, form(s))
		if err != nil {
			return nil, err
		}
		return append(bom, out...), nil
	}
}

func putMember(text []byte, group string, value any) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		l := layout{unit: "  ", eol: "\n"}
		return []byte("{" + l.line(1) + asJSON(group) + ": {" + l.line(2) + l.member(2, value) + l.line(1) + "}\n}\n"), nil
	}
	// with a line end: a comment may be the last of the file
	top, err := hujson.Parse(append(bytes.Clone(text), '\n'))
	if err != nil {
		return nil, errors.New("is no JSON")
	}
	root, ok := top.Value.(*hujson.Object)
	if !ok {
		return nil, errors.New("is no JSON object")
	}
	l := layoutOf(text, &top)
	in, err := memberOf(root, group)
	if err != nil {
		return nil, err
	}
	if in == nil {
		return l.insert(text, &top, root, 1, func(depth int) string {
			if depth < 0 {
				return asJSON(group) + ": {" + l.member(-1, value) + "}"
			}
			return asJSON(group) + ": {" + l.line(depth+1) + l.member(depth+1, value) + l.line(depth) + "}"
		}), nil
	}
	servers, ok := in.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("has a %s that is no object", group)
	}
	mine, err := memberOf(servers, serverName)
	if err != nil {
		return nil, err
	}
	if mine == nil {
		return l.insert(text, in, servers, 2, func(depth int) string { return l.member(depth, value) }), nil
	}
	entry, ok := mine.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("has a %s that is no object", serverName)
	}
	if url, err := memberOf(entry, "url"); err != nil || url != nil {
		return nil, fmt.Errorf("has a %s that is reached by its url", serverName)
	}
	// What is ours is set, one field after the other; all else of the entry (variables,
	// time limits, whether it is switched on) is the user's.
	for _, f := range fieldsOf(value) {
		is, err := memberOf(entry, f.name)
		switch {
		case err != nil:
			return nil, err
		case is == nil:
			text = l.insert(text, mine, entry, 3, func(int) string { return asJSON(f.name) + ": " + f.value })
			return putMember(text, group, value)
		case f.name != "enabled" && !sameJSON(text[is.StartOffset:is.EndOffset], f.value):
			return putMember(splice(text, is.StartOffset, is.EndOffset, f.value), group, value)
		}
	}
	return text, nil
}

// A field is one of an entry, its value as JSON.
type field struct{ name, value string }

func fieldsOf(entry any) (all []field) {
	v := reflect.ValueOf(entry)
	for i := range v.NumField() {
		all = append(all, field{v.Type().Field(i).Tag.Get("json"), strings.ReplaceAll(asJSON(v.Field(i).Interface()), `","`, `", "`)})
	}
	return all
}

func memberOf(object *hujson.Object, name string) (found *hujson.Value, err error) {
	for i := range object.Members {
		m := &object.Members[i]
		if m.Name.Value.(hujson.Literal).String() != name {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("has %s twice", name)
		}
		found = &m.Value
	}
	return found, nil
}

// sameJSON tells whether a text means the value.
func sameJSON(text []byte, value string) bool {
	standard, err := hujson.Standardize(bytes.Clone(text))
	if err != nil {
		return false
	}
	var is, should any
	return json.Unmarshal(standard, &is) == nil && json.Unmarshal([]byte(value), &should) == nil && reflect.DeepEqual(is, should)
}

func splice(text []byte, from, to int, with string) []byte {
	out := make([]byte, 0, len(text)+len(with))
	out = append(append(out, text[:from]...), with...)
	return append(out, text[to:]...)
}

// A layout is how a file is indented.
type layout struct {
	base string // of the line that the outermost object ends on
	unit string
	eol  string
}

func layoutOf(text []byte, top *hujson.Value) layout {
	l := layout{unit: "  ", eol: "\n"}
	if bytes.Contains(text, []byte("\r\n")) {
		l.eol = "\r\n"
	}
	l.base = indentAt(text, top.EndOffset-1)
	if root := top.Value.(*hujson.Object); len(root.Members) > 0 {
		first := indentAt(text, root.Members[0].Name.StartOffset)
		if unit, deeper := strings.CutPrefix(first, l.base); deeper && unit != "" {
			l.unit = unit
		}
	}
	return l
}

// indentAt is the white space at the beginning of the line of a position.
func indentAt(text []byte, at int) string {
	line := text[bytes.LastIndexByte(text[:at], '\n')+1:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

func (l layout) line(depth int) string { return l.eol + l.base + strings.Repeat(l.unit, depth) }

// member is belay's entry at a depth; below 0 it is on one line.
func (l layout) member(depth int, value any) string {
	return asJSON(serverName) + ": " + l.value(depth, value)
}

func (l layout) value(depth int, value any) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, f := range fieldsOf(value) {
		if i > 0 {
			b.WriteByte(',')
			if depth < 0 {
				b.WriteByte(' ')
			}
		}
		if depth >= 0 {
			b.WriteString(l.line(depth + 1))
		}
		b.WriteString(asJSON(f.name) + ": " + f.value)
	}
	if depth >= 0 {
		b.WriteString(l.line(depth))
	}
	return b.String() + "}"
}

// insert puts a member at the end of an object: on a line of its own, at the depth, where
// the object has more than one line or none at all, else behind the last one.
func (l layout) insert(text []byte, of *hujson.Value, object *hujson.Object, depth int, member func(depth int) string) []byte {
	inner := text[of.StartOffset:of.EndOffset]
	end := of.EndOffset - 1 // of the brace
	if len(object.Members) == 0 {
		if blank := inner[1 : len(inner)-1]; len(bytes.TrimSpace(blank)) == 0 {
			added := l.line(depth) + member(depth)
			if !bytes.Contains(blank, []byte("\n")) {
				added += l.line(depth - 1)
			}
			return splice(text, of.StartOffset+1, of.StartOffset+1, added)
		}
		// a comment: behind it
		return splice(text, end, end, l.line(depth)+member(depth)+l.line(depth-1))
	}
	last := &object.Members[len(object.Members)-1].Value
	comma := last.AfterExtra != nil
	if !bytes.Contains(inner, []byte("\n")) {
		if comma {
			return splice(text, end, end, " "+member(-1))
		}
		return splice(text, last.EndOffset, last.EndOffset, ", "+member(-1))
	}
	at := of.StartOffset + len(bytes.TrimRight(inner[:len(inner)-1], " \t\r\n"))
	added := l.line(depth) + member(depth)
	if !bytes.Contains(text[at:end], []byte("\n")) { // the brace is on the line of the last member, or of a comment
		added += l.line(depth - 1)
	}
	if comma {
		return splice(text, at, at, added+",")
	}
	out := splice(text, at, at, added)
	return splice(out, last.EndOffset, last.EndOffset, ",")
}
