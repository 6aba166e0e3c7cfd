package worktree

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

const (
	maxLinks    = 40   // links followed in one name, as on Linux
	maxSteps    = 4096 // components visited in one name, links and restarts included
	maxSwaps    = 64   // times that a component changed between the look and the open before the walk gives up
	maxNewDirs  = 64   // folders that one create makes
	newDirPerm  = 0o777
	newFilePerm = 0o666
)

// place is where a name leads: a held directory and a single entry in it.
type place struct {
	asked   string
	dir     *os.Root
	dirPath []string    // of dir, below the root, without links
	entry   string      // "." for the root itself
	info    os.FileInfo // of the entry, links not followed; nil if there is none
	slash   bool
	made    []madeDir // folders that the walk created, outermost first
	shared  *os.Root  // the tree's own root, not to be closed here
}

// madeDir is a folder that was created on the way; in is held so that it can be taken back and synced.
type madeDir struct {
	in   *os.Root
	name string
}

func (p *place) path() string {
	if p.entry == "." {
		return "."
	}
	return strings.Join(append(p.dirPath[:len(p.dirPath):len(p.dirPath)], p.entry), "/")
}

func (p *place) dirName() string {
	if len(p.dirPath) == 0 {
		return "."
	}
	return strings.Join(p.dirPath, "/")
}

func (p *place) close() {
	made := p.made
	p.made = nil
	for _, m := range made {
		p.release(m.in)
	}
	p.release(p.dir) // possibly a second time, which os.Root allows
	p.dir = nil
}

func (p *place) release(r *os.Root) {
	if r == nil || r == p.shared {
		return
	}
	for _, m := range p.made {
		if m.in == r {
			return // closed with the list
		}
	}
	r.Close()
}

type purpose int

const (
	toRead  purpose = iota // links are followed, the last component too
	toWrite                // links are followed but for the last component; protected places are refused
	toEnter                // no links at all
)

// walk resolves a name component by component, each from the handle of the one before, so that nothing that is swapped on
// the way can lead out: the worst it gets is a component of the tree it did not ask for, and that is checked again by identity.
//
// It follows links itself rather than leave them to os.Root, for three reasons: the place that a write reaches must be known
// for [Options].Protect, an absolute link into the tree is a link that stays inside, and ".." behind a link is told from an escape.
func (t *Tree) walk(asked string, why purpose, mkdirs bool) (_ *place, err error) {
	n, reason, what := localRules.parse(t.aliases, asked)
	if reason != 0 {
		return nil, &Error{Reason: reason, Path: asked, What: what}
	}
	op := ReadFailed
	if why == toWrite {
		op = WriteFailed
	}
	p := &place{asked: asked, dir: t.root, shared: t.root, slash: n.slash}
	defer func() {
		if err != nil {
			p.undoDirs()
			p.close()
		}
	}()
	enter := func(r *os.Root) {
		old := p.dir
		p.dir = r
		p.release(old)
	}

	todo := n.parts
	var links, swaps int
	var guarded, guardedLink bool // the walk is in, or came through a link named as, a protected place
	for steps := 0; len(todo) > 0; steps++ {
		if steps == maxSteps {
			return nil, &Error{Reason: BadName, Path: asked, What: "too_deep"}
		}
		part, last := todo[0], len(todo) == 1
		if part == ".." {
			// The parent is found from the root again: the directory that is held may have moved.
			if len(p.dirPath) == 0 {
				return nil, &Error{Reason: OutsideRoot, Path: asked}
			}
			todo = append(append([]string{}, p.dirPath[:len(p.dirPath)-1]...), todo[1:]...)
			p.dirPath, guarded = nil, false
			enter(t.root)
			continue
		}

		fi, err := p.dir.Lstat(part)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, t.systemError(op, asked, err)
		}
		here := why == toWrite && t.isGuarded(p.dir, part, fi)
		guarded = guarded || here
		refuse := guarded || guardedLink

		if fi == nil {
			if last {
				if refuse {
					return nil, &Error{Reason: Protected, Path: asked}
				}
				p.entry = part
				return p, nil
			}
			if leadsOut(len(p.dirPath), todo) {
				return nil, &Error{Reason: OutsideRoot, Path: asked}
			}
			if refuse {
				return nil, &Error{Reason: Protected, Path: asked}
			}
			if !mkdirs {
				return nil, &Error{Reason: NotFound, Path: asked, What: "missing", cause: err}
			}
			if err := t.makeDir(p, part); err != nil {
				return nil, t.systemError(WriteFailed, asked, err)
			}
			if fi, err = p.dir.Lstat(part); err != nil {
				return nil, t.systemError(op, asked, err)
			}
		}

		if target, isLink, err := readLink(p.dir, part, fi); isLink {
			if why == toEnter {
				return nil, &Error{Reason: WorkDir, Path: asked, What: "link"}
			}
			if why == toWrite && last {
				if refuse {
					return nil, &Error{Reason: Protected, Path: asked}
				}
				return nil, t.linkAsTarget(asked)
			}
			if err != nil {
				if swaps++; swaps > maxSwaps {
					return nil, t.systemError(op, asked, err)
				}
				continue
			}
			if links++; links > maxLinks {
				return nil, &Error{Reason: NotRegular, Path: asked, What: "link_loop"}
			}
			guardedLink = guardedLink || here
			at, absolute, ok := localRules.absolute(target)
			switch {
			case absolute && !ok:
				return nil, &Error{Reason: OutsideRoot, Path: asked}
			case absolute:
				parts, ok := localRules.below(t.aliases, at)
				if !ok {
					return nil, &Error{Reason: OutsideRoot, Path: asked}
				}
				todo = append(append([]string{}, parts...), todo[1:]...)
				p.dirPath, guarded = nil, false
				enter(t.root)
			default:
				todo = append(localRules.split(target), todo[1:]...)
			}
			if last && target != "" && localRules.separator(target[len(target)-1]) {
				p.slash = true
			}
			continue
		}

		if last {
			if refuse {
				return nil, &Error{Reason: Protected, Path: asked}
			}
			if p.slash && !fi.IsDir() {
				return nil, &Error{Reason: NotFound, Path: asked, What: "not_directory"}
			}
			p.entry, p.info = part, fi
			return p, nil
		}
		if !fi.IsDir() {
			if leadsOut(len(p.dirPath), todo) {
				return nil, &Error{Reason: OutsideRoot, Path: asked}
			}
			if refuse {
				return nil, &Error{Reason: Protected, Path: asked}
			}
			return nil, &Error{Reason: NotFound, Path: asked, What: "not_directory"}
		}
		next, err := openSame(p.dir, part, fi)
		if err != nil {
			// Swapped between the look and the open: look again. Anything else comes back the same way and ends the walk.
			if swaps++; swaps > maxSwaps || errors.Is(err, fs.ErrPermission) || errors.Is(err, os.ErrClosed) {
				return nil, t.systemError(op, asked, err)
			}
			continue
		}
		p.dirPath = append(p.dirPath, part)
		enter(next)
		todo = todo[1:]
	}

	// What was named is the root itself, or ".." led back to it.
	if p.info, err = p.dir.Lstat("."); err != nil {
		return nil, t.systemError(op, asked, err)
	}
	p.entry = "."
	return p, nil
}

