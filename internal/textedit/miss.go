package textedit

import (
	"bytes"
	"fmt"
)

// How the nearest text differs from an old text that was not found.
const (
	DiffersLineEnds   = "line_ends"  // only in CRLF against LF
	DiffersWhitespace = "whitespace" // only in blanks, tabs and line breaks
	DiffersCase       = "case"       // in upper and lower case, perhaps in white space too
	DiffersText       = "text"
)

// A MissError: an edit's old text is not in the content. It names the place that
// is most like it; NearLine is 0, and the others empty, where nothing is.
type MissError struct {
	Edit        int
	NearLine    int // where that place begins, from 1
	NearPercent int // how alike they are, 1 to 99
	Differs     string
}

func (e *MissError) Error() string {
	return fmt.Sprintf("textedit: old text of edit %d not found", e.Edit)
}

// miss looks for the nearest place: first one that differs in nothing but what
// is easily overlooked, then the lines that share most with old. Each step is
// one pass over body.
func miss(body, old []byte, edit int) error {
	lf := bytes.ReplaceAll(old, []byte("\r\n"), []byte("\n"))
	for _, other := range [][]byte{lf, bytes.ReplaceAll(lf, []byte("\n"), []byte("\r\n"))} {
		if bytes.Equal(other, old) {
			continue
		}
		if at := index(body, other); at >= 0 {
			return found(edit, body, at, 99, DiffersLineEnds)
		}
	}
	if at, end := foldedIndex(body, old); at >= 0 {
		there := body[at:end]
		differs := DiffersCase
		switch trimmed := bytes.Trim(lf, whitespace); {
		case bytes.Equal(bytes.ReplaceAll(there, []byte("\r\n"), []byte("\n")), trimmed) && bytes.Contains(lf, []byte("\n")) && bytes.Contains(there, []byte("\r\n")):
			differs = DiffersLineEnds // in a file where they are mixed
		case bytes.Equal(squeeze(there), squeeze(old)):
			differs = DiffersWhitespace
		}
		return found(edit, body, at, 99, differs)
	}
	if at, end := nearestLines(body, old); at >= 0 {
		return found(edit, body, at, alike(old, body[at:end]), DiffersText)
	}
	return &MissError{Edit: edit}
}

func found(edit int, body []byte, at, percent int, differs string) error {
	return &MissError{
		Edit: edit, NearLine: 1 + bytes.Count(body[:at], []byte{'\n'}),
		NearPercent: max(1, min(percent, 99)), Differs: differs,
	}
}

const whitespace = " \t\r\n\v\f"

// fold maps a byte to its lower case, and white space to 0. Bytes beyond ASCII
// are themselves.
var fold = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
		if i >= 'A' && i <= 'Z' {
			t[i] = byte(i) + 'a' - 'A'
		}
	}
	for _, c := range []byte(whitespace) {
		t[c] = 0
	}
	return t
}()

func appendFolded(dst, s []byte) []byte {
	for _, c := range s {
		if f := fold[c]; f != 0 {
			dst = append(dst, f)
		}
	}
	return dst
}

func squeeze(s []byte) []byte {
	var out []byte
	for _, c := range s {
		if fold[c] != 0 {
			out = append(out, c)
		}
	}
	return out
}

// foldedIndex finds old in body without regard to white space and case, and
// gives the part of body from its first to behind its last character. It goes
// over body in blocks, so that the folded form of it is never there as a whole.
// A text of more than 64 KiB is not looked for: its offsets would take eight times as much.
func foldedIndex(body, old []byte) (at, end int) {
	want := appendFolded(nil, old)
	if len(want) == 0 || len(want) > 64<<10 {
		return -1, -1
	}
	const block = 64 << 10
	var folded []byte
	var offsets []int // where in body the bytes of folded were
	for from := 0; from < len(body); from += block {
		for i, c := range body[from:min(len(body), from+block)] {
			if f := fold[c]; f != 0 {
				folded = append(folded, f)
				offsets = append(offsets, from+i)
			}
		}
		if i := index(folded, want); i >= 0 {
			return offsets[i], offsets[i+len(want)-1] + 1
		}
		if keep := len(want) - 1; len(folded) > keep { // a match may begin in what is left
			n := copy(folded, folded[len(folded)-keep:])
			copy(offsets, offsets[len(offsets)-keep:])
			folded, offsets = folded[:n], offsets[:n]
		}
	}
	return -1, -1
}

const (
	minPercent = 40      // below this two texts are not called near
	sample     = 4 << 10 // bytes of a text that are compared
)

// nearestLines finds the lines of body that are most like old. It looks for the
// line that is most like the longest line of old, by the pairs of characters in
// them, and takes as many lines before and after it as old has.
func nearestLines(body, old []byte) (at, end int) {
	const most = 1000
	lines := bytes.SplitAfterN(bytes.TrimSuffix(old, []byte("\n")), []byte("\n"), most+1)
	lines = lines[:min(len(lines), most)] // the last one would be all the rest
	longest := 0
	for i, l := range lines {
		if len(bytes.TrimSpace(l)) > len(bytes.TrimSpace(lines[longest])) {
			longest = i
		}
	}
	want := newProfile(lines[longest])
	if want.size == 0 {
		return -1, -1
	}
	best, bestAt := minPercent-1, -1
	for from := 0; from < len(body); {
		n := lineLen(body[from:])
		if p := want.alike(body[from : from+n]); p > best {
			best, bestAt = p, from
		}
		from += n
	}
	if bestAt < 0 {
		return -1, -1
	}
	at = bestAt
	for range longest {
		if at > 0 {
			at = bytes.LastIndexByte(body[:at-1], '\n') + 1
		}
	}
	for end = at; len(lines) > 0 && end < len(body); lines = lines[1:] {
		end += lineLen(body[end:])
	}
	return at, end
}

func lineLen(b []byte) int {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return i + 1
	}
	return len(b)
}

// alike tells in percent how alike two texts are.
func alike(a, b []byte) int { return newProfile(a).alike(b) }

// A profile is the set of the pairs of characters in a text: two texts are as
// alike as the share of pairs that they have in common (Dice's coefficient).
// White space and case do not count.
type profile struct {
	size  int
	has   [1 << 16]bool   // by pair
	seen  [1 << 16]uint32 // the round in which the pair was last counted in the other text
	round uint32
}

func newProfile(text []byte) *profile {
	p := new(profile)
	p.size, _ = p.count(text)
	for pair, round := range p.seen {
		p.has[pair] = round == p.round
	}
	return p
}

func (p *profile) alike(text []byte) (percent int) {
	size, common := p.count(text)
	if size+p.size == 0 {
		return 0
	}
	return 200 * common / (size + p.size)
}

// count counts the different pairs in text, and those of them that are p's.
func (p *profile) count(text []byte) (size, common int) {
	p.round++ // a body has fewer lines than this has values
	var prev byte
	for _, c := range text[:min(len(text), sample)] {
		f := fold[c]
		if f == 0 {
			continue
		}
		if pair := uint16(prev)<<8 | uint16(f); prev != 0 && p.seen[pair] != p.round {
			p.seen[pair] = p.round
			size++
			if p.has[pair] {
				common++
			}
		}
		prev = f
	}
	return size, common
}
