package jobs

import (
	"github.com/belayhq/belay/internal/capture"
	"github.com/belayhq/belay/internal/proc"
)

// Last is the end of the output as it was decoded, at most max bytes of it and as
// far back as it is kept without a gap, with the position where that starts. It
// consumes nothing.
func (j *Job) Last(max int) (output []byte, from int64) { return j.output.last(int64(max)) }

func (r *record) last(limit int64) (b []byte, from int64) {
	r.mu.Lock()
	end := r.end // what comes while the disk is read may be in neither of the two then
	from = max(0, end-limit)
	var disk part
	if from < r.tail.Start() {
		r.mu.Unlock()
		r.logMu.Lock()
		if n := r.log.Len(); n > from {
			disk = part{from, make([]byte, min(n, end)-from)}
			if _, err := r.log.ReadAt(disk.b, from); err != nil {
				disk = part{}
			}
		}
		r.logMu.Unlock()
		r.mu.Lock()
	}
	defer r.mu.Unlock()
	if b = r.span(nil, disk, from, end); from+int64(len(b)) < end {
		from = r.tail.Start()
		b = r.span(nil, part{}, from, r.end)
	}
	n := capture.StartOfPart(b)
	return b[n:], from + int64(n)
}

// Resize gives the terminal of the session another size.
func (j *Job) Resize(size proc.Size) error {
	if err := j.proc.Resize(size); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.size, j.resizedAt = size, j.output.size()
	return nil
}

// Size is that of the session's terminal, zero if it has none, and the position
// in the output at which it was last changed.
func (j *Job) Size() (size proc.Size, since int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size, j.resizedAt
}
