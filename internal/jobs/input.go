package jobs

import (
	"context"

	"github.com/belayhq/belay/internal/proc"
)

// Write gives input to the session and says how many bytes were taken. Its errors
// are those of proc: ErrEnded, ErrInputClosed, *LineError, or that of ctx.
func (j *Job) Write(ctx context.Context, b []byte) (int, error) { return j.proc.Write(ctx, b) }

// CloseInput gives the session end of file on its standard input.
func (j *Job) CloseInput() error { return j.proc.CloseInput() }

// Interrupt sends SIGINT to the foreground of the session, as Ctrl-C would.
func (j *Job) Interrupt() error { return j.proc.Signal(proc.INT) }

// Echoes tells whether the terminal of the session shows what is typed: not, where
// a program asks for a password. It is true on pipes.
func (j *Job) Echoes() bool { return j.proc.Echoes() }
