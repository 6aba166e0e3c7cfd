package agent

import (
	"errors"

	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/internal/host/transcript"
)

// Code is the stable name of what ended a run, for the event error: that of
// model.Reason, transcript (the conversation cannot be written), turn_limit, token_limit
// or internal.
func Code(err error) string {
	var m *model.Error
	var t *transcript.Error
	var l *limitError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &m):
		return m.Reason.Code()
	case errors.As(err, &t):
		return "transcript"
	case errors.As(err, &l):
		return l.Limit.code()
	}
	return "internal"
}

func (l Limit) code() string {
	if l == Tokens {
		return "token_limit"
	}
	return "turn_limit"
}

// A limitError ends a run at MaxTurns or MaxTokens.
type limitError struct{ Limit Limit }

func (e *limitError) Error() string {
	if e.Limit == Tokens {
		return "agent: the token limit is reached"
	}
	return "agent: the turn limit is reached"
}

// sentence is for the user's screen.
func sentence(err error) string {
	var m *model.Error
	if errors.As(err, &m) && m.Detail != "" {
		return m.Error() + ": " + m.Detail
	}
	return err.Error()
}
