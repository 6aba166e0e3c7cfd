package guard

import (
	"path"
	"slices"
	"strings"

	"github.com/belayhq/belay/tool"
)

// Quote writes a program and its arguments as one line that a POSIX shell would take
// apart into the same words. It is for display and for judging: belay never gives
// the line to a shell.
func Quote(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		plain := w != "" && strings.Trim(w, plainChars) == "" && w[0] != '='
		if i == 0 { // where a shell looks for an assignment or a word of its own
			plain = plain && strings.IndexByte(w, '=') < 0 && !slices.Contains(reserved, w)
		}
		if !plain {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		words[i] = w
	}
	return strings.Join(words, " ")
}

// plainChars mean nothing to a shell.
const plainChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"

var reserved = strings.Fields("case coproc do done elif else esac fi for function if in select then time until while")

// CommandLine is what an Action starts, as the text of one command: the line that a
// shell is given, or the quoted argv with its standard input as a here-document. A line
// for a shell that the call chose is shown with that shell, unless it is a usual one:
// "python3 -c '…'". It is "" for an Action that starts nothing.
func CommandLine(a tool.Action) string {
	line := a.Line
	switch {
	case len(a.Argv) > 0:
		line = Quote(a.Argv)
	case line != "" && a.Shell != "" && !usualShell(a.Shell):
		line = Quote([]string{a.Shell, "-c", line})
	}
	if a.Stdin == "" || line == "" {
		return line
	}
	end := "EOF"
	for slices.Contains(strings.Split(a.Stdin, "\n"), end) {
		end += "_"
	}
	text := a.Stdin
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return line + " <<'" + end + "'\n" + text + end
}

// usualShell: its line reads as every command line does. A path that is not absolute
// leads into the working directory, where anything can have such a name.
func usualShell(shell string) bool {
	shell = strings.ReplaceAll(shell, `\`, "/")
	if strings.Contains(shell, "/") && !path.IsAbs(shell) && !(len(shell) > 2 && shell[1:3] == ":/") {
		return false
	}
	switch strings.TrimSuffix(strings.ToLower(path.Base(shell)), ".exe") {
	case "sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "fish", "busybox", "powershell", "pwsh", "cmd":
		return true
	}
	return false
}
