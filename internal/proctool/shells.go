package proctool

import (
	"path"
	"slices"
	"strings"
)

// UserShell is the shell that the environment names, or the platform's own.
func UserShell(environ []string) string {
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok && foldName(name) == shellVariable && value != "" {
			return value
		}
	}
	return DefaultShell
}

// ShellArgv is how a shell is given a command line without reading its start-up
// files, or, for login, as a login shell. What still runs is up to the shell:
// bash reads what BASH_ENV names, zsh its zshenv. It is no security boundary.
func ShellArgv(shell, line string, login bool) []string {
	base := strings.TrimSuffix(strings.ToLower(path.Base(strings.ReplaceAll(shell, `\`, "/"))), ".exe")
	if strings.ContainsAny(line[:min(1, len(line))], "-+") && !slices.Contains([]string{"powershell", "pwsh", "cmd"}, base) {
		line = " " + line // a shell takes what begins like its options for one also behind -c
	}
	switch base {
	case "bash":
		if login {
			return []string{shell, "-l", "-c", line}
		}
		return []string{shell, "--noprofile", "--norc", "-c", line}
	case "zsh":
		if login {
			return []string{shell, "-l", "-c", line}
		}
		return []string{shell, "-f", "-c", line}
	case "fish":
		if login {
			return []string{shell, "-l", "-c", line}
		}
		return []string{shell, "--no-config", "-c", line}
	case "busybox":
		if login {
			return []string{shell, "sh", "-l", "-c", line}
		}
		return []string{shell, "sh", "-c", line}
	case "powershell", "pwsh":
		argv := []string{shell, "-NoLogo", "-NonInteractive"}
		if !login {
			argv = append(argv, "-NoProfile")
		}
		return append(argv, "-Command", line)
	case "cmd":
		return []string{shell, "/d", "/s", "/c", line}
	}
	if login {
		return []string{shell, "-l", "-c", line}
	}
	return []string{shell, "-c", line}
}
