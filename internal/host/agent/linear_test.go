package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/host/model/scripted"
	"github.com/belayhq/belay/internal/host/transcript"
)

// A conversation of that many turns, each with a result of 100 KiB.
func turnsOf100KiB(tb testing.TB, dir string, turns int) time.Duration {
	tb.Helper()
	if err := os.WriteFile(filepath.Join(dir, "big"), []byte(strings.Repeat("0123456789abcde\n", 6400)), 0o600); err != nil {
		tb.Fatal(err)
	}
	script := fmt.Sprintf(`{"text":"again","calls":[{"name":"read","args":{"path":"big","limit":102400}}],"repeat":%d}`+"\n"+`{"text":"done"}`, turns-1)
	p, err := scripted.Parse(strings.NewReader(script))
	if err != nil {
		tb.Fatal(err)
	}
	s, err := coding.New(coding.Config{Root: dir, Shell: "/bin/sh"})
	if err != nil {
		tb.Fatal(err)
	}
	defer s.Close()
	tr := transcript.In(filepath.Join(dir, "conversations")).New(dir)
	defer tr.Close()
	a := New(Config{Model: p, Suite: s, Transcript: tr, Event: func(Event) {}})
	defer a.Close()
	began := time.Now()
	if err := a.Prompt("go"); err != nil {
		tb.Fatal(err)
	}
	if err := a.Wait(context.Background()); err != nil {
		tb.Fatal(err)
	}
	if o := a.Outcome(); o.Text != "done" || o.Err != nil || o.Requests != turns {
		tb.Fatalf("%+v", o)
	}
	return time.Since(began)
}

func BenchmarkTurns(b *testing.B) {
	for _, n := range []int{500, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				turnsOf100KiB(b, b.TempDir(), n)
			}
		})
	}
}

// 1,000 turns take at most 2.3 times of 500, and at most 150 MB with the bound that the
// program sets on its heap.
func TestTurnsAreLinear(t *testing.T) {
	if os.Getenv("BELAY_TEST_LONG") == "" {
		t.Skip("long: BELAY_TEST_LONG=1")
	}
	took := map[int]time.Duration{}
	for range 3 {
		for _, n := range []int{500, 1000} {
			out := helperOutput(t, "turns", t.TempDir(), strconv.Itoa(n), strconv.Itoa(120<<20))
			var ms, mb int64
			if _, err := fmt.Sscan(out, &ms, &mb); err != nil {
				t.Fatalf("%q: %v", out, err)
			}
			d := time.Duration(ms) * time.Millisecond
			if took[n] == 0 || d < took[n] {
				took[n] = d
			}
			t.Logf("%d turns: %v, peak %d MB", n, d, mb)
			if mb > 150 {
				t.Errorf("%d turns have a peak of %d MB", n, mb)
			}
		}
	}
	if ratio := float64(took[1000]) / float64(took[500]); ratio > 2.3 {
		t.Errorf("1,000 turns take %.2f times of 500", ratio)
	}
}

// peak is the most memory that the process had, in bytes; 0 where nobody tells.
func peak() int64 {
	b, _ := os.ReadFile("/proc/self/status")
	_, rest, ok := strings.Cut(string(b), "VmHWM:")
	f := strings.Fields(rest)
	if !ok || len(f) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(f[0], 10, 64)
	return n << 10
}

func init() {
	helpers["turns"] = func(args []string) {
		n, _ := strconv.Atoi(args[1])
		limit, _ := strconv.ParseInt(args[2], 10, 64)
		debug.SetMemoryLimit(limit)
		var t testing.B
		d := turnsOf100KiB(&t, args[0], n)
		fmt.Println(d.Milliseconds(), peak()/1e6)
	}
}
