package model

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// replies is a provider that gives one error after the other, then an answer.
type replies struct {
	errs  []error
	texts []string // said before the error
	n     int
}

func (r *replies) Stream(ctx context.Context, _ Request, text func(string)) (Answer, error) {
	b := NewBuilder(text)
	n := r.n
	r.n++
	if n < len(r.texts) {
		b.Text(r.texts[n])
	}
	if n < len(r.errs) && r.errs[n] != nil {
		return b.Answer(ctx, r.errs[n])
	}
	b.Text("done")
	b.Stop = Done
	return b.Answer(ctx, nil)
}

func TestPatience(t *testing.T) {
	t.Parallel()
	e := func(r Reason) error { return &Error{Reason: r} }
	after := func(d time.Duration) error { return &Error{Reason: RateLimited, RetryAfter: d} }
	many := func(err error, n int) (out []error) {
		for range n {
			out = append(out, err)
		}
		return out
	}
	for _, c := range []struct {
		name   string
		errs   []error
		texts  []string
		tries  int
		want   Reason // 0: an answer
		least  time.Duration
		most   time.Duration
		cancel bool
	}{
		{name: "at once", tries: 1},
		{name: "overloaded", errs: many(e(Overloaded), 2), tries: 3, least: 750 * time.Millisecond, most: 1500 * time.Millisecond},
		{name: "to the end", errs: many(e(Overloaded), 9), tries: 6, want: Overloaded, least: 5 * time.Second, most: 16 * time.Second},
		{name: "cut and stalled", errs: []error{e(Cut), e(Stalled)}, tries: 3, most: 2 * time.Second},
		{name: "never reached", errs: many(e(Unreachable), 9), tries: 3, want: Unreachable, most: 1500 * time.Millisecond},
		{name: "as the server asked", errs: []error{after(7 * time.Second), after(time.Millisecond)}, tries: 3, least: 7001 * time.Millisecond, most: 7001 * time.Millisecond},
		{name: "it asks too much", errs: many(after(10*time.Minute), 9), tries: 1, want: RateLimited},
		{name: "not after the first token", errs: []error{e(Cut)}, texts: []string{"half"}, tries: 1, want: Cut},
		{name: "a first token in the second try", errs: many(e(Overloaded), 3), texts: []string{"", "half"}, tries: 2, want: Overloaded, most: time.Second},
		{name: "a bad request", errs: many(e(BadRequest), 9), tries: 1, want: BadRequest},
		{name: "a wrong key", errs: many(e(Auth), 9), tries: 1, want: Auth},
		{name: "no money", errs: many(e(Quota), 9), tries: 1, want: Quota},
		{name: "too long", errs: many(e(TooLong), 9), tries: 1, want: TooLong},
		{name: "nonsense", errs: many(errors.New("x"), 9), tries: 1, want: Protocol},
		{name: "cancelled in the pause", errs: many(e(Overloaded), 9), tries: 1, cancel: true, most: time.Second},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := &replies{errs: c.errs, texts: c.texts}
		var slept time.Duration
		now := time.Unix(0, 0)
		told := 0
		p := Patient{Provider: r, Retrying: func(*Error, time.Duration) { told++ }, now: func() time.Time { return now.Add(slept) },
			sleep: func(_ context.Context, d time.Duration) {
				slept += d
				if c.cancel {
					cancel()
				}
			}}
		a, err := p.Stream(ctx, Request{}, nil)
		var own *Error
		switch {
		case c.cancel:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", c.name, err)
			}
		case c.want == 0 && (err != nil || a.Text != "done"):
			t.Errorf("%s: %+v, %v", c.name, a, err)
		case c.want != 0 && (!errors.As(err, &own) || own.Reason != c.want):
			t.Errorf("%s: %v", c.name, err)
		}
		retries := c.tries - 1
		if c.cancel {
			retries++
		}
		if r.n != c.tries || told != retries || slept < c.least || slept > c.most {
			t.Errorf("%s: %d tries, %d told, slept %v", c.name, r.n, told, slept)
		}
	}
}

