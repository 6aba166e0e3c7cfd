package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/belayhq/belay/internal/jsontext"
)

// Arguments reads the arguments of one call strictly. Ask for each argument once,
// in any order, then call Err: it is the first thing that was wrong, and names
// arguments that nobody asked for. encoding/json alone would take a name in
// another case, the last of two equal names, and a lone surrogate as U+FFFD; all
// three are refused here.
//
// Arguments is for one goroutine.
type Arguments struct {
	prefix string // of names in messages: "edits[2]." inside a list
	values map[string]json.RawMessage
	asked  []string
	err    *Error
	told   bool // err names what is unknown too
}

// ParseArguments takes the raw JSON of a call. Nothing at all counts as {}, and so
// does null, which some clients send for a call without arguments.
func ParseArguments(raw json.RawMessage) *Arguments {
	return parse(raw, "")
}

func parse(raw json.RawMessage, prefix string) *Arguments {
	a := &Arguments{prefix: prefix, values: map[string]json.RawMessage{}}
	whole := "arguments"
	if prefix != "" {
		whole = strings.TrimSuffix(prefix, ".")
	}
	if given := string(bytes.TrimSpace(raw)); prefix == "" && (given == "" || given == "null") {
		return a
	}
	if !utf8.Valid(raw) {
		a.fail(Invalid(whole, "JSON in UTF-8"))
		return a
	}
	w := jsontext.Walker{Text: raw}
	w.Space()
	if w.Peek() != '{' {
		a.fail(Invalid(whole, "a JSON object"))
		return a
	}
	ok := w.Object(func(quoted []byte) bool {
		start := w.At
		if jsontext.LoneSurrogate(quoted) || !w.Value() {
			return false
		}
		name := jsontext.Unquote(quoted)
		if _, twice := a.values[name]; twice {
			a.fail(Invalid(prefix+cutName(name), "to be given once"))
		}
		a.values[name] = raw[start:w.At]
		return true
	})
	if !ok || !w.End() {
		a.err = Invalid(whole, "one well-formed JSON object")
	}
	return a
}

// Err is the first thing that was wrong, or nil. What nobody asked for by now is
// unknown.
func (a *Arguments) Err() error {
	var unknown []string
	for name := range a.values {
		if !slices.Contains(a.asked, name) {
			unknown = append(unknown, cutName(name))
		}
	}
	slices.Sort(unknown)
	switch {
	case len(unknown) == 0:
	case a.err == nil:
		a.Fail(unknown[0], "no such argument; known: "+strings.Join(a.asked, " "))
	case !a.told && len(a.asked) > 0: // often the same mistake: a wrong name for what is missing
		a.told = true
		a.err.Facts = append(a.err.Facts, Fact{"unknown", strings.Join(unknown[:min(len(unknown), 10)], " ")}, Fact{"known", strings.Join(a.asked, " ")})
	}
	if a.err != nil {
		return a.err
	}
	return nil
}

// cutName keeps a name that a caller made up short enough for an error.
func cutName(name string) string {
	if len(name) <= 64 {
		return name
	}
	n := 64
	for !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n] + "…"
}

// Fail records a fault that the caller of Arguments found, unless one was found
// before.
func (a *Arguments) Fail(name, expects string) { a.fail(Invalid(a.prefix+name, expects)) }

func (a *Arguments) fail(e *Error) {
	if a.err == nil {
		a.err = e
	}
}

// Has tells whether the argument was given. It does not count as asking for it.
func (a *Arguments) Has(name string) bool { return a.has(name) }

func (a *Arguments) has(name string) bool { _, ok := a.values[name]; return ok }

func (a *Arguments) ask(name string) (json.RawMessage, bool) {
	a.asked = append(a.asked, name)
	v, ok := a.values[name]
	return v, ok
}

// Text is a string argument, or the default where it was not given.
func (a *Arguments) Text(name, def string) string {
	raw, ok := a.ask(name)
	if !ok {
		return def
	}
	s, ok := text(raw)
	if !ok {
		a.Fail(name, "a string")
		return def
	}
	return s
}

