//go:build windows

package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/windows"
)

const hang = 60 * time.Second

// The test binary is also the programs that the tests need.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "helper:") {
		helper(strings.TrimPrefix(os.Args[1], "helper:"), os.Args[2:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func helper(name string, args []string) {
	switch name {
	case "args":
		for _, a := range args {
			fmt.Printf("%q\n", a)
		}
	case "env":
		for _, v := range os.Environ() {
			fmt.Println(v)
		}
	case "both":
		fmt.Print("out")
		fmt.Fprint(os.Stderr, "err")
		os.Exit(7)
	case "cat":
		buf := make([]byte, 4096)
		for {
			n, err := os.Stdin.Read(buf)
			os.Stdout.Write(buf[:n])
			if err != nil {
				return
			}
		}
	case "flood":
		os.Stdout.Write(bytes.Repeat([]byte("x"), 3_000_000))
	case "sleep":
		fmt.Println("up")
		time.Sleep(hang)
	case "tree": // starts another in the same job and ends, or waits
		self, _ := os.Executable()
		p, err := os.StartProcess(self, []string{self, "helper:sleep"}, &os.ProcAttr{Files: []*os.File{nil, nil, nil}, Env: os.Environ()})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.Pid)
		if args[0] == "wait" {
			time.Sleep(hang)
		}
	}
}

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

func self(t *testing.T, args ...string) (Spec, *collected) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	c := &collected{}
	return Spec{Path: exe, Argv: append([]string{exe}, args...), Env: os.Environ(), Dir: dir, Output: c.write}, c
}

func start(t *testing.T, s Spec) *Proc {
	t.Helper()
	p, err := Start(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.End(KILL, 0); <-p.Done() })
	return p
}

func await(t *testing.T, p *Proc) Exit {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(hang):
		t.Fatal("hangs")
	}
	return p.Exit()
}

func upAndPID(t *testing.T, out *collected) (pid uint32) {
	t.Helper()
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if n, _ := fmt.Sscan(out.stdout(), &pid); n == 1 {
			return pid
		}
	}
	t.Fatalf("%q", out.stdout())
	return 0
}

func alive(pid uint32) bool {
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, pid)
	if err != nil {
		return false
	}
	defer windows.CloseHandle(h)
	e, _ := windows.WaitForSingleObject(h, 0)
	return e == uint32(windows.WAIT_TIMEOUT)
}

// S5: exit code, two streams.
func TestRuns(t *testing.T) {
	s, out := self(t, "helper:both")
	if e := await(t, start(t, s)); e.Code != 7 || e.Signal != "" || !e.Cleaned || out.stdout() != "out" || out.err.String() != "err" {
		t.Fatalf("%+v %q %q", e, out.stdout(), out.err.String())
	}
	s, out = self(t, "helper:both")
	s.Merge = true
	await(t, start(t, s))
	if out.stdout() != "outerr" {
		t.Fatalf("%q", out.stdout())
	}
}

func TestOutputIsComplete(t *testing.T) {
	for range 5 {
		s, out := self(t, "helper:flood")
		if await(t, start(t, s)); out.out.Len() != 3_000_000 {
			t.Fatal(out.out.Len())
		}
	}
}

func TestInput(t *testing.T) {
	s, out := self(t, "helper:cat") // none: end of file at once
	if e := await(t, start(t, s)); e.Code != 0 || out.stdout() != "" {
		t.Fatalf("%+v", e)
	}
	s, out = self(t, "helper:cat")
	s.Stdin = bytes.Repeat([]byte("y"), 300_000)
	if await(t, start(t, s)); out.out.Len() != 300_000 {
		t.Fatal(out.out.Len())
	}
	s, out = self(t, "helper:cat")
	s.OpenStdin = true
	p := start(t, s)
	if n, err := p.Write(context.Background(), []byte("hello")); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	if err := p.CloseInput(); err != nil {
		t.Fatal(err)
	}
	if e := await(t, p); e.Code != 0 || out.stdout() != "hello" {
		t.Fatalf("%+v %q", e, out.stdout())
	}
}

// S2, P4: the job ends with all that is in it.
func TestEndEndsTheJob(t *testing.T) {
	s, out := self(t, "helper:tree", "wait")
	p := start(t, s)
	pid := upAndPID(t, out)
	p.End(TERM, time.Hour) // without a console there is nothing to ask with: at once
	if e := await(t, p); e.Signal != "KILL" || !e.Cleaned {
		t.Errorf("%+v", e)
	}
	if alive(pid) {
		t.Error("the child is alive")
	}
}