// leadsOut tells whether the rest of a name, read as text since it cannot be walked, steps out of the root. A name that
// goes through a missing folder and then above the root is refused for the latter.
func leadsOut(depth int, rest []string) bool {
	for _, p := range rest {
		if p != ".." {
			depth++
		} else if depth--; depth < 0 {
			return true
		}
	}
	return false
}

// openSame opens the directory that fi describes, or fails: os.Root would follow a link that was put in its place meanwhile.
// It would also wait for the writer of a FIFO; with a slash behind its name the system takes nothing but a directory.
func openSame(in *os.Root, name string, fi os.FileInfo) (*os.Root, error) {
	next, err := in.OpenRoot(name + "/")
	if err != nil {
		return nil, err
	}
	got, err := next.Lstat(".")
	if err == nil && !os.SameFile(got, fi) {
		err = errSwapped
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

var errSwapped = errors.New("component was swapped")

// readLink reads fi's target if it is a link. Windows has reparse points that are links and are not called so by the mode.
func readLink(in *os.Root, name string, fi os.FileInfo) (target string, isLink bool, err error) {
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		target, err = in.Readlink(name)
		return target, true, err
	case fi.Mode()&fs.ModeIrregular != 0:
		target, err = in.Readlink(name)
		return target, err == nil, err
	}
	return "", false, nil
}

// linkAsTarget says why a link cannot be written: because it leads out if it does, else because it is a link.
func (t *Tree) linkAsTarget(asked string) error {
	p, err := t.walk(asked, toRead, false)
	if err == nil {
		p.close()
	}
	var e *Error
	if errors.As(err, &e) && e.Reason == OutsideRoot {
		return err
	}
	return &Error{Reason: NotRegular, Path: asked, What: "link"}
}

// isGuarded tells whether the entry of dir is protected: by any spelling of its name, or because it is the very directory or file
// that a protected name in the same folder leads to (a short name, a normalized spelling, the target of a link named ".git").
func (t *Tree) isGuarded(dir *os.Root, entry string, fi os.FileInfo) bool {
	folded := fold(entry)
	for i, name := range t.protect {
		if folded == name {
			return true
		}
		if fi == nil {
			continue
		}
		if guarded, err := dir.Stat(t.o.Protect[i]); err == nil && os.SameFile(guarded, fi) {
			return true
		}
	}
	return isTemporary(folded)
}

func (t *Tree) makeDir(p *place, part string) error {
	if len(p.made) == maxNewDirs {
		return &Error{Reason: BadName, Path: p.asked, What: "too_deep"}
	}
	err := p.dir.Mkdir(part, newDirPerm)
	if errors.Is(err, fs.ErrExist) {
		return nil // somebody else was faster: it is theirs
	}
	if err == nil {
		p.made = append(p.made, madeDir{in: p.dir, name: part})
	}
	return err
}

// undoDirs takes back the folders that the walk made, innermost first; one that is in use by now stays. Each is let go before it
// is removed, since file systems without the deletion of POSIX (FAT, some shares) keep an open folder, and with it the one around
// it. After this the place can only be closed.
func (p *place) undoDirs() {
	if len(p.made) == 0 {
		return
	}
	p.release(p.dir)
	for i := len(p.made) - 1; i >= 0; i-- {
		m := p.made[i]
		if m.in.Remove(m.name) != nil {
			return
		}
		p.made = p.made[:i]
		p.release(m.in)
	}
}
