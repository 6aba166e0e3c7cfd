package worktree

import (
	"path/filepath"
	"strings"
	"testing"
)

// F1: what Windows takes for another drive, share or device leads out, and what it takes for another name is no name. The rules are
// pure, so they are proved on every system.
func TestWindowsNames_F1(t *testing.T) {
	t.Parallel()
	roots := []rooted{rootedAt(windowsRules, `C:\Users\Me\W`), rootedAt(windowsRules, `\\srv\share\W`)}
	for s, want := range map[string]string{
		// Plain names.
		`a\b/c`: "a b c", `.\a\.\b`: "a b", `a\..\b`: "a .. b", `..`: "..", `a b\c.d`: "a b c.d", `nulls`: "nulls", `com10`: "com10", `comx.txt`: "comx.txt",
		`.git`: ".git", `日本`: "日本", `a\`: "a",
		// Absolute, inside.
		`C:\Users\Me\W\f`: "f", `c:/users/ME/w/sub/f`: "sub f", `C:\Users\Me\W`: "", `C:\Users\Me\W\x\..\f`: "x .. f", `C:\Users\Me\..\Me\W\f`: "f",
		`\\SRV\Share\w\f`: "f", `//srv/share/W/f`: "f",
		// Out.
		`C:\Users\Me\W2\f`: "outside_root", `C:\`: "outside_root", `C:\Users\Me\W\..\f`: "outside_root", `D:\Users\Me\W\f`: "outside_root", `C:f`: "outside_root", `C:`: "outside_root", `C:..\f`: "outside_root", `f:stream`: "outside_root",
		`z:f`: "outside_root", `\f`: "outside_root", `/f`: "outside_root", `\Users\Me\W\f`: "outside_root", `\\srv\other\W\f`: "outside_root", `\\srv`: "outside_root", `\\?\C:\Users\Me\W\f`: "outside_root",
		`\\.\C:\Users\Me\W\f`: "outside_root", `\\.\pipe\x`: "outside_root", `//?/C:/x`: "outside_root", `\\?\UNC\srv\share\W\f`: "outside_root", `\??\C:\x`: "outside_root", `\\?`: "outside_root",
		// No names.
		``: "empty", "a\x00b": "nul", `file:stream`: "bad_character", `file::$DATA`: "bad_character", `sub\f:s`: "bad_character", `a|b`: "bad_character", `a?`: "bad_character", `a*`: "bad_character",
		`a<b`: "bad_character", "a\tb": "bad_character", `a"b`: "bad_character", `nul`: "reserved", `NUL.txt`: "reserved", `sub\CON`: "reserved", `con .txt`: "reserved", `Aux\f`: "reserved", `COM1`: "reserved", `com¹.x`: "reserved", `lpt9.tar.gz`: "reserved",
		`CONIN$`: "reserved", `f.`: "trailing", `f `: "trailing", `.git.\config`: "trailing", `...`: "trailing", `sub \f`: "trailing", "\xff": "not_utf8",
		`C:\Users\Me\W\nul`: "reserved", strings.Repeat("n", maxNameBytes+1): "too_long",
		strings.Repeat("日", 255): strings.Repeat("日", 255), `a\` + strings.Repeat("n", 256): "too_long", strings.Repeat("🎉", 128): "too_long",
	} {
		n, reason, what := windowsRules.parse(roots, s)
		got := strings.Join(n.parts, " ")
		switch reason {
		case 0:
		case OutsideRoot:
			got = reason.String()
		default:
			got = what
		}
		if got != want {
			t.Errorf("%.80q: got %q (%v), want %q", s, got, reason, want)
		}
	}
}

func TestPosixNames_F1(t *testing.T) {
	t.Parallel()
	roots := []rooted{rootedAt(posixRules, "/home/me/alias"), rootedAt(posixRules, "/data/w")}
	for s, want := range map[string]string{
		"a/b": "a b", "./a//b/": "a b", "a/../b": "a .. b", "nul": "nul", `a\b:c*`: `a\b:c*`, "C:": "C:", "f.": "f.", "\xff": "\xff", ".": "", "../x": ".. x",
		"/home/me/alias/f": "f", "/data/w/f": "f", "/data/w": "", "/data/./w//f": "f", "/data/x/../w/f": "f", "/data/w/l/../f": "l .. f", "//data/w/f": "f",
		"/data/wx/f": "outside_root", "/data/W/f": "outside_root", "/data": "outside_root", "/": "outside_root", "/data/w/../x": "outside_root", "/home/me/f": "outside_root", "/data/w/../../etc/passwd": "outside_root",
		"": "empty", "a\x00": "nul",
	} {
		n, reason, what := posixRules.parse(roots, s)
		got := strings.Join(n.parts, " ")
		switch reason {
		case 0:
		case OutsideRoot:
			got = reason.String()
		default:
			got = what
		}
		if got != want {
			t.Errorf("%.80q: got %q, want %q", s, got, want)
		}
	}
	if n, reason, _ := posixRules.parse([]rooted{rootedAt(posixRules, "/")}, "/etc/passwd"); reason != 0 || len(n.parts) != 2 {
		t.Error("a root of / holds everything")
	}
}

// F5: the temporary name is hidden, short, fixed, one for all letter cases of a name, and no glob's business.
func TestTemporaryName_F5(t *testing.T) {
	t.Parallel()
	for _, n := range []string{"f", "README.md", strings.Repeat("x", 255), "日本"} {
		temp := temporary(n)
		if !isTemporary(fold(temp)) || temp != temporary(strings.ToUpper(n)) && temp != temporary(n) || len(temp) > 40 {
			t.Error(temp)
		}
		for _, glob := range []string{"*", "*.md", "?*", "[!.]*"} {
			if ok, _ := filepath.Match(glob, temp); ok && temp[0] != '.' {
				t.Error(glob)
			}
		}
	}
	if temporary("a") == temporary("b") || temporary("README") != temporary("readme") {
		t.Error("wrong names")
	}
	for _, n := range []string{".belay-.tmp", ".belay-0123456789abcdeg.tmp", ".belay", ".belay-0123456789abcdef.tmp2", "x.belay-0123456789abcdef.tmp"} {
		if isTemporary(n) {
			t.Error(n)
		}
	}
}

// C4, C5: the text of an error is fixed and carries no name.
func TestErrorText_C4_C5(t *testing.T) {
	t.Parallel()
	for r := OutsideRoot; r <= Unconfirmed; r++ {
		e := &Error{Reason: r, Path: "SECRET-NAME", What: "io", Current: "digest"}
		if s := e.Error(); strings.Contains(s, "SECRET") || len(s) > 512 || r.String() == "unknown" || r.String() == "" {
			t.Error(s)
		}
		if r != Cancelled && e.Unwrap() != nil {
			t.Error("something can be unwrapped")
		}
	}
	if Reason(99).String() != "unknown" || Reason(0).String() != "unknown" {
		t.Error("unknown reasons")
	}
}
