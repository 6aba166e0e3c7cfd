package stream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/belayhq/belay/internal/jsontext"
)

// A fault is the error of a response. Its message has nothing of the request in it but the
// name of a member.
type fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func faultf(code, format string, args ...any) *fault {
	return &fault{code, fmt.Sprintf(format, args...)}
}

const maxID = 256 // bytes of an id as the client spells it

// A request is one line of a client, as far as its type tells what it may hold.
type request struct {
	id   json.RawMessage // a string or a number as the client spells it; nil if there is none
	kind string

	ui        bool
	text      string
	session   string
	cursor    int64
	maxTokens int64 // 0: not given
	signal    string
	talk      string // conversation
	last      bool
	from      int64
	limit     int64 // 0: not given
	confirmed json.RawMessage
}

// members are what each type of request may hold besides id and type, and whether it must.
var members = map[string]map[string]bool{
	"hello":       {"ui": false},
	"prompt":      {"text": true},
	"steer":       {"text": true},
	"follow_up":   {"text": true},
	"abort":       {},
	"messages":    {"from": false, "limit": false},
	"processes":   {},
	"output":      {"session_id": true, "cursor": false, "max_output_tokens": false},
	"kill":        {"session_id": true, "signal": false},
	"new":         {},
	"resume":      {"conversation": false, "last": false},
	"shutdown":    {},
	"ui_response": {"confirmed": false},
}

// parse reads a line. Where it is no request the fault says why, and the id is there if it
// was given once and well.
func parse(text []byte) (r request, f *fault) {
	if !utf8.Valid(text) {
		return r, faultf("invalid_json", "the line is not UTF-8")
	}
	type member struct {
		name  string
		value []byte
	}
	var all []member
	if !jsontext.Object(text, func(name string, value []byte) { all = append(all, member{name, value}) }) {
		return r, faultf("invalid_json", "the line is not a JSON object")
	}
	count := map[string]int{}
	for _, m := range all {
		count[m.name]++
	}
	var kind *string
	for _, m := range all {
		switch {
		case m.name == "id" && count["id"] == 1 && validID(m.value):
			r.id = bytes.Clone(m.value)
		case m.name == "type" && count["type"] == 1:
			if s, ok := text1(m.value); ok {
				kind = &s
			}
		}
	}
	for _, m := range all { // in their order, so that the first mistake is the one that is told
		if count[m.name] > 1 {
			return r, faultf("invalid_request", "a member is there twice")
		}
	}
	switch {
	case count["id"] == 0:
		return r, faultf("invalid_request", "the member id is missing")
	case r.id == nil:
		return r, faultf("invalid_request", "id: expects a string or a number, at most %d bytes", maxID)
	case kind == nil:
		return r, faultf("invalid_request", "type: expects a string")
	}
	allowed, known := members[*kind]
	if !known {
		return r, faultf("unknown_type", "there is no such type of request")
	}
	r.kind = *kind
	for _, m := range all {
		if m.name == "id" || m.name == "type" {
			continue
		}
		if _, ok := allowed[m.name]; !ok {
			return r, faultf("invalid_request", "%s takes no such member", r.kind)
		}
		if expects := r.take(m.name, m.value); expects != "" {
			return r, faultf("invalid_request", "%s: expects %s", m.name, expects)
		}
	}
	for name, must := range allowed {
		if must && count[name] == 0 {
			return r, faultf("invalid_request", "the member %s is missing", name)
		}
	}
	return r, nil
}

// take reads one member. It gives what it expects where the value is something else.
func (r *request) take(name string, value []byte) (expects string) {
	ok := true
	switch name {
	case "ui":
		r.ui, ok = truth(value)
		expects = "true or false"
	case "last":
		r.last, ok = truth(value)
		expects = "true or false"
	case "text":
		r.text, ok = text1(value)
		ok = ok && r.text != ""
		expects = "a text that is not empty"
	case "session_id":
		r.session, ok = text1(value)
		ok = ok && len(r.session) <= maxID
		expects = "the id of a session"
	case "conversation":
		r.talk, ok = text1(value)
		ok = ok && r.talk != "" && len(r.talk) <= maxID
		expects = "the id of a conversation"
	case "signal":
		r.signal, ok = text1(value)
		ok = ok && slices.Contains([]string{"TERM", "INT", "KILL"}, r.signal)
		expects = "TERM, INT or KILL"
	case "cursor":
		r.cursor, ok = whole(value)
		expects = "a whole number"
	case "from":
		r.from, ok = whole(value)
		ok = ok && r.from >= 0
		expects = "a whole number from 0"
	case "limit":
		r.limit, ok = whole(value)
		ok = ok && r.limit >= 1
		expects = "a whole number from 1"
	case "max_output_tokens":
		r.maxTokens, ok = whole(value)
		ok = ok && r.maxTokens >= 1
		expects = "a whole number from 1"
	case "confirmed": // whatever it is: only true is a yes
		r.confirmed = bytes.Clone(value)
		return ""
	}
	if ok {
		return ""
	}
	return expects
}

func validID(v []byte) bool {
	if len(v) > maxID || len(v) == 0 {
		return false
	}
	if v[0] == '"' {
		return !jsontext.LoneSurrogate(v)
	}
	return v[0] == '-' || v[0] >= '0' && v[0] <= '9'
}

func text1(v []byte) (string, bool) {
	if len(v) == 0 || v[0] != '"' {
		return "", false
	}
	return jsontext.Unquote(v), true
}

func truth(v []byte) (value, ok bool) {
	return string(v) == "true", string(v) == "true" || string(v) == "false"
}

func whole(v []byte) (n int64, ok bool) {
	err := json.Unmarshal(v, &n)
	return n, err == nil && string(v) != "null"
}
