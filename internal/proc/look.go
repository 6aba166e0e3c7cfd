package proc

import (
	"os"
	"path/filepath"
	"strings"
)

// Look finds the program file that a name means. A name with a separator is relative to dir;
// another is searched for in PATH (on Windows also PATHEXT) of env, and of nothing else. Empty and
// relative elements of PATH are passed over: a file of the worktree is never run by a bare name.
// Links are not resolved, since many a program goes by the name it was called. dir must be
// absolute. The error is a *StartError about Program.
func Look(name, dir string, env []string) (string, error) {
	missing := &StartError{Reason: Missing, What: Program}
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return "", missing
	}
	if hasSeparator(name) {
		if !filepath.IsAbs(name) {
			// Not filepath.Join: that would fold "link/.." into nothing.
			name = strings.TrimSuffix(dir, string(filepath.Separator)) + string(filepath.Separator) + name
		}
		return lookFile(name, env)
	}
	path, _ := lookEnv(env, "PATH")
	best := missing
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			continue
		}
		at := filepath.Join(d, name)
		file, err := lookFile(at, env)
		if err == nil {
			return file, nil
		}
		// A file that is there and cannot be run says more than that another is not there. In a
		// directory that we may not search nothing is known to be there.
		if e, ok := err.(*StartError); ok && best.Reason == Missing {
			if _, err := os.Lstat(at); err == nil || e.Reason != Permission {
				best = e
			}
		}
	}
	return "", best
}
