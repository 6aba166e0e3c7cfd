package jobs

import "github.com/belayhq/belay/internal/proc"

// KeepWith names the program that ends what runs when this process is killed: an
// absolute path and arguments, of a program that calls proc.RunKeeper. It is
// started with the first process, and again if it was lost. Without it, and where
// it cannot be started, a kill of this process leaves what runs alive on Unix. Call
// it before the first start.
func (t *Table) KeepWith(argv []string) { t.keeperArgv = argv }

// Kept tells whether what runs is told to a keeper that is alive.
func (t *Table) Kept() bool {
	t.keeperMu.Lock()
	defer t.keeperMu.Unlock()
	return t.kept.Alive()
}

// keeper is the keeper, started if need be, or nil where there is none to be had.
func (t *Table) keeper() *proc.Keeper {
	t.keeperMu.Lock()
	defer t.keeperMu.Unlock()
	if len(t.keeperArgv) == 0 {
		return nil
	}
	if !t.kept.Alive() {
		t.kept, _ = proc.StartKeeper(t.keeperArgv)
		t.mu.Lock()
		for p := range t.owned { // what a lost one was told of
			p.Keep(t.kept)
		}
		t.mu.Unlock()
	}
	return t.kept
}

// keepOn tells of a process to the keeper in force where the one that it was started with was lost
// meanwhile: who replaced that did not know of it yet.
func (t *Table) keepOn(p *proc.Proc, told *proc.Keeper) {
	t.keeperMu.Lock()
	defer t.keeperMu.Unlock()
	if t.kept != told && t.kept.Alive() {
		p.Keep(t.kept)
	}
}

// dismiss lets the keeper go; it ends what it was not told the end of.
func (t *Table) dismiss() {
	t.keeperMu.Lock()
	defer t.keeperMu.Unlock()
	t.kept.Close()
	t.kept, t.keeperArgv = nil, nil
}
