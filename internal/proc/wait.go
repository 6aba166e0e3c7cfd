package proc

import (
	"errors"
	"time"
)

// errIncomplete says that the list of members could not be made, or not completely.
var errIncomplete = errors.New("proc: the processes of this system could not be listed")

// errBusy says that the system forked too fast for one look to be complete. Another one may be.
var errBusy = errors.New("proc: the processes of this system changed during the look")

// look is survivors, again while the system is too busy for a complete answer, until somebody is
// found who is to be ended, or the time is up.
func (p *Proc) look(want scope, until time.Time) ([]*member, error) {
	for {
		list, err := p.survivors(want)
		inside, _ := split(list)
		if err != errBusy || len(inside) > 0 || !time.Now().Before(until) {
			return list, err
		}
		closeMembers(list)
		time.Sleep(time.Millisecond)
	}
}

// waitPolling waits for a member where the system has no event for it. It runs during a clean-up
// only, and a clean-up is bounded.
func (p *Proc) waitPolling(m *member, until time.Time) bool {
	for pause := time.Millisecond / 2; m.alive(); pause = min(2*pause, 10*time.Millisecond) {
		left := time.Until(until)
		if left <= 0 {
			return false
		}
		t := time.NewTimer(min(pause, left))
		select {
		case <-p.nudge:
			t.Stop()
			return false
		case <-t.C:
		}
	}
	return true
}
