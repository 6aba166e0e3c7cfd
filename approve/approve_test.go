package approve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/belayhq/belay/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type askFunc func(ctx context.Context, p tool.Prompt) (bool, error)

func (f askFunc) Ask(ctx context.Context, p tool.Prompt) (bool, error) { return f(ctx, p) }

func says(yes bool, err error) Asker {
	return askFunc(func(context.Context, tool.Prompt) (bool, error) { return yes, err })
}

var yes = says(true, nil)

// P9, AP-10: the effect runs after an explicit yes, and in no other case.
func TestOnlyYesIsYes(t *testing.T) {
	t.Parallel()
	var none Asker
	for _, c := range []struct {
		name  string
		asker Asker
		want  error
	}{
		{"yes", yes, nil},
		{"no", says(false, nil), ErrDenied},
		{"nobody to ask", none, ErrUnavailable},
		{"cannot be shown", says(false, fmt.Errorf("no elicitation: %w", ErrUnavailable)), ErrUnavailable},
		{"cannot be shown, and yes", says(true, ErrUnavailable), ErrUnavailable},
		{"the client gave up", says(false, ErrTimeout), ErrTimeout},
		{"end of input", says(false, io.EOF), ErrDenied},
		{"yes with an error", says(true, io.ErrUnexpectedEOF), ErrDenied},
		{"an error of its own context", says(true, context.Canceled), ErrDenied},
		{"panic", askFunc(func(context.Context, tool.Prompt) (bool, error) { panic("canary") }), ErrDenied},
		{"nil panic", askFunc(func(context.Context, tool.Prompt) (bool, error) { var p *int; return *p == 0, nil }), ErrDenied},
		{"goroutine ends", askFunc(func(context.Context, tool.Prompt) (bool, error) { runtime.Goexit(); return true, nil }), ErrDenied},
	} {
		g := New(0)
		ran := 0
		prompt := tool.Prompt{Reason: "input", SessionID: "s", Shown: c.name}
		asker := c.asker
		if asker != nil {
			asker = askFunc(func(ctx context.Context, p tool.Prompt) (bool, error) {
				if p != prompt {
					t.Errorf("%s: was shown %+v", c.name, p)
				}
				return c.asker.Ask(ctx, p)
			})
		}
		err := g.Do(context.Background(), asker, prompt, "s", func(context.Context) error { ran++; return nil })
		if !errors.Is(err, c.want) || (ran == 1) != (c.want == nil) || ran > 1 {
			t.Errorf("%s: %v, ran %d times", c.name, err, ran)
		}
		// the gate is usable afterwards, and holds nothing
		if err := g.Do(context.Background(), yes, tool.Prompt{}, "s", func(context.Context) error { return nil }); err != nil || len(g.subjects) != 0 {
			t.Errorf("%s, afterwards: %v, %d subjects", c.name, err, len(g.subjects))
		}
	}
}

// The effect's own error is told as it is, and its panic leaves nothing held.
func TestEffects(t *testing.T) {
	t.Parallel()
	g := New(time.Second)
	if err := g.Do(context.Background(), yes, tool.Prompt{}, 1, func(context.Context) error { return io.ErrShortWrite }); err != io.ErrShortWrite {
		t.Error(err)
	}
	func() {
		defer func() { recover() }()
		g.Do(context.Background(), yes, tool.Prompt{}, 1, func(context.Context) error { panic(1) })
	}()
	if err := g.Do(context.Background(), yes, tool.Prompt{}, 1, func(context.Context) error { return nil }); err != nil || len(g.subjects) != 0 {
		t.Error(err, g.subjects)
	}
}

func TestTimeoutIsAtMostAMinute(t *testing.T) {
	t.Parallel()
	for given, want := range map[time.Duration]time.Duration{0: MaxTimeout, -1: MaxTimeout, time.Hour: MaxTimeout, time.Second: time.Second, MaxTimeout: time.Minute} {
		if got := New(given).Timeout(); got != want {
			t.Errorf("New(%v): %v", given, got)
		}
	}
}

