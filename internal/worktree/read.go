package worktree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"math"
	"os"
	"time"
	"unicode/utf8"
)

// Read reads one page. It refuses what is not a regular file without opening it in a way that waits. It allocates the page,
// at most the limit, and streams through [scratchBytes]; the size that the file claims only ever makes that less.
//
// The whole file is read once where its digest is due and not remembered, else only the page. By line the file is read
// up to that line; both can be cancelled. Errors are [*Error]: OutsideRoot, NotFound, NotRegular, BadName, Cancelled, ReadFailed.
func (t *Tree) Read(ctx context.Context, r PageRequest) (Page, error) {
	f, p, id, err := t.openToRead(ctx, r.Name)
	if err != nil {
		return Page{}, err
	}
	defer f.Close()

	limit := int(min(max(int64(r.Limit), 1), t.o.MaxPageBytes))
	start := time.Now()
	before, known := t.digests.get(id)
	pass := pass{ctx: ctx, f: f, size: id.size, plain: before.plain && known}
	if !known && id.size <= t.o.MaxFileBytes {
		pass.sum, pass.plain = sha256.New(), true
	}
	page, err := pass.page(r, limit)
	var after identity
	if err == nil {
		after, err = identify(f)
	}
	if err != nil {
		return Page{}, t.systemError(ReadFailed, r.Name, err)
	}

	page.Path = p
	page.Changed = page.Changed || after != id
	if page.Changed && before.plain { // what was known of the file may not hold for this page
		page.Text, page.EOL = isText(page.Content), lineEnds(0, page.Content)
	}
	switch {
	case page.Changed:
		if after != id && id.size > 0 {
			page.Size = max(after.size, page.Next)
			page.EOF = page.Next == page.Size
		}
	case known:
		page.SHA256 = before.sum
	case pass.sum != nil:
		page.SHA256 = hex.EncodeToString(pass.sum.Sum(nil))
		t.digests.put(id, remembered{sum: page.SHA256, plain: pass.plain}, start)
	}
	return page, nil
}

// openToRead opens the regular file that name leads to. The look before the open keeps it from waking a FIFO's
// writer or a device; the comparison after it sees to it that what was looked at is what was opened.
func (t *Tree) openToRead(ctx context.Context, name string) (*os.File, string, identity, error) {
	var last error
	for range maxSwaps {
		if err := ended(ctx, name); err != nil {
			return nil, "", identity{}, err
		}
		p, err := t.walk(name, toRead, false)
		if err != nil {
			return nil, "", identity{}, err
		}
		f, id, err := t.openEntry(p)
		path := p.path()
		p.close()
		if err == nil {
			return f, path, id, nil
		}
		var refused *Error
		if errors.As(err, &refused) {
			return nil, "", identity{}, err
		}
		last = err
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, os.ErrClosed) {
			break
		}
	}
	return nil, "", identity{}, t.systemError(ReadFailed, name, last)
}

// openEntry opens the entry of p for reading. An error that is no [*Error] can come from a swap: walk again.
func (t *Tree) openEntry(p *place) (*os.File, identity, error) {
	if p.info == nil {
		return nil, identity{}, &Error{Reason: NotFound, Path: p.asked, What: "missing"}
	}
	if !p.info.Mode().IsRegular() {
		return nil, identity{}, &Error{Reason: NotRegular, Path: p.asked, What: kindOf(p.info)}
	}
	f, err := p.dir.OpenFile(p.entry, os.O_RDONLY|openWithoutWaiting, 0)
	if err != nil {
		return nil, identity{}, err
	}
	fi, err := f.Stat()
	if err == nil && !os.SameFile(fi, p.info) {
		err = errSwapped
	}
	if err != nil {
		f.Close()
		return nil, identity{}, err
	}
	id, err := identityOf(f, fi)
	if err != nil {
		f.Close()
		return nil, identity{}, err
	}
	return f, id, nil
}

// pass is one way through an open file from its start: up to the page, the page, and where a digest is due to the end.
type pass struct {
	ctx  context.Context
	f    io.ReaderAt
	size int64     // as the system claims
	sum  hash.Hash // nil: nothing is digested, and what the page does not need is not read
	pos  int64     // everything before it went into sum
	end  bool      // the end of the file was seen at pos
	// With sum: what went into it is plain. Without: the whole file was found to be, and its pages need not be searched.
	plain bool
}

// fill reads into b until it is full or the file ends.
func (s *pass) fill(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.f.ReadAt(b, s.pos)
	if err == io.EOF {
		s.end, err = true, nil
	}
	if s.sum != nil {
		s.sum.Write(b[:n])
		s.plain = s.plain && isPlain(b[:n])
	}
	s.pos += int64(n)
	return n, err
}

