package worktree

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The rules for names are pure, and those of both families of systems are compiled everywhere, so that each is tested everywhere.
type rules int

const (
	posixRules rules = iota
	windowsRules
)

// maxNameBytes bounds a whole name: the longest path that Windows takes, and eight times Linux's.
const maxNameBytes = 32 << 10

// maxPartUnits is what the file systems of Windows take for one component, in units of UTF-16.
const maxPartUnits = 255

// rooted is an absolute path in parts. volume is "" on posix; on Windows it is a drive ("c:") or a share ("//server/share"), folded.
type rooted struct {
	volume string
	parts  []string
}

// name is what was asked for, in parts below the root: no part is empty, "." or holds a separator; ".." may occur.
type name struct {
	parts []string
	slash bool // it ended in a separator: only a directory can be meant
}

func (r rules) separator(c byte) bool { return c == '/' || r == windowsRules && c == '\\' }

func (r rules) split(s string) []string {
	var parts []string
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && !r.separator(s[j]) {
			j++
		}
		if p := s[i:j]; p != "" && p != "." {
			parts = append(parts, p)
		}
		i = j + 1
	}
	return parts
}

// absolute tells whether s is absolute and gives its parts. ok is false for what is neither absolute nor relative to
// one place: paths relative to a drive, and device paths.
func (r rules) absolute(s string) (at rooted, absolute, ok bool) {
	if s == "" {
		return rooted{}, false, true
	}
	if r == posixRules {
		if s[0] != '/' {
			return rooted{}, false, true
		}
		return rooted{parts: r.split(s)}, true, true
	}
	if len(s) >= 2 && s[1] == ':' && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z') {
		if len(s) == 2 || !r.separator(s[2]) {
			return rooted{}, true, false // "c:name": relative to that drive's own current directory
		}
		return rooted{volume: strings.ToLower(s[:2]), parts: r.split(s[3:])}, true, true
	}
	if !r.separator(s[0]) {
		return rooted{}, false, true
	}
	if len(s) == 1 || !r.separator(s[1]) {
		return rooted{}, true, false // "\name": relative to the current drive
	}
	parts := r.split(s)
	if len(parts) < 2 || parts[0] == "?" || strings.HasPrefix(s[2:], ".") {
		return rooted{}, true, false // device paths: \\?\, \\.\
	}
	return rooted{volume: "//" + strings.ToLower(parts[0]+"/"+parts[1]), parts: parts[2:]}, true, true
}

func (r rules) same(a, b string) bool {
	if r == windowsRules {
		return strings.EqualFold(a, b)
	}
	return a == b
}

// within gives the parts of path below at.
func (r rules) within(at, path rooted) ([]string, bool) {
	if at.volume != path.volume || len(path.parts) < len(at.parts) {
		return nil, false
	}
	for i, p := range at.parts {
		if !r.same(p, path.parts[i]) {
			return nil, false
		}
	}
	return path.parts[len(at.parts):], true
}

func rootedAt(r rules, abs string) rooted {
	at, _, _ := r.absolute(abs)
	return at
}

// below reads an absolute path as a name below one of the roots. Parts of the path behind the root keep their ".."
// for the walk to resolve, since behind a link ".." is not what it looks like; one inside the root's own part is cleaned away first.
func (r rules) below(roots []rooted, path rooted) ([]string, bool) {
	clean := rooted{volume: path.volume, parts: lexical(path.parts)}
	for _, root := range roots {
		if cleaned, ok := r.within(root, clean); ok {
			if raw, ok := r.within(root, path); ok && !leadsOut(0, raw) {
				return raw, true
			}
			return cleaned, true
		}
	}
	return nil, false
}

// lexical takes ".." away from an absolute path by its text alone.
func lexical(parts []string) []string {
	var out []string
	for _, p := range parts {
		if p != ".." {
			out = append(out, p)
		} else if len(out) > 0 {
			out = out[:len(out)-1]
		}
	}
	return out
}

