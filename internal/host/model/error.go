package model

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Reason is why there is no whole answer.
type Reason int

const (
	Unreachable Reason = iota + 1 // no connection could be made
	RateLimited                   // too many requests or tokens; RetryAfter may say when to come again
	Overloaded                    // the server has a fault or no room
	Cut                           // the connection or the stream ended before the answer did
	Stalled                       // nothing came for the idle time
	Auth                          // the key is missing, wrong, or may not do this
	Quota                         // the account has no money or quota left
	BadRequest                    // the server does not take the request as it is
	TooLong                       // the conversation is longer than the model's context
	Protocol                      // what came is not what the protocol allows
)

func (r Reason) String() string {
	switch r {
	case Unreachable:
		return "the model cannot be reached"
	case RateLimited:
		return "the model's rate limit is reached"
	case Overloaded:
		return "the model's server has a fault or is overloaded"
	case Cut:
		return "the model's answer was cut off"
	case Stalled:
		return "the model stopped answering"
	case Auth:
		return "the model's server does not accept the key"
	case Quota:
		return "the account at the model's server has no quota left"
	case BadRequest:
		return "the model's server refuses the request"
	case TooLong:
		return "the conversation is too long for the model"
	}
	return "the model's server does not keep to the protocol"
}

// An Error says why. Its text has nothing in it that the server wrote but a code.
type Error struct {
	Reason     Reason
	Status     int           // of HTTP; 0 where there was none
	Code       string        // the vendor's, or one of belay's for Protocol and BadRequest; only [A-Za-z0-9_.-], at most 64
	RetryAfter time.Duration // what the server asked for, at most an hour; 0: nothing
	Begun      bool          // a part of the answer had come

	// Detail is the vendor's own sentence, one line of at most 512 bytes. It may quote
	// the request: it is for the user's screen, never for a log.
	Detail string
}

func (e *Error) Error() string {
	s := "model: " + e.Reason.String()
	switch {
	case e.Status != 0 && e.Code != "":
		s += fmt.Sprintf(" (HTTP %d, %s)", e.Status, e.Code)
	case e.Status != 0:
		s += fmt.Sprintf(" (HTTP %d)", e.Status)
	case e.Code != "":
		s += " (" + e.Code + ")"
	}
	return s
}

// Temporary tells whether the same request may succeed later. It must not be made again
// once an answer has Begun: what the user was shown would be shown twice.
func (e *Error) Temporary() bool {
	switch e.Reason {
	case Unreachable, RateLimited, Overloaded, Cut, Stalled:
		return true
	}
	return false
}

// Refusal makes an error of an HTTP answer that is none of the model. code and kind are the
// vendor's, as far as there are any; detail is its sentence. Status 0 is an error within a
// stream that began well: without a code that says otherwise it is the server's fault.
func Refusal(status int, header http.Header, code, kind, detail string) *Error {
	e := &Error{Status: status, Code: plain(code), Detail: line(detail), RetryAfter: retryAfter(header, time.Now())}
	if e.Code == "" {
		e.Code = plain(kind)
	}
	e.Reason = reasonOf(status, code, kind, detail)
	return e
}

func reasonOf(status int, code, kind, detail string) Reason {
	has := func(words ...string) bool {
		for _, w := range words {
			if code == w || kind == w {
				return true
			}
		}
		return false
	}
	said := strings.ToLower(detail)
	switch {
	case has("context_length_exceeded", "request_too_large", "exceed_context_size_error"), status == http.StatusRequestEntityTooLarge:
		return TooLong
	// Neither vendor has a code for it in every protocol; the sentences have been these
	// for years.
	case status == http.StatusBadRequest && (strings.Contains(said, "prompt is too long") || strings.Contains(said, "maximum context length") || strings.Contains(said, "exceed context limit") || strings.Contains(said, "context window")):
		return TooLong
	case has("insufficient_quota", "billing_error", "billing_hard_limit_reached"), status == http.StatusPaymentRequired:
		return Quota
	case has("authentication_error", "permission_error", "invalid_api_key"), status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Auth
	case has("rate_limit_error", "rate_limit_exceeded"), status == http.StatusTooManyRequests:
		return RateLimited
	case has("overloaded_error", "api_error", "server_error", "timeout_error", "service_unavailable"), status >= 500, status == 0 && code == "" && kind == "",
		status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly:
		return Overloaded
	}
	return BadRequest
}

// retryAfter reads the header in its three forms.
func retryAfter(h http.Header, now time.Time) time.Duration {
	d := time.Duration(0)
	ms, seconds := h.Get("Retry-After-Ms"), strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseFloat(ms, 64); err == nil && n > 0 && n < 1e9 {
		d = time.Duration(n * float64(time.Millisecond))
	} else if n, err := strconv.ParseFloat(seconds, 64); err == nil && n > 0 && n < 1e6 {
		d = time.Duration(n * float64(time.Second))
	} else if t, err := http.ParseTime(seconds); err == nil {
		d = t.Sub(now)
	}
	return min(max(d, 0), time.Hour)
}

// plain lets only what looks like a code through.
func plain(s string) string {
	if len(s) > 64 {
		return ""
	}
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-') {
			return ""
		}
	}
	return s
}

// line makes one bounded line of visible characters.
func line(s string) string {
	const limit = 512
	s = s[:min(len(s), 4*limit)]
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)), " ")
	for len(s) > limit {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}

// strike takes keys out of what a server said. An *Error here is nobody else's yet.
func strike(err error, keys []string) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	for _, key := range keys {
		if shows(e.Code, key) {
			e.Code = ""
		}
		if shows(e.Detail, key) {
			e.Detail = "what the server said is not shown: it has the key in it"
		}
	}
	return err
}

// shows tells whether a text has so much of a key that it is one's business no more: twelve
// characters in a row, whatever stands between them. Vendors themselves show the first seven or
// eight, which are the same for all.
func shows(text, key string) bool {
	const much = 12
	text, key = letters(text), letters(key)
	n := min(len(key), much)
	if n < 6 { // no key, and perhaps a word
		return false
	}
	for at := 0; at+n <= len(key); at++ {
		if strings.Contains(text, key[at:at+n]) {
			return true
		}
	}
	return false
}

// letters leaves of a text what keys are made of.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return -1
	}, s)
}

// ended turns whatever ended a stream early into what Stream returns.
func ended(ctx context.Context, err error, begun bool) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var own *Error
	if !errors.As(err, &own) {
		own = &Error{Reason: Protocol}
		if errors.Is(err, bufio.ErrTooLong) {
			own.Code = "line_too_long"
		}
	}
	e := *own
	e.Begun = e.Begun || begun
	return &e
}

// Code is the stable name of a reason.
func (r Reason) Code() string {
	switch r {
	case Unreachable:
		return "unreachable"
	case RateLimited:
		return "rate_limited"
	case Overloaded:
		return "overloaded"
	case Cut:
		return "cut"
	case Stalled:
		return "stalled"
	case Auth:
		return "auth"
	case Quota:
		return "quota"
	case BadRequest:
		return "bad_request"
	case TooLong:
		return "too_long"
	}
	return "protocol"
}
