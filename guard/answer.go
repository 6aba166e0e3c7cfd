package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/belayhq/belay/internal/termtext"
)

// errNoAnswer says that a text is no answer of the protocol.
var errNoAnswer = errors.New("no answer")

// An answer is what a program said on standard output.
type answer struct {
	verdict Verdict
	decided bool // it holds a decision, and does not only comment
}

// parse reads an answer: a JSON object that decides by
// hookSpecificOutput.permissionDecision, by the older decision, or by continue: false.
// Where it decides more than once the strictest counts. A name given twice is no
// answer: a program that pastes a command into its answer can be made to do that.
func parse(stdout []byte) (answer, error) {
	top, err := object(stdout)
	if err != nil {
		return answer{}, err
	}
	var out fields
	if raw, given := top["hookSpecificOutput"]; given && string(raw) != "null" {
		if out, err = object(raw); err != nil {
			return answer{}, err
		}
	}
	hide := secretsOf(top, out)
	var a answer
	decide := func(d Decision, reason string) {
		if !a.decided || d > a.verdict.Decision {
			a.verdict.Decision, a.verdict.Reason = d, reason
		}
		a.decided = true
	}

	decision, given, err := top.text("decision")
	switch {
	case err != nil:
		return answer{}, err
	case !given:
	case decision == "approve" || decision == "allow":
		decide(Allow, "")
	case decision == "ask":
		decide(Ask, hide.line(top, "reason", MaxReason))
	case decision == "block" || decision == "deny":
		decide(Deny, hide.line(top, "reason", MaxReason))
	default:
		return answer{}, errNoAnswer
	}

	switch raw, given := top["continue"]; {
	case !given || string(raw) == "true":
	case string(raw) == "false":
		decide(Deny, hide.line(top, "stopReason", MaxReason))
	default:
		return answer{}, errNoAnswer
	}

	decision, given, err = out.text("permissionDecision")
	switch {
	case err != nil:
		return answer{}, err
	case !given:
	case decision == "allow":
		decide(Allow, "")
	case decision == "ask" || decision == "defer": // the user is the one to decide later
		decide(Ask, hide.reason(out))
	case decision == "deny":
		decide(Deny, hide.reason(out))
	default:
		return answer{}, errNoAnswer
	}
	if raw, given := out["updatedInput"]; given && string(raw) != "null" {
		// What was approved is what runs (G1), and this approves something else.
		decide(Deny, cut(strings.TrimSpace("The guard wants this call changed, and belay changes no call.\n"+hide.reason(out)), MaxReason))
	}
	a.verdict.UserOnly = override(out)
	return a, nil
}

// fields is a JSON object.
type fields map[string]json.RawMessage

// object reads one JSON object and nothing after it.
func object(raw []byte) (fields, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errNoAnswer
	}
	f := fields{}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		var value json.RawMessage
		if err != nil || !ok || dec.Decode(&value) != nil {
			return nil, errNoAnswer
		}
		if _, twice := f[name]; twice {
			return nil, errNoAnswer
		}
		f[name] = value
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return nil, errNoAnswer
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errNoAnswer
	}
	return f, nil
}

// text is a string by its name. null counts as not given.
func (f fields) text(name string) (s string, given bool, err error) {
	raw, given := f[name]
	if !given || string(raw) == "null" {
		return "", false, nil
	}
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", true, errNoAnswer
	}
	return s, true, nil
}

// in is an object by its name, nil where there is none.
func (f fields) in(name string) fields {
	in, err := object(f[name])
	if err != nil {
		return nil
	}
	return in
}

// secrets let a denial be overridden: they are for the user alone (G3).
type secrets []*regexp.Regexp

// allowOnce is how a command that overrides looks where it stands in a reason.
var allowOnce = regexp.MustCompile(`(?i)allow-once[\s:=]+\S+`)

// secretsOf collects the values by which an answer can be overridden.
func secretsOf(places ...fields) secrets {
	var values []string
	for _, f := range places {
		for _, from := range []fields{f, f.in("remediation")} {
			for _, name := range []string{"allowOnceCode", "allowOnceFullHash", "allowOnceCommand"} {
				s, given, err := from.text(name)
				if given && err != nil { // a number, say
					s = string(from[name])
				}
				values = add(values, clean(s))
			}
		}
	}
	// the longest first: a code may be the beginning of its hash
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	var all secrets
	for _, v := range values {
		all = append(all, regexp.MustCompile(`(?i)`+regexp.QuoteMeta(v)))
	}
	return append(all, allowOnce)
}

// hide makes a text inert and takes the secrets out of it, in this order: a secret
// may be dressed in terminal sequences.
func (s secrets) hide(text string) string {
	text = clean(text)
	for _, re := range s {
		text = re.ReplaceAllLiteralString(text, "[for the user only]")
	}
	return text
}

// line is a text of an answer as the model may see it, "" where there is none.
func (s secrets) line(f fields, name string, limit int) string {
	text, _, err := f.text(name)
	if err != nil {
		return ""
	}
	return cut(s.hide(text), limit)
}

// reason is built from the fields that a model may see, whatever else is there.
func (s secrets) reason(out fields) string {
	parts := add(nil, s.line(out, "permissionDecisionReason", MaxReason/2))
	if rule := strings.TrimSpace(s.line(out, "ruleId", 128) + " " + s.line(out, "severity", 32)); rule != "" {
		parts = append(parts, "rule: "+rule)
	}
	remedy := out.in("remediation")
	if text := s.line(remedy, "explanation", MaxReason/8); text != "" {
		parts = append(parts, "why: "+text)
	}
	if text := s.line(remedy, "safeAlternative", MaxReason/8); text != "" {
		parts = append(parts, "instead: "+text)
	}
	return cut(strings.Join(parts, "\n"), MaxReason)
}

// override tells the user how to allow what was denied; "" where the answer does not.
func override(out fields) string {
	for _, f := range []fields{out.in("remediation"), out} {
		if s, _, err := f.text("allowOnceCommand"); err == nil && s != "" {
			return "to allow this once: " + termtext.Preview(s, 200)
		}
	}
	if s, _, err := out.text("allowOnceCode"); err == nil && s != "" {
		return "the code to allow this once: " + termtext.Preview(s, 200)
	}
	return ""
}

// clean makes what a program wrote inert text.
func clean(s string) string { return strings.TrimSpace(string(termtext.Clean([]byte(s)))) }

// cut keeps the beginning of a text, on the border of a character, and says that it
// was cut.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const mark = "…"
	n := limit - len(mark)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}
