package proc

import (
	"slices"
	"sync"
	"time"
)

// endLeftovers cleans up after a program that exited by itself: what stayed in the session is
// ended, what left it is only named (S2, S8).
func (p *Proc) endLeftovers() {
	until := time.Now().Add(proofTime)
	found, err := p.look(sessionAndMarked, until)
	if inside, _ := split(found); len(inside) > 0 {
		p.settle(inside)
		closeMembers(found)
		found, err = p.look(sessionAndMarked, until)
	}
	inside, outside := split(found)
	// Where nothing can be listed, those in the group of the program are ended all the same.
	if len(inside) == 0 && err != errIncomplete {
		p.exit.Left, p.exit.Cleaned = members(outside), err == nil
		closeMembers(found)
		return
	}
	p.mu.Lock()
	if !p.hurried {
		p.killAt = time.Now().Add(leftoverGrace)
	}
	p.mu.Unlock()
	ended := members(inside)
	closeMembers(found)
	left, proven := p.endOwned(TERM, false)
	inside, _ = split(left)
	p.exit.Left, p.exit.Cleaned = members(left), proven && len(inside) == 0
	p.exit.Ended = without(ended, p.exit.Left)
	closeMembers(left)
}

// settle gives the last stage of a pipeline the time to take what the program wrote right before
// its end: with "exec > >(tee log)" the shell is gone before tee has read. It waits until they are
// gone, or until no output came for as long as a held pipe is waited for and none of them is at work: a
// filter may need longer than that to begin, above all on a machine with more work than processors.
// The patience for leftovers bounds it.
func (p *Proc) settle(inside []*member) {
	const step = quiet / 5
	work := make([]time.Duration, len(inside))
	for i, m := range inside {
		work[i], _ = m.processor()
	}
	for {
		m := firstAlive(inside)
		now, patience := time.Now(), p.patience()
		if m == nil || !now.Before(patience) {
			return
		}
		until := p.lastOutput().Add(quiet)
		if !now.Before(until) {
			if !atWork(inside, work, step/5) {
				return
			}
			until = now.Add(step)
		}
		p.waitMember(m, earlier(until, patience))
	}
}

// atWork tells whether one of them wants a processor, or had one for at least so long since it was
// asked last.
func atWork(list []*member, had []time.Duration, least time.Duration) (yes bool) {
	for i, m := range list {
		now, wanted := m.processor()
		yes = yes || wanted || now-had[i] >= least
		had[i] = now
	}
	return yes
}

// lastOutput is when the program last wrote something, but not before its end.
func (p *Proc) lastOutput() time.Time {
	at := p.goneAt
	for _, s := range p.streams {
		if t := p.began.Add(time.Duration(s.last.Load())); t.After(at) {
			at = t
		}
	}
	return at
}

// endOwned ends the program, if it still runs, and the members of its session, and with strays also
// what left the session. It returns what is still alive, and whether that list is known to be
// complete. The caller closes the list.
//
// It runs once for a Proc, while the program is not reaped: until then the number of its group and
// session is its own.
func (p *Proc) endOwned(first Signal, strays bool) (left []*member, proven bool) {
	var told []*member
	if first != KILL && p.canAsk() {
		var gone bool
		if told, gone = p.ask(first, strays); gone {
			closeMembers(told)
			return nil, true
		}
	}
	return p.kill(told, strays)
}

func (p *Proc) scope(strays bool) scope {
	if strays {
		return everything
	}
	return sessionAndMarked
}

// ask sends the first signal, and waits until all that were told are gone, or patience is. It returns
// them, and whether it is known that nothing is left.
func (p *Proc) ask(first Signal, strays bool) (told []*member, gone bool) {
	defer p.killInTime()()
	tell := func(m *member) {
		m.send(first)
		m.resume()
		told = append(told, m)
	}
	// ours drops from a list what is not to be ended here.
	ours := func(list []*member) []*member {
		if strays {
			return list
		}
		in, out := split(list)
		closeMembers(out)
		return in
	}

	start, grace := time.Now(), p.grace
	if !strays {
		grace = leftoverGrace
	}
	list, _ := p.listBefore(p.scope(strays), func() { p.sendGroup(first) })
	for _, m := range ours(list) {
		if p.inGroup(m) { // has it already: a second one means something else to many programs
			told = append(told, m)
		} else {
			tell(m)
		}
	}
	hangUp := p.tty != nil && first != HUP
	for {
		until := p.patience()
		if hangUp {
			until = earlier(until, start.Add(grace/2))
		}
		if !time.Now().Before(until) {
			if !hangUp || !time.Now().Before(p.patience()) {
				return told, false
			}
			hangUp = false
			p.sendGroup(HUP)
			for _, m := range told {
				if !p.inGroup(m) {
					m.send(HUP)
				}
			}
			continue
		}
		if !p.waitExit(until) {
			continue
		}
		if m := firstAlive(told); m != nil {
			p.waitMember(m, until)
			continue
		}
		// All that were told are gone. Look again: something may have been on its way.
		list, err := p.survivors(p.scope(strays))
		rest := ours(list)
		if len(rest) == 0 {
			// With strays left alone the look of kill names them; after an error it goes on looking.
			return told, err == nil && strays
		}
		for _, m := range rest {
			tell(m)
		}
	}
}

