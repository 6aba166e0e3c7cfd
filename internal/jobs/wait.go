package jobs

import (
	"context"
	"slices"
	"time"
)

// Until is what a wait for several sessions waits for.
type Until string

const (
	AnyEnd  Until = "any"    // one of them has ended
	AllEnds Until = "all"    // all of them have ended
	Output  Until = "output" // one of them has output that was not polled yet, or has ended
)

// Await waits for sessions, and tells whether what it waits for has come before d
// had passed or ctx was done. It looks first and waits then, so that nothing falls
// between two calls; for no sessions there is nothing to wait for. It sleeps until
// something happens and consumes nothing.
func Await(ctx context.Context, sessions []*Job, until Until, d time.Duration) bool {
	news := make(chan struct{}, 1)
	for _, j := range sessions {
		j.output.watch(news, until == Output)
		defer j.output.unwatch(news)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for !until.reached(sessions) {
		select {
		case <-news:
		case <-timer.C:
			return until.reached(sessions)
		case <-ctx.Done():
			return until.reached(sessions)
		}
	}
	return true
}

func (u Until) reached(sessions []*Job) bool {
	if len(sessions) == 0 {
		return true
	}
	switch u {
	case AllEnds:
		return !slices.ContainsFunc(sessions, func(j *Job) bool { return !j.ended() })
	case Output:
		return slices.ContainsFunc(sessions, func(j *Job) bool { return j.ended() || j.output.unpolled() })
	}
	return slices.ContainsFunc(sessions, (*Job).ended)
}

func (j *Job) ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}
