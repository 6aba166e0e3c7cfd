package textedit

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	contextLines = 3 // around a change, as diff and git have it

	// firstWindow and lastWindow are how many lines of both texts are compared
	// at a time: small, because most changes are, and growing where nothing in
	// a window is common.
	firstWindow = 256
	lastWindow  = 64 << 10

	// maxEdits is how many inserted and deleted lines a window's comparison
	// takes before it settles for less than the shortest script. Memory is its
	// square: 8 MB at the worst.
	maxEdits = 1000

	// maxChanges is how many changes are told apart. What is behind them
	// becomes one: no reader gets that far.
	maxChanges = 4096
)

// Diff is the unified diff from old to new with git's header, and "" if they are
// the same. path is relative, with slashes.
//
// At most maxBytes of it are given, whole lines; omitted is how many bytes are
// left out. A diff with nothing left out is one that `git apply` accepts, which
// also creates no file and removes none. Lines are bytes up to and including a
// line feed, and come unchanged: the diff of a text that is no UTF-8 is none
// either.
//
// Where the texts have little in common the diff is right but not the shortest:
// time is linear in their length.
func Diff(path string, old, new []byte, maxBytes int) (diff string, omitted int64) {
	if bytes.Equal(old, new) {
		return "", 0
	}
	w := writer{left: maxBytes}
	a, b := quote("a/"+path), quote("b/"+path)
	w.line("diff --git ", []byte(a+" "+b), "\n")
	// A name with blanks would end at the first of them, but for the tab.
	tab := ""
	if strings.Contains(path, " ") && a[0] != '"' {
		tab = "\t"
	}
	w.line("--- ", []byte(a+tab), "\n")
	w.line("+++ ", []byte(b+tab), "\n")

	changes := compare(old, new, maxBytes)
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && near(old[changes[n-1].oldEnd:changes[n].old]) {
			n++
		}
		w.hunk(old, new, changes[:n])
		changes = changes[n:]
	}
	return w.b.String(), w.omitted
}

// near: two changes with these lines between them share a hunk.
func near(between []byte) bool {
	for range 2 * contextLines {
		between = between[lineLen(between):]
	}
	return len(between) == 0
}

// A change replaces whole lines; the fields are byte offsets.
type change struct{ old, oldEnd, new, newEnd int }

// compare lists the changes from old to new, in order, with at least one common
// line between any two. What is behind the changes that fill enough bytes becomes
// one: nobody is shown it.
func compare(old, new []byte, enough int) []change {
	// What follows the last change is set aside first: then one change, however
	// big, needs no comparison at all.
	tail := commonTail(old, new)
	var changes []change
	filled := 0
	add := func(c change) {
		filled += c.oldEnd - c.old + c.newEnd - c.new
		if n := len(changes); n > 0 && changes[n-1].oldEnd == c.old && changes[n-1].newEnd == c.new {
			changes[n-1].oldEnd, changes[n-1].newEnd = c.oldEnd, c.newEnd
			return
		}
		changes = append(changes, c)
	}
	oldEnd, newEnd := len(old)-tail, len(new)-tail
	i, j := 0, 0
	for {
		n := commonHead(old[i:oldEnd], new[j:newEnd])
		i, j = i+n, j+n
		if i == oldEnd && j == newEnd {
			return changes
		}
		if len(changes) >= maxChanges || filled > enough {
			add(change{i, oldEnd, j, newEnd})
			return changes
		}
		for size := firstWindow; ; size *= 16 {
			a, b := lines(old[i:oldEnd], size), lines(new[j:newEnd], size)
			all := a[len(a)-1] == oldEnd-i && b[len(b)-1] == newEnd-j
			pairs := common(old[i:], new[j:], a, b)
			switch {
			case all:
				pairs = append(pairs, pair{len(a) - 1, len(b) - 1}) // the ends meet too
			case size >= lastWindow && len(pairs) == 0:
				add(change{i, oldEnd, j, newEnd})
				return changes
			case size < lastWindow:
				if pairs = settled(pairs); len(pairs) == 0 {
					continue
				}
			}
			x, y := 0, 0 // behind the last common line
			for _, p := range pairs {
				if p.x > x || p.y > y {
					add(change{i + a[x], i + a[p.x], j + b[y], j + b[p.y]})
				}
				x, y = p.x+1, p.y+1
			}
			if all {
				return changes
			}
			i, j = i+a[x], j+b[y]
			break
		}
	}
}

