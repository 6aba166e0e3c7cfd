package jobs

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/belayhq/belay/internal/delivery"
	"github.com/belayhq/belay/internal/spool"
)

// C6: the output that waits is bounded for all messages together. What is over is cut
// further, and counted; what was delivered makes room.
func TestOutputThatWaitsIsBounded_C6(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{})
	const each = delivery.MaxOutput
	most := maxGists/each + 2
	for i := range most {
		j := &Job{table: tb, id: strconv.Itoa(i), form: delivery.Background, message: each, output: newRecord(each, nil), done: make(chan struct{})}
		j.output.write(bytes.Repeat([]byte("0123456789abcde\n"), each/16))
		j.output.finish()
		j.final = Status{State: Exited, Code: 1}
		tb.mu.Lock()
		err := tb.arm(j, 0)
		j.condense()
		tb.tell(j)
		held := tb.held
		tb.mu.Unlock()
		if err != nil || held > maxGists {
			t.Fatalf("%v, %d bytes are kept", err, held)
		}
	}
	got := tb.Take(delivery.Safe)
	if len(got) != most {
		t.Fatalf("%d of %d", len(got), most)
	}
	for i, n := range got {
		text, omitted := n.Text(1 << 30)
		if whole := omitted == 0; whole != (i < most-2) || len(text) > each {
			t.Errorf("%d: %d bytes, %d omitted", i, len(text), omitted)
		}
		checkCut(t, text, omitted, each)
	}
	tb.Delivered([]string{"0", "1"})
	if tb.held > maxGists-2*each {
		t.Errorf("%d bytes are kept", tb.held)
	}
	tb.Suppress()
	if tb.held != 0 || len(tb.gists) != 0 {
		t.Errorf("%d bytes are kept", tb.held)
	}
}

// Suppress is suppressAll for a test.
func (t *Table) Suppress() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.suppressAll()
}

var omission = regexp.MustCompile(`\[\.\.\. (\d+) bytes omitted \.\.\.\]\n`)

// checkCut holds a text of plain lines to its count.
func checkCut(t *testing.T, text string, omitted int64, total int) {
	t.Helper()
	shown := len(text)
	if at := omission.FindStringSubmatchIndex(text); at != nil {
		if n, _ := strconv.ParseInt(text[at[2]:at[3]], 10, 64); n != omitted {
			t.Errorf("the note counts %d, the facts %d", n, omitted)
		}
		shown -= at[1] - at[0]
	}
	if int64(shown)+omitted != int64(total) {
		t.Errorf("%d shown and %d omitted of %d", shown, omitted, total)
	}
}

// D1, D7: whatever was printed, polled and kept on disk, a message shows a beginning and an
// end of it (or the end alone), in the room that it has, with an exact count; the same
// before and after it was cut down to less.
func FuzzGistCountsEveryByte(f *testing.F) {
	f.Add(uint16(10), uint16(100), uint16(40), uint16(60), uint16(30), false, false)
	f.Add(uint16(3000), uint16(1024), uint16(900), uint16(500), uint16(800), false, true)
	f.Add(uint16(3000), uint16(1024), uint16(900), uint16(500), uint16(800), true, true)
	f.Add(uint16(60000), uint16(2000), uint16(10000), uint16(9000), uint16(5000), false, true)
	f.Add(uint16(100), uint16(1000), uint16(0), uint16(5), uint16(0), true, false)
	f.Fuzz(func(t *testing.T, size, memory, asked, room, shrunk uint16, tailOnly, disk bool) {
		logs, err := spool.New(t.TempDir(), spool.Limits{PerLog: 4096, Total: 4096})
		if err != nil {
			t.Fatal(err)
		}
		defer logs.Close()
		log := logs.Log()
		if !disk {
			log.Remove()
		}
		r := newRecord(int(memory), log)
		var stream []byte
		for i := 0; len(stream) < int(size); i++ {
			stream = fmt.Appendf(stream, "%d.", i)
			if i%7 == 6 {
				stream = append(stream, '\n')
			}
		}
		stream = stream[:size]
		for i, part := range slices.Collect(slices.Chunk(stream, max(1, len(stream)/5))) {
			r.write(part)
			if i == 2 {
				r.poll(100, true)
			}
		}
		r.finish()
		g := r.gist(int64(asked), tailOnly)
		if g.size() > int(asked) {
			t.Fatalf("%d bytes are kept, %d were asked for", g.size(), asked)
		}
		check := func(limit int) {
			text, omitted := g.text(limit)
			if len(text) > limit {
				t.Fatalf("%d bytes, there is room for %d", len(text), limit)
			}
			if text == "" {
				if omitted != int64(size) {
					t.Fatalf("nothing shown, %d of %d omitted", omitted, size)
				}
				return
			}
			head, tail := text, ""
			if at := omission.FindStringIndex(text); at != nil {
				head, tail = text[:at[0]], text[at[1]:]
			}
			if tailOnly && omitted > 0 && head != "" {
				t.Fatalf("the beginning %q", head)
			}
			// a line that the cut ends in gets an end before the note, which the stream may have too
			bare := strings.TrimSuffix(head, "\n")
			sum := int64(len(tail)) + omitted
			exact := sum+int64(len(head)) == int64(size) && bytes.HasPrefix(stream, []byte(head)) || sum+int64(len(bare)) == int64(size) && bytes.HasPrefix(stream, []byte(bare))
			if !exact || !bytes.HasSuffix(stream, []byte(tail)) {
				t.Fatalf("%d + %d + %d of %d: %q", len(head), len(tail), omitted, size, text)
			}
			if int(asked) >= int(size) && limit >= int(size) && g.size() == int(size) && omitted != 0 {
				t.Fatalf("%d omitted, and all of it fits", omitted)
			}
		}
		for _, limit := range []int{int(asked), int(room), 1 << 20, 3, 0} {
			check(limit)
		}
		g.shrink(int(shrunk))
		if g.size() > max(int(shrunk), 0) {
			t.Fatalf("%d bytes are left of %d", g.size(), shrunk)
		}
		for _, limit := range []int{int(asked), int(room), 1 << 20} {
			check(limit)
		}
	})
}

// D1, P5: what a cut leaves open swallows nothing, and shows no payload.
func TestGistIsCutBetweenSequences_P5(t *testing.T) {
	t.Parallel()
	var stream []byte
	for i := range 4000 {
		stream = fmt.Appendf(stream, "\x1b]0;hidden %d\x07shown %d é\r\n", i, i)
	}
	for _, tailOnly := range []bool{false, true} {
		r := newRecord(len(stream), nil)
		r.write(stream)
		r.finish()
		for limit := 200; limit < 400; limit++ {
			for _, g := range []*gist{r.gist(int64(limit), tailOnly), r.gist(4000, tailOnly)} {
				text, omitted := g.text(limit)
				if strings.Contains(text, "hidden") || strings.Contains(text, "\uFFFD") || !strings.HasSuffix(text, "shown 3999 é\n") || omitted <= 0 || len(text) > limit {
					t.Fatalf("%d, %v: %q", limit, tailOnly, text)
				}
				g.shrink(limit - 20)
				if text, _ = g.text(limit); strings.Contains(text, "hidden") || strings.Contains(text, "\uFFFD") {
					t.Fatalf("%d, %v, cut down: %q", limit, tailOnly, text)
				}
			}
		}
	}
}
