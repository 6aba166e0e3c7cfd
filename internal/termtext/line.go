package termtext

import "unicode/utf8"

const (
	// maxLine bounds a line that can still be edited, in bytes as long as it
	// is plain text and in columns after that. No progress bar comes near it.
	maxLine = 16 << 10

	// maxJump is the column that a cursor can be sent to beyond the end of the
	// text. A terminal would stop it at its right edge, which is not known
	// here; without a bound six bytes of output would make any number of
	// blanks.
	maxJump = 255
)

// line is the line that is being printed. Most lines only ever grow: they are
// bytes, and come out as they went in. At the first control that goes back in
// it a line becomes cells, one for each column, and is edited like a terminal's
// row without a right edge.
//
// Methods that may have to give up text take and return the output so far. They
// take printable characters and tab only. Hidden characters are kept as they
// are until the text comes out (appendVisible), since they have no width.
type line struct {
	text   []byte // while !edited
	narrow bool   // all of the line is ASCII so far; meaningful while there is text
	cr     bool   // a carriage return that may still turn out to be half of a line end

	edited bool
	cells  []cell
	head   []byte // what has no width and no cell to its left
	col    int    // of the cursor; may be beyond the cells
	joined int    // bytes in cells that have no column of their own
	fresh  bool   // the cursor is right behind what was printed last

	saved int // cursor column saved in this line, plus 1; 0: none

	// long: the beginning of the line has come out already because it grew
	// beyond maxLine. A control that goes back then starts a new line, since
	// nothing may be lost.
	long bool
}

type cell struct {
	r    rune   // 0: covered by the wide character or tab to its left
	cols uint8  // 0 where covered
	more string // what has no width and belongs to r
}

var blank = cell{r: ' ', cols: 1}

func (l *line) empty() bool {
	return len(l.text) == 0 && len(l.cells) == 0 && len(l.head) == 0 && !l.long
}

// untouched: nothing was printed since the line began, and nothing is pending.
func (l *line) untouched() bool { return !l.edited && !l.cr && l.empty() }

// reset begins a line.
func (l *line) reset() {
	text, cells, head := l.text[:0], l.cells[:0], l.head[:0]
	if cap(text) > 1<<10 { // an idle stream should not keep what one long line needed
		text = nil
	}
	if cap(cells) > 1<<8 {
		cells = nil
	}
	if cap(head) > 1<<8 {
		head = nil
	}
	*l = line{text: text, cells: cells, head: head}
}

// end ends the line.
func (l *line) end(dst []byte) []byte {
	dst = l.render(dst, 0)
	l.reset()
	return append(dst, '\n')
}

// flush gives the line as it stands and begins an empty one, without memory that
// a copy of the Cleaner would share.
func (l *line) flush(dst []byte) []byte {
	keep := l.col // blanks before the cursor are meant: a prompt ends in one
	if l.cr {
		keep = 0
	}
	dst = l.render(dst, keep)
	*l = line{}
	return dst
}

// render appends the line without the blanks that editing left at its end, but
// for those before column keep.
func (l *line) render(dst []byte, keep int) []byte {
	if !l.edited {
		return l.appendText(dst)
	}
	n := len(l.cells)
	for n > keep {
		i := l.owner(n - 1)
		if c := l.cells[i]; c.r != ' ' && c.r != '\t' || c.more != "" || i < keep {
			break
		}
		n = i
	}
	s := append([]byte(nil), l.head...)
	for _, c := range l.cells[:n] {
		if c.cols > 0 {
			s = utf8.AppendRune(s, c.r)
			s = append(s, c.more...)
		}
	}
	return appendVisible(dst, s)
}

func (l *line) appendText(dst []byte) []byte {
	if l.narrow {
		return append(dst, l.text...)
	}
	return appendVisible(dst, l.text)
}

// spill lets go of a line that has become too long to be edited.
func (l *line) spill(dst []byte) []byte {
	dst = l.render(dst, len(l.cells))
	l.reset()
	l.long = true
	return dst
}

// plain prints ASCII.
func (l *line) plain(dst, s []byte) []byte {
	dst = l.settle(dst)
	for len(s) > 0 {
		if l.edited {
			dst = l.print(dst, rune(s[0]))
			s = s[1:]
			continue
		}
		if len(l.text) == maxLine {
			dst = l.spill(dst)
		}
		if len(l.text) == 0 {
			l.narrow = true
		}
		n := min(len(s), maxLine-len(l.text))
		l.text = append(l.text, s[:n]...)
		s = s[n:]
	}
	return dst
}

