package jobs

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/belayhq/belay/internal/spool"
	"github.com/belayhq/belay/internal/termtext"
)

// rig is a record with everything that ever went into it.
type rig struct {
	*record
	t   testing.TB
	dec termtext.Decoder
	all []byte // decoded
}

// newRig makes a record whose log keeps at most logBytes; 0 is none.
func newRig(t testing.TB, tail int, logBytes int64) *rig {
	t.Helper()
	var dir *spool.Dir
	if logBytes > 0 {
		var err error
		if dir, err = spool.New(t.TempDir(), spool.Limits{PerLog: logBytes}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dir.Close() })
	}
	return &rig{record: newRecord(tail, dir.Log()), t: t}
}

func (r *rig) write(p []byte) {
	r.all = r.dec.Append(r.all, p)
	r.record.write(bytes.Clone(p)) // the reader's buffer is used again
}

func (r *rig) finish() {
	r.all = r.dec.Flush(r.all)
	r.record.finish()
}

// cleaned is what a reader who knows the whole stream would see of a part of it.
func (r *rig) cleaned(from, to int64) string {
	var c termtext.Cleaner
	c.Skip(r.all[:from])
	return string(c.Flush(c.Append(nil, r.all[from:to])))
}

// take polls and checks what it got.
func (r *rig) take(limit int) {
	r.t.Helper()
	was := r.cursor
	r.checkPoll(was, limit, r.poll(limit, true))
}

var note = regexp.MustCompile(`(?m)^\[\.\.\. (\d+) bytes omitted; exec_output reads them from cursor=(\d+) \.\.\.\]\n`)

// checkPoll holds one poll against the stream: every byte is delivered or counted,
// in order, and none twice.
func (r *rig) checkPoll(was int64, limit int, p Piece) {
	r.t.Helper()
	end := int64(len(r.all))
	if p.Cursor != end || r.cursor != end {
		r.t.Fatalf("cursor %d (%d) after a poll of %d bytes", p.Cursor, r.cursor, end)
	}
	if len(p.Text) > limit {
		r.t.Fatalf("poll(%d) gave %d bytes", limit, len(p.Text))
	}
	checkInert(r.t, p.Text)
	if p.Omitted == 0 {
		if want := r.cleaned(was, end); p.Text != want {
			r.t.Fatalf("poll %d..%d gave %q, not %q", was, end, p.Text, want)
		}
		return
	}
	if p.Text == "" {
		if p.Omitted != end-was {
			r.t.Fatalf("poll %d..%d gave nothing and counts %d", was, end, p.Omitted)
		}
		return
	}
	m := note.FindStringSubmatchIndex(p.Text)
	if m == nil {
		r.t.Fatalf("poll(%d) omitted %d and does not say so: %q", limit, p.Omitted, p.Text)
	}
	omitted, gap := number(p.Text[m[2]:m[3]]), number(p.Text[m[4]:m[5]])
	if omitted != p.Omitted || gap < was || gap+omitted > end {
		r.t.Fatalf("poll %d..%d: note %q, omitted %d", was, end, p.Text[m[0]:m[1]], p.Omitted)
	}
	head, tail := p.Text[:m[0]], p.Text[m[1]:]
	if want := r.cleaned(was, gap); head != want && head != want+"\n" {
		r.t.Fatalf("head %d..%d is %q, not %q", was, gap, head, want)
	}
	// where a sequence is open at the cut, only the whole stream tells: see
	// TestLongSequencesStayHidden
	if want := r.cleaned(gap+omitted, end); tail != want && r.end <= r.memory {
		r.t.Fatalf("tail %d..%d is %q, not %q", gap+omitted, end, tail, want)
	}
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// checkPage holds one page against the stream.
func (r *rig) checkPage(asked int64, limit int, p Page, exact bool) {
	r.t.Helper()
	end := int64(len(r.all))
	want := asked
	if want < 0 {
		want = max(0, end+want)
	}
	want = min(want, end)
	switch {
	case p.End != end, p.Cursor-p.Omitted != want, p.Omitted < 0, p.Next < p.Cursor, p.Next > end:
		r.t.Fatalf("page(%d, %d) of %d: cursor %d next %d end %d omitted %d", asked, limit, end, p.Cursor, p.Next, p.End, p.Omitted)
	case p.Next == p.Cursor && p.Next < end:
		r.t.Fatalf("page(%d, %d) of %d does not advance from %d", asked, limit, end, p.Next)
	case len(p.Text) > limit && (p.Next-p.Cursor > utf8.UTFMax || len(p.Text) > 255+utf8.UTFMax):
		r.t.Fatalf("page(%d, %d) gave %d bytes", asked, limit, len(p.Text))
	case p.Cursor < end && !utf8.RuneStart(r.all[p.Cursor]), p.Next < end && !utf8.RuneStart(r.all[p.Next]):
		r.t.Fatalf("page(%d, %d) cuts a character: %d..%d", asked, limit, p.Cursor, p.Next)
	}
	checkInert(r.t, p.Text)
	if w := r.cleaned(p.Cursor, p.Next); exact && p.Text != w {
		r.t.Fatalf("page(%d, %d) %d..%d is %q, not %q", asked, limit, p.Cursor, p.Next, p.Text, w)
	}
}

func checkInert(t testing.TB, s string) {
	t.Helper()
	for _, c := range s {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			t.Fatalf("%q got through: %q", c, s)
		}
	}
}

