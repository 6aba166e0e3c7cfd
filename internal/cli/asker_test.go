package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"

	"github.com/belayhq/belay/tool"
)

// keys is a terminal that types. Each discard begins the next part: what is left of the
// one before was typed too early.
type keys struct {
	cols, rows int
	parts      []string
	now        string
	shown      strings.Builder
	closed     int
	fail       error // of write
}

func (k *keys) size() (int, int)     { return k.cols, k.rows }
func (k *keys) write(s string) error { k.shown.WriteString(s); return k.fail }
func (k *keys) close()               { k.closed++ }
func (k *keys) discard() error {
	if len(k.parts) == 0 {
		k.now = ""
		return nil
	}
	k.now, k.parts = k.parts[0], k.parts[1:]
	return nil
}

func (k *keys) key(ctx context.Context) (byte, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if k.now == "" {
		return 0, io.EOF
	}
	b := k.now[0]
	k.now = k.now[1:]
	return b, nil
}

var question = tool.Prompt{Reason: "input", SessionID: "s_1", Title: "cat", Shown: `rm -rf x\n`, Bytes: 9}

// P9, AP-10: only yes is a yes.
func TestOnlyYesTypedIsYes(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]bool{
		"yes\r": true, "yes\n": true, "YES\r": true, "yex\x7fs\r": true, "\x7f\x7fyes\r": true,
		"y\r": false, "\r": false, "no\r": false, "yes": false, "": false, "maybe\r": false, " yes\r": false, "yes \r": false,
		"\x03": false, "\x04": false, "\x1b": false, "yes\x1b\r": false, "y\x00es\r": false, "\xd1\x83es\r": false,
		"yesyesyesyesyesyesyes\r": false, "no\ryes\r": false, "never say yes\r": false, "yes please\r": false,
		"\x1b[200~yes\r\x1b[201~": false, "\x1b[Ayes\r": false, strings.Repeat("x", 10_000) + "\r": false, "n\xc3\xb6\x7f\x7fyes\r": true,
	} {
		k := &keys{cols: 80, rows: 24, parts: []string{typed}}
		got, err := (&terminalAsker{func() (console, error) { return k, nil }}).Ask(context.Background(), question)
		if got != want || want && err != nil || k.closed != 1 {
			t.Errorf("%q: %v, %v, closed %d", typed, got, err, k.closed)
		}
		if strings.ContainsFunc(k.shown.String(), func(r rune) bool { return unicode.IsControl(r) && r != '\r' && r != '\n' && r != '\b' }) {
			t.Errorf("%q: echoed %q", typed, k.shown.String())
		}
	}
	k := &keys{cols: 80, rows: 24, parts: []string{"yes\r"}, fail: io.ErrClosedPipe}
	if got, err := (&terminalAsker{func() (console, error) { return k, nil }}).Ask(context.Background(), question); got || err == nil {
		t.Error("a question that could not be shown was answered with yes", err)
	}
	none := &terminalAsker{func() (console, error) { return nil, errors.New("no terminal") }}
	if got, err := none.Ask(context.Background(), question); got || err == nil {
		t.Error("without a terminal:", got, err)
	}
}

// P10, AP-05: all of the text is shown before a yes is possible: in pages where it is
// longer than the screen, with long runs of blanks written out, and with nothing that
// acts on the terminal.
func TestNothingIsApprovedUnseen(t *testing.T) {
	t.Parallel()
	long := "echo ok" + strings.Repeat(`\n`, 3000) + "touch P"
	p := tool.Prompt{Reason: "guard_ask", Title: "t", Shown: long, Bytes: 3014}
	asked := func(p tool.Prompt, parts ...string) (bool, string) {
		k := &keys{cols: 80, rows: 24, parts: parts}
		yes, _ := ask(context.Background(), k, p)
		return yes, k.shown.String()
	}
	pages := 1
	for ; pages < 100; pages++ {
		parts := append(slicesRepeat("\r", pages-1), "yes\r")
		if yes, _ := asked(p, parts...); yes {
			break
		}
	}
	if pages < 4 || pages == 100 {
		t.Errorf("yes counted after %d pages", pages)
	}
	_, shown := asked(p, append(slicesRepeat("\r", pages-1), "yes\r")...)
	whole := ""
	for _, line := range strings.Split(shown, "\r\n") {
		if rest, ok := strings.CutPrefix(line, "  | "); ok {
			whole += rest
		}
	}
	if whole != long {
		t.Errorf("%d of %d characters were shown", len(whole), len(long))
	}
	if strings.Contains(shown[:strings.Index(shown, "touch P")], "Type yes") {
		t.Error("the question came before the end of the text")
	}
	for _, end := range []string{"q", "no, rm it\r", " \r", "\x1b", "\x1b[A", "\x03", "\x04", ""} {
		if yes, shown := asked(p, end, "yes\r", "yes\r", "yes\r", "yes\r"); yes || strings.Contains(shown, "touch P") {
			t.Errorf("%q in between is no no", end)
		}
	}

	hidden := tool.Prompt{Reason: "input", Title: "a\x1b]0;b", SessionID: "s", Shown: "echo ok" + strings.Repeat(" ", 5000) + "; touch P \u202e\x1b[2K"}
	_, shown = asked(hidden, "no\r")
	if !strings.Contains(shown, `echo ok\{5000 blanks}; touch P \u202e\x1b[2K`) || strings.ContainsAny(shown, "\x1b\u202e") {
		t.Errorf("%q", shown)
	}
	if got := blanks(`a\\{3 blanks} b` + strings.Repeat(" ", 16)); got != `a\\{3 blanks} b\{16 blanks}` {
		t.Error(got)
	}
}

func slicesRepeat(s string, n int) (out []string) {
	for range n {
		out = append(out, s)
	}
	return out
}

// P10: a question whose time is over says so, and is no yes.
func TestAVoidQuestion(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	k := &keys{cols: 80, rows: 24, parts: []string{"yes\r"}}
	yes, err := (&terminalAsker{func() (console, error) { return k, nil }}).Ask(ctx, question)
	if yes || !errors.Is(err, context.Canceled) || !strings.Contains(k.shown.String(), "void") {
		t.Error(yes, err, k.shown.String())
	}
}
