package spool

import (
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

const noWait = 0 // there is no FIFO in a Windows folder

// mkdir makes a directory that only this account and the system can enter. Windows
// does not look at Unix permissions, and a folder inherits its parent's access
// list, so the list is given at the creation: set afterwards it would leave a gap.
// CreateDirectory wants a path; that it led into parent is checked by home.hold.
func mkdir(parent *os.Root, name string) error {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return err
	}
	// P: nothing is inherited from the parent. OICI: files inherit. FA: full access.
	sd, err := windows.SecurityDescriptorFromString(
		"D:P(A;OICI;FA;;;" + user.User.Sid.String() + ")(A;OICI;FA;;;SY)")
	if err != nil {
		return err
	}
	path, err := windows.UTF16PtrFromString(filepath.Join(parent.Name(), name))
	if err != nil {
		return err
	}
	sa := windows.SecurityAttributes{SecurityDescriptor: sd}
	sa.Length = uint32(unsafe.Sizeof(sa))
	return windows.CreateDirectory(path, &sa)
}

// rmdir removes an empty directory.
func rmdir(parent *os.Root, name string) error { return parent.Remove(name) }

// ensureMode has nothing to do: the access list of the directory holds for its
// files too.
func ensureMode(*os.File, os.FileMode) error { return nil }

// announce has nothing to do: the open handle says it.
func announce(*os.File) {}
