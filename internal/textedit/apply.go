// Package textedit changes text by exact old and new texts: all of the changes
// as they were asked for, or none.
//
// Nothing is tolerated and nothing is interpreted: texts are compared byte by
// byte and mean what they say. So bytes that no edit names come through as they
// were, in any encoding that is a superset of ASCII, with their line ends. It
// does not promise that an edit is found: a miss says where the nearest text is
// and how it differs, and leaves it to the caller to ask again.
//
// Time is linear in the content times the number of edits, but for content that is
// made against it. Memory is the result and a few MB, for a diff of very different
// texts some 20 MB. Nothing does I/O or keeps state; everything may be called at the
// same time, as long as nobody changes the content.
package textedit

import (
	"bytes"
	"fmt"
)

// An Edit replaces Old by New. Both are literal.
type Edit struct {
	Old, New string
	All      bool // every occurrence, from the left and without overlap; else there must be exactly one
}

const bom = "\ufeff"

// Apply makes all edits, each matched against content as it is and not against
// the work of the edits before it. The result has at most max bytes. Content
// stays untouched; the result is the caller's own.
//
// Line ends are exact too: an old text with LF does not match CRLF, and the miss
// says so. A byte-order mark at the start of content stays: it is neither
// matched nor replaced, and an old or new text that repeats it means the
// beginning of the file.
//
// The error is one of [*NotTextError], [*EmptyError], [*MissError],
// [*AmbiguousError], [*OverlapError] and [*TooLargeError]; that of the first
// edit that cannot be matched comes first. None holds any of the texts.
func Apply(content []byte, edits []Edit, max int64) ([]byte, error) {
	if !isText(content) {
		return nil, &NotTextError{}
	}
	start := 0
	if bytes.HasPrefix(content, []byte(bom)) {
		start = len(bom)
	}
	places := make([]place, len(edits))
	for i, e := range edits {
		p, err := find(content, start, i, e)
		if err != nil {
			return nil, err
		}
		places[i] = p
	}

	size := int64(len(content))
	if err := walk(content, places, func(at int, p *place) {
		size += int64(len(p.replacement(at))) - int64(len(p.old))
	}); err != nil {
		return nil, err
	}
	if size > max {
		return nil, &TooLargeError{Limit: max, Actual: size}
	}
	out := make([]byte, 0, size)
	done := 0
	walk(content, places, func(at int, p *place) { // no error: the walk before had none
		out = append(out, content[done:at]...)
		out = append(out, p.replacement(at)...)
		done = at + len(p.old)
	})
	return append(out, content[done:]...), nil
}

// isText: no NUL, which also tells UTF-16 and UTF-32 of any Western text, and no
// byte-order mark of theirs.
func isText(b []byte) bool {
	return bytes.IndexByte(b, 0) < 0 && !bytes.HasPrefix(b, []byte("\xff\xfe")) && !bytes.HasPrefix(b, []byte("\xfe\xff"))
}

// A place is where an edit matches.
type place struct {
	edit     int
	first    int // offset of the first match
	old, new []byte
	all      bool
	marked   bool // the first match is right behind the byte-order mark, which stays the only one
}

// replacement is what comes in place of the match at an offset.
func (p *place) replacement(at int) []byte {
	if p.marked && at == p.first {
		return bytes.TrimPrefix(p.new, []byte(bom))
	}
	return p.new
}

// next is the offset of the match behind the one at offset at, or -1.
func (p *place) next(content []byte, at int) int {
	if !p.all {
		return -1
	}
	from := at + len(p.old)
	i := index(content[from:], p.old)
	if i < 0 {
		return -1
	}
	return from + i
}

// find matches one edit; start is behind the byte-order mark.
func find(content []byte, start, edit int, e Edit) (place, error) {
	p := place{edit: edit, old: []byte(e.Old), new: []byte(e.New), all: e.All}
	body := content[start:]
	marked := start > 0 && bytes.HasPrefix(p.old, []byte(bom))
	if marked {
		p.old, p.all = p.old[len(bom):], false
	}
	if len(p.old) == 0 {
		return p, &EmptyError{Edit: edit}
	}
	at := 0
	if !marked {
		at = index(body, p.old)
	} else if !bytes.HasPrefix(body, p.old) {
		at = -1
	}
	if at < 0 {
		if marked {
			if i := index(body, p.old); i >= 0 { // there, but not at the beginning
				return p, found(edit, body, i, 99, DiffersText)
			}
		}
		return p, miss(body, p.old, edit)
	}
	if !p.all && !marked {
		// From the next byte on, not from behind the match: in "aaa" it is not
		// certain which "aa" is meant.
		if index(body[at+1:], p.old) >= 0 {
			return p, ambiguous(body, p.old, edit)
		}
	}
	p.first = start + at
	p.marked = at == 0 && start > 0
	return p, nil
}

// walk visits all matches in the order of the content. It stores none: there
// can be as many as there are bytes.
func walk(content []byte, places []place, visit func(at int, p *place)) error {
	next := make([]int, len(places))
	for i := range places {
		next[i] = places[i].first
	}
	end, last := 0, -1 // of the match before
	for {
		i := -1
		for j, at := range next {
			if at >= 0 && (i < 0 || at < next[i]) {
				i = j
			}
		}
		if i < 0 {
			return nil
		}
		p, at := &places[i], next[i]
		if last >= 0 && at < end {
			return &OverlapError{Edit: max(p.edit, last), Other: min(p.edit, last)}
		}
		visit(at, p)
		end, last = at+len(p.old), p.edit
		next[i] = p.next(content, at)
	}
}

// maxLines is how many lines an AmbiguousError names.
const maxLines = 10

func ambiguous(body, old []byte, edit int) error {
	e := &AmbiguousError{Edit: edit}
	line, counted := 1, 0
	for at := 0; ; {
		i := index(body[at:], old)
		if i < 0 {
			break
		}
		at += i
		e.Matches++
		if len(e.Lines) < maxLines {
			line += bytes.Count(body[counted:at], []byte{'\n'})
			counted = at
			e.Lines = append(e.Lines, line)
		}
		if at++; e.Matches > 1 { // only the first two may overlap: enough to say no
			at += len(old) - 1
		}
	}
	return e
}

// A NotTextError: the content has NUL bytes or is UTF-16 or UTF-32.
type NotTextError struct{}

func (*NotTextError) Error() string { return "textedit: content is not text" }

// An EmptyError: an edit's old text is empty.
type EmptyError struct {
	Edit int // index in the list
}

func (e *EmptyError) Error() string {
	return fmt.Sprintf("textedit: old text of edit %d is empty", e.Edit)
}

// An AmbiguousError: an edit without All matches more than once.
type AmbiguousError struct {
	Edit    int
	Matches int   // how often; beyond the second, matches that overlap count once
	Lines   []int // where the first ten begin, from 1
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("textedit: old text of edit %d matches %d times", e.Edit, e.Matches)
}

// An OverlapError: two edits match the same bytes, or an edit listed twice.
type OverlapError struct {
	Edit, Other int // indexes; Other is the lower
}

func (e *OverlapError) Error() string {
	return fmt.Sprintf("textedit: edits %d and %d overlap", e.Other, e.Edit)
}

// A TooLargeError: the result would be larger than allowed. It was not built.
type TooLargeError struct {
	Limit, Actual int64 // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("textedit: result has %d bytes, limit is %d", e.Actual, e.Limit)
}