// print prints one character.
func (l *line) print(dst []byte, r rune) []byte {
	dst = l.settle(dst)
	if l.edited && (l.col+8 > maxLine || l.joined > maxLine) {
		dst = l.spill(dst)
	}
	if !l.edited {
		if len(l.text)+utf8.RuneLen(r) > maxLine {
			dst = l.spill(dst)
		}
		l.narrow = r < utf8.RuneSelf && (l.narrow || len(l.text) == 0)
		l.text = utf8.AppendRune(l.text, r)
		return dst
	}
	l.put(r)
	return dst
}

// settle acts on a carriage return that was no line end.
func (l *line) settle(dst []byte) []byte {
	if !l.cr {
		return dst
	}
	l.cr = false
	if l.long {
		return l.end(dst)
	}
	if l.edited || !l.empty() {
		l.edit()
		l.moveTo(0)
	}
	return dst
}

// edit turns the line into cells.
func (l *line) edit() {
	if l.edited {
		return
	}
	l.edited = true
	for i := 0; i < len(l.text); {
		r, size := utf8.DecodeRune(l.text[i:])
		l.put(r)
		i += size
	}
	l.text = l.text[:0]
}

// put prints at the cursor, over what is there.
func (l *line) put(r rune) {
	if r == '\t' {
		l.tab()
		return
	}
	w := columns(r)
	if w == 0 || l.joins(r) {
		l.attach(r)
		return
	}
	if l.col == 0 && len(l.cells) > 0 {
		l.head = l.head[:0]
	}
	l.clear(l.col, l.col+w)
	l.reach(l.col + w)
	l.cells[l.col] = cell{r: r, cols: uint8(w)}
	for i := 1; i < w; i++ {
		l.cells[l.col+i] = cell{}
	}
	l.col += w
	l.fresh = true
}

// tab at the end of the text is a character that fills up to the next stop, so
// that it can come out as it went in. Within the text it only moves.
func (l *line) tab() {
	stop := l.col - l.col%8 + 8
	if l.col < len(l.cells) {
		l.col, l.fresh = stop, false
		return
	}
	start := l.col
	l.reach(stop)
	l.cells[start] = cell{r: '\t', cols: uint8(stop - start)}
	for i := start + 1; i < stop; i++ {
		l.cells[i] = cell{}
	}
	l.col = stop
	l.fresh = false
}

// attach adds what has no column of its own to the character before the cursor.
func (l *line) attach(r rune) {
	l.joined += utf8.RuneLen(r)
	if l.col == 0 {
		l.head = utf8.AppendRune(l.head, r)
		return
	}
	l.reach(l.col)
	i := l.owner(l.col - 1)
	c := &l.cells[i]
	if r == asEmoji && l.fresh && c.cols == 1 && c.more == "" && (pictograph(c.r) || keycap(c.r)) {
		// In emoji style it takes two columns.
		l.clear(l.col, l.col+1)
		l.reach(l.col + 1)
		c = &l.cells[i]
		c.cols = 2
		l.cells[l.col] = cell{}
		l.col++
	}
	c.more += string(r)
}

// joins reports whether r, printed right behind another character, becomes one
// with it: the second half of a flag, a skin tone, what a joiner joins.
func (l *line) joins(r rune) bool {
	if !l.fresh || l.col == 0 || r < 0x2000 {
		return false
	}
	c := l.cells[l.owner(l.col-1)]
	last, _ := utf8.DecodeLastRuneInString(c.more)
	return flagHalf(r) && flagHalf(c.r) && c.more == "" ||
		skinTone(r) && pictograph(c.r) ||
		pictograph(r) && pictograph(c.r) && c.more != "" && last == joiner
}

// reach fills up with blanks to n columns.
func (l *line) reach(n int) {
	for len(l.cells) < n {
		l.cells = append(l.cells, blank)
	}
}

// owner is the cell that shows something in column i.
func (l *line) owner(i int) int {
	for i > 0 && l.cells[i].cols == 0 {
		i--
	}
	return i
}

