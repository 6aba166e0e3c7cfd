//go:build !windows

package proc

import "strings"

func hasSeparator(name string) bool { return strings.IndexByte(name, '/') >= 0 }

// lookEnv returns the last value of a variable, as a C library that was given both would not; a
// caller's environment has each name once.
func lookEnv(env []string, key string) (string, bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(env[i], "="); ok && k == key {
			return v, true
		}
	}
	return "", false
}
