package jobs

import "github.com/belayhq/belay/internal/proc"

// Hurry sends SIGKILL to all that runs, without a grace. It does not wait, and ends no more
// than that: see Close. As with that, no message is delivered any more.
func (t *Table) Hurry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.suppressAll()
	for p, j := range t.owned {
		if j != nil {
			j.end(Killed, proc.KILL, 0)
		} else {
			p.End(proc.KILL, 0)
		}
	}
}
