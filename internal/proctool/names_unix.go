//go:build !windows

package proctool

// DefaultAllow is the allowlist of S7.
var DefaultAllow = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TERM", "TMPDIR", "TZ"}

// foldName is what names are compared by: here, as they are.
func foldName(name string) string { return name }

// DefaultShell is used where the environment names no shell of the user.
const DefaultShell = "/bin/sh"

// shellVariable names the user's shell.
const shellVariable = "SHELL"