// parse checks a name and takes it apart. The reason is 0 where the name can be used.
func (r rules) parse(roots []rooted, s string) (n name, reason Reason, what string) {
	switch {
	case s == "":
		return name{}, BadName, "empty"
	case len(s) > maxNameBytes:
		return name{}, BadName, "too_long"
	case strings.IndexByte(s, 0) >= 0:
		return name{}, BadName, "nul"
	}
	at, absolute, ok := r.absolute(s)
	switch {
	case !ok:
		return name{}, OutsideRoot, ""
	case absolute:
		if n.parts, ok = r.below(roots, at); !ok {
			return name{}, OutsideRoot, ""
		}
	default:
		n.parts = r.split(s)
	}
	n.slash = r.separator(s[len(s)-1])
	for _, p := range n.parts {
		if what := r.badPart(p); what != "" {
			return name{}, BadName, what
		}
	}
	return n, 0, ""
}

// badPart says what makes a single part unusable; "" if nothing does. On posix everything but NUL and "/" is a plain name.
func (r rules) badPart(p string) string {
	if r == posixRules || p == ".." {
		return ""
	}
	if !utf8.ValidString(p) {
		return "not_utf8" // it would be stored as a different name
	}
	units := 0
	for _, c := range p {
		if c < 0x20 || strings.ContainsRune(`<>:"/\|?*`, c) {
			return "bad_character" // ":" also names a stream of a file
		}
		units += utf16.RuneLen(c)
	}
	if units > maxPartUnits {
		return "too_long" // not left to the system: a rename to such a name fails with no telling word
	}
	if last := p[len(p)-1]; last == '.' || last == ' ' {
		return "trailing" // dropped in silence by the system: another spelling of another name
	}
	if reservedOnWindows(p) {
		return "reserved"
	}
	return ""
}

// reservedOnWindows knows the device names, which are taken with any extension and with blanks before it ("nul .txt").
func reservedOnWindows(p string) bool {
	base, _, _ := strings.Cut(p, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	for _, port := range []string{"COM", "LPT"} {
		if rest, ok := strings.CutPrefix(base, port); ok {
			switch rest {
			case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³":
				return true
			}
		}
	}
	return false
}

// fold gives all spellings that some file system takes for the same entry one form: letter case, the characters that HFS+
// ignores, and the trailing dots and blanks that Windows drops. It errs towards the same: it only guards against writes.
func fold(s string) string {
	s = strings.Map(func(c rune) rune {
		switch {
		case c >= 0x200c && c <= 0x200f, c >= 0x202a && c <= 0x202e, c >= 0x206a && c <= 0x206f, c == 0xfeff:
			return -1
		case c == 0x17f: // long s and the Kelvin sign fold to ASCII letters
			return 's'
		case c == 0x212a:
			return 'k'
		}
		return c
	}, s)
	return strings.ToLower(strings.TrimRight(s, ". "))
}

// temporary is the one name under which new content for target is written, in the same folder. It is fixed, so that what a
// killed process left is found without a search; it starts with a dot, so that no glob picks it up. The letter case of the
// target does not matter: on some file systems it is the same file, and on the others the folder's lock keeps them apart.
func temporary(target string) string {
	sum := sha256.Sum256([]byte(strings.ToLower(target)))
	return temporaryPrefix + hex.EncodeToString(sum[:8]) + temporarySuffix
}

const (
	temporaryPrefix = ".belay-"
	temporarySuffix = ".tmp"
)

func isTemporary(folded string) bool {
	middle, ok := strings.CutPrefix(folded, temporaryPrefix)
	if !ok {
		return false
	}
	middle, ok = strings.CutSuffix(middle, temporarySuffix)
	if !ok || len(middle) != 16 {
		return false
	}
	_, err := hex.DecodeString(middle)
	return err == nil
}
