//go:build unix

package cli

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// readerLeft tells whether a write failed because nobody reads any more.
func readerLeft(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

// watchReader gives a channel that is closed when nobody reads a pipe or a socket any more,
// also while nothing is written to it; the stream must not be closed meanwhile. stop ends the
// watch. The channel is nil for what is neither.
func watchReader(stream any) (gone <-chan struct{}, stop func()) {
	f, ok := stream.(*os.File)
	if !ok {
		return nil, func() {}
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return nil, func() {}
	}
	// Not by Fd, which would let a stream that others share block.
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, func() {}
	}
	number := -1
	if raw.Control(func(fd uintptr) { number = int(fd) }) != nil || number < 0 {
		return nil, func() {}
	}
	var wake [2]int
	if unix.Pipe(wake[:]) != nil {
		return nil, func() {}
	}
	for _, fd := range wake {
		unix.CloseOnExec(fd)
	}
	left, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			fds := []unix.PollFd{{Fd: int32(number)}, {Fd: int32(wake[0]), Events: unix.POLLIN}}
			switch _, err := unix.Poll(fds, -1); {
			case err == unix.EINTR:
				continue
			case err != nil, fds[1].Revents != 0:
				return
			}
			if fds[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0 {
				close(left)
				return
			}
		}
	}()
	return left, func() {
		unix.Close(wake[1]) // the other end reads the end of the pipe
		<-ended
		unix.Close(wake[0])
	}
}