// NeedText is a string argument that has to be given; it may be empty.
func (a *Arguments) NeedText(name string) string {
	if !a.has(name) {
		a.Fail(name, "a string; it is required")
	}
	return a.Text(name, "")
}

// OneOf is a string argument out of a list, the first being the default.
func (a *Arguments) OneOf(name string, values ...string) string {
	s := a.Text(name, values[0])
	if !slices.Contains(values, s) {
		a.Fail(name, "one of: "+strings.Join(values, " "))
		return values[0]
	}
	return s
}

// Bool is a true or false argument, false where it was not given.
func (a *Arguments) Bool(name string) bool {
	raw, ok := a.ask(name)
	if !ok {
		return false
	}
	switch string(raw) {
	case "true":
		return true
	case "false":
	default:
		a.Fail(name, "true or false")
	}
	return false
}

// A Range says what a whole-number argument may be.
type Range struct {
	Default, Min, Max int64
	// Clamp moves a value outside the range to its nearest end. A negative
	// value is refused all the same, unless Min is negative.
	Clamp bool
}

// Int is a whole-number argument.
func (a *Arguments) Int(name string, r Range) int64 {
	raw, ok := a.ask(name)
	if !ok {
		return r.Default
	}
	n, ok := whole(raw)
	expects := fmt.Sprintf("a whole number from %d to %d", r.Min, r.Max)
	if r.Clamp && r.Min >= 0 {
		expects = fmt.Sprintf("a whole number, not negative (used from %d to %d)", r.Min, r.Max)
	}
	switch {
	case !ok, r.Clamp && n < 0 && r.Min >= 0, !r.Clamp && (n < r.Min || n > r.Max):
		a.Fail(name, expects)
		return r.Default
	}
	return min(max(n, r.Min), r.Max)
}

// Texts is a list of strings, nil where it was not given.
func (a *Arguments) Texts(name string) []string {
	raw, ok := a.ask(name)
	if !ok {
		return nil
	}
	items, ok := list(raw)
	out := make([]string, 0, len(items))
	for i, item := range items {
		s, isText := text(item)
		if !isText {
			a.Fail(fmt.Sprintf("%s[%d]", name, i), "a string")
			return nil
		}
		out = append(out, s)
	}
	if !ok {
		a.Fail(name, "a list of strings")
		return nil
	}
	return out
}

// Each reads a list of objects: it calls read for each with its own Arguments,
// whose faults become faults of this call.
func (a *Arguments) Each(name string, read func(item *Arguments)) {
	raw, ok := a.ask(name)
	if !ok {
		return
	}
	items, ok := list(raw)
	if !ok {
		a.Fail(name, "a list of objects")
	}
	for i, item := range items {
		in := parse(item, fmt.Sprintf("%s%s[%d].", a.prefix, name, i))
		read(in)
		if in.Err() != nil {
			a.fail(in.err)
			return
		}
	}
}

func list(raw json.RawMessage) (items []json.RawMessage, ok bool) {
	w := jsontext.Walker{Text: raw}
	if w.Peek() != '[' {
		return nil, false
	}
	ok = w.List(func() bool {
		start := w.At
		ok := w.Value()
		items = append(items, raw[start:w.At])
		return ok
	})
	return items, ok
}

func text(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' || jsontext.LoneSurrogate(raw) {
		return "", false
	}
	return jsontext.Unquote(raw), true
}

// whole takes any spelling of a whole number (12, 12.0, 1.2e1) that fits.
func whole(raw json.RawMessage) (int64, bool) {
	s := string(raw)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, true
	}
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return int64(f), true
	}
	// beyond what fits: the nearest end, so that a range says what is wrong
	if f == math.Trunc(f) || math.IsInf(f, 0) {
		if f < 0 {
			return math.MinInt64, true
		}
		return math.MaxInt64, true
	}
	return 0, false
}
