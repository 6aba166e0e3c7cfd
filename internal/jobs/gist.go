package jobs

import (
	"bytes"
	"fmt"

	"github.com/belayhq/belay/internal/capture"
	"github.com/belayhq/belay/internal/delivery"
	"github.com/belayhq/belay/internal/termtext"
)

// A gist is what is kept of the output of a session for the message about its end: its
// beginning and its end. It outlives the record, which may be evicted before somebody
// reads the message. It does not change but by shrink.
type gist struct {
	head   []byte           // from position 0
	tail   []byte           // up to the end
	end    int64            // of the output
	before termtext.Cleaner // as it stands where tail starts
}

// condense takes what the message about the end will need. It is called once, when all
// output is there, without the lock of the table: it may read the disk.
func (j *Job) condense() {
	end := delivery.End{Status: string(j.final.State), Code: j.final.Code}
	switch {
	case j.form == delivery.None, j.form == delivery.NotifyOnExit, j.final.State == Killed:
	case j.form == delivery.Service && !end.Failed():
	default:
		j.gist = j.output.gist(int64(j.message), j.form.TailOnly())
	}
}

func (r *record) gist(limit int64, tailOnly bool) *gist {
	r.mu.Lock()
	whole := r.end <= limit
	need := limit / 2 // of the beginning
	switch {
	case tailOnly:
		need = 0
	case whole:
		need = r.end
	}
	inMemory := r.tail.Start() == 0 || need == 0
	r.mu.Unlock()
	var disk part
	if !inMemory {
		disk = r.fromDisk(0, int(need))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	g := &gist{end: r.end}
	if !tailOnly {
		g.head = r.span(nil, disk, 0, need)
		if int64(len(g.head)) < r.end {
			g.head = g.head[:capture.EndOfPart(g.head)]
		}
	}
	start := max(int64(len(g.head)), r.tail.Start(), r.end-(limit-int64(len(g.head))))
	tail := r.span(nil, part{}, start, r.end)
	n := capture.StartOfPart(tail)
	g.tail = tail[n:]
	g.before = r.before(disk, start+int64(n))
	return g
}

func (g *gist) size() int { return len(g.head) + len(g.tail) }

// shrink gives up what is over a number of bytes.
func (g *gist) shrink(limit int) {
	if limit = max(limit, 0); g.size() <= limit {
		return
	}
	head, tail, _, c := g.cut(int64(limit))
	g.head, g.tail, g.before = bytes.Clone(head), bytes.Clone(tail), c
}

// cut gives what fits into a budget of bytes: if all of it does, head is all and tail
// is empty. omitted is what is between them, and c stands where tail starts.
func (g *gist) cut(budget int64) (head, tail []byte, omitted int64, c termtext.Cleaner) {
	start := g.end - int64(len(g.tail)) // of tail
	if g.end <= budget && start == int64(len(g.head)) {
		return append(bytes.Clone(g.head), g.tail...), nil, 0, c
	}
	head, tail, c = g.head, g.tail, g.before
	if n := budget / 2; int64(len(head)) > n {
		head = head[:n]
		head = head[:capture.EndOfPart(head)]
	}
	if n := int64(len(tail)) - (budget - int64(len(head))); n > 0 {
		n += int64(capture.StartOfPart(tail[n:]))
		c.Skip(tail[:n])
		tail = tail[n:]
	}
	return head, tail, g.end - int64(len(tail)) - int64(len(head)), c
}

// text renders it as clean text of at most limit bytes.
func (g *gist) text(limit int) (text string, omitted int64) {
	if limit <= 0 {
		return "", g.end
	}
	text = termtext.Fit(limit, len(g.head)+len(g.tail), func(budget int) string {
		head, tail, left, c := g.cut(int64(budget))
		omitted = left
		out := termtext.Clean(head)
		if left > 0 {
			if len(out) > 0 && out[len(out)-1] != '\n' {
				out = append(out, '\n')
			}
			out = fmt.Appendf(out, "[... %d bytes omitted ...]\n", left)
		}
		return string(c.Flush(c.Append(out, tail)))
	})
	if len(text) > limit { // there is not even room for the note
		return "", g.end
	}
	return text, omitted
}
