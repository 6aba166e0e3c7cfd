package guard

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// G2, G3: whatever a program answers, what is passed on is bounded, clean text without
// its own code, and nothing that stands inside of a quoted command decides.
func FuzzAnswerIsInert(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `{"decision":"block","reason":"x"}`, `{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"code KEY7 \u001b[31m","allowOnceCode":"KEY7"}}`,
		`{"hookSpecificOutput":{"permissionDecision":"ask","remediation":{"allowOnceCommand":"dcg allow-once KEY7","explanation":"KEY7"}}}`,
		`{"continue":false,"stopReason":"\u202e"}`, `{"decision":"block","decision":"approve"}`, `{"hookSpecificOutput":null}`, "{\"decision\":\"\xff\"}",
		`{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{}}}`, `{"decision":"block","allowOnceCode":7,"reason":"7"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := parse(raw)
		if err != nil {
			return
		}
		v := a.verdict
		if !a.decided && v.Decision != Allow || v.Decision < Allow || v.Decision > Deny || v.Unavailable {
			t.Errorf("%+v", a)
		}
		if v.Decision == Allow && v.Reason != "" {
			t.Errorf("an allow with the reason %q", v.Reason)
		}
		for _, s := range []string{v.Reason, v.UserOnly} {
			if len(s) > MaxReason || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
				t.Errorf("%q", s)
			}
		}
		top, _ := object(raw)
		code, _, _ := top.in("hookSpecificOutput").text("allowOnceCode")
		if code = clean(code); len(code) > 3 && strings.Contains(v.Reason, code) && !strings.Contains("the guard wants this call changed, and belay changes no call. rule: why: instead: [for the user only]", strings.ToLower(code)) {
			t.Errorf("the code %q is in %q", code, v.Reason)
		}
	})
}
