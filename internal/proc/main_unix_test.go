//go:build linux || darwin || freebsd

package proc

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The test binary is also the programs that the tests need: BELAY_PROC_TEST names one.
var helpers = map[string]func(args []string){}

// asUser is the value of BELAY_PROC_TEST_UID in a run of the whole suite as an ordinary user.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "helper:") {
		helpers[strings.TrimPrefix(os.Args[1], "helper:")](os.Args[2:])
		os.Exit(0)
	}
	before := openDescriptors()
	code := m.Run()
	if code == 0 {
		code = leaks(before)
	}
	os.Exit(code)
}

// leaks fails the run for what it left: goroutines, descriptors, processes.
func leaks(before int) int {
	code := 0
	if err := goleak.Find(); err != nil {
		fmt.Println("leaked goroutines:", err)
		code = 1
	}
	// The runtime's poller and the null device that os/exec keeps may have come.
	for end := time.Now().Add(5 * time.Second); openDescriptors() > before+3 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if n := openDescriptors(); n > before+3 {
		fmt.Printf("leaked descriptors: %d before, %d after\n", before, n)
		code = 1
	}
	var left []string
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if left = markedProcesses(testMark); len(left) == 0 {
			break
		}
	}
	if len(left) > 0 {
		fmt.Println("leaked processes:", left)
		code = 1
	}
	return code
}

func openDescriptors() int {
	d, err := os.ReadDir("/dev/fd")
	if err != nil {
		return 0
	}
	return len(d)
}

// testMark is in the environment of everything that the tests start.
var testMark = fmt.Sprintf("proctest%d", os.Getpid())

var marks struct {
	sync.Mutex
	n int
}

func newMark() string {
	marks.Lock()
	defer marks.Unlock()
	marks.n++
	return fmt.Sprintf("%s.%d", testMark, marks.n)
}

// collected is the output of one program.
type collected struct {
	mu       sync.Mutex
	out, err bytes.Buffer
}

func (c *collected) write(s Stream, p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s == Stderr {
		c.err.Write(p)
	} else {
		c.out.Write(p)
	}
}

func (c *collected) stdout() string { c.mu.Lock(); defer c.mu.Unlock(); return c.out.String() }
func (c *collected) stderr() string { c.mu.Lock(); defer c.mu.Unlock(); return c.err.String() }

func testEnv(mark string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "BELAY_PROC_TEST_MARK=" + testMark, "BELAY_SESSION=" + mark}
}

// shell makes the Spec of a shell line.
func shell(t testing.TB, line string) (Spec, *collected) {
	return command(t, "sh", "-c", line)
}

func command(t testing.TB, argv ...string) (Spec, *collected) {
	t.Helper()
	mark := newMark()
	env := testEnv(mark)
	path, err := Look(argv[0], "/", env)
	if err != nil {
		t.Skipf("%s: %v", argv[0], err)
	}
	c := &collected{}
	return Spec{Path: path, Argv: argv, Env: env, Dir: t.TempDir(), Mark: mark, Output: c.write}, c
}

func start(t testing.TB, s Spec) *Proc {
	t.Helper()
	p, err := Start(context.Background(), s)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() { p.End(KILL, 0); <-p.Done() })
	return p
}

// hang is far over what anything here takes, also on a loaded machine.
const hang = 30 * time.Second

func await(t testing.TB, p *Proc) Exit {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(hang):
		t.Fatal("not done: hangs")
	}
	return p.Exit()
}

func run(t testing.TB, s Spec) Exit { t.Helper(); return await(t, start(t, s)) }

// eventually waits for something that another process does.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("did not happen: ", what)
		}
	}
}

// pidIn waits for a number that a program writes into a file of its directory.
func pidIn(t testing.TB, dir, name string) int {
	t.Helper()
	var pid int
	eventually(t, "number in "+name, func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, name))
		if !bytes.HasSuffix(b, []byte("\n")) {
			return false
		}
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return pid > 0
	})
	return pid
}

// alive: it exists and is no zombie. PID 1 reaps late on some machines.
func alive(pid int) bool {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		out, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
		s := strings.TrimSpace(string(out))
		return s != "" && s[0] != 'Z'
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	return len(f) > 0 && f[0][0] != 'Z' && f[0][0] != 'X'
}

func state(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	return string(f[0])
}

func goneSoon(t testing.TB, pid int) {
	t.Helper()
	if alive(pid) {
		t.Errorf("process %d is alive", pid)
		unix.Kill(pid, unix.SIGKILL)
	}
}

// sweep ends a stray that a test made on purpose, by its number, right after checking its mark.
func sweep(t testing.TB, pid int) {
	t.Helper()
	if alive(pid) {
		syscall.Kill(pid, syscall.SIGKILL)
		eventually(t, "end of a stray", func() bool { return !alive(pid) })
	}
}

// markedProcesses lists what tests of this process left alive.
func markedProcesses(mark string) (left []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		b, err := os.ReadFile(d + "/environ")
		if err != nil || !bytes.Contains(b, []byte("BELAY_PROC_TEST_MARK="+mark+"\x00")) || !alive(pid) {
			continue
		}
		cmd, _ := os.ReadFile(d + "/cmdline")
		left = append(left, fmt.Sprintf("%d %q", pid, cmd))
	}
	return left
}
