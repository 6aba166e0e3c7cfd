package termtext

import (
	"strings"
	"testing"
)

// The result fits, the last call of render is the one that counts, and room is
// used where cleaning leaves little.
func TestFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		limit, most int
		shown       func(budget int) int // bytes that so many bytes of the source become
		want        int                  // the budget that counts
	}{
		{"as long", 1000, 5000, func(n int) int { return n }, 1000},
		{"three times", 1000, 5000, func(n int) int { return 3 * n }, 333},
		{"a note", 1000, 5000, func(n int) int { return n + 40 }, 874},
		{"a tenth of little", 1000, 5000, func(n int) int { return n / 10 }, 5000},
		{"a tenth of much", 1000, 1 << 20, func(n int) int { return n / 10 }, 8000},
		{"nothing", 1000, 1 << 20, func(int) int { return 0 }, 1 << 20},
		{"short at first", 1000, 1 << 20, func(n int) int { return max(n/100, min(n-2000, 1<<20)) }, 2000},
		{"no more there", 1000, 800, func(n int) int { return n / 10 }, 1000},
		{"too large", 10, 1000, func(int) int { return 50 }, 4},
		{"no room", 0, 1000, func(n int) int { return n }, 0},
		{"no room, nothing", 0, 100, func(int) int { return 0 }, 100},
	} {
		calls, last := 0, -1
		text := Fit(c.limit, c.most, func(budget int) string {
			calls++
			last = budget
			return strings.Repeat("x", c.shown(budget))
		})
		if last != c.want || len(text) != c.shown(last) || calls > 40 {
			t.Errorf("%s: %d bytes of %d, after %d calls", c.name, len(text), last, calls)
		}
	}
}