// A provider that cannot be reached is given up within 20 s, also if each attempt takes all
// of its time.
func TestUnreachableIsBounded(t *testing.T) {
	t.Parallel()
	var passed time.Duration
	p := Patient{Provider: slow{&passed}, now: func() time.Time { return time.Unix(0, 0).Add(passed) },
		sleep: func(_ context.Context, d time.Duration) { passed += d }}
	if _, err := p.Stream(t.Context(), Request{}, nil); err == nil || passed > 19*time.Second || passed < 10*time.Second {
		t.Errorf("%v after %v", err, passed)
	}
	began := time.Now() // with the real clock, and a pause that can be interrupted
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Patient{Provider: &replies{errs: []error{&Error{Reason: RateLimited, RetryAfter: 50 * time.Second}}}}.Stream(ctx, Request{}, nil)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

type slow struct{ passed *time.Duration }

func (s slow) Stream(context.Context, Request, func(string)) (Answer, error) {
	*s.passed += 5 * time.Second
	return Answer{}, &Error{Reason: Unreachable}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		ms, plain string
		want      time.Duration
	}{
		{"", "", 0}, {"", "7", 7 * time.Second}, {"", " 1.5 ", 1500 * time.Millisecond}, {"250", "7", 250 * time.Millisecond},
		{"", "Fri, 02 Jan 2026 03:04:35 GMT", 30 * time.Second}, {"", "Fri, 02 Jan 2026 03:04:00 GMT", 0},
		{"", "999999", time.Hour}, {"", "1e300", 0}, {"-3", "-7", 0}, {"NaN", "soon", 0},
	} {
		h := http.Header{}
		h.Set("Retry-After-Ms", c.ms)
		h.Set("Retry-After", c.plain)
		if got := retryAfter(h, now); got != c.want {
			t.Errorf("%q %q: %v, want %v", c.ms, c.plain, got, c.want)
		}
	}
}

// C5: nothing of a server's but a code enters an error's text, and what is for the screen
// is one bounded line without controls.
func TestErrorText(t *testing.T) {
	t.Parallel()
	e := Refusal(429, nil, "rate_limit_exceeded", "tokens", "a\nb\x1b[31m\u202ec\xff"+strings.Repeat("é", 1000))
	if got := e.Error(); got != "model: the model's rate limit is reached (HTTP 429, rate_limit_exceeded)" {
		t.Error(got)
	}
	if len(e.Detail) > 512 || !utf8.ValidString(e.Detail) || !strings.HasPrefix(e.Detail, "a b [31m c é") {
		t.Errorf("%q", e.Detail)
	}
	for _, code := range []string{"has blanks", "line\nend", "ü", strings.Repeat("x", 65)} {
		if e := Refusal(400, nil, code, "fine-1.0", ""); e.Code != "fine-1.0" {
			t.Errorf("%q: %q", code, e.Code)
		}
	}
	seen := map[string]bool{}
	for r := Unreachable; r <= Protocol; r++ {
		if s := (&Error{Reason: r}).Error(); seen[s] {
			t.Errorf("%d reads as another: %s", r, s)
		} else {
			seen[s] = true
		}
	}
	if got := (&Error{Reason: Cut, Code: "x"}).Error() + (&Error{Reason: Auth, Status: 401}).Error(); !strings.Contains(got, "(x)") || !strings.Contains(got, "(HTTP 401)") {
		t.Error(got)
	}
}

func TestObject(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "{}", " {\"a\": 1} ": `{"a": 1}`, "[1]": `{"malformed_arguments":"[1]"}`, `{"a":`: `{"malformed_arguments":"{\"a\":"}`} {
		if got := string(Call{Args: in}.Object()); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if got := fmt.Sprint(Usage{1, 2, 3, 4, 5}.Add(Usage{10, 20, 30, 40, 50})); got != "{11 22 33 44 55}" {
		t.Error(got)
	}
}