// pieces are what output is made of, plain and not.
var (
	plain = []string{"a", "bc", " ", "\n", "é", "世界", "😀", "word ", "line\n", strings.Repeat("x", 90) + "\n"}
	weird = []string{"\r", "\b", "\t", "\x1b[31m", "\x1b[2J", "\x1b]52;c;c2VjcmV0\a", "\x1b]0;title\x1b\\", "\x1bP q\x1b\\", "\x9b", "\xe2\x82", "\xff",
		"\u202e", "\u200b", "\x1b[200C", "\x1b", "\x00", "\u009b31m", "\xf0\x9f"}
)

func output(rng *rand.Rand, from []string) []byte {
	var b []byte
	for range 1 + rng.IntN(12) {
		b = append(b, from[rng.IntN(len(from))]...)
	}
	if rng.IntN(8) == 0 {
		b = bytes.Repeat(b, 1+rng.IntN(40))
	}
	return b
}

// P5, SE-09: under any order of writes and polls each byte of the stream is
// delivered once or counted as omitted, in order, and no reply is over its budget.
func TestPollDeliversOrCounts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(1, seed))
		from := plain
		if seed%3 == 0 {
			from = append(append([]string{}, plain...), weird...)
		}
		r := newRig(t, []int{64, 1 << 10, 64_000}[seed%3], 0)
		for range 60 {
			if rng.IntN(3) > 0 {
				r.write(output(rng, from))
				continue
			}
			limit := []int{0, 1, 4, 7, 60, 100, 200, 1000, 24_000, 45_000}[rng.IntN(10)]
			was := r.cursor
			if rng.IntN(3) == 0 { // looking takes nothing
				seen := r.poll(limit, false)
				if r.cursor != was {
					t.Fatal("a look moved the cursor")
				}
				p := r.poll(limit, true)
				if seen != p {
					t.Fatalf("a look saw %+v, the poll gave %+v", seen, p)
				}
				r.checkPoll(was, limit, p)
				continue
			}
			r.take(limit)
		}
		r.finish()
		r.take(45_000)
	}
}

