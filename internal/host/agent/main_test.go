package agent

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// helpers are the programs that tests need; the first argument names one.
var helpers = map[string]func(args []string){}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && helpers[os.Args[1]] != nil {
		helpers[os.Args[1]](os.Args[2:])
		os.Exit(0)
	}
	flag.Set("test.parallel", "8") // they wait for processes, not for the processor
	before := descriptors()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Println("leaked goroutines:", err)
			code = 1
		}
		for end := time.Now().Add(3 * time.Second); descriptors() > before+3 && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		if n := descriptors(); n > before+3 { // the runtime's poller may have come
			fmt.Printf("leaked descriptors: %d before, %d after\n", before, n)
			code = 1
		}
	}
	os.Exit(code)
}

func descriptors() int {
	d, _ := os.ReadDir("/dev/fd")
	return len(d)
}