// killInTime sends KILL to the group when patience ends, whatever the goroutine that waits for that
// is doing then: on a machine with far too much work a look takes seconds. stop ends it.
func (p *Proc) killInTime() (stop func()) {
	kill := sync.OnceFunc(func() { p.sendGroup(KILL) })
	p.mu.Lock()
	t := time.AfterFunc(time.Until(p.killAt), kill)
	p.strike = t
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		p.strike = nil
		p.mu.Unlock()
		if !t.Stop() {
			kill() // it is not sent any more when this returns: the group is somebody else's one day
		}
	}
}

// kill sends KILL and looks again, until there is nothing or the time is up. Killing the group is
// one step for the kernel: a member that is forking does not slip through. told is used up.
func (p *Proc) kill(told []*member, strays bool) (left []*member, proven bool) {
	giveUp := time.Now().Add(proofTime)
	pause := 10 * time.Millisecond
	for killed := false; ; killed = true {
		gone := p.isGone() // before the list: while the program lives it can add to it
		list, err := p.listBefore(p.scope(strays), func() {
			p.sendGroup(KILL)
			for _, m := range told {
				if strays || !m.stray {
					m.send(KILL)
				}
			}
		})
		list = merge(list, told)
		rest := 0
		for _, m := range list {
			if strays || !m.stray {
				rest++
			}
		}
		if gone && rest == 0 && err != errBusy {
			return list, err == nil
		}
		// A program that ended during the look is worth one more, which can be the last.
		if killed && !time.Now().Before(giveUp) && gone == p.isGone() {
			return list, err == nil
		}
		for _, m := range list {
			if strays || !m.stray {
				m.send(KILL)
			}
		}
		// Not until giveUp: what was forked by another group meanwhile is to be found soon.
		soon := earlier(giveUp, time.Now().Add(pause))
		pause = min(2*pause, 100*time.Millisecond)
		if p.waitExit(soon) {
			for _, m := range list {
				if (strays || !m.stray) && !p.waitMember(m, soon) {
					break
				}
			}
		}
		told = list
	}
}

// listBefore lists who is owned before they are signalled: while the parents live, their children
// can be told. It calls signal once, which does not wait for the list longer than signalDelay.
func (p *Proc) listBefore(want scope, signal func()) ([]*member, error) {
	signal = sync.OnceFunc(signal)
	t := time.AfterFunc(signalDelay, signal)
	list, err := p.survivors(want)
	t.Stop()
	signal()
	return list, err
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (p *Proc) patience() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killAt
}

func (p *Proc) isGone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// waitExit waits for the end of the program and tells whether it came. It returns early when
// patience was shortened.
func (p *Proc) waitExit(until time.Time) bool {
	select {
	case <-p.exited:
		return true
	default:
	}
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-p.exited:
		return true
	case <-p.nudge:
	case <-t.C:
	}
	return false
}

// drain waits for the output that was written before the end, and stops the readers. A pipe that
// somebody still holds is not waited for.
func (p *Proc) drain() {
	p.closeInput()
	if p.slave != nil {
		p.slave.Close()
	}
	for _, s := range p.streams {
		s.finish(p.lastOutput())
	}
	for _, s := range p.streams {
		<-s.done
		s.close()
	}
	p.feed.Wait()
	if p.tty != nil {
		p.tty.Close()
		p.input.file.Close() // the same file on Unix
	}
}

func firstAlive(list []*member) *member {
	for _, m := range list {
		if m.alive() {
			return m
		}
	}
	return nil
}

// merge adds to a list those of an earlier one that are still alive: a stray without the mark is
// found by its parent only, and that may be dead by now. The earlier list is used up.
func merge(list, earlier []*member) []*member {
	for _, m := range earlier {
		if has(list, m.pid) {
			m.close()
			continue
		}
		if m.alive() {
			list = append(list, m)
		} else {
			m.bury()
			m.close()
		}
	}
	return list
}

func has(list []*member, pid int) bool {
	return slices.ContainsFunc(list, func(m *member) bool { return m.pid == pid })
}

// split parts the members of the session from those that left it.
func split(list []*member) (inside, outside []*member) {
	for _, m := range list {
		if m.stray {
			outside = append(outside, m)
		} else {
			inside = append(inside, m)
		}
	}
	return inside, outside
}

func members(list []*member) []Member {
	var out []Member
	for _, m := range list {
		out = append(out, Member{PID: m.pid, Name: m.name})
	}
	return out
}

func closeMembers(list []*member) {
	for _, m := range list {
		m.bury()
		m.close()
	}
}

func without(list, drop []Member) []Member {
	var out []Member
next:
	for _, m := range list {
		for _, d := range drop {
			if d.PID == m.PID {
				continue next
			}
		}
		out = append(out, m)
	}
	return out
}
