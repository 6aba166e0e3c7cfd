package guard

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/belayhq/belay/tool"
)

type hookFunc func(context.Context, tool.Action) (Verdict, error)

func (f hookFunc) Check(ctx context.Context, a tool.Action) (Verdict, error) { return f(ctx, a) }

func always(d Decision, reason string) Hook {
	return hookFunc(func(context.Context, tool.Action) (Verdict, error) { return Verdict{Decision: d, Reason: reason}, nil })
}

// G1, G3: all hooks see the same call in one order, the strictest verdict wins, a deny
// ends it, and a hook that cannot decide is never passed over in silence.
func TestChain(t *testing.T) {
	t.Parallel()
	failed := errors.New("cannot")
	open := hookFunc(func(context.Context, tool.Action) (Verdict, error) {
		return Verdict{Unavailable: true, Reason: "down"}, nil
	})
	blocking := hookFunc(func(context.Context, tool.Action) (Verdict, error) { return Verdict{}, failed })
	for _, c := range []struct {
		name  string
		chain Chain
		want  Verdict
		err   error
		asked int // of the hooks; -1 for all
	}{
		{"empty", nil, Verdict{}, nil, -1},
		{"allow", Chain{always(Allow, "fine"), always(Allow, "")}, Verdict{}, nil, -1},
		{"an ask is no end", Chain{always(Ask, "sure?"), always(Deny, "no")}, Verdict{Decision: Deny, Reason: "no"}, nil, -1},
		{"a deny is", Chain{always(Deny, "no"), always(Ask, "sure?")}, Verdict{Decision: Deny, Reason: "no"}, nil, 1},
		{"two asks are one", Chain{always(Ask, "a"), always(Allow, "x"), always(Ask, "b")}, Verdict{Decision: Ask, Reason: "a\nb"}, nil, -1},
		{"unavailable is kept", Chain{open, always(Allow, "")}, Verdict{Unavailable: true, Reason: "down"}, nil, -1},
		{"also with an ask", Chain{open, always(Ask, "a")}, Verdict{Decision: Ask, Unavailable: true, Reason: "a\ndown"}, nil, -1},
		{"an error blocks", Chain{always(Ask, "a"), blocking, always(Deny, "no")}, Verdict{}, failed, 2},
	} {
		n := 0
		var chain Chain
		for _, h := range c.chain {
			chain = append(chain, hookFunc(func(ctx context.Context, a tool.Action) (Verdict, error) {
				n++
				if a.Line != "x" {
					t.Errorf("%s: another call", c.name)
				}
				return h.Check(ctx, a)
			}))
		}
		v, err := chain.Check(context.Background(), tool.Action{Tool: "exec_command", Line: "x"})
		if v != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v", c.name, v, err)
		}
		if c.asked >= 0 && n != c.asked || c.asked < 0 && n != len(c.chain) {
			t.Errorf("%s: %d hooks were asked", c.name, n)
		}
	}
}

// C4, G3: a hook of an embedder that panics, or that decides what does not exist, blocks.
func TestBrokenHooksBlock(t *testing.T) {
	t.Parallel()
	for _, h := range []Hook{
		hookFunc(func(context.Context, tool.Action) (Verdict, error) { panic("canary") }),
		always(Deny+1, ""), always(-1, ""),
	} {
		v, err := Chain{h}.Check(context.Background(), tool.Action{})
		var e *Error
		if !errors.As(err, &e) || e.Reason != Broken || v != (Verdict{}) || strings.Contains(err.Error()+e.Explain(), "canary") {
			t.Errorf("%+v, %v", v, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	late := hookFunc(func(context.Context, tool.Action) (Verdict, error) { cancel(); return Verdict{}, nil })
	if _, err := (Chain{late}).Check(ctx, tool.Action{}); !errors.Is(err, context.Canceled) {
		t.Error("an allow that came after the cancellation counted:", err)
	}
}

// Whatever hooks say, a reason is bounded, clean text.
func TestReasonsAreBounded(t *testing.T) {
	t.Parallel()
	v, err := Chain{always(Ask, strings.Repeat("ä", 5000)), always(Ask, "\x1b[2Jx\u202e")}.Check(context.Background(), tool.Action{})
	if err != nil || len(v.Reason) > MaxReason || !utf8.ValidString(v.Reason) || strings.ContainsAny(v.Reason, "\x1b\u202e") {
		t.Errorf("%d bytes, %v", len(v.Reason), err)
	}
}

// P10, AP-05: a question shows all that would run, in one line that hides nothing, or
// is not asked at all.
func TestQuestionShowsAll(t *testing.T) {
	t.Parallel()
	line := "echo ok" + strings.Repeat("\n", 300) + "touch P\x1b[2K\u202e"
	p, ok := Question(tool.Action{Tool: "exec_command", Line: line}, Verdict{Decision: Ask, Reason: "rule\x1b[0m"})
	if !ok || p.Reason != "guard_ask" || p.Bytes != len(line) || strings.Count(p.Shown, `\n`) != 300 || !strings.HasSuffix(p.Shown, `touch P\x1b[2K\u202e`) ||
		strings.ContainsAny(p.Shown+p.Title, "\n\x1b\u202e") || !strings.Contains(p.Title, "rule") {
		t.Errorf("%v %+v", ok, p)
	}
	middle := strings.Repeat("a", 8000) + "; touch P; " + strings.Repeat("a", 8000)
	if p, ok := Question(tool.Action{Tool: "shell", Argv: []string{"sh", "-c", middle}}, Verdict{}); !ok || !strings.Contains(p.Shown, middle) {
		t.Error("16000 bytes are not shown whole")
	}
	if _, ok := Question(tool.Action{Tool: "exec_command", Line: strings.Repeat("a", maxAsked+1)}, Verdict{}); ok {
		t.Error("what nobody can read can be approved")
	}
	p, ok = Question(tool.Action{Tool: "replace", Input: map[string]any{"path": "a<b", "create": true}}, Verdict{})
	if !ok || p.Shown != `replace {"create":true,"path":"a<b"}` {
		t.Errorf("%v %+v", ok, p)
	}
}
