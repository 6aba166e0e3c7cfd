package model

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	tries = 6 // in all; with the pauses between them about half a minute
	// A server that cannot be reached is given up sooner: with 5 s for each attempt
	// and 1.5 s of pauses that is 16.5 s at most, and the user is waiting.
	triesToReach = 3
	reach        = 13 * time.Second // no attempt begins later, whatever came before

	firstPause   = 500 * time.Millisecond
	longestPause = 8 * time.Second
	// maxAsked is how long a server may make us wait. Who asks for more is told to the
	// user at once, who can decide.
	maxAsked = 60 * time.Second
)

// Patient is a Provider that tries again, with back-off, as long as nothing of an answer
// has come: where the server cannot be reached, is overloaded, limits the rate, or
// broke off. Everything else, and the last error, is returned as it is.
type Patient struct {
	Provider
	// Retrying is told of each error that is not the last, and of the pause that
	// follows. nil: nobody.
	Retrying func(*Error, time.Duration)

	sleep func(context.Context, time.Duration) // nil: a timer
	now   func() time.Time                     // nil: time.Now
}

func (p Patient) Stream(ctx context.Context, r Request, text func(string)) (Answer, error) {
	now, sleep := p.now, p.sleep
	if now == nil {
		now = time.Now
	}
	if sleep == nil {
		sleep = pause
	}
	began := now()
	wait := firstPause
	for n := 1; ; n++ {
		a, err := p.Provider.Stream(ctx, r, text)
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.Temporary() || e.Begun || ctx.Err() != nil {
			return a, err
		}
		d := wait/2 + rand.N(wait/2+1) // so that those who were turned away together do not come back together
		wait = min(2*wait, longestPause)
		if e.RetryAfter > 0 {
			d = e.RetryAfter
		}
		if n >= tries || d > maxAsked || e.Reason == Unreachable && (n >= triesToReach || now().Sub(began)+d > reach) {
			return a, err
		}
		if p.Retrying != nil {
			p.Retrying(e, d)
		}
		sleep(ctx, d)
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
