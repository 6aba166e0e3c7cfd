package transcript

import (
	"errors"
	"os"
	"syscall"
	"time"
	"unsafe"
)

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

const (
	lockfileFailImmediately = 1
	lockfileExclusiveLock   = 2

	errorWriteProtect   = syscall.Errno(19)
	errorLockViolation  = syscall.Errno(33)
	errorHandleDiskFull = syscall.Errno(39)
	errorDiskFull       = syscall.Errno(112)
	errorIOPending      = syscall.Errno(997)
)

// lock keeps other writers out until release, or until the process is gone. Locks of Windows keep
// everybody from the bytes they cover, so it covers one that no conversation ever has.
func lock(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	at := syscall.Overlapped{OffsetHigh: 0x7fffffff}
	var locked error
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		locked = nil
		if err := raw.Control(func(fd uintptr) {
			r, _, e := lockFileEx.Call(fd, lockfileFailImmediately|lockfileExclusiveLock, 0, 1, 0, uintptr(unsafe.Pointer(&at)))
			if r == 0 {
				locked = e
			}
		}); err != nil {
			return err
		}
		switch {
		case !errors.Is(locked, errorLockViolation) && !errors.Is(locked, errorIOPending):
			return locked
		case time.Now().After(end):
			return &Error{Reason: Busy}
		}
	}
}

// release closes; the lock goes with the handle, which no child has.
func release(f *os.File) error { return f.Close() }

// remove removes a file that is held: Windows removes none that is open in the way the
// runtime opens it.
func remove(f *os.File, path string) error {
	if err := f.Close(); err != nil {
		return err
	}
	return os.Remove(path)
}

// systemReason knows the errors that each system has numbers of its own for, or gives 0.
func systemReason(err error) Reason {
	switch {
	case errors.Is(err, errorDiskFull), errors.Is(err, errorHandleDiskFull):
		return NoSpace
	case errors.Is(err, errorWriteProtect):
		return ReadOnly
	}
	return 0
}

// syncDir has nothing to do: Windows has no such thing for a folder.
func syncDir(string) error { return nil }
