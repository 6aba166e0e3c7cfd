package worktree

import (
	"bytes"
	"encoding/binary"
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
	// margin is how many bytes before a border can belong to a character that goes on behind it.
	margin = utf8.UTFMax - 1
	bom    = "\xef\xbb\xbf"
)

// mayStraddle tells whether b ends in what may be the first bytes of a character.
func mayStraddle(b []byte) bool {
	for j := len(b) - 1; j >= 0 && j >= len(b)-margin; j-- {
		if utf8.RuneStart(b[j]) {
			return !utf8.FullRune(b[j:])
		}
	}
	return false
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

// isPlain tells whether b is ASCII without NUL and without carriage return: then each piece of it is text, and its lines end
// in line feeds.
func isPlain(b []byte) bool {
	if bytes.IndexByte(b, '\r') >= 0 || bytes.IndexByte(b, 0) >= 0 {
		return false
	}
	for ; len(b) >= 64; b = b[64:] {
		w := b[:64]
		all := binary.NativeEndian.Uint64(w) | binary.NativeEndian.Uint64(w[8:]) | binary.NativeEndian.Uint64(w[16:]) | binary.NativeEndian.Uint64(w[24:]) |
			binary.NativeEndian.Uint64(w[32:]) | binary.NativeEndian.Uint64(w[40:]) | binary.NativeEndian.Uint64(w[48:]) | binary.NativeEndian.Uint64(w[56:])
		if all&0x8080808080808080 != 0 {
			return false
		}
	}
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isText(b []byte) bool {
	return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0
}

// lineEnds names the line ends of b; before is the byte in front of it, 0 if there is none. It stops at the first proof of a mixture.
func lineEnds(before byte, b []byte) string {
	if bytes.IndexByte(b, '\r') < 0 && before != '\r' {
		return lineFeeds(b)
	}
	lf, crlf := false, false
	for !lf || !crlf {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			break
		}
		if i > 0 {
			before = b[i-1]
		}
		if before == '\r' {
			crlf = true
		} else {
			lf = true
		}
		before, b = '\n', b[i+1:]
	}
	switch {
	case lf && crlf:
		return "mixed"
	case lf:
		return "lf"
	case crlf:
		return "crlf"
	}
	return "none"
}

// lineFeeds is lineEnds where there are no carriage returns.
func lineFeeds(b []byte) string {
	if bytes.IndexByte(b, '\n') < 0 {
		return "none"
	}
	return "lf"
}