// settled gives the pairs up to the last run of enough common lines to be sure
// that the texts go on together there, and not just both have a line with a
// brace.
func settled(pairs []pair) []pair {
	const enough = 8
	run := 0
	for i := len(pairs) - 1; i > 0; i-- {
		if pairs[i-1].x+1 != pairs[i].x || pairs[i-1].y+1 != pairs[i].y {
			run = 0
			continue
		}
		if run++; run == enough-1 {
			return pairs[:i+run]
		}
	}
	return nil
}

// commonHead and commonTail measure what two texts have in common at their
// start and end, in bytes of whole lines.
func commonHead(a, b []byte) int {
	n := 0
	for limit := min(len(a), len(b)); n < limit; {
		k := min(4096, limit-n)
		if !bytes.Equal(a[n:n+k], b[n:n+k]) {
			for a[n] == b[n] {
				n++
			}
			break
		}
		n += k
	}
	if n == len(a) && n == len(b) {
		return n
	}
	return bytes.LastIndexByte(a[:n], '\n') + 1
}

func commonTail(a, b []byte) int {
	n := 0
	for limit := min(len(a), len(b)); n < limit; {
		k := min(4096, limit-n)
		if !bytes.Equal(a[len(a)-n-k:len(a)-n], b[len(b)-n-k:len(b)-n]) {
			for a[len(a)-n-1] == b[len(b)-n-1] {
				n++
			}
			break
		}
		n += k
	}
	if lineStart(a, len(a)-n) && lineStart(b, len(b)-n) {
		return n
	}
	return n - lineLen(a[len(a)-n:])
}

func lineStart(s []byte, at int) bool { return at == 0 || s[at-1] == '\n' }

// lines gives the offsets at which the first n lines of s begin, and behind them
// where they end.
func lines(s []byte, n int) []int {
	at := []int{0}
	for range n {
		k := lineLen(s[at[len(at)-1]:])
		if k == 0 {
			break
		}
		at = append(at, at[len(at)-1]+k)
	}
	return at
}

// A pair is a line that is common to both texts, by its numbers in them.
type pair struct{ x, y int }

// common finds common lines in rising order by Myers' greedy algorithm: the most
// there are, or, where more than maxEdits lines differ, those on the path that
// got furthest. a and b are the offsets of the lines, and their end.
func common(old, new []byte, a, b []int) []pair {
	n, m := len(a)-1, len(b)-1
	equal := func(x, y int) bool { return bytes.Equal(old[a[x]:a[x+1]], new[b[y]:b[y+1]]) }

	// furthest holds for each diagonal k = x - y the greatest x that was reached
	// on it (at index mid + k), trace a copy of it for each round. Where a path
	// left the texts it goes on outside and is never the best.
	const mid = maxEdits + 1
	furthest := make([]int, 2*mid+1)
	var trace [][]int
	var best struct{ x, y, k, d int }
	for d := 0; d <= maxEdits && (best.x < n || best.y < m); d++ {
		for k := -d; k <= d; k += 2 {
			var x int
			if k == -d || k != d && furthest[mid+k-1] < furthest[mid+k+1] {
				x = furthest[mid+k+1] // a line of new more
			} else {
				x = furthest[mid+k-1] + 1 // a line of old less
			}
			y := x - k
			for x < n && y < m && equal(x, y) {
				x++
				y++
			}
			furthest[mid+k] = x
			if x <= n && y <= m && x+y > best.x+best.y {
				best.x, best.y, best.k, best.d = x, y, k, d
			}
		}
		trace = append(trace, append([]int(nil), furthest[mid-d:mid+d+1]...))
	}

	// Back from the best end, round by round, noting the runs of common lines.
	var pairs []pair
	x, y, k := best.x, best.y, best.k
	for d := best.d; d >= 0; d-- {
		startX, startY := 0, 0 // of this round's run
		var before struct{ x, k int }
		if d > 0 {
			at := func(k int) int { return trace[d-1][k+d-1] }
			if k == -d || k != d && at(k-1) < at(k+1) {
				before.k = k + 1
				before.x = at(before.k)
				startX = before.x
			} else {
				before.k = k - 1
				before.x = at(before.k)
				startX = before.x + 1
			}
			startY = startX - k
		}
		for x > startX && y > startY {
			x--
			y--
			pairs = append(pairs, pair{x, y})
		}
		x, k = before.x, before.k
		y = x - k
	}
	slices.Reverse(pairs)
	return pairs
}