// SE-06, SE-08, P6, P7: pages join to the whole stream while all of it is kept, in memory
// or on disk; where a part is gone the page says how much, and goes on behind it.
func TestPagesJoinAndNameTheGaps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		tail           int
		log            int64
		size           int
		whole          bool
		first, omitted int64 // of the pages joined: bytes in front of the gap, and in it
	}{
		{"memory", 64_000, 0, 60_000, true, 0, 0},
		{"disk", 1 << 10, 1 << 20, 200_000, true, 0, 0},
		{"no disk", 1 << 10, 0, 50_000, false, 0, 50_000 - 1<<10},
		{"full log", 1 << 10, 10_000, 50_000, false, 10_000, 50_000 - 10_000 - 1<<10},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(8) {
				rng := rand.New(rand.NewPCG(2, seed))
				r := newRig(t, c.tail, c.log)
				for len(r.all) < c.size {
					r.write(output(rng, plain[:8]))
					if rng.IntN(10) == 0 {
						r.poll(1000, true)
					}
				}
				r.finish()
				r.poll(10, true) // what waits to be polled is kept too; now nothing does
				var joined []byte
				var omitted int64
				for at, n := int64(0), 0; at < r.end; n++ {
					if n > c.size {
						t.Fatal("the pages do not end")
					}
					limit := 4 + rng.IntN(30_000)
					p := r.page(at, limit)
					r.checkPage(at, limit, p, true)
					joined = append(joined, p.Text...)
					omitted += p.Omitted
					at = p.Next
				}
				slack := int64(len(r.all)-c.size) + 8 // the last write, and characters that a border would cut
				switch {
				case c.whole && (omitted != 0 || !bytes.Equal(joined, r.all)):
					t.Fatalf("%d of %d bytes, %d omitted", len(joined), len(r.all), omitted)
				case !c.whole && (int64(len(joined))+omitted != r.end || omitted < c.omitted || omitted > c.omitted+slack):
					t.Fatalf("%d of %d bytes, %d omitted, not %d", len(joined), len(r.all), omitted, c.omitted)
				case !bytes.HasPrefix(joined, r.all[:max(0, c.first-8)]):
					t.Fatal("the first bytes are not there")
				}
			}
		})
	}
}

// SE-08: what waits to be polled is kept longer than the tail, up to a whole character.
func TestWhatWaitsToBePolledIsKept(t *testing.T) {
	t.Parallel()
	for shift := range 3 {
		r := newRig(t, 64, 0)
		r.write([]byte(strings.Repeat("x", shift)))
		for range 10_000 {
			r.write([]byte("世"))
		}
		kept := int64(pollHead - (pollHead-shift)%3)
		if p := r.page(0, 45_000); p.Next != kept || p.Text != string(r.all[:kept]) {
			t.Errorf("%d: next %d, %d bytes", shift, p.Next, len(p.Text))
		}
		p := r.page(kept-4, 45_000)
		r.checkPage(kept-4, 45_000, p, true)
		p = r.page(p.Next, 45_000)
		if p.Omitted < 4000 || p.Next != r.end {
			t.Errorf("%d: %+v", shift, p)
		}
		if p := r.poll(45_000, true); !strings.HasPrefix(p.Text, string(r.all[:20_001])) || !strings.HasSuffix(p.Text, "世世世") {
			t.Errorf("%d: %.40q…%.40q", shift, p.Text, p.Text[len(p.Text)-40:])
		}
	}
}

// SE-08, P6: a page that catches up with a writer invents no gap: what goes from memory to
// disk while the disk is read is still there for the next page.
func TestPageAtTheEndOfAFlood(t *testing.T) {
	t.Parallel()
	r := newRig(t, 16, 8<<20)
	line := []byte(strings.Repeat("a line ", 3) + "\n")
	r.record.write(line)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 15_000 {
			r.record.write(line)
		}
		r.record.finish()
	})
	for range 4 {
		wg.Go(func() {
			for range 4_000 {
				if p := r.page(r.size(), 100); p.Omitted != 0 {
					t.Errorf("%+v", p)
					break
				}
				if b, from := r.last(200); from > 0 && len(b) < 198 || from == 0 && len(b) == 0 {
					t.Errorf("the last 200 bytes are %d from %d", len(b), from)
					break
				}
			}
		})
	}
	wg.Wait()
}

