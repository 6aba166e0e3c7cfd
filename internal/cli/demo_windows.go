package cli

import (
	"golang.org/x/sys/windows"
)

// demoShell is what every Windows has.
const demoShell = "powershell.exe"

var demoFailing = []string{"cmd.exe", "/d", "/c", "echo out& echo err>&2& exit 3"}

// demoLong has a child that would outlive the end of the shell alone.
const demoLong = `$c = Start-Process -PassThru -NoNewWindow ping -ArgumentList '-n','300','127.0.0.1' -RedirectStandardOutput NUL; "child $($c.Id)"; $i = 0; while ($true) { $i++; "tick $i"; Start-Sleep -Milliseconds 300 }`

// demoAsking is left out: what a console program shows goes by way of the screen.
const demoAsking = ""

func alive(pid int) bool {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return false
	}
	defer windows.CloseHandle(h)
	var code uint32
	return windows.GetExitCodeProcess(h, &code) == nil && code == 259 // STILL_ACTIVE
}

// demoSays takes its time and says a word.
func demoSays(word string) string { return "Start-Sleep -Milliseconds 600; '" + word + "'" }

// demoReads waits for a line.
const demoReads = `[Console]::In.ReadLine()`

// demoLasting runs until it is ended.
var demoLasting = []string{"ping", "-n", "300", "127.0.0.1"}