func TestLeftoversAreEnded(t *testing.T) {
	s, out := self(t, "helper:tree", "go")
	p := start(t, s)
	e := await(t, p)
	if e.Code != 0 || !e.Cleaned || len(e.Ended) != 1 {
		t.Errorf("%+v", e)
	}
	if alive(upAndPID(t, out)) {
		t.Error("the child is alive")
	}
}

func TestStartErrors(t *testing.T) {
	for _, c := range []struct {
		change func(s *Spec)
		reason Reason
		what   string
	}{
		{func(s *Spec) { s.Path += ".none.exe" }, Missing, Program},
		{func(s *Spec) { s.Dir += `\none` }, Missing, Directory},
		{func(s *Spec) { s.Dir = s.Path }, NotDirectory, Directory},
		{func(s *Spec) { s.Argv = append(s.Argv, strings.Repeat("x", 40000)) }, ArgumentTooLong, Argument},
	} {
		s, _ := self(t, "helper:both")
		c.change(&s)
		_, err := Start(context.Background(), s)
		var se *StartError
		if !errors.As(err, &se) || se.Reason != c.reason || se.What != c.what {
			t.Errorf("%v %v: %v", c.reason, c.what, err)
		}
	}
}

// Arguments and variables arrive as they were given.
func TestArgumentsArrive(t *testing.T) {
	args := []string{"", "a b", `a"b`, `a\`, `a\"`, `\\x\\`, "ü€", "%PATH%", "a\tb"}
	s, out := self(t, append([]string{"helper:args"}, args...)...)
	await(t, start(t, s))
	want := ""
	for _, a := range args {
		want += fmt.Sprintf("%q\n", a)
	}
	if out.stdout() != want {
		t.Errorf("%s", out.stdout())
	}
	s, out = self(t, "helper:env")
	s.Env = append([]string{"ZED=z", "alpha=ä b"}, slices.DeleteFunc(os.Environ(), func(v string) bool { return !strings.HasPrefix(strings.ToUpper(v), "SYSTEMROOT=") })...)
	await(t, start(t, s))
	if got := out.stdout(); !strings.Contains(got, "ZED=z\n") || !strings.Contains(got, "alpha=ä b\n") {
		t.Errorf("%s", got)
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		path string
		argv []string
		want string
		ok   bool
	}{
		{`C:\x\prog.exe`, []string{"prog", "a b", `c"d`}, `prog "a b" c\"d`, true},
		{`C:\Windows\System32\cmd.exe`, []string{"cmd", "/d", "/c", `echo "hi there" & dir`}, `cmd /d /s /c "echo "hi there" & dir"`, true},
		{`C:\Windows\System32\CMD.EXE`, []string{"cmd", "/S", "/C", "x"}, `cmd /s /c "x"`, true},
		{`C:\x\run.cmd`, []string{"run.cmd", "plain"}, `run.cmd plain`, true},
		{`C:\x\run.cmd`, []string{"run.cmd", "a&b"}, ``, false},
		{`C:\x\run.BAT`, []string{"run", "%PATH%"}, ``, false},
	} {
		got, ok := commandLine(c.path, c.argv)
		if got != c.want || ok != c.ok {
			t.Errorf("%q: %q %v", c.argv, got, ok)
		}
	}
}

func TestCommandShell(t *testing.T) {
	env := os.Environ()
	path, err := Look("cmd", `C:\`, env)
	if err != nil {
		t.Fatal(err)
	}
	c := &collected{}
	p := start(t, Spec{Path: path, Argv: []string{"cmd", "/d", "/c", `echo "a b"& exit 3`}, Env: env, Dir: `C:\`, Output: c.write})
	if e := await(t, p); e.Code != 3 || c.stdout() != "\"a b\"\r\n" {
		t.Errorf("%+v %q", e, c.stdout())
	}
	for _, name := range []string{"no-such-program", `.\none`, ""} {
		if got, err := Look(name, `C:\`, env); err == nil {
			t.Errorf("%q is %q", name, got)
		}
	}
}

// P3: a pseudo-console, or a clear refusal.
func TestTerminal(t *testing.T) {
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil {
		t.Skip("wine has no working pseudo-console")
	}
	s, out := self(t, "helper:both")
	s.TTY = &Size{Cols: 80, Rows: 24}
	p, err := Start(context.Background(), s)
	var se *StartError
	if errors.As(err, &se) && se.Reason == NoTerminal {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Resize(Size{Cols: 100, Rows: 30}); err != nil && err != ErrEnded {
		t.Error(err)
	}
	if e := await(t, p); e.Code != 7 || !e.Cleaned {
		t.Errorf("%+v", e)
	}
	if got := out.stdout(); !strings.Contains(got, "outerr") {
		t.Errorf("%q", got)
	}
}
