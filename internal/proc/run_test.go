//go:build linux || darwin || freebsd

package proc

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// S5: the ways to end are told apart.
func TestExitIsTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line string
		code int
		sig  string
	}{
		{"exit 0", 0, ""}, {"exit 7", 7, ""}, {"exit 137", 137, ""}, // 137 by exit is no signal
		{"kill -KILL $$", -1, "KILL"}, {"kill -TERM $$", -1, "TERM"}, {"kill -HUP $$", -1, "HUP"},
	} {
		s, out := shell(t, "echo before; "+c.line)
		e := run(t, s)
		if e.Code != c.code || e.Signal != c.sig || !e.Cleaned || e.Left != nil || e.Ended != nil {
			t.Errorf("%s: %+v", c.line, e)
		}
		if out.stdout() != "before\n" {
			t.Errorf("%s: output %q", c.line, out.stdout())
		}
	}
}

// S4 (at the level of one process): two streams, apart, drained at once (SH-26).
func TestStreamsAreApart(t *testing.T) {
	t.Parallel()
	s, out := shell(t, "head -c 1000000 /dev/zero | tr '\\0' e >&2; echo ok")
	e := run(t, s)
	if e.Code != 0 || out.stdout() != "ok\n" || len(out.stderr()) != 1000000 {
		t.Fatalf("%+v %q %d", e, out.stdout(), len(out.stderr()))
	}
}

// Merge keeps the order of two streams.
func TestMergeKeepsOrder(t *testing.T) {
	t.Parallel()
	s, out := shell(t, "for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done")
	s.Merge = true
	run(t, s)
	want := ""
	for i := 1; i < 10; i++ {
		n := strconv.Itoa(i)
		want += "o" + n + "\ne" + n + "\n"
	}
	if out.stdout() != want || out.stderr() != "" {
		t.Fatalf("%q", out.stdout())
	}
}

// SH-27: nothing that was written before the end is lost.
func TestOutputIsComplete(t *testing.T) {
	t.Parallel()
	var sum [32]byte
	for i := range 40 {
		s, out := command(t, "seq", "1", "100000")
		run(t, s)
		got := out.stdout()
		if len(got) != 588895 {
			t.Fatalf("round %d: %d bytes", i, len(got))
		}
		if h := sha256.Sum256([]byte(got)); i == 0 {
			sum = h
		} else if h != sum {
			t.Fatal("another content")
		}
	}
}

// SH-17, SH-18: end of file at once, and no terminal to ask.
func TestNoInputAndNoTerminal(t *testing.T) {
	t.Parallel()
	s, out := shell(t, "cat; read x; echo rc=$?; (exec </dev/tty) 2>/dev/null && echo tty || echo none")
	if e := run(t, s); e.Code != 0 || out.stdout() != "rc=1\nnone\n" {
		t.Fatalf("%+v %q", e, out.stdout())
	}
}

// Spec.Stdin arrives whole, for every size around a pipe's, and need not be read.
func TestStdinArrives(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 65535, 65536, 65537, 3000000} {
		in := []byte(strings.Repeat("x", n))
		s, out := command(t, "cat")
		s.Stdin = in
		if e := run(t, s); e.Code != 0 || len(out.stdout()) != n {
			t.Errorf("%d: %+v, %d came back", n, e, len(out.stdout()))
		}
		s, _ = command(t, "true")
		s.Stdin = in
		if e := run(t, s); e.Code != 0 || !e.Cleaned {
			t.Errorf("%d not read: %+v", n, e)
		}
	}
}

// SH-43: three descriptors, whatever else this process has open.
func TestNoInheritedDescriptors(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	clearCloexec(t, w)
	s, out := shell(t, "ls /dev/fd/ 2>/dev/null | sort -n | tr '\\n' ' '")
	run(t, s)
	// The fourth is the directory that ls reads.
	if got := strings.Fields(out.stdout()); len(got) > 4 {
		t.Fatalf("descriptors %v", got)
	}
}