// SE-08: a cursor may be negative, beyond the end, or within a character.
func TestPageTakesAnyCursor(t *testing.T) {
	t.Parallel()
	r := newRig(t, 64, 0)
	r.write([]byte("aé世😀z"))
	for _, c := range []struct{ asked, cursor, omitted int64 }{
		{0, 0, 0}, {1, 1, 0}, {2, 3, 1}, {4, 6, 2}, {5, 6, 1}, {7, 10, 3}, {9, 10, 1}, {10, 10, 0}, {11, 11, 0}, {12, 11, 0},
		{math.MaxInt64, 11, 0}, {-1, 10, 0}, {-2, 10, 1}, {-5, 6, 0}, {-11, 0, 0}, {-12, 0, 0}, {math.MinInt64, 0, 0},
	} {
		p := r.page(c.asked, 100)
		if p.Cursor != c.cursor || p.Omitted != c.omitted || p.Next != 11 || p.Text != string(r.all[c.cursor:]) {
			t.Errorf("page(%d): %+v", c.asked, p)
		}
	}
	if p := newRig(t, 64, 0).page(5, 100); p != (Page{}) {
		t.Errorf("of nothing: %+v", p)
	}
}

// The pages join also where there is less room in one than a character needs that is spelled out.
func TestSmallPagesJoin(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1<<10, 1<<10)
	r.write([]byte("a\u202eb\u200b😀\x1b[9Cc\nd\x00"))
	r.finish()
	for limit := range 12 {
		var joined string
		for at, n := int64(0), 0; at < r.end; n++ {
			p := r.page(at, limit)
			r.checkPage(at, limit, p, true)
			joined += p.Text
			if at = p.Next; n > 100 {
				t.Fatal("the pages do not end")
			}
		}
		if !strings.Contains(joined, "<U+202E>") || !strings.Contains(joined, "<U+200B>") {
			t.Errorf("with %d bytes a page: %q", limit, joined)
		}
	}
}

// P5, SE-29, SH-29, SH-31: a character that comes in pieces is whole, one that never ends is U+FFFD.
func TestCharactersAreNotDamaged(t *testing.T) {
	t.Parallel()
	r := newRig(t, 64, 0)
	var got string
	for _, c := range []byte("A\u2264B\U0001f600\n") {
		r.write([]byte{c})
		got += r.poll(100, true).Text
	}
	r.write([]byte("ok\xe2\x82"))
	got += r.poll(100, true).Text
	r.finish()
	got += r.poll(100, true).Text
	if want := "A\u2264B\U0001f600\nok\ufffd"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	if p := r.page(0, 100); p.Text != got || p.Next != p.End {
		t.Errorf("%+v", p)
	}
}

// SE-41, P5: a sequence that is split over polls or pages shows nothing of itself.
func TestSplitSequencesStayHidden(t *testing.T) {
	t.Parallel()
	for _, seq := range []string{
		"\x1b]52;c;c2VjcmV0\a", "\x1b]0;secret\x1b\\", "\x1bPsecret\x1b\\", "\x1b_secret\x1b\\", "\x1b[38;5;123m", "\u009b31m", "\u009dsecret\u009c",
	} {
		text := "a" + seq + "b"
		for cut := range len(text) {
			r := newRig(t, 1<<10, 0)
			r.write([]byte(text[:cut]))
			polled := r.poll(100, true).Text
			r.write([]byte(text[cut:]))
			polled += r.poll(100, true).Text
			if polled != "ab" {
				t.Errorf("%q cut at %d polled as %q", text, cut, polled)
			}
			for limit := 4; limit < len(text); limit++ {
				var paged string
				for at := int64(0); at < r.end; {
					p := r.page(at, limit)
					paged, at = paged+p.Text, p.Next
				}
				if paged != "ab" {
					t.Errorf("%q in pages of %d is %q", text, limit, paged)
				}
			}
		}
	}
}

