// Package capture keeps a bounded part of a stream and counts all of it: nothing
// that goes by is lost without being counted.
//
// The values are not safe for concurrent use: their owner locks. Memory is taken
// as it is needed, up to the bound that is given at the start.
package capture

// A Tail keeps the last bytes of a stream by their position in it.
type Tail struct {
	limit int
	ring  []byte // byte p of the stream is at p % limit; grows to limit
	end   int64  // bytes of the stream so far
}

// NewTail keeps the last n bytes.
func NewTail(n int) *Tail { return &Tail{limit: max(n, 1)} }

// Start is the position of the first byte that is kept, End that after the last.
func (t *Tail) Start() int64 { return max(0, t.end-int64(t.limit)) }
func (t *Tail) End() int64   { return t.end }

// Write takes the next bytes of the stream. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	n := len(p)
	if n > t.limit { // the bytes in between would be overwritten at once
		t.end += int64(n - t.limit)
		p = p[n-t.limit:]
	}
	if need := int(min(int64(t.limit), t.end+int64(len(p)))); len(t.ring) < need {
		t.ring = grow(t.ring, need, t.limit)[:need]
	}
	for len(p) > 0 {
		k := copy(t.ring[t.end%int64(t.limit):], p)
		t.end += int64(k)
		p = p[k:]
	}
	return n, nil
}

// AppendRange appends the bytes from..to to dst, as far as they are kept.
func (t *Tail) AppendRange(dst []byte, from, to int64) []byte {
	from, to = max(from, t.Start()), min(to, t.end)
	for from < to {
		at := from % int64(t.limit)
		b := t.ring[at:min(int64(len(t.ring)), at+to-from)]
		dst = append(dst, b...)
		from += int64(len(b))
	}
	return dst
}

// grow makes room for n bytes: at least doubled, so that small writes cost no
// more than big ones, but never beyond limit, as append would.
func grow(b []byte, n, limit int) []byte {
	if n <= cap(b) {
		return b
	}
	bigger := make([]byte, len(b), min(limit, max(n, 2*cap(b), 512)))
	copy(bigger, b)
	return bigger
}
