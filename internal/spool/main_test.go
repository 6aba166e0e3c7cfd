package spool

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or, as a helper process, one of the scenes that need
// limits, rights or a mount of their own. Goroutines and descriptors that are left
// fail the run.
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
	before := descriptors()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Println(err)
			code = 1
		}
		if after := descriptors(); len(after) > len(before) {
			fmt.Printf("descriptors left: before %v, after %v\n", before, after)
			code = 1
		}
	}
	os.Exit(code)
}

// scenes are the bodies of helper processes, by name. The platform's test files
// add theirs.
var scenes = map[string]func() error{}