// P5: so does one that is longer than any page: an image, a clipboard, a title, wherever
// a page begins, and where a flood left no room for its start.
func TestLongSequencesStayHidden(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789 the quick brown fox")
	data := base64.StdEncoding.EncodeToString(bytes.Repeat(secret, 10_000)) // 400 KB without a blank
	lines := regexp.MustCompile(`.{76}`).ReplaceAllString(data, "$0\r\n")
	for name, seq := range map[string]string{
		"clipboard": "\x1b]52;c;" + data + "\a",
		"image":     "\x1bPq" + data + "\x1b\\",
		"lines":     "\x1b]1337;File=inline=1:" + lines + "\a",
		"title":     "\x1b]0;" + strings.Repeat("a title without an end ", 10_000) + "\a",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := strings.Repeat("a line of text\n", 3000)
			r := newRig(t, 64_000, 1<<20)
			var polled string
			for b := []byte(before + seq + "after\n"); len(b) > 0; {
				n := min(len(b), 30_000)
				r.write(b[:n])
				polled += r.poll(45_000, true).Text
				b = b[n:]
			}
			if polled != before+"after\n" {
				t.Errorf("polled %d bytes, not %d", len(polled), len(before)+6)
			}
			for _, at := range []int64{int64(len(before)) + 20, 100_000, 150_000, r.end - 60_000, r.end - 5000} {
				if p := r.page(at, 20_000); p.Text != r.cleaned(p.Cursor, p.Next) {
					t.Errorf("the page at %d shows %.60q", at, p.Text)
				}
			}

			r = newRig(t, 64_000, 0)
			for b := []byte(before + before + seq[:40_000]); len(b) > 0; b = b[min(len(b), 60_000):] {
				r.write(b[:min(len(b), 60_000)])
			}
			if p := r.poll(24_000, true); p.Omitted == 0 || strings.Contains(p.Text, seq[30_000:30_020]) {
				t.Errorf("the end of a flood shows the payload: %.80q", p.Text[len(p.Text)-80:])
			}
		})
	}
}

// P6, P8: what cannot be written or read is counted, never an error; a record whose
// log is gone still has its last bytes.
func TestLostLogIsCounted(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(r *rig, d *spool.Dir){
		"removed": func(r *rig, d *spool.Dir) { r.drop() },
		"closed":  func(r *rig, d *spool.Dir) { d.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := spool.New(t.TempDir(), spool.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			r := &rig{record: newRecord(1<<10, dir.Log()), t: t}
			for i := range 1000 {
				r.write(fmt.Appendf(nil, "line %d\n", i))
			}
			r.poll(10, true)
			if p := r.page(0, 100); p.Omitted != 0 || !strings.HasPrefix(p.Text, "line 0\n") {
				t.Fatalf("%+v", p)
			}
			lose(r, dir)
			for i := range 10 {
				r.write(fmt.Appendf(nil, "more %d\n", i))
			}
			p := r.page(0, 2000)
			r.checkPage(0, 2000, p, true)
			if p.Omitted != r.end-1<<10 && p.Omitted != r.end-1<<10+1 || !strings.HasSuffix(p.Text, "more 9\n") {
				t.Fatalf("%+v", p)
			}
		})
	}
}