// A writer takes whole lines up to a bound and counts the rest.
type writer struct {
	b       strings.Builder
	left    int // bytes
	omitted int64

	// Behind the last hunk: offsets and numbers of the lines there, from 0.
	old, oldLine, new, newLine int
}

func (w *writer) line(prefix string, text []byte, end string) {
	n := len(prefix) + len(text) + len(end)
	if n > w.left || w.omitted > 0 {
		w.omitted += int64(n)
		return
	}
	w.left -= n
	w.b.WriteString(prefix)
	w.b.Write(text)
	w.b.WriteString(end)
}

// lines writes all lines of text with the sign before each.
func (w *writer) lines(sign string, text []byte) {
	for len(text) > 0 {
		n := lineLen(text)
		end := ""
		if text[n-1] != '\n' {
			end = "\n\\ No newline at end of file\n"
		}
		w.line(sign, text[:n], end)
		text = text[n:]
	}
}

func (w *writer) hunk(old, new []byte, changes []change) {
	first, last := changes[0], changes[len(changes)-1]
	from := first.old
	for range contextLines {
		if from > w.old {
			from = bytes.LastIndexByte(old[:from-1], '\n') + 1
		}
	}
	to := last.oldEnd
	for range contextLines {
		to += lineLen(old[to:])
	}
	newFrom, newTo := first.new-(first.old-from), last.newEnd+(to-last.oldEnd)

	w.oldLine += countLines(old[w.old:from])
	w.newLine += countLines(new[w.new:newFrom])
	oldCount, newCount := countLines(old[from:to]), countLines(new[newFrom:newTo])
	w.line("", fmt.Appendf(nil, "@@ -%s +%s @@", lineRange(w.oldLine, oldCount), lineRange(w.newLine, newCount)), "\n")
	at := from
	for _, c := range changes {
		w.lines(" ", old[at:c.old])
		w.lines("-", old[c.old:c.oldEnd])
		w.lines("+", new[c.new:c.newEnd])
		at = c.oldEnd
	}
	w.lines(" ", old[at:to])
	w.old, w.oldLine = to, w.oldLine+oldCount
	w.new, w.newLine = newTo, w.newLine+newCount
}

// lineRange: an empty range is named by the line before it.
func lineRange(before, count int) string {
	if count == 0 {
		return fmt.Sprintf("%d,0", before)
	}
	return fmt.Sprintf("%d,%d", before+1, count)
}

func countLines(s []byte) int {
	n := bytes.Count(s, []byte{'\n'})
	if len(s) > 0 && s[len(s)-1] != '\n' {
		n++
	}
	return n
}

// quote writes a name as git does where it has characters that would end or
// garble a line: in double quotes, with the escapes of C. Other characters
// beyond ASCII stay readable (git: core.quotePath=false).
func quote(name string) string {
	var b strings.Builder
	plain := true
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		c := name[i : i+size]
		i += size
		if r == '"' || r == '\\' {
			plain = false
			b.WriteString("\\" + c)
		} else if r == utf8.RuneError && size == 1 || !strconv.IsPrint(r) {
			plain = false
			for _, octet := range []byte(c) {
				fmt.Fprintf(&b, "\\%03o", octet)
			}
		} else {
			b.WriteString(c)
		}
	}
	if plain {
		return name
	}
	return `"` + b.String() + `"`
}
