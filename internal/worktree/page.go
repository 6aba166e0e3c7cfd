package worktree

import (
	"bytes"
	"unicode/utf8"
)

// PageRequest asks for one page of a file.
type PageRequest struct {
	Name   string
	Offset int64 // bytes from the start; negative from the end, and the start where that is before it
	Line   int64 // 1-based; a line ends with its line feed; 0 = by Offset, which is not looked at otherwise
	Limit  int   // bytes, held to 1..[Options].MaxPageBytes; a single character longer than it is still given whole
}

// Page is a piece of a file. The pages from offset 0, each starting where the one before said Next, joined give the file byte for byte.
type Page struct {
	Path      string // below the root, with "/", links resolved
	Size      int64  // of the file, bytes
	Offset    int64  // of Content; up to 3 bytes before the asked one where that was inside a character
	Next      int64  // where the next page starts
	EOF       bool   // Next is the end
	FirstLine int64  // 1-based number of the line that Content starts in; known at offset 0 and for a request by line, else 0
	SHA256    string // of the whole file; "" where it is over [Options].MaxFileBytes or changed
	Changed   bool   // the file changed while it was read, or is not of the size that the system claims (files of the kernel)
	Text      bool   // Content is UTF-8 without NUL
	EOL       string // the line ends of Content: lf, crlf, mixed or none
	BOM       bool   // Content starts with the UTF-8 byte order mark, at offset 0
	Content   []byte
}

const (
	// margin is read on both sides of a page: enough to see a character that straddles the border.
	margin = utf8.UTFMax - 1
	bom    = "\xef\xbb\xbf"
)

// cut chooses the part of window that is the page: at most limit bytes from at, no character split at either end, at least
// one byte unless at is the end. window holds up to [margin] bytes before at and, where the file goes on, behind at+limit.
//
// A start inside a character moves back to its first byte if that makes the page text. Otherwise it stays: the page is
// binary, and the caller counts bytes. An end inside a character always moves back, else the next page would start inside it.
func cut(window []byte, at, limit int) (start, end int, text bool) {
	start = characterStart(window, at)
	end = cutEnd(window, start, limit)
	if isText(window[start:end]) {
		return start, end, true
	}
	return at, cutEnd(window, at, limit), false
}

func cutEnd(window []byte, start, limit int) int {
	if limit >= len(window)-start {
		return len(window)
	}
	end := characterStart(window, start+limit)
	if end > start {
		return end
	}
	// The first character alone is longer than the limit, or start is inside it: give it to its end.
	_, size := utf8.DecodeRune(window[end:])
	return end + size
}

// characterStart is where the character that byte i belongs to starts; i itself if it starts there or belongs to no valid character.
func characterStart(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	for j := i - 1; j >= 0 && j >= i-margin; j-- {
		if utf8.RuneStart(b[j]) {
			if _, size := utf8.DecodeRune(b[j:]); size > i-j {
				return j
			}
			return i
		}
	}
	return i
}

func isText(b []byte) bool {
	return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0
}

// lineEnds names the line ends of b; before is the byte in front of it, 0 if there is none.
func lineEnds(before byte, b []byte) string {
	lf := bytes.Count(b, []byte{'\n'})
	if lf == 0 {
		return "none"
	}
	crlf := 0
	if before == '\r' && b[0] == '\n' {
		crlf++
	}
	if bytes.IndexByte(b, '\r') >= 0 {
		crlf += bytes.Count(b, []byte("\r\n"))
	}
	switch crlf {
	case 0:
		return "lf"
	case lf:
		return "crlf"
	}
	return "mixed"
}
