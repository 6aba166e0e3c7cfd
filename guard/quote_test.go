//go:build !windows

package guard

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestQuote(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"go", "test", "./...", "-run=X"}, "go test ./... -run=X"},
		{[]string{""}, "''"},
		{[]string{"a b", "it's", "$x", "~", "*", "#c", "é", "a\nb"}, `'a b' 'it'\''s' '$x' '~' '*' '#c' 'é' 'a` + "\n" + `b'`},
		{[]string{"A=b", "A=b", "=x"}, "'A=b' A=b '=x'"},
		{[]string{"if", "if"}, "'if' if"},
		{nil, ""},
	} {
		if got := Quote(c.argv); got != c.want {
			t.Errorf("%q: %s, want %s", c.argv, got, c.want)
		}
	}
}

// What Quote wrote is taken apart into the same words by a real shell.
func FuzzQuoteIsUndoneByTheShell(f *testing.F) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		f.Skip(err)
	}
	for _, s := range []string{"", "a b", "it's", "''", "$(touch x)`touch x`", "a\x00b", "\xff\x80", "-n", "!x", "\\", "\"", "{a,b}", "x=1", "\n\n", "#", "~root"} {
		f.Add(s, "z")
		f.Add("z", s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		argv := []string{"printf", `%s\000`, strings.ReplaceAll(a, "\x00", ""), strings.ReplaceAll(b, "\x00", "")}
		out, err := exec.Command(sh, "-c", Quote(argv)).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Split(string(out), "\x00"); !slices.Equal(got, append(argv[2:], "")) {
			t.Errorf("%q became %q by %s", argv[2:], got, Quote(argv))
		}
	})
}
