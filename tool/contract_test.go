package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// C4: fixed text of at most 512 bytes and a stable code, and of the chain behind
// an error only the caller's cancellation and deadline.
func TestErrorsAreFixedAndKeepNoCause(t *testing.T) {
	t.Parallel()
	n := 0
	for _, code := range Codes() {
		n++
		kind, text := contract[code].kind, contract[code].text
		e := NewError(code, Fact{"path", "secret-canary"})
		if e.Kind != kind || e.Text != text || len(e.Error()) > 512 || text == "" {
			t.Errorf("%s: kind %s, %d bytes: %q", code, e.Kind, len(e.Error()), e.Error())
		}
		if strings.Contains(e.Error(), "canary") {
			t.Errorf("%s: a fact is in the error string", code)
		}
	}
	if n != 29 {
		t.Errorf("%d codes; the contract has 29: codes are added, never dropped", n)
	}
	for _, c := range []struct{ cause, is error }{
		{context.Canceled, context.Canceled},
		{context.DeadlineExceeded, context.DeadlineExceeded},
		{fmt.Errorf("wrapped %w", context.Canceled), context.Canceled},
		{io.ErrUnexpectedEOF, nil},
		{fmt.Errorf("os: secret-canary"), nil},
	} {
		err := error(NewError(UncertainOutcome).CausedBy(c.cause))
		if got := errors.Unwrap(err); got != c.is {
			t.Errorf("cause %v: Unwrap gives %v, want %v", c.cause, got, c.is)
		}
	}
	if e := Stopped(context.DeadlineExceeded); e.Code != Deadline || !errors.Is(e, context.DeadlineExceeded) {
		t.Errorf("deadline: %v", e)
	}
	if e := Stopped(context.Canceled); e.Code != Cancelled || !errors.Is(e, context.Canceled) {
		t.Errorf("cancelled: %v", e)
	}
}

func TestErrorTextAndJSON(t *testing.T) {
	t.Parallel()
	if e := NewError(StartFailed, Fact{"program", strings.Repeat("é", 2_000_000)}); len(e.Message()) > 4096 || !strings.HasSuffix(e.Message(), "é…") {
		t.Errorf("a fact is not bounded: %d bytes", len(e.Message()))
	}
	e := NewError(OutsideRoot, Fact{"path", "a b\n\u202e"}, Fact{"root", "/r<&>"}, Fact{"current_sha256", nil}, Fact{"lines", []int{1, 2}})
	want := "outside_root: The path leads out of the root. Use a path relative to the root.\n" +
		`path="a b\n\u202e" root=/r<&> current_sha256=null lines=[1,2]`
	if e.Message() != want {
		t.Errorf("got  %q\nwant %q", e.Message(), want)
	}
	out, err := json.Marshal(e)
	var m map[string]any
	if err != nil || json.Unmarshal(out, &m) != nil {
		t.Fatal(err, string(out))
	}
	if m["kind"] != "refused" || m["code"] != "outside_root" || m["message"] != e.Text || m["path"] != "a b\n\u202e" || len(m) != 7 {
		t.Errorf("%s", out)
	}
}

// A value can neither end the header line nor pass for another fact, and it is
// read back as what it was.
func FuzzHeaderValueStaysOneFact(f *testing.F) {
	for _, s := range []string{"", "plain", "a b", "a=b", `q"`, "x\ny=1", "null", "\x1b[31m", "\u202e", "é", "\xff", "a\\b", "𝕏", "\U000e0041"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var h Header
		h.Fact("v", s)
		h.Fact("end", true)
		line := h.String()
		value, ok := strings.CutSuffix(strings.TrimPrefix(line, "v="), " end=true")
		if !ok {
			t.Fatalf("%q: %q", s, line)
		}
		if strings.ContainsAny(line, "\n\r\x1b") {
			t.Fatalf("control in %q", line)
		}
		if !strings.HasPrefix(value, `"`) {
			if value != s || strings.ContainsAny(value, " =\"") {
				t.Fatalf("%q is bare as %q", s, value)
			}
			return
		}
		var back string
		if err := json.Unmarshal([]byte(value), &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") && !strings.Contains(back, "\ufffd") {
			t.Fatalf("%q came back as %q (%v)", s, back, err)
		}
	})
}

func definition() Definition {
	return Definition{Name: "t", Description: "d", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"},"b":{"maximum":1e2}}}`),
		Effect: Mutating, Replay: Unsafe, Risks: []Risk{RiskRead, RiskProcess}}
}

// C2: the fingerprint covers name, schema, effect, replay and risks.
func TestFingerprintCoversTheContract(t *testing.T) {
	t.Parallel()
	base := definition().Fingerprint()
	same := map[string]func(*Definition){
		"description": func(d *Definition) { d.Description = "other" },
		"order of names": func(d *Definition) {
			d.Schema = json.RawMessage(`{ "properties":{"b":{"maximum":1e2},"a":{"type":"string"}},"type":"object"}`)
		},
		"order of risks":  func(d *Definition) { d.Risks = []Risk{RiskProcess, RiskRead} },
		"a repeated risk": func(d *Definition) { d.Risks = append(d.Risks, RiskRead) },
	}
	other := map[string]func(*Definition){
		"name": func(d *Definition) { d.Name = "u" },
		"schema": func(d *Definition) {
			d.Schema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"},"b":{"maximum":101}}}`)
		},
		"effect": func(d *Definition) { d.Effect = ReadOnly },
		"replay": func(d *Definition) { d.Replay = Idempotent },
		"risks":  func(d *Definition) { d.Risks = d.Risks[:1] },
	}
	for what, change := range same {
		d := definition()
		change(&d)
		if d.Fingerprint() != base {
			t.Errorf("%s changes the fingerprint", what)
		}
	}
	seen := map[string]string{base: "base"}
	for what, change := range other {
		d := definition()
		change(&d)
		if was, twice := seen[d.Fingerprint()]; twice {
			t.Errorf("%s has the fingerprint of %s", what, was)
		}
		seen[d.Fingerprint()] = what
	}
	if len(base) != 64 || strings.ToLower(base) != base {
		t.Errorf("fingerprint %q", base)
	}
}

// C1: what a tool declares has to be consistent.
func TestDefinitionsAreChecked(t *testing.T) {
	t.Parallel()
	if err := definition().Validate(); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*Definition){
		"name":               func(d *Definition) { d.Name = "A b" },
		"description":        func(d *Definition) { d.Description = "" },
		"schema":             func(d *Definition) { d.Schema = json.RawMessage(`{"type":"string"}`) },
		"effect":             func(d *Definition) { d.Effect = "" },
		"replay":             func(d *Definition) { d.Replay = "" },
		"safe but mutating":  func(d *Definition) { d.Replay = Safe },
		"unsafe read":        func(d *Definition) { d.Effect = ReadOnly; d.Risks = nil },
		"read that writes":   func(d *Definition) { d.Effect, d.Replay, d.Risks = ReadOnly, Safe, []Risk{RiskWrite} },
		"an unknown risk":    func(d *Definition) { d.Risks = []Risk{"network"} },
		"read that executes": func(d *Definition) { d.Effect, d.Replay, d.Risks = ReadOnly, Safe, []Risk{RiskProcess} },
	} {
		d := definition()
		change(&d)
		if d.Validate() == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}
