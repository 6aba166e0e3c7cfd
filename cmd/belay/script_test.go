package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/belayhq/belay/internal/cli"
	"github.com/belayhq/belay/internal/host/models"
)

// The test binary is belay itself when it is called by that name, so the scripts
// run the real program; as a keeper belay is started by its path.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "keeper" {
		os.Exit(cli.Main(models.New))
	}
	testscript.Main(crowd{m}, map[string]func(){"belay": func() { os.Exit(cli.Main(models.New)) }})
}

// A crowd of tests waits more than it works, for processes and for time to pass: more of them
// run at once than there are processors.
type crowd struct{ *testing.M }

func (c crowd) Run() int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0)))
	}
	return c.M.Run()
}

// TestScripts runs belay as a user would. The scripts name the requirements that
// they prove.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("SHELL", "/bin/sh")
			env.Setenv("TMPDIR", env.WorkDir+"/tmp")
			for _, d := range []string{"/home", "/tmp"} {
				if err := os.MkdirAll(env.WorkDir+d, 0o755); err != nil {
					return err
				}
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs a command that has to exit with a code: exits 5 belay call …
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE command…")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("usage: exits CODE command…")
	}
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		got = failed.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
