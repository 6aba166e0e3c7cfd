package osfile

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

var (
	kernel32     = syscall.NewLazyDLL("kernel32.dll")
	lockFileEx   = kernel32.NewProc("LockFileEx")
	unlockFileEx = kernel32.NewProc("UnlockFileEx")
)

const (
	lockfileFailImmediately = 1
	lockfileExclusiveLock   = 2

	errorWriteProtect   = syscall.Errno(19)
	errorLockViolation  = syscall.Errno(33)
	errorHandleDiskFull = syscall.Errno(39)
	errorDiskFull       = syscall.Errno(112)
	errorIOPending      = syscall.Errno(997)
	errorDiskQuota      = syscall.Errno(1295)
)

// tryLock: locks of Windows keep everybody from the bytes they cover, so it covers one that no such
// file ever has.
func tryLock(f *os.File) (unlock func(), err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	at := syscall.Overlapped{OffsetHigh: 0x7fffffff}
	if e := raw.Control(func(fd uintptr) {
		if r, _, e := lockFileEx.Call(fd, lockfileFailImmediately|lockfileExclusiveLock, 0, 1, 0, uintptr(unsafe.Pointer(&at))); r == 0 {
			err = e
		}
	}); e != nil {
		return nil, e
	}
	switch {
	case err == nil:
		return func() {
			_ = raw.Control(func(fd uintptr) { unlockFileEx.Call(fd, 0, 1, 0, uintptr(unsafe.Pointer(&at))) })
		}, nil
	case errors.Is(err, errorLockViolation), errors.Is(err, errorIOPending):
		return nil, ErrBusy
	}
	return nil, err
}

// SyncDir has nothing to do: Windows has no such thing for a folder.
func SyncDir(string) error { return nil }

// IsFull tells whether the disk or a quota has no room.
func IsFull(err error) bool {
	return errors.Is(err, errorDiskFull) || errors.Is(err, errorHandleDiskFull) || errors.Is(err, errorDiskQuota)
}

// IsReadOnly tells whether the medium cannot be written to.
func IsReadOnly(err error) bool { return errors.Is(err, errorWriteProtect) }