// clear blanks the columns from i to before j, and what is left of wide
// characters of which it took a part.
func (l *line) clear(i, j int) {
	for ; i < min(j, len(l.cells)); i++ {
		o := l.owner(i)
		for k := range int(max(l.cells[o].cols, 1)) {
			l.cells[o+k] = blank
		}
	}
}

func (l *line) moveTo(col int) {
	l.col = max(0, min(col, max(maxJump, len(l.cells))))
	l.fresh = false
}

// backspace moves back by one column.
func (l *line) backspace(dst []byte) []byte {
	dst = l.settle(dst)
	if !l.long && (l.edited || !l.empty()) {
		l.edit()
		l.moveTo(l.col - 1)
	}
	return dst
}

// command carries out the final character of a control sequence, n its first
// parameter (0: none). What concerns other rows, colours and modes does nothing.
func (l *line) command(dst []byte, final rune, n int) []byte {
	switch final {
	case 'H', 'f', 'E', 'F':
		return l.otherRow(dst)
	case 'J': // the rest of this row is K; other rows are not known
		if n != 0 {
			return dst
		}
		return l.command(dst, 'K', 0)
	case 'K':
		if n == 0 && !l.edited && !l.cr { // behind the text there is nothing to erase
			return dst
		}
	case 'C', 'a', 'D', 'G', '`', 'X', 'P', '@', 'b', 'I', 'Z', 's', 'u':
	default:
		return dst
	}
	dst = l.settle(dst)
	if l.long {
		return dst
	}
	l.edit()
	count := max(n, 1)
	switch final {
	case 'C', 'a':
		l.moveTo(l.col + count)
	case 'D':
		l.moveTo(l.col - count)
	case 'G', '`':
		l.moveTo(count - 1)
	case 'I':
		l.moveTo(l.col - l.col%8 + 8*min(count, maxJump))
	case 'Z':
		l.moveTo((l.col+7)/8*8 - 8*count)
	case 'K':
		switch n {
		case 0:
			l.cut(l.col)
		case 1:
			l.head = l.head[:0]
			l.clear(0, l.col+1)
		case 2:
			l.head = l.head[:0]
			l.cut(0)
		}
	case 'X':
		l.clear(l.col, l.col+count)
	case 'P':
		l.untab()
		if end := min(l.col+count, len(l.cells)); end > l.col {
			l.clear(l.col, l.col+1)
			l.clear(end-1, end)
			l.cells = append(l.cells[:l.col], l.cells[end:]...)
		}
	case '@':
		l.untab()
		if l.col < len(l.cells) {
			l.split(l.col)
			rest := append([]cell(nil), l.cells[l.col:]...)
			l.cells = l.cells[:l.col]
			l.reach(l.col + min(count, maxJump, maxLine-l.col-len(rest)))
			l.cells = append(l.cells, rest...)
		}
	case 'b':
		if l.fresh && l.col > 0 {
			r := l.cells[l.owner(l.col-1)].r
			for range min(count, maxJump-l.col) {
				l.put(r)
			}
		}
	case 's':
		l.saved = l.col + 1
	case 'u':
		return l.restore(dst)
	}
	l.fresh = l.fresh && final == 'b'
	return dst
}

// split blanks a wide character that column i would cut in two.
func (l *line) split(i int) {
	if i < len(l.cells) && l.cells[i].cols == 0 {
		l.clear(i, i+1)
	}
}

// untab makes blanks of tabs, which cannot be shifted: they fill up to a column.
func (l *line) untab() {
	for i, c := range l.cells {
		if c.r == '\t' {
			l.clear(i, i+1)
		}
	}
}

// cut ends the text before column n.
func (l *line) cut(n int) {
	if n < len(l.cells) {
		l.split(n)
		l.cells = l.cells[:n]
	}
}

func (l *line) save(dst []byte) []byte { return l.command(dst, 's', 0) }

// restore goes back to the saved column if it was saved in this line, else to a
// row that is not known.
func (l *line) restore(dst []byte) []byte {
	dst = l.settle(dst)
	if l.saved == 0 {
		return l.otherRow(dst)
	}
	if !l.long {
		l.edit()
		l.moveTo(l.saved - 1)
	}
	return dst
}

// otherRow: the cursor went to the beginning of a row that is not modelled.
// What follows must neither be glued to this line nor overwrite it.
func (l *line) otherRow(dst []byte) []byte {
	if l.empty() {
		l.reset()
		return dst
	}
	return l.end(dst)
}
