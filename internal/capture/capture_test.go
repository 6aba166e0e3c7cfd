package capture

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// text is a stream of n bytes, valid UTF-8 with characters of every length.
func text(n int, rng *rand.Rand) []byte {
	var b []byte
	for len(b) < n {
		b = append(b, []string{"a", "\u00e9", "\u4f60", "\U0001f600", "\n", "word "}[rng.IntN(6)]...)
	}
	for b = b[:n]; !utf8.Valid(b); {
		b = b[:len(b)-1]
	}
	for len(b) < n {
		b = append(b, 'z')
	}
	return b
}

// P7: the last bytes, by position, whatever the sizes of the writes.
func TestP7_TailKeepsTheLastBytes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		limit := 1 + rng.IntN(50)
		tail := NewTail(limit)
		var all []byte
		for range 1 + rng.IntN(20) {
			p := text(rng.IntN(3*limit), rng)
			if n, err := tail.Write(p); n != len(p) || err != nil {
				t.Fatalf("Write: %d, %v", n, err)
			}
			all = append(all, p...)
			start := max(0, len(all)-limit)
			if tail.Start() != int64(start) || tail.End() != int64(len(all)) {
				t.Fatalf("seed %d: %d..%d, want %d..%d", seed, tail.Start(), tail.End(), start, len(all))
			}
			from, to := rng.IntN(len(all)+3)-1, rng.IntN(len(all)+3)
			want := []byte("x")
			if a, b := max(from, start), min(to, len(all)); a < b {
				want = append(want, all[a:b]...)
			}
			if got := tail.AppendRange([]byte("x"), int64(from), int64(to)); !bytes.Equal(got, want) {
				t.Fatalf("seed %d: %d..%d: got %q, want %q", seed, from, to, got, want)
			}
			if cap(tail.ring) > limit {
				t.Fatalf("seed %d: %d bytes of memory for %d", seed, cap(tail.ring), limit)
			}
		}
	}
}

// S4, C6: head and tail within the budget, on character borders, and every byte
// either there or counted.
func TestS4_HeadTailCountsEveryByte(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		limit := 2 + rng.IntN(200)
		h := NewHeadTail(limit)
		all := text(rng.IntN(3*limit), rng)
		for rest := all; len(rest) > 0; {
			n := 1 + rng.IntN(len(rest))
			h.Write(rest[:n])
			rest = rest[n:]
		}
		if h.Total() != int64(len(all)) {
			t.Fatalf("seed %d: total %d of %d", seed, h.Total(), len(all))
		}
		if n := cap(h.head) + cap(h.tail.ring); n > limit {
			t.Fatalf("seed %d: %d bytes of memory for %d", seed, n, limit)
		}
		for _, budget := range []int{-1, 0, 1, 3, rng.IntN(limit), limit, 2 * limit, 3 * limit} {
			before := rng.IntN(20)
			c := h.Cut(budget, before)
			where := fmt.Sprintf("seed %d, limit %d, budget %d of %d", seed, limit, budget, len(all))
			if len(c.Head)+len(c.Tail) > max(budget, 0) {
				t.Fatalf("%s: %d + %d bytes", where, len(c.Head), len(c.Tail))
			}
			if len(all) <= min(limit, budget) && (c.Omitted != 0 || !bytes.Equal(c.Head, all)) {
				t.Fatalf("%s: fits, and was not given whole", where)
			}
			if c.Omitted == 0 && len(c.Tail) > 0 {
				t.Fatalf("%s: a tail behind nothing omitted", where)
			}
			if int64(len(c.Head))+c.Omitted+int64(len(c.Tail)) != int64(len(all)) {
				t.Fatalf("%s: %d + %d + %d", where, len(c.Head), c.Omitted, len(c.Tail))
			}
			if !bytes.HasPrefix(all, c.Head) || !bytes.HasSuffix(all, c.Tail) {
				t.Fatalf("%s: %q … %q of %q", where, c.Head, c.Tail, all)
			}
			if !utf8.Valid(c.Head) || !utf8.Valid(c.Tail) {
				t.Fatalf("%s: a character was split: %q … %q", where, c.Head, c.Tail)
			}
			if front := all[:len(all)-len(c.Tail)]; len(c.Before) > before || c.Omitted > 0 && !bytes.HasSuffix(front, c.Before) {
				t.Fatalf("%s: before %q", where, c.Before)
			}
			// At most a line's half and three bytes at each border go unused.
			if kept := min(budget, limit); c.Omitted > 0 && kept > 8 && len(c.Head)+len(c.Tail) < kept/2-8 {
				t.Fatalf("%s: only %d + %d bytes used", where, len(c.Head), len(c.Tail))
			}
			// The caller's own.
			clear(c.Head)
			clear(c.Tail)
			clear(c.Before)
			if again := h.Cut(budget, before); !bytes.HasPrefix(all, again.Head) || !bytes.HasSuffix(all, again.Tail) {
				t.Fatalf("%s: a cut shares memory", where)
			}
		}
	}
}

// S4: bytes that are no UTF-8 are cut by count and never dropped for it.
func TestCutOfOtherBytes(t *testing.T) {
	t.Parallel()
	h := NewHeadTail(20)
	h.Write(bytes.Repeat([]byte{0x80}, 100))
	c := h.Cut(20, 0)
	if len(c.Head) != 10 || len(c.Tail) != 10 || c.Omitted != 80 {
		t.Fatalf("%d, %d, %d", len(c.Head), c.Omitted, len(c.Tail))
	}
}

func TestPartsEndAndStartAtBorders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in         string
		end, start int
	}{
		{"", 0, 0},
		{"abc", 3, 0},
		{"ab\ncd", 3, 0},
		{"a\nbcdef", 7, 0}, // a line end in the first half costs too much
		{"ab\xe4\xbd", 2, 0},
		{"ab\xf0\x9f\x98", 2, 0},
		{"ab\xff", 3, 0},
		{"\xbd\xa0ab", 4, 2},
		{"\x9f\x98\x80ab", 5, 3},
		{"\xbd\xa0", 2, 2},
		{"\x80\x80\x80\x80ab", 6, 0}, // no character ends like that
		{"\n", 1, 0},
	} {
		if got := EndOfPart([]byte(c.in)); got != c.end {
			t.Errorf("EndOfPart(%q) = %d, want %d", c.in, got, c.end)
		}
		if got := StartOfPart([]byte(c.in)); got != c.start {
			t.Errorf("StartOfPart(%q) = %d, want %d", c.in, got, c.start)
		}
	}
}

func TestIdleStreamsCostNothing(t *testing.T) { // counts allocations: not parallel
	h := NewHeadTail(1 << 20)
	if h.head != nil || h.tail.ring != nil {
		t.Fatal("memory before the first byte")
	}
	h.Write([]byte(strings.Repeat("x", 100)))
	if n := cap(h.head) + cap(h.tail.ring); n > 4096 {
		t.Fatalf("%d bytes of memory for 100", n)
	}
	h.Write(make([]byte, 4<<20))
	p := make([]byte, 64<<10)
	if n := testing.AllocsPerRun(50, func() { h.Write(p) }); n != 0 {
		t.Fatalf("%v allocations a write", n)
	}
}

func BenchmarkHeadTail(b *testing.B) {
	h := NewHeadTail(262144)
	p := make([]byte, 64<<10)
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		h.Write(p)
	}
}