func (s *pass) page(r PageRequest, limit int) (Page, error) {
	buf := scratch.Get().(*[scratchBytes]byte)
	defer scratch.Put(buf)

	size := s.size
	if size == 0 {
		// Empty, or a file of the kernel that does not know its size: one byte tells.
		n, err := s.f.ReadAt(buf[:1], 0)
		if err != nil && err != io.EOF {
			return Page{}, err
		}
		if n == 0 {
			return Page{EOF: true, FirstLine: 1, Text: true, EOL: "none"}, nil
		}
		size, s.sum = math.MaxInt64, nil
	}

	// Up to the page.
	start := r.Offset
	if start < 0 {
		start = max(0, s.size+start)
	}
	start = min(start, size)
	var line int64
	var ready []byte // of the page, read already
	switch {
	case r.Line > 1:
		var err error
		if start, line, ready, err = s.seekLine(r.Line, buf[:]); err != nil {
			return Page{}, err
		}
	case r.Line == 1:
		start = 0
		fallthrough
	default:
		if s.sum == nil {
			s.pos = start
		}
		for s.pos < start && !s.end {
			if _, err := s.fill(buf[:min(scratchBytes, start-s.pos)]); err != nil {
				return Page{}, err
			}
		}
		start = min(start, s.pos) // shorter than claimed
	}

	// The page.
	content := make([]byte, max(0, min(int64(limit), size-start)))
	n := copy(content, ready)
	for n < len(content) && !s.end {
		got, err := s.fill(content[n:])
		if err != nil {
			return Page{}, err
		}
		n += got
	}
	content, text := content[:n], true
	searched := s.sum != nil || !s.plain
	if searched {
		var err error
		if content, start, text, err = s.cut(content, start, limit); err != nil {
			return Page{}, err
		}
	}
	page := Page{
		Size:      s.size,
		Offset:    start,
		Next:      start + int64(len(content)),
		FirstLine: line,
		Text:      text,
		Content:   content,
	}
	before := byte(0)
	switch {
	case start == 0:
		page.FirstLine = 1
		page.BOM = bytes.HasPrefix(content, []byte(bom))
	case searched && len(content) > 0 && content[0] == '\n':
		if _, err := s.f.ReadAt(buf[:1], start-1); err == nil {
			before = buf[0]
		}
	}
	if searched {
		page.EOL = lineEnds(before, content)
	} else {
		page.EOL = lineFeeds(content)
	}

	// The rest, for the digest; a file that keeps growing is left at the size it had.
	if s.sum != nil {
		for s.pos < s.size && !s.end {
			if _, err := s.fill(buf[:min(scratchBytes, s.size-s.pos)]); err != nil {
				return Page{}, err
			}
		}
	}

	switch {
	case s.end:
		page.Size = s.pos
		page.EOF = page.Next >= s.pos
	case size == s.size:
		page.EOF = page.Next >= size
	default: // of unknown size, and the end is not in sight
		page.Size = page.Next
	}
	page.Changed = size != s.size || (s.end || s.sum != nil) && s.pos != s.size
	return page, nil
}

// cut trims content, which was read from start, so that no character is split at either end and at least one byte is left.
//
// A start inside a character moves back to its first byte if that makes the page text. Otherwise it stays: the page is
// binary, and the caller counts bytes. An end inside a character always moves back, else the next page would start inside
// it; a character that alone is longer than the limit comes whole.
func (s *pass) cut(content []byte, start int64, limit int) (_ []byte, _ int64, text bool, err error) {
	if len(content) == 0 {
		return content, start, true, nil
	}
	first, whole := start, start // the character that start is inside of, from first to whole
	if !utf8.RuneStart(content[0]) {
		if first, whole, err = s.character(start); err != nil {
			return nil, 0, false, err
		}
	}
	end := start + int64(len(content))
	if mayStraddle(content) {
		from, to, err := s.character(end)
		if err != nil {
			return nil, 0, false, err
		}
		if from <= start && to > end {
			// The page is within one character.
			content = make([]byte, to-from)
			n, err := s.f.ReadAt(content, from)
			if err == io.EOF {
				err = nil
			}
			return content[:n], from, isText(content[:n]), err
		}
		end = from
	}
	content = content[:end-start]
	if first == start {
		return content, start, isText(content), nil
	}
	if !isText(content[min(whole, end)-start:]) {
		return content, start, false, nil
	}
	// Make room at the front; what is over the limit then goes at the end.
	back := int(start - first)
	if over := len(content) + back - limit; over > 0 {
		from, _, err := s.character(end - int64(over))
		if err != nil {
			return nil, 0, false, err
		}
		end = max(from, whole)
	}
	moved := content
	if need := int(end - first); need <= cap(content) {
		moved = content[:need]
	} else {
		moved = make([]byte, need) // limit is smaller than this character
	}
	copy(moved[back:], content[:min(end, start+int64(len(content)))-start])
	n, err := s.f.ReadAt(moved[:min(len(moved), int(whole-first))], first)
	if err == io.EOF && n == int(whole-first) {
		err = nil
	}
	return moved, first, isText(moved), err
}

// character gives the bounds of the valid character that the border at pos splits; pos twice if there is none.
func (s *pass) character(pos int64) (from, to int64, err error) {
	var b [2 * margin]byte
	at := max(0, pos-margin)
	i := int(pos - at)
	n, err := s.f.ReadAt(b[:i+margin], at)
	if err != nil && err != io.EOF {
		return 0, 0, err
	}
	if j := characterStart(b[:n], i); j < i {
		_, size := utf8.DecodeRune(b[j:n])
		return at + int64(j), at + int64(j+size), nil
	}
	return pos, pos, nil
}

// seekLine reads up to the start of a line and gives its offset and number, and what of it was read into buf. Behind the last line it gives the end.
func (s *pass) seekLine(want int64, buf []byte) (start, line int64, ready []byte, err error) {
	line = 1
	for {
		n, err := s.fill(buf)
		if err != nil {
			return 0, 0, nil, err
		}
		rest := buf[:n]
		lines := int64(bytes.Count(rest, []byte{'\n'}))
		if line+lines < want {
			line += lines
			if s.end || n == 0 {
				return s.pos, line, nil, nil
			}
			continue
		}
		for ; line < want; line++ {
			rest = rest[bytes.IndexByte(rest, '\n')+1:]
		}
		return s.pos - int64(len(rest)), line, rest, nil
	}
}