// P5: one writer and any number of readers at a time (for the race detector).
func TestReadersAndWriter(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1<<10, 1<<20)
	const lines = 3000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range lines {
			r.record.write(fmt.Appendf(nil, "%06d é\n", i))
		}
		r.record.finish()
	}()
	var wg sync.WaitGroup
	var got []byte
	wg.Go(func() {
		for open := true; open; {
			select {
			case <-done:
				open = false
			default:
			}
			for p := r.page(int64(len(got)), 777); p.Text != ""; p = r.page(int64(len(got)), 777) {
				if p.Omitted != 0 {
					t.Errorf("omitted %d at %d", p.Omitted, len(got))
					return
				}
				got = append(got, p.Text...)
			}
		}
	})
	var sum int64
	wg.Go(func() {
		for open := true; open; {
			select {
			case <-done:
				open = false
			default:
			}
			was := r.size()
			p := r.poll(500, true)
			if p.Cursor < was {
				t.Errorf("a poll went back from %d to %d", was, p.Cursor)
			}
			n := int64(len(p.Text))
			if p.Omitted > 0 {
				if m := note.FindStringIndex(p.Text); m != nil {
					n -= int64(m[1] - m[0])
				}
			}
			sum += n + p.Omitted
		}
	})
	wg.Go(func() {
		for range 200 {
			r.size()
			r.unpolled()
			r.poll(100, false)
		}
	})
	wg.Wait()
	if want := int64(lines * len("000000 é\n")); int64(len(got)) != want || sum != want {
		t.Errorf("paged %d, polled and omitted %d, of %d", len(got), sum, want)
	}
	for i := range lines {
		if line := fmt.Sprintf("%06d é\n", i); string(got[i*len(line):(i+1)*len(line)]) != line {
			t.Fatalf("line %d is %q", i, got[i*len(line):(i+1)*len(line)])
		}
	}
}

// P5, P6, P7, SE-09: for any output and any order of writes, polls and pages nothing is
// lost that is not counted, nothing is over its budget and nothing acts on a terminal;
// while all is kept, what is shown is what a reader of the whole would see.
func FuzzPollAndPageLoseNothing(f *testing.F) {
	f.Add([]byte("\x00hello\xff\x01\x10\x02\x00\x20"), uint16(64), uint16(0))
	f.Add([]byte("\x09\x1b]52;c;c2VjcmV0\xff\x01\x08\x05\x07bbb\x07\xff\x01\xf0"), uint16(1000), uint16(4000))
	f.Add([]byte("\x05\xe2\x82\xff\x01\x40\x05\xac\xff\x01\x40"), uint16(16), uint16(20))
	f.Add(bytes.Repeat([]byte("\x30a line of text that is longer\nand é\xff\x02\x08\x10\x01\x07"), 30), uint16(100), uint16(300))
	f.Fuzz(func(t *testing.T, script []byte, tail, logBytes uint16) {
		tail = max(tail, 16)
		if len(script) > 2000 {
			script = script[:2000]
		}
		r := newRig(t, int(tail), int64(logBytes))
		next := func() int {
			if len(script) == 0 {
				return 0
			}
			b := script[0]
			script = script[1:]
			return int(b)
		}
		for len(script) > 0 {
			switch op := next(); op % 4 {
			case 0, 1: // write; some of it many times
				n := min(len(script), 1+op/4)
				p := script[:n]
				script = script[n:]
				if op > 200 {
					p = bytes.Repeat(p, 50)
				}
				r.write(p)
			case 2:
				r.take(next() * (1 + op))
			case 3:
				asked, limit := int64(int8(next()))*int64(1+op), next()*(1+op)
				// All is known as long as the log goes on, and looking back reaches the start.
				whole := int64(len(r.all)) <= max(int64(tail), int64(logBytes)) && int64(len(r.all)) < lookBacks[0]
				p := r.page(asked, limit)
				r.checkPage(asked, limit, p, whole)
				if whole && p.Cursor > 0 && p.Omitted > 3 {
					t.Fatalf("page(%d) of %d: %d omitted", asked, r.end, p.Omitted)
				}
			}
		}
		r.finish()
		r.take(1 << 20)
	})
}

var errNone *spool.Error

// C6: limits of the logs are checked at the start.
func TestLimitsAreChecked(t *testing.T) {
	t.Parallel()
	for _, l := range []Limits{{LogBytes: -1}, {LogBytes: spool.MaxPerLog + 1}, {LogTotal: spool.MaxTotal + 1}} {
		if tb, err := New(l); !errors.As(err, &errNone) || tb != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
}
