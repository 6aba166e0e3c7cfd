//go:build !windows

package guard

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/belayhq/belay/tool"
)

// testMark is in the environment of everything that the tests start.
var testMark = fmt.Sprintf("BELAY_GUARD_TEST=%d", os.Getpid())

func TestMain(m *testing.M) {
	before := descriptors()
	code := m.Run()
	if code == 0 {
		code = leaks(before)
	}
	os.Exit(code)
}

// leaks fails the run for what it left: goroutines, descriptors, processes.
func leaks(before int) int {
	if err := goleak.Find(); err != nil {
		fmt.Println("leaked goroutines:", err)
		return 1
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		n, left := descriptors(), marked()
		if n <= before+3 && len(left) == 0 { // the runtime's poller may have come
			return 0
		}
		if time.Now().After(end) {
			fmt.Println("leaked: descriptors before and after", before, n, "processes", left)
			return 1
		}
	}
}

func descriptors() int {
	d, _ := os.ReadDir("/dev/fd")
	return len(d)
}

// marked lists live processes that tests of this run started.
func marked() (left []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		if env, err := os.ReadFile(d + "/environ"); err == nil && bytes.Contains(env, []byte(testMark+"\x00")) && alive(pid) {
			left = append(left, filepath.Base(d))
		}
	}
	return left
}

// alive: it exists and is no zombie. Where there is no /proc it counts as gone.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(f) > 0 && f[0][0] != 'Z' && f[0][0] != 'X'
}

// script writes a program of sh and gives an External that runs it.
func script(t testing.TB, body string) External {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "h.sh")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return external(dir, file)
}

func external(root string, argv ...string) External {
	return External{Argv: argv, Root: root, Env: []string{"PATH=" + os.Getenv("PATH"), testMark}, Timeout: hang}
}

// hang is far over what anything here takes, also on a loaded machine.
const hang = 30 * time.Second

var run = tool.Action{Tool: "exec_command", Line: "touch RAN"}

func read(t testing.TB, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// pidIn waits for a number that a program writes into a file.
func pidIn(t testing.TB, parts ...string) int {
	t.Helper()
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		b, _ := os.ReadFile(filepath.Join(parts...))
		if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && bytes.HasSuffix(b, []byte("\n")) {
			return pid
		}
	}
	t.Fatal("no number was written")
	return 0
}
