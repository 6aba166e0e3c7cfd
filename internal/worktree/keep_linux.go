package worktree

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	accessList = "system.posix_acl_access"
	// maxAttribute is the kernel's own bound for one attribute and for the list of names.
	maxAttribute = 64 << 10
)

// dropInherited takes away the access control list that the folder's default gave to the new file; the old file may have none.
func dropInherited(f *os.File) error {
	if n, err := unix.Flistxattr(int(f.Fd()), nil); err == nil && n == 0 {
		return nil // the common case, without a change to the inode
	}
	err := unix.Fremovexattr(int(f.Fd()), accessList)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// keepAttributes copies the extended attributes that belong to the file as its user sees it: user.*, access control lists and
// the security label. Left out are capabilities (like set-user-ID), integrity hashes (of the old content) and trusted.*
// (of file systems and root's tools). To a group that is not the old one's a list gives no more than to everybody.
func keepAttributes(f, old *os.File, foreign bool) error {
	n, err := unix.Flistxattr(int(old.Fd()), nil)
	if errors.Is(err, unix.ENOTSUP) || err == nil && n == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	names := make([]byte, min(2*n, maxAttribute)) // room for some that are added meanwhile
	if n, err = unix.Flistxattr(int(old.Fd()), names); err != nil {
		return err
	}
	var value []byte
	for _, name := range strings.Split(string(names[:n]), "\x00") {
		label := name == "security.selinux"
		if foreign && name == "system.nfs4_acl" {
			continue // what it gives the group cannot be told from here; the mode says it all
		}
		if !label && name != accessList && name != "system.nfs4_acl" && !strings.HasPrefix(name, "user.") {
			continue
		}
		if value == nil {
			value = make([]byte, maxAttribute)
		}
		n, err := unix.Fgetxattr(int(old.Fd()), name, value)
		if errors.Is(err, unix.ENODATA) {
			continue // removed meanwhile
		}
		if foreign && name == accessList {
			restrictGroup(value[:max(n, 0)])
		}
		if err == nil {
			err = unix.Fsetxattr(int(f.Fd()), name, value[:n], 0)
		}
		if err != nil && !label { // labels are for the system to give
			return err
		}
	}
	return nil
}

// restrictGroup takes from the file's group, in an access control list as the kernel has it, what everybody has not: a
// version of 4 bytes, and for each entry the tag and the permissions of 2 bytes and an identity of 4, all little endian.
func restrictGroup(list []byte) {
	const header, entry, groupTag, otherTag = 4, 8, 0x04, 0x20
	others := uint16(0)
	for pass := range 2 {
		for at := header; at+entry <= len(list); at += entry {
			allowed := list[at+2 : at+4]
			switch binary.LittleEndian.Uint16(list[at:]) {
			case otherTag:
				others = binary.LittleEndian.Uint16(allowed)
			case groupTag:
				if pass == 1 {
					binary.LittleEndian.PutUint16(allowed, binary.LittleEndian.Uint16(allowed)&others)
				}
			}
		}
	}
}