// P10: 60 seconds from the showing refuse, to the moment; a later yes cannot do
// anything, however it comes; and the clock does not run while a question waits for
// its turn.
func TestSixtySecondsFromTheShowing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after time.Duration
		want  error
	}{
		{59_999 * time.Millisecond, nil}, {60 * time.Second, ErrTimeout}, {60_001 * time.Millisecond, ErrTimeout}, {time.Hour, ErrTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := New(MaxTimeout)
			deaf := askFunc(func(_ context.Context, _ tool.Prompt) (bool, error) { time.Sleep(c.after); return true, nil })
			began, ran := time.Now(), false
			err := g.Do(context.Background(), deaf, tool.Prompt{}, "s", func(context.Context) error { ran = true; return nil })
			if err != c.want || ran != (c.want == nil) || time.Since(began) > MaxTimeout {
				t.Errorf("yes after %v: %v, ran %v, after %v", c.after, err, ran, time.Since(began))
			}
			time.Sleep(2 * time.Hour)
			if ran != (c.want == nil) {
				t.Errorf("yes after %v: the late answer did it", c.after)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // answer and timeout at one moment, many times
		for range 100 {
			a := askFunc(func(ctx context.Context, _ tool.Prompt) (bool, error) { <-ctx.Done(); return true, nil })
			if err := New(time.Second).Do(context.Background(), a, tool.Prompt{}, 1, func(context.Context) error { return nil }); err != ErrTimeout {
				t.Fatal(err)
			}
			time.Sleep(withdrawTime)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		g := New(MaxTimeout)
		slow := askFunc(func(_ context.Context, _ tool.Prompt) (bool, error) { time.Sleep(50 * time.Second); return true, nil })
		var done atomic.Int32
		for i := range 5 { // the last waits 200 s for its turn
			go func() {
				if err := g.Do(context.Background(), slow, tool.Prompt{}, i, func(context.Context) error { done.Add(1); return nil }); err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(251 * time.Second)
		synctest.Wait()
		if done.Load() != 5 {
			t.Errorf("%d of 5 were answered in time", done.Load())
		}
	})
}

// P10: the Asker is told when its question is void. The next one is shown when it is gone,
// or 2 s later where the Asker does not care.
func TestAVoidQuestionLeavesTheScreen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		linger time.Duration
		want   time.Duration // from the timeout to the next showing
	}{{"at once", 0, 0}, {"soon", time.Second, time.Second}, {"never", 24 * time.Hour, withdrawTime}} {
		synctest.Test(t, func(t *testing.T) {
			g := New(10 * time.Second)
			void := time.Now().Add(10 * time.Second)
			first := askFunc(func(ctx context.Context, _ tool.Prompt) (bool, error) {
				<-ctx.Done()
				time.Sleep(c.linger)
				return true, nil
			})
			if err := g.Do(context.Background(), first, tool.Prompt{}, 1, nil); err != ErrTimeout {
				t.Fatal(err)
			}
			second := askFunc(func(context.Context, tool.Prompt) (bool, error) {
				if d := time.Since(void); d != c.want {
					t.Errorf("%s: the next came after %v", c.name, d)
				}
				return true, nil
			})
			ran := false
			if err := g.Do(context.Background(), second, tool.Prompt{}, 1, func(context.Context) error { ran = true; return nil }); err != nil || !ran {
				t.Errorf("%s: %v", c.name, err)
			}
			time.Sleep(25 * time.Hour)
		})
	}
}

// P10: cancellation refuses at each step, and nothing runs.
func TestCancellation(t *testing.T) {
	t.Parallel()
	effect := func(context.Context) error { t.Error("ran"); return nil }
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		asked := askFunc(func(context.Context, tool.Prompt) (bool, error) { t.Error("asked"); return true, nil })
		for _, subject := range []any{nil, 1} {
			if err := New(0).Do(ctx, asked, tool.Prompt{}, subject, effect); err != context.Canceled {
				t.Error(err)
			}
		}
	})
	t.Run("at the question", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for i := range 200 {
				deaf := i%2 == 1
				ctx, cancel := context.WithCancel(context.Background())
				a := askFunc(func(ctx context.Context, _ tool.Prompt) (bool, error) {
					cancel()
					if !deaf {
						<-ctx.Done()
					}
					return true, nil // a yes that came too late
				})
				if err := New(0).Do(ctx, a, tool.Prompt{}, 1, effect); err != context.Canceled {
					t.Error(deaf, err)
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			wait := askFunc(func(ctx context.Context, _ tool.Prompt) (bool, error) { <-ctx.Done(); return true, nil })
			if err := New(0).Do(ctx, wait, tool.Prompt{}, 1, effect); err != context.DeadlineExceeded {
				t.Error("the caller's deadline:", err)
			}
		})
	})
	t.Run("waiting for the turn", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := New(0)
			done, err := g.Dialog(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for _, subject := range []any{nil, 1} { // waits for the slot, holding the subject or not
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				if err := g.Do(ctx, yes, tool.Prompt{}, subject, effect); err != context.DeadlineExceeded {
					t.Error(err)
				}
				cancel()
			}
			done()
			done() // again: gives back nothing that another holds

			release, err := g.hold(context.Background(), 1)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			if err := g.Do(ctx, yes, tool.Prompt{}, 1, effect); err != context.DeadlineExceeded {
				t.Error(err)
			}
			release()
			ran := false
			if err := g.Do(context.Background(), yes, tool.Prompt{}, 1, func(context.Context) error { ran = true; return nil }); err != nil || !ran || len(g.subjects) != 0 {
				t.Error("afterwards:", err, ran, g.subjects)
			}
		})
	})
}

