package proc

import (
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// listen returns when the host is gone; what it told last is still to be read. Until then the keeper sleeps: it
// waits for the pipe to be hung up and not for what is in it, which is read when the host asks for that.
//
// So a number may be opened late, when the host is gone: by then it can be another's only if the system gave out
// all numbers since, and the start of the other is later than the end of the host, see until.
func (k *kept) listen(pipe *os.File) {
	wake := make(chan os.Signal, 1)
	signal.Notify(wake, keeperWake)
	defer signal.Stop(wake)
	gone := make(chan bool, 1)
	go func() { gone <- awaitHangUp(int(pipe.Fd())) }()
	for {
		select {
		case <-wake:
			k.catchUp(pipe)
		case ok := <-gone:
			if ok {
				k.until = ticksNow()
			}
			return
		}
	}
}

// awaitHangUp tells whether the writing end was closed; false is that it cannot be waited for.
func awaitHangUp(fd int) bool {
	for {
		poll := []unix.PollFd{{Fd: int32(fd)}} // no events: a hang-up is always told
		n, err := ignoringEINTR(func() (int, error) { return unix.Poll(poll, -1) })
		if err != nil || n > 0 && poll[0].Revents&unix.POLLNVAL != 0 {
			return false
		}
		if n > 0 {
			return true
		}
	}
}

// catchUp reads what is there. Records are written whole, so it ends with one.
func (k *kept) catchUp(pipe *os.File) {
	n, err := unix.IoctlGetInt(int(pipe.Fd()), inputQueue)
	if err != nil || n <= 0 {
		return
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(pipe, b); err != nil {
		return
	}
	for line := range strings.Lines(string(b)) {
		k.note(line)
	}
}

// ticksNow is the present in the unit of start times in /proc, which is a hundredth of a second on all Linux.
func ticksNow() uint64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0
	}
	return uint64(time.Duration(t.Nano()) / (10 * time.Millisecond))
}
