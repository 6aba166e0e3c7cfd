package proc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

func hasSeparator(name string) bool { return strings.ContainsAny(name, `\/:`) }

// lookEnv returns the last value of a variable; names are compared without regard to case.
func lookEnv(env []string, key string) (string, bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(env[i], "="); ok && strings.EqualFold(k, key) {
			return v, true
		}
	}
	return "", false
}

// lookFile tries a name as it is if it has an ending that PATHEXT lists, and then with each of
// these endings.
func lookFile(file string, env []string) (string, error) {
	exts := []string{".com", ".exe", ".bat", ".cmd"}
	if v, ok := lookEnv(env, "PATHEXT"); ok && v != "" {
		exts = nil
		for _, e := range strings.Split(strings.ToLower(v), ";") {
			if e != "" {
				exts = append(exts, "."+strings.TrimPrefix(e, "."))
			}
		}
	}
	missing := &StartError{Reason: Missing, What: Program}
	own := strings.ToLower(filepath.Ext(file))
	for _, e := range exts {
		if own == e {
			return lookExact(file)
		}
	}
	best := missing
	for _, e := range exts {
		f, err := lookExact(file + e)
		if err == nil {
			return f, nil
		}
		if se, ok := err.(*StartError); ok && best.Reason == Missing {
			best = se
		}
	}
	if best.Reason == Missing {
		if fi, err := os.Stat(file); err == nil && !fi.IsDir() {
			return "", &StartError{Reason: NotExecutable, What: Program}
		}
	}
	return "", best
}

func lookExact(file string) (string, error) {
	fi, err := os.Stat(file)
	switch {
	case err == nil && fi.IsDir():
		return "", &StartError{Reason: NotExecutable, What: Program}
	case err == nil:
		return file, nil
	case errors.Is(err, os.ErrPermission):
		return "", &StartError{Reason: Permission, What: Program, cause: errnoOf(err)}
	}
	return "", &StartError{Reason: Missing, What: Program, cause: errnoOf(err)}
}
