//go:build linux || darwin || freebsd

package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/belayhq/belay/internal/delivery"
	"github.com/belayhq/belay/internal/proc"
)

func told(tb *Table) (ids []string) {
	for b := delivery.Safe; b <= delivery.UserMessage; b++ {
		for _, n := range tb.Take(b) {
			ids = append(ids, n.Session)
		}
	}
	return ids
}

// D1, D9: a process that ends while it is being started is told of, once.
func TestEndsAtOnce_D9(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{MaxFinished: 4})
	var mu sync.Mutex
	want := map[string]int{}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for k := range 25 {
				j, err := tb.Start(context.Background(), Spec{Proc: sh(t, fmt.Sprintf("echo %d; exit %d", i, k)), Form: delivery.Background, Message: 100})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				want[j.ID()] = k
				mu.Unlock()
				<-j.Done()
			}
		})
	}
	all.Wait()
	got := tb.Take(delivery.Safe)
	if len(got) != 100 {
		t.Errorf("%d are told", len(got))
	}
	for _, n := range got {
		text, omitted := n.Text(100)
		if code, ok := want[n.Session]; !ok || n.End.Code != code || len(text) != 2 || omitted != 0 || n.End.Observed != 2 {
			t.Errorf("%+v: %q, %d omitted", n, text, omitted)
		}
		delete(want, n.Session)
	}
	var ids []string
	for _, n := range got {
		ids = append(ids, n.Session)
	}
	tb.Delivered(ids)
	if len(tb.gists) != 0 || tb.held != 0 || tb.queue.Tracked() > 4 {
		t.Errorf("%d outputs of %d bytes are kept, %d sessions tracked", len(tb.gists), tb.held, tb.queue.Tracked())
	}
}

// D3: a kill that comes while a process ends leaves no message, whichever is first; one that
// ends by itself beside it is told of.
func TestKillRacesTheEnd_D3(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{})
	var kept []string
	for i := range 40 {
		form := []delivery.Form{delivery.Background, delivery.Service, delivery.Steer, delivery.NotifyOnExit}[i%4]
		killed := startSpec(t, tb, Spec{Proc: sh(t, "read x; exit 3"), Form: form, Message: 10})
		other := startSpec(t, tb, Spec{Proc: sh(t, "exit 3"), Form: form, Message: 10})
		kept = append(kept, other.ID())
		if i%2 == 0 {
			time.Sleep(time.Duration(i%8) * time.Millisecond / 4)
		}
		killed.Kill(context.Background(), proc.KILL, 0)
		if s := killed.Status(); s.State == Running {
			t.Fatal("the kill did not wait")
		}
		end(t, other)
	}
	got := told(tb)
	slices.Sort(got)
	slices.Sort(kept)
	if !slices.Equal(got, kept) {
		t.Errorf("%d are told, want %d:\n%v\n%v", len(got), len(kept), got, kept)
	}
}

// D3, D9: the close of a runtime suppresses what runs, what waits, and what is being started.
func TestCloseRacesStartsAndEnds_D9(t *testing.T) {
	t.Parallel()
	for range 5 {
		tb := table(t, Limits{})
		for range 3 {
			end(t, startSpec(t, tb, Spec{Proc: sh(t, "exit 1"), Form: delivery.Background}))
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					_, err := tb.Start(context.Background(), Spec{Proc: sh(t, "sleep 0.01; exit 1"), Form: delivery.Steer})
					var full *FullError
					if errors.Is(err, ErrClosed) {
						return
					}
					if err != nil && !errors.As(err, &full) {
						t.Error(err)
						return
					}
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		if err := tb.Close(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		all.Wait()
		if got := told(tb); len(got) > 0 || tb.Armed() != 0 || tb.Waiting(delivery.Idle) != 0 {
			t.Errorf("after the close: %v, %d armed", got, tb.Armed())
		}
	}
}

// What was never started is not waited for, and takes no room; over the bound nothing starts.
func TestStartsThatFail_C6(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{})
	tb.queue = delivery.New(2)
	bad := sh(t, "true")
	bad.Path = "/no/such/program"
	for range 5 {
		if _, err := tb.Start(context.Background(), Spec{Proc: bad, Form: delivery.Background}); err == nil {
			t.Fatal("it started")
		}
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := tb.Start(gone, Spec{Proc: sh(t, "true"), Form: delivery.Background}); err == nil {
		t.Fatal("it started")
	}
	if tb.Armed() != 0 || tb.queue.Tracked() != 0 || tb.tracked.Load() != 0 {
		t.Errorf("%d armed, %d tracked", tb.Armed(), tb.queue.Tracked())
	}
	a := startSpec(t, tb, Spec{Proc: sh(t, "sleep 300"), Form: delivery.Background})
	startSpec(t, tb, Spec{Proc: sh(t, "sleep 300"), Form: delivery.Service})
	before := len(tb.Jobs())
	if _, err := tb.Start(context.Background(), Spec{Proc: sh(t, "true"), Form: delivery.Steer}); !errors.Is(err, delivery.ErrFull) {
		t.Errorf("%v", err)
	}
	end(t, start(t, tb, "true")) // without a message it is no question
	if len(tb.Jobs()) != before+1 {
		t.Errorf("%d sessions, were %d", len(tb.Jobs()), before)
	}
	a.Kill(context.Background(), proc.KILL, 0)
	end(t, startSpec(t, tb, Spec{Proc: sh(t, "true"), Form: delivery.Steer}))
	if got := told(tb); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// Nobody who did not ask for a message takes the lock for it.
func TestWithoutMessages(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{})
	j := start(t, tb, "echo x")
	end(t, j)
	tb.mu.Lock() // what needs the lock hangs now
	defer tb.mu.Unlock()
	tb.Observed([]string{j.ID()})
	if tb.Waiting(delivery.Safe) != 0 || tb.Armed() != 0 || tb.Take(delivery.Safe) != nil || tb.Ack(j.ID()) {
		t.Error("something waits")
	}
	j.table.suppress(j)
}
