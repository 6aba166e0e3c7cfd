//go:build !linux && !darwin && !freebsd && !windows

package proc

import (
	"context"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// Nothing is started on a system whose processes cannot be owned: Start fails with NoSystem.

const lineLimit = 0

type (
	system struct{}
	scope  int
	stream struct {
		last atomic.Int64
		done chan struct{}
	}
	member struct {
		pid   int
		name  string
		stray bool
	}
)

const (
	sessionAndMarked scope = iota
	everything
)

func (s *Spec) checkStrings() error { return nil }

func (p *Proc) start(context.Context, *Spec) error {
	return &StartError{Reason: NoSystem, What: Program}
}

func (p *Proc) awaitExit()                                 {}
func (p *Proc) reap() (int, string)                        { return -1, "" }
func (p *Proc) release()                                   {}
func (p *Proc) canAsk() bool                               { return false }
func (p *Proc) inGroup(*member) bool                       { return false }
func (p *Proc) sendGroup(Signal) error                     { return ErrSignal }
func (p *Proc) survivors(scope) ([]*member, error)         { return nil, errIncomplete }
func (p *Proc) waitMember(m *member, until time.Time) bool { return p.waitPolling(m, until) }

// Signal is never reached: nothing was started.
func (p *Proc) Signal(Signal) error { return ErrEnded }

// Resize is never reached: nothing was started.
func (p *Proc) Resize(Size) error { return ErrNoTerminal }

func (s *stream) pump()            { close(s.done) }
func (s *stream) finish(time.Time) {}
func (s *stream) close()           {}

func (m *member) alive() bool { return false }
func (m *member) send(Signal) {}
func (m *member) resume()     {}
func (m *member) bury()       {}

func (m *member) processor() (time.Duration, bool) { return 0, false }

func (m *member) close() {}

func nameOf(int) string { return "" }

func editsLines(*os.File) bool { return false }

func lookFile(string, []string) (string, error) {
	return "", &StartError{Reason: NoSystem, What: Program}
}

// Keeper keeps nothing here.
type Keeper struct{}

// StartKeeper fails: there is nothing to keep.
func StartKeeper(argv []string) (*Keeper, error) {
	return nil, &StartError{Reason: NoSystem, What: Program}
}

// RunKeeper returns at once.
func RunKeeper(stdin io.Reader) {}

// Alive is false.
func (k *Keeper) Alive() bool { return false }

// Keep does nothing.
func (p *Proc) Keep(k *Keeper) {}

// Close does nothing.
func (k *Keeper) Close() {}

func (k *Keeper) forget(pid int, mark string) {}
