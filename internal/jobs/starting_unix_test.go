//go:build linux || darwin || freebsd

package jobs

import (
	"context"
	"testing"
)

// What was being started when the list was asked for is in it: its process may be known to
// others before its start has returned.
func TestAListHasWhatIsBeingStarted(t *testing.T) {
	t.Parallel()
	tb := table(t, Limits{})
	held, proceed := make(chan struct{}), make(chan struct{})
	started := make(chan *Job, 1)
	s := sh(t, "sleep 300")
	s.Before = func() error { close(held); <-proceed; return nil }
	go func() {
		j, err := tb.Start(context.Background(), Spec{Proc: s})
		if err != nil {
			t.Error(err)
		}
		started <- j
	}()
	<-held
	listed := make(chan []*Job, 1)
	go func() { listed <- tb.Jobs() }()
	close(proceed)
	list := <-listed
	if j := <-started; len(list) != 1 || list[0] != j {
		t.Errorf("%d are listed", len(list))
	}
}
