package proc

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// snapshot is one look at all processes of the system, for everybody who waits for one. A
// hundred programs that are ended at once would otherwise list the same processes a hundred times,
// and none would come to its proof in time.
type snapshot struct {
	last    int           // the number given last, before the look
	forked  uint64        // see census, from before last
	counted bool          // whether that is known
	session map[int][]int // the numbers of each session, dead ones too, in rising order
	outside []outsider    // those in sessions that no program of this process leads, likewise
	err     error         // the look is worth nothing
}

// outsider is a process that can be a stray of somebody.
type outsider struct {
	pid, sid int
	stat     stat
	marks    []string // values of BELAY_SESSION; not looked for where it is older than all who ask
	wait     execWait // while they are read
}

// order is a snapshot that has not begun. It is shared by all who come until it does.
type order struct {
	born uint64 // the oldest program that asks; 0 if one does not know
	done chan struct{}
	snap *snapshot // set before done is closed
}

// orders lets one snapshot be made at a time. This is state of the package since what is shared, the
// list of processes, is one for the whole system.
var orders struct {
	sync.Mutex
	next *order
	busy bool
}

// takeSnapshot returns a snapshot that was begun after the call.
func takeSnapshot(born uint64) *snapshot {
	orders.Lock()
	o := orders.next
	if o == nil {
		o = &order{born: born, done: make(chan struct{})}
		orders.next = o
	}
	o.born = min(o.born, born)
	if !orders.busy {
		orders.busy = true
		go fillOrders()
	}
	orders.Unlock()
	<-o.done
	return o.snap
}

// fillOrders ends when there is no order left.
func fillOrders() {
	for {
		orders.Lock()
		o := orders.next
		orders.next = nil
		orders.busy = o != nil
		orders.Unlock()
		if o == nil {
			return
		}
		o.snap = survey(o.born)
		close(o.done)
	}
}

func survey(born uint64) *snapshot {
	s := &snapshot{session: map[int][]int{}}
	s.forked = forks()
	s.last, s.counted = lastPID()
	pids, err := listPIDs()
	if err != nil {
		s.err = err
		return s
	}
	others := map[int]bool{} // sessions, by whether another program of ours leads them
	var later []int          // places in outside: perhaps in the middle of an exec
	for _, pid := range pids {
		sid, err := unix.Getsid(pid)
		if err != nil && err != unix.ESRCH {
			s.err = errIncomplete
			return s
		}
		if err != nil || sid == 0 { // nobody, or a thread of the kernel
			continue
		}
		s.session[sid] = append(s.session[sid], pid)
		ours, known := others[sid]
		if !known {
			ours = otherProgram(sid)
			others[sid] = ours
		}
		if ours {
			continue
		}
		o := outsider{pid: pid, sid: sid, stat: statOf(pid)}
		if o.stat.start >= born {
			// Reading an environment waits for an exec of that process: only of those that can matter.
			if !o.readMarks() {
				later = append(later, len(s.outside))
			}
		}
		s.outside = append(s.outside, o)
	}
	for len(later) > 0 {
		time.Sleep(time.Millisecond)
		waiting := later
		later = nil
		for _, i := range waiting {
			o := &s.outside[i]
			if !o.readMarks() {
				later = append(later, i)
			}
		}
	}
	return s
}

// readMarks collects the marks of a process. It is not done while they may be yet to come.
func (o *outsider) readMarks() (done bool) {
	n, _ := scanEnviron(o.pid, func(value []byte) bool {
		if len(value) <= maxMark {
			o.marks = append(o.marks, string(value))
		}
		return false
	})
	return n != 0 || !o.wait.again(o.pid)
}
