package worktree

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// openWithoutWaiting: names of devices and pipes never get as far as an open here; see the rules for names.
const openWithoutWaiting = 0

const localRules = windowsRules

// basicInfo is FILE_BASIC_INFO: times in 100 ns since 1601.
type basicInfo struct {
	creation, access, write, change int64
	attributes                      uint32
	_                               uint32
}

func identityOf(f *os.File, _ os.FileInfo) (identity, error) { return identify(f) }

// identityAt: the change time can only be had from an open file.
func identityAt(os.FileInfo) (identity, bool) { return identity{}, false }

func identify(f *os.File) (identity, error) {
	h := windows.Handle(f.Fd())
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &info); err != nil {
		return identity{}, err
	}
	var basic basicInfo
	err := windows.GetFileInformationByHandleEx(h, windows.FileBasicInfo, (*byte)(unsafe.Pointer(&basic)), uint32(unsafe.Sizeof(basic)))
	if err != nil {
		return identity{}, err
	}
	id := identity{
		device:   uint64(info.VolumeSerialNumber),
		inode:    uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow),
		modified: nanoseconds(basic.write),
		changed:  nanoseconds(basic.change),
	}
	if info.FileAttributes&windows.FILE_ATTRIBUTE_DIRECTORY == 0 {
		id.size = int64(info.FileSizeHigh)<<32 | int64(info.FileSizeLow)
	}
	return id, nil
}

func nanoseconds(ticks int64) int64 {
	ft := windows.Filetime{LowDateTime: uint32(ticks), HighDateTime: uint32(ticks >> 32)}
	return ft.Nanoseconds()
}

func notDirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

func tooManyLinks(err error) bool { return errors.Is(err, syscall.ELOOP) }

func badName(err error) bool {
	return errors.Is(err, windows.ERROR_INVALID_NAME) || errors.Is(err, windows.ERROR_FILENAME_EXCED_RANGE) ||
		errors.Is(err, windows.ERROR_BUFFER_OVERFLOW)
}

func systemWord(err error) string {
	switch {
	case errors.Is(err, windows.ERROR_ACCESS_DENIED), errors.Is(err, os.ErrPermission):
		return "permission"
	case errors.Is(err, windows.ERROR_DISK_FULL), errors.Is(err, windows.ERROR_HANDLE_DISK_FULL),
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED), errors.Is(err, syscall.ENOSPC):
		return "no_space"
	case errors.Is(err, windows.ERROR_WRITE_PROTECT), errors.Is(err, syscall.EROFS):
		return "read_only"
	case errors.Is(err, windows.ERROR_NOT_SAME_DEVICE), errors.Is(err, syscall.EXDEV):
		return "cross_device"
	}
	return "io"
}

// passing tells whether a failed rename can work a moment later: indexers and scanners open a file for moments.
func passing(err error) bool {
	return errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_LOCK_VIOLATION) ||
		errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_USER_MAPPED_FILE)
}

func removed(os.FileInfo) bool { return false } // a directory that is held keeps its name

// mayEnter and mayWrite: access is decided by the system when it comes to it; the read-only attribute shows in the mode.
func mayEnter(*os.File) bool          { return true }
func mayWrite(*os.File, string) error { return nil }

// lockHandle: a directory cannot be locked here.
func lockHandle(*os.File) (*os.File, bool) { return nil, false }

func tryLock(f *os.File) (bool, error) {
	var from windows.Overlapped
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &from)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	}
	return false, err
}

func unlock(f *os.File) {
	var from windows.Overlapped
	_ = windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &from)
}

// syncDir: there is no call that makes a directory's entries last, so a commit here never says that it is durable.
func syncDir(*os.File) error { return errors.ErrUnsupported }

// settle syncs by the handle that wrote, the only one that may, and closes it. Replaced files keep no more than their
// read-only attribute, by not being replaced at all where they have it: lists of access rights come from the folder.
func (t *Tree) settle(_ *os.Root, _ string, f *os.File, _ os.FileInfo, old *target, allowForks func()) error {
	var err error
	if old != nil {
		err = t.steps.keep(f, old.f)
	}
	if err == nil {
		err = t.steps.sync(f)
	}
	if cerr := t.steps.close(f); err == nil {
		err = cerr
	}
	allowForks()
	return err
}

// keep copies the attributes that users set: hidden, system, archive and not to be indexed.
func keep(f, old *os.File) error {
	const kept = windows.FILE_ATTRIBUTE_HIDDEN | windows.FILE_ATTRIBUTE_SYSTEM | windows.FILE_ATTRIBUTE_ARCHIVE |
		windows.FILE_ATTRIBUTE_NOT_CONTENT_INDEXED
	var basic basicInfo
	size := uint32(unsafe.Sizeof(basic))
	if err := windows.GetFileInformationByHandleEx(windows.Handle(old.Fd()), windows.FileBasicInfo, (*byte)(unsafe.Pointer(&basic)), size); err != nil {
		return err
	}
	attributes := basic.attributes & kept
	if attributes == 0 {
		return nil
	}
	basic = basicInfo{attributes: attributes} // zero times: left as they are
	return windows.SetFileInformationByHandle(windows.Handle(f.Fd()), windows.FileBasicInfo, (*byte)(unsafe.Pointer(&basic)), size)
}
