package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Dir is a directory of the tree that was checked to be a fit place for a process to start in: inside the root, reached
// without any link, and held. Close it when the process has started. Its methods may be called concurrently, Close last.
type Dir struct {
	t    *Tree
	name string
	f    *os.File // the tree's own where it is the root
	info os.FileInfo
}

// Dir checks the directory name ("." for the root) and holds it. Errors are [*Error]: OutsideRoot for a name that leads out
// as it stands, BadName, and WorkDir, whose What is missing, not_directory, link (any component, wherever it leads) or permission.
func (t *Tree) Dir(name string) (*Dir, error) {
	p, err := t.walk(name, toEnter, false)
	if err != nil {
		return nil, workDirError(name, err)
	}
	defer p.close()
	if p.info == nil || removed(p.info) {
		return nil, &Error{Reason: WorkDir, Path: name, What: "missing"}
	}
	if !p.info.IsDir() {
		return nil, &Error{Reason: WorkDir, Path: name, What: "not_directory"}
	}
	d := &Dir{t: t, name: p.path(), f: t.dir, info: p.info}
	if d.name != "." {
		if d.f, err = openDir(p); err != nil {
			return nil, workDirError(name, t.systemError(ReadFailed, name, err))
		}
	}
	if !mayEnter(d.f) {
		d.Close()
		return nil, &Error{Reason: WorkDir, Path: name, What: "permission"}
	}
	return d, nil
}

// openDir opens the directory that was looked at, or fails.
func openDir(p *place) (*os.File, error) {
	f, err := p.dir.OpenFile(p.entry, os.O_RDONLY|openWithoutWaiting, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !os.SameFile(fi, p.info) {
		err = errSwapped
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func workDirError(name string, err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Reason == OutsideRoot || e.Reason == BadName || e.Reason == WorkDir {
		return err
	}
	what := "missing"
	switch {
	case e.What == "permission":
		what = "permission"
	case e.What == "not_directory", e.Reason == NotRegular:
		what = "not_directory"
	}
	return &Error{Reason: WorkDir, Path: name, What: what, cause: e.cause}
}

// Path is the absolute path as of the opening of the tree.
func (d *Dir) Path() string {
	if d.name == "." {
		return d.t.path
	}
	return d.t.path + string(filepath.Separator) + strings.ReplaceAll(d.name, "/", string(filepath.Separator))
}

// Name is the path below the root, with "/"; "." for the root.
func (d *Dir) Name() string { return d.name }

// File is the held handle. Where the system can start a process in a handle's directory no swap can lead it elsewhere.
func (d *Dir) File() *os.File { return d.f }

// Recheck fails with the same errors as [Tree.Dir] unless the name still leads to this very directory without a link. Call
// it right before a start. Where processes are started by path it compares the absolute path too.
func (d *Dir) Recheck() error {
	if d.f == d.t.dir { // the root is what is held
		if now, err := d.t.root.Lstat("."); err != nil || removed(now) {
			return &Error{Reason: WorkDir, Path: d.name, What: "missing", cause: err}
		}
		return recheckPath(d)
	}
	p, err := d.t.walk(d.name, toEnter, false)
	if err != nil {
		return workDirError(d.name, err)
	}
	defer p.close()
	if p.info == nil || !os.SameFile(p.info, d.info) {
		return &Error{Reason: WorkDir, Path: d.name, What: "missing"}
	}
	return recheckPath(d)
}

// Close lets go of the handle.
func (d *Dir) Close() error {
	if d.f == d.t.dir {
		return nil
	}
	return d.f.Close()
}
