package proctool

import "strings"

// DefaultAllow is the allowlist of S7.
var DefaultAllow = []string{"SYSTEMROOT", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PATH"}

// foldName is what names are compared by: Windows does not tell cases apart.
func foldName(name string) string { return strings.ToUpper(name) }

// DefaultShell is used where nothing names a shell of the user.
const DefaultShell = "powershell.exe"

// shellVariable is one that nobody sets by accident: COMSPEC is cmd.exe on every
// Windows, and no choice of the user.
const shellVariable = "BELAY_SHELL"
