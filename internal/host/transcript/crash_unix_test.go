//go:build unix

package transcript

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func init() {
	helpers["helper:talk"] = keepTalking
	helpers["helper:full"] = fillUp
}

// keepTalking makes calls until it is killed, and says each that has its result.
func keepTalking(args []string) {
	dir, id := In(args[0]), args[1]
	tr, _, err := dir.Resume(id, none)
	if err != nil {
		fmt.Println("resume:", err)
		os.Exit(1)
	}
	for i := range 100_000 {
		call := fmt.Sprintf("%d_%d", os.Getpid(), i)
		for _, e := range []Entry{
			{Type: Call, CallID: call, Args: strings.Repeat("x", 3000)},
			{Type: Result, CallID: call, Text: strings.Repeat("y", 9000)},
		} {
			if err := tr.Append(e); err != nil {
				fmt.Println("append:", err)
				os.Exit(1)
			}
		}
		fmt.Println(call)
	}
}

// C3, TR-01: after a SIGKILL at any moment the conversation can be resumed, has every
// entry that was acknowledged, and no call without a result. The lock is free again.
func TestKilledAtAnyMoment_C3(t *testing.T) {
	t.Parallel()
	rounds := 10
	if os.Getenv("BELAY_TEST_LONG") != "" {
		rounds = 300
	}
	self, err := os.Executable()
	must(t, err)
	d := folder(t)
	id := talk(t, d, 1)
	closed := 0
	said := map[string]bool{}
	for range rounds {
		cmd := exec.Command(self, "helper:talk", d.path, id)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := 1 + rand.IntN(20); n > 0 && lines.Scan(); n-- {
			said[lines.Text()] = true
		}
		time.Sleep(time.Duration(rand.IntN(1500)) * time.Microsecond)
		must(t, cmd.Process.Kill())
		for lines.Scan() {
			said[lines.Text()] = true
		}
		cmd.Wait()
		results := map[string]string{}
		open := ""
		tr, repair, err := d.Resume(id, func(e Entry) error {
			switch e.Type {
			case Call:
				open = e.CallID
			case Result:
				results[e.CallID] += e.Kind + "+"
				open = ""
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		must(t, tr.Close())
		closed += len(repair.Closed)
		if open != "" {
			t.Errorf("%s has no result", open)
		}
		for call := range said {
			if strings.Contains(call, ":") || results[call] != "+" {
				t.Errorf("%s was acknowledged, and has the results %q", call, results[call])
			}
		}
	}
	if closed == 0 {
		t.Log("no kill met an open call") // TestOpenCallsAreClosed has it in any case
	}
}

// fillUp writes on a disk that is full after so many bytes, and says what came of it.
func fillUp(args []string) {
	signal.Ignore(syscall.SIGXFSZ) // sent beside the error, to programs that do not ask for it
	room, _ := strconv.Atoi(args[2])
	tr, _, err := In(args[0]).Resume(args[1], none)
	if err != nil {
		fmt.Println(err)
		return
	}
	info, _ := os.Stat(In(args[0]).Path(args[1]))
	var limit syscall.Rlimit
	setLimit(&limit.Cur, info.Size()+int64(room))
	setLimit(&limit.Max, info.Size()+int64(room))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fmt.Println(err)
		return
	}
	for i := range 20 {
		fmt.Println(i, tr.Append(Entry{Type: User, Text: fmt.Sprint("entry ", i)}))
	}
}

// setLimit: the numbers have a sign on some systems.
func setLimit[N int64 | uint64](n *N, value int64) { *n = N(value) }

// A full disk is told with each entry that has no room, and leaves a conversation that is
// whole.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	for _, room := range []string{"0", "1", "300", "777"} {
		d := folder(t)
		id := talk(t, d, 1)
		out, err := exec.Command(self, "helper:full", d.path, id, room).CombinedOutput()
		must(t, err)
		kept, refused := 0, 0
		for line := range bytes.Lines(out) {
			switch {
			case bytes.HasSuffix(line, []byte("<nil>\n")):
				kept++
			case bytes.Contains(line, []byte(NoSpace.String())):
				refused++
			}
		}
		if kept+refused != 20 || refused == 0 {
			t.Errorf("room %s: %s", room, out)
		}
		tr, got, repair := resume(t, d, id)
		if len(got) != 1+kept || repair.Dropped != 0 {
			t.Errorf("room %s: %d entries of %d, %+v", room, len(got), 1+kept, repair)
		}
		must(t, tr.Append(Entry{Type: User})) // there is room again
	}
}

// What may not be read is told, also for root where the test runs as root: then the check
// is made as another user. The error names no path.
func TestPermission(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		self, err := os.Executable()
		must(t, err)
		dir, err := os.MkdirTemp("", "transcript-user-*")
		must(t, err)
		defer os.RemoveAll(dir)
		must(t, os.Chmod(dir, 0o755))
		copied := filepath.Join(dir, "test") // the test binary is in a folder of root's
		raw, err := os.ReadFile(self)
		must(t, err)
		syscall.ForkLock.RLock() // a child that is being started would hold it open for writing
		err = os.WriteFile(copied, raw, 0o755)
		syscall.ForkLock.RUnlock()
		must(t, err)
		cmd := exec.Command(copied, "-test.run=^TestPermission$")
		cmd.Dir, cmd.Env = "/", []string{"TMPDIR=/tmp"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("as another user: %v\n%s", err, out)
		}
		return
	}
	d := folder(t)
	id := talk(t, d, 1)
	must(t, os.Chmod(d.Path(id), 0))
	if _, _, err := d.Resume(id, none); reasonOf(err) != Permission || strings.Contains(err.Error(), d.path) {
		t.Error(err)
	}
	if list, err := d.List(); err != nil || len(list) != 1 || !list[0].Damaged {
		t.Errorf("%+v, %v", list, err)
	}
	must(t, os.Chmod(d.path, 0o500))
	defer os.Chmod(d.path, 0o700)
	if err := d.New("/").Append(Entry{Type: User}); reasonOf(err) != Permission {
		t.Error(err)
	}
}

// TR-06: a conversation that was closed is free, also while a child that is being started
// still has a copy of the descriptor.
func TestClosedIsFree(t *testing.T) {
	t.Parallel()
	d := folder(t)
	tr := d.New("/")
	must(t, tr.Append(Entry{Type: User}))
	syscall.ForkLock.RLock()
	dup, err := syscall.Dup(int(tr.file.Fd()))
	if err == nil {
		syscall.CloseOnExec(dup)
	}
	syscall.ForkLock.RUnlock()
	must(t, err)
	defer syscall.Close(dup)
	must(t, tr.Close())
	resume(t, d, tr.ID())
}
