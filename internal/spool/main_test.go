package spool

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or, as a helper process, one of the scenes that need
// limits, rights or a mount of their own. Goroutines, descriptors and files that are
// left fail the run.
func TestMain(m *testing.M) {
	if name := os.Getenv("BELAY_SPOOL_HELPER"); name != "" {
		scene, ok := scenes[name]
		if !ok {
			fmt.Println("no such scene:", name)
			os.Exit(2)
		}
		if err := scene(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	// All temporary files of the run lie in one directory, which others can enter
	// (helper processes of another account) and which is empty again at the end.
	tmp, err := os.MkdirTemp("", "spool-run-")
	if err == nil {
		err = os.Chmod(tmp, 0o755)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(tmp)
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} {
		os.Setenv(name, tmp)
	}
	before := descriptors()
	if code := m.Run(); code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Println(err)
		return 1
	}
	if after := descriptors(); len(after) > len(before) {
		fmt.Printf("descriptors left: before %v, after %v\n", before, after)
		return 1
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		fmt.Printf("files left: %v, %v\n", left, err)
		return 1
	}
	return 0
}

// scenes are the bodies of helper processes, by name. The platform's test files
// add theirs.
var scenes = map[string]func() error{}
