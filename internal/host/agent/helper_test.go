package agent

import (
	"os"
	"os/exec"
	"testing"
)

// startHelper runs a helper in a process of its own, and gives what kills and reaps it.
func startHelper(t *testing.T, name string, args ...string) (kill func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, append([]string{name}, args...)...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	done := false
	kill = func() {
		if !done {
			done = true
			c.Process.Kill()
			c.Wait()
		}
	}
	t.Cleanup(kill)
	return kill
}

// helperOutput runs a helper to its end.
func helperOutput(t *testing.T, name string, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, append([]string{name}, args...)...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	return string(out)
}
