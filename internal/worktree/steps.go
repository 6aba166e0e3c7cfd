package worktree

import "os"

// steps are the effects of a commit on the system, in the order in which they happen. They are fields so that a test can
// let exactly one of them fail; nothing else sets them.
type steps struct {
	lock    func(f *os.File) (bool, error)
	temp    func(dir *os.Root, name string, perm os.FileMode) (*os.File, error)
	write   func(f *os.File, b []byte) (int, error)
	close   func(f *os.File) error
	reopen  func(dir *os.Root, name string) (*os.File, error)
	keep    func(f, old *os.File) error
	sync    func(f *os.File) error
	rename  func(dir *os.Root, from, to string) error
	create  func(dir *os.Root, handle *os.File, from, to string) error // must not overwrite
	syncDir func(dir *os.File) error
	remove  func(dir *os.Root, name string) error
}

func realSteps() steps {
	return steps{
		lock: tryLock,
		temp: func(dir *os.Root, name string, perm os.FileMode) (*os.File, error) {
			return dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|openWithoutWaiting, perm)
		},
		write: (*os.File).Write,
		close: (*os.File).Close,
		reopen: func(dir *os.Root, name string) (*os.File, error) {
			return dir.OpenFile(name, os.O_RDONLY|openWithoutWaiting, 0)
		},
		keep:    keep,
		sync:    (*os.File).Sync,
		rename:  (*os.Root).Rename,
		create:  createByRename,
		syncDir: syncDir,
		remove:  (*os.Root).Remove,
	}
}
