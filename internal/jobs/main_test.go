package jobs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/belayhq/belay/internal/proc"
)

// testMark is in the environment of everything that the tests start.
var testMark = fmt.Sprintf("BELAY_JOBS_TEST=%d", os.Getpid())

func TestMain(m *testing.M) {
	tmp, err := os.MkdirTemp("", "jobstest-")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Setenv("TMPDIR", tmp) // where logs go unless a test says otherwise
	before := openDescriptors()
	code := m.Run()
	if code == 0 {
		code = leaks(before, tmp)
	}
	os.RemoveAll(tmp)
	os.Exit(code)
}

// leaks fails the run for what it left: goroutines, descriptors, processes, files.
func leaks(before int, tmp string) (code int) {
	fail := func(what string, v any) { fmt.Println("leaked", what, v); code = 1 }
	if err := goleak.Find(); err != nil {
		fail("goroutines:", err)
	}
	// the runtime's poller may have come
	if !soon(func() bool { return openDescriptors() <= before+3 }) {
		fail("descriptors:", openDescriptors()-before)
	}
	if !soon(func() bool { return len(marked(testMark)) == 0 }) {
		fail("processes:", marked(testMark))
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		fail("files:", left)
	}
	return code
}

func soon(ok func() bool) bool {
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

func openDescriptors() int {
	d, _ := os.ReadDir("/proc/self/fd")
	return len(d)
}

// marked lists the processes that have a variable and are no zombies: PID 1 reaps
// late on some machines.
func marked(variable string) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/environ")
		pid, _ := strconv.Atoi(filepath.Base(d))
		if err == nil && pid != os.Getpid() && bytes.Contains(append(b, 0), []byte(variable+"\x00")) && alive(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	return len(f) > 0 && f[0][0] != 'Z' && f[0][0] != 'X'
}

// hang is far over what anything here takes, also on a loaded machine.
const hang = 60 * time.Second

func table(t testing.TB, l Limits) *Table {
	t.Helper()
	tb, err := New(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		defer cancel()
		if err := tb.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return tb
}

// sh is the start of a shell line.
func sh(t testing.TB, line string) proc.Spec {
	t.Helper()
	return proc.Spec{
		Path: "/bin/sh", Argv: []string{"sh", "-c", line}, Dir: "/",
		Env: []string{"PATH=" + os.Getenv("PATH"), testMark},
	}
}

func start(t testing.TB, tb *Table, line string) *Job {
	t.Helper()
	return startSpec(t, tb, Spec{Proc: sh(t, line)})
}

func startSpec(t testing.TB, tb *Table, s Spec) *Job {
	t.Helper()
	j, err := tb.Start(context.Background(), s)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return j
}

// end waits for the end of a session.
func end(t testing.TB, j *Job) Status {
	t.Helper()
	select {
	case <-j.Done():
	case <-time.After(hang):
		t.Fatal("the session does not end")
	}
	return j.Status()
}

// says waits until a session has printed a text.
func says(t testing.TB, j *Job, text string) {
	t.Helper()
	for end := time.Now().Add(hang); !strings.Contains(j.Page(0, 1<<20).Text, text); {
		if time.Now().After(end) {
			t.Fatalf("the session does not say %q", text)
		}
		Await(context.Background(), []*Job{j}, Output, 20*time.Millisecond)
		time.Sleep(time.Millisecond)
	}
}
