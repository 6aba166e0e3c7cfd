package journal

import (
	"os"
	"syscall"
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
