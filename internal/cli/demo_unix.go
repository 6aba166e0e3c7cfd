//go:build !windows

package cli

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// demoShell is what every Unix has.
const demoShell = "/bin/sh"

var demoFailing = []string{"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}

// demoLong has a child that would outlive a kill of the shell alone.
const demoLong = `sleep 300 & echo "child $!"; i=0; while :; do i=$((i+1)); echo "tick $i"; sleep 0.3; done`

// demoAsking asks for a name on its terminal.
const demoAsking = `printf 'your name? '; read name; echo "hello $name on a terminal of $(stty size)"`

// alive tells whether a process is there and no zombie: the first process of a
// container may take its time to reap.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil { // no /proc on this system, or gone just now
		return syscall.Kill(pid, 0) != syscall.ESRCH
	}
	_, state, ok := bytes.Cut(stat, []byte(") "))
	return !ok || state[0] != 'Z' && state[0] != 'X'
}

// demoSays takes its time and says a word.
func demoSays(word string) string { return "sleep 0.6; echo " + word }

// demoReads waits for a line.
const demoReads = `read answer; echo "$answer"`

// demoLasting runs until it is ended.
var demoLasting = []string{"/bin/sh", "-c", "exec sleep 300"}