// S7 (at this level): exactly the given environment, also an empty one.
func TestEnvironmentIsExact(t *testing.T) {
	t.Parallel()
	s, out := command(t, "env")
	s.Env = []string{"A=1", "B=x y"}
	run(t, s)
	if out.stdout() != "A=1\nB=x y\n" {
		t.Fatalf("%q", out.stdout())
	}
	s, out = command(t, "env")
	s.Env = nil
	run(t, s)
	if out.stdout() != "" {
		t.Fatalf("%q", out.stdout())
	}
}

// S1: the last checks come right before the start; where they fail nothing runs.
func TestLastChecks(t *testing.T) {
	t.Parallel()
	s, _ := shell(t, "echo ran > ran")
	no := errors.New("no")
	s.Before = func() error { return no }
	if p, err := Start(context.Background(), s); err != no || p != nil {
		t.Fatalf("%v %v", p, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.Before = func() error { cancel(); return nil } // later than anything but the start
	if p, err := Start(ctx, s); !errors.Is(err, context.Canceled) || p != nil {
		t.Fatalf("%v %v", p, err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "ran")); err == nil {
		t.Fatal("it ran")
	}
	// After the start a cancellation means nothing here.
	ctx, cancel = context.WithCancel(context.Background())
	s, out := shell(t, "sleep 0.2; echo ran")
	p, err := Start(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if e := await(t, p); e.Code != 0 || out.stdout() != "ran\n" {
		t.Fatalf("%+v %q", e, out.stdout())
	}
}

// What cannot be started says why, and nothing is left behind.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		f := filepath.Join(dir, name)
		if err := os.WriteFile(f, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return f
	}
	os.Symlink("loop", filepath.Join(dir, "loop"))
	plain, script := file("plain", "x", 0o644), file("script", "#!/no/such/interpreter\n", 0o755)
	noFormat := file("noformat", "just text", 0o755)
	long := strings.Repeat("x", 131072)
	many := make([]string, 400)
	for i := range many {
		many[i] = strings.Repeat("y", 30000)
	}
	for _, c := range []struct {
		name   string
		change func(s *Spec)
		reason Reason
		what   string
	}{
		{"program missing", func(s *Spec) { s.Path = dir + "/none" }, Missing, Program},
		{"below a file", func(s *Spec) { s.Path = plain + "/none" }, Missing, Program},
		{"no x bit", func(s *Spec) { s.Path = plain }, NotExecutable, Program},
		{"a directory", func(s *Spec) { s.Path = dir }, NotExecutable, Program},
		{"no format", func(s *Spec) { s.Path = noFormat }, NotExecutable, Program},
		{"interpreter missing", func(s *Spec) { s.Path = script }, Missing, Interpreter},
		{"program loop", func(s *Spec) { s.Path = dir + "/loop" }, Link, Program},
		{"directory missing", func(s *Spec) { s.Dir = dir + "/none" }, Missing, Directory},
		{"directory is a file", func(s *Spec) { s.Dir = plain }, NotDirectory, Directory},
		{"directory loop", func(s *Spec) { s.Dir = dir + "/loop" }, Link, Directory},
		{"both missing", func(s *Spec) { s.Dir, s.Path = dir+"/none", dir+"/none" }, Missing, Directory},
		{"all too long", func(s *Spec) { s.Argv = many }, ArgumentTooLong, Argument},
		{"NUL", func(s *Spec) { s.Argv = []string{"a\x00b"} }, BadArgument, Argument},
		{"NUL in a variable", func(s *Spec) { s.Env = []string{"a=\x00"} }, BadArgument, Argument},
		{"relative program", func(s *Spec) { s.Path = "sh" }, BadArgument, Program},
		{"relative directory", func(s *Spec) { s.Dir = "." }, BadArgument, Directory},
		{"no argv", func(s *Spec) { s.Argv = nil }, BadArgument, Argument},
		{"no mark", func(s *Spec) { s.Mark = "a b" }, BadArgument, Argument},
		{"two inputs", func(s *Spec) { s.Stdin, s.OpenStdin = []byte{}, true }, BadArgument, Argument},
		{"terminal of no size", func(s *Spec) { s.TTY = &Size{} }, BadArgument, Terminal},
	} {
		s, _ := command(t, "true")
		c.change(&s)
		p, err := Start(context.Background(), s)
		var se *StartError
		if p != nil || !errors.As(err, &se) || se.Reason != c.reason || se.What != c.what {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil && (strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "yyyy")) {
			t.Errorf("%s: the text tells too much: %v", c.name, err)
		}
		if c.reason == ArgumentTooLong && se != nil && (se.Limit <= 0 || se.Actual <= se.Limit) {
			t.Errorf("%s: %+v", c.name, se)
		}
	}
	// SH-35: one argument over the limit, told before the start with the limit.
	if stringLimit > 0 {
		s, _ := command(t, "true", long)
		_, err := Start(context.Background(), s)
		var se *StartError
		if !errors.As(err, &se) || se.Reason != ArgumentTooLong || se.Limit != int64(stringLimit) || se.Actual != int64(len(long)) {
			t.Errorf("long argument: %v", err)
		}
		s, _ = command(t, "true", long[:stringLimit])
		if e := run(t, s); e.Code != 0 {
			t.Errorf("longest argument: %+v", e)
		}
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	put := func(d, name string, mode os.FileMode) string {
		f := filepath.Join(d, name)
		if err := os.WriteFile(f, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
		return f
	}
	tool := put(dir, "tool", 0o755)
	put(dir, "data", 0o644)
	put(other, "data", 0o755)
	os.Symlink("tool", filepath.Join(dir, "alias"))
	os.MkdirAll(filepath.Join(other, "sub"), 0o755)
	os.Symlink(filepath.Join(other, "sub"), filepath.Join(dir, "link"))
	put(other, "up", 0o755)
	env := []string{"PATH=/none:" + dir + ":" + other}
	for _, c := range []struct {
		name, dir, want string
		reason          Reason
		env             []string
	}{
		{"tool", "/", tool, 0, env},
		{"alias", "/", filepath.Join(dir, "alias"), 0, env}, // argv[0] of multi-call programs survives
		{"data", "/", filepath.Join(other, "data"), 0, env}, // passes over what cannot be run
		{"data", "/", "", NotExecutable, []string{"PATH=" + dir}},
		{"./tool", dir, dir + "/./tool", 0, nil},
		{"link/../up", dir, dir + "/link/../up", 0, nil}, // as the kernel reads it
		{tool, "/", tool, 0, nil},
		{"tool", dir, "", Missing, []string{"PATH=.::relative"}}, // never the current directory
		{"tool", dir, "", Missing, nil},
		{"", dir, "", Missing, env},
		{"./", dir, "", NotExecutable, env},
		{"./data", dir, "", NotExecutable, env},
	} {
		got, err := Look(c.name, c.dir, c.env)
		var se *StartError
		errors.As(err, &se)
		if got != c.want || (se == nil) != (c.reason == 0) || se != nil && se.Reason != c.reason {
			t.Errorf("%q in %q: %q %v", c.name, c.dir, got, err)
		}
	}
}

// The directory is held: the program starts in it although its name leads elsewhere by then (F1,
// S1).
func TestHeldDirectory(t *testing.T) {
	t.Parallel()
	s, out := shell(t, "cat here")
	inside, outside := filepath.Join(s.Dir, "d"), filepath.Join(s.Dir, "out")
	for d, text := range map[string]string{inside: "in", outside: "out"} {
		os.Mkdir(d, 0o755)
		os.WriteFile(filepath.Join(d, "here"), []byte(text), 0o644)
	}
	held, err := os.Open(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	s.Dir, s.DirFile = inside, held
	s.Before = func() error { // the worst moment
		os.Rename(inside, inside+"2")
		return os.Symlink(outside, inside)
	}
	if heldDir(held) == "" {
		t.Skip("no directories by handle here")
	}
	if e := run(t, s); e.Code != 0 || out.stdout() != "in" {
		t.Fatalf("%+v %q %q", e, out.stdout(), out.stderr())
	}
}

// A call does not wait for a pipe that somebody holds who is not to be ended (S3).
func TestHeldPipeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s, out := shell(t, "echo hi; exec 3>&1; (sleep 0.01; echo late) & exit 4")
	began := time.Now()
	if e := run(t, s); e.Code != 4 || !strings.HasPrefix(out.stdout(), "hi\n") {
		t.Fatalf("%+v %q", e, out.stdout())
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Fatal(d)
	}
}
