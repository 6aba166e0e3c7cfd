package osfile

import (
	"bufio"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The test binary is also the writer that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "helper:hold" {
		f, err := os.OpenFile(os.Args[2], os.O_RDWR, 0)
		if err == nil {
			_, err = Lock(f, time.Minute)
		}
		if err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("held\n")
		time.Sleep(time.Minute)
	}
	os.Exit(m.Run())
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Between many openings, in one process, one at a time has the lock.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	open(t, path).WriteString("0")
	var all sync.WaitGroup
	var inside, times atomic.Int64
	for range 8 {
		f := open(t, path)
		all.Go(func() {
			for range 50 {
				unlock, err := Lock(f, time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d have it", n)
				}
				times.Add(1)
				inside.Add(-1)
				unlock()
			}
		})
	}
	all.Wait()
	if n := times.Load(); n != 8*50 {
		t.Error(n)
	}
}

// A lock is waited for in bounded time, and free again after unlock, which leaves the file open.
func TestBusy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	mine, other := open(t, path), open(t, path)
	unlock, err := Lock(mine, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, patience := range []time.Duration{-1, 0, 20 * time.Millisecond} {
		if _, err := Lock(other, patience); err != ErrBusy {
			t.Error(patience, err)
		}
	}
	// What is locked can be written and read.
	if _, err := other.WriteAt([]byte("x"), 0); err != nil {
		t.Error(err)
	}
	unlock()
	again, err := Lock(other, 0)
	if err != nil {
		t.Fatal(err)
	}
	again()
	again() // and once more is no harm
}

// A writer that is killed gives the lock back.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "f")
	f := open(t, path)
	cmd := exec.Command(self, "helper:hold", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatal(line, err)
	}
	if _, err := Lock(f, 0); err != ErrBusy {
		t.Error(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	unlock, err := Lock(f, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestSyncDir(t *testing.T) {
	t.Parallel()
	if err := SyncDir(t.TempDir()); err != nil {
		t.Error(err)
	}
	if err := SyncDir(filepath.Join(t.TempDir(), "none")); err != nil && !os.IsNotExist(err) || IsFull(err) || IsReadOnly(err) {
		t.Error(err)
	}
	if IsFull(nil) || IsReadOnly(nil) || IsFull(fs.ErrPermission) || IsReadOnly(fs.ErrPermission) {
		t.Error("an error that is none, or another")
	}
}
