package journal

import (
	"errors"
	"os"
	"syscall"
	"time"
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
)

// openToAppend makes the file where there is none. It can be moved away and removed
// meanwhile, which os.OpenFile would not let anybody here; the other rights are the same.
// Without the right to write elsewhere the system puts each write at the end, and refuses
// to cut the file: half a record stays, and is closed by the next, as after a crash.
func openToAppend(path string) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(name,
		syscall.GENERIC_READ|syscall.FILE_APPEND_DATA|syscall.FILE_WRITE_ATTRIBUTES|syscall.STANDARD_RIGHTS_WRITE|syscall.SYNCHRONIZE,
		syscall.FILE_SHARE_READ|syscall.FILE_SHARE_WRITE|syscall.FILE_SHARE_DELETE,
		nil, syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(h), path), nil
}

// lock keeps other writers out until unlock. Locks of Windows keep everybody from the
// bytes they cover, so it covers one that no journal ever has.
func lock(f *os.File, patience time.Duration) (unlock func(), err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, wrap(err)
	}
	at := syscall.Overlapped{OffsetHigh: 0x7fffffff}
	try := func() (err error) {
		if e := raw.Control(func(fd uintptr) {
			r, _, e := lockFileEx.Call(fd, lockfileFailImmediately|lockfileExclusiveLock, 0, 1, 0, uintptr(unsafe.Pointer(&at)))
			if r == 0 {
				err = e
			}
		}); e != nil {
			return e
		}
		return err
	}
	end := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 10*time.Millisecond) {
		err := try()
		switch {
		case err == nil:
			return func() {
				_ = raw.Control(func(fd uintptr) { unlockFileEx.Call(fd, 0, 1, 0, uintptr(unsafe.Pointer(&at))) })
			}, nil
		case !errors.Is(err, errorLockViolation) && !errors.Is(err, errorIOPending):
			return nil, wrap(err)
		case time.Now().After(end):
			return nil, &Error{Reason: Busy}
		}
		time.Sleep(pause)
	}
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