// P10, U3: one dialog at a time, whoever shows it; for one subject question and effect are
// one sequence; for another subject the next question comes while an effect runs.
func TestOneDialogAndOneSequence(t *testing.T) {
	t.Parallel()
	g := New(0)
	var showing, inEffect [3]atomic.Int32
	var dialogs, overlapped atomic.Int32
	ask := func(s int) Asker {
		return askFunc(func(context.Context, tool.Prompt) (bool, error) {
			if dialogs.Add(1) != 1 {
				t.Error("two dialogs at once")
			}
			if showing[s].Add(1) != 1 || inEffect[s].Load() != 0 {
				t.Error("a question between a question and its effect")
			}
			for o := range inEffect {
				overlapped.Add(inEffect[o].Load())
			}
			runtime.Gosched()
			dialogs.Add(-1)
			return true, nil
		})
	}
	var wg sync.WaitGroup
	for i := range 300 {
		s := i % 3
		wg.Go(func() {
			err := g.Do(context.Background(), ask(s), tool.Prompt{}, s, func(context.Context) error {
				inEffect[s].Add(1)
				time.Sleep(time.Millisecond / 4)
				inEffect[s].Add(-1)
				showing[s].Add(-1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		if i%10 == 0 {
			wg.Go(func() {
				done, err := g.Dialog(context.Background())
				if err != nil || dialogs.Add(1) != 1 {
					t.Error("a dialog beside a question", err)
				}
				dialogs.Add(-1)
				done()
			})
		}
	}
	wg.Wait()
	if overlapped.Load() == 0 {
		t.Error("no question was shown while the effect for another subject ran")
	}
	if len(g.subjects) != 0 {
		t.Error("subjects are left:", len(g.subjects))
	}
}

// Fair: questions are shown in the order in which they came.
func TestOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, subject := range []func(int) any{func(int) any { return nil }, func(int) any { return 1 }, func(i int) any { return i }} {
			g := New(0)
			done, err := g.Dialog(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var order []int
			for i := range 20 {
				asked := askFunc(func(context.Context, tool.Prompt) (bool, error) {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, i)
					return true, nil
				})
				go g.Do(context.Background(), asked, tool.Prompt{}, subject(i), func(context.Context) error { return nil })
				synctest.Wait()
			}
			done()
			synctest.Wait()
			if len(order) != 20 || !slices.IsSorted(order) {
				t.Error(order)
			}
		}
	})
}

// P10: a yes, the timeout and a cancellation race; the effect runs if and only if Do says
// so, and at most once.
func TestRaces(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	var ran, refused atomic.Int32
	for i := range 400 {
		wg.Go(func() {
			g := New(time.Millisecond)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			a := askFunc(func(context.Context, tool.Prompt) (bool, error) {
				time.Sleep(time.Duration(i%8) * 250 * time.Microsecond)
				return true, nil
			})
			if i%3 == 0 {
				time.AfterFunc(time.Millisecond, cancel)
			}
			n := 0
			err := g.Do(ctx, a, tool.Prompt{}, i, func(context.Context) error { n++; return nil })
			if n > 1 || (n == 1) != (err == nil) {
				t.Errorf("ran %d times, %v", n, err)
			}
			if n == 1 {
				ran.Add(1)
			} else {
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	if refused.Load() == 0 {
		t.Error("nothing was refused")
	}
}

// lateContext is one whose end is not signalled yet, as that of a machine that was
// asleep: it has a deadline and an error, and its Done comes never.
type lateContext struct {
	context.Context
	done  chan struct{}
	ended atomic.Bool
}

func (c *lateContext) Deadline() (time.Time, bool) { return time.Unix(1, 0), true }
func (c *lateContext) Done() <-chan struct{}       { return c.done }
func (c *lateContext) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}

// P10: a yes that is there before the timer or the cancellation is noticed counts as
// little as one that comes after it.
func TestAYesBesideTheEndIsNone(t *testing.T) {
	t.Parallel()
	effect := func(context.Context) error { t.Error("ran"); return nil }
	synctest.Test(t, func(t *testing.T) {
		ctx := &lateContext{Context: context.Background(), done: make(chan struct{})}
		late := askFunc(func(context.Context, tool.Prompt) (bool, error) { time.Sleep(MaxTimeout); return true, nil })
		if err := New(0).Do(ctx, late, tool.Prompt{}, 1, effect); err != ErrTimeout {
			t.Error(err)
		}
		cancelled := askFunc(func(context.Context, tool.Prompt) (bool, error) { ctx.ended.Store(true); return true, nil })
		if err := New(0).Do(ctx, cancelled, tool.Prompt{}, 1, effect); err != context.Canceled {
			t.Error(err)
		}
	})
}
