//go:build linux || darwin || freebsd

package proc

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
)

// The bare way: os/exec with two pipes. BenchmarkTrue is held against it.
func BenchmarkTrueBare(b *testing.B) {
	for b.Loop() {
		var o, e bytes.Buffer
		c := exec.Command("/bin/true")
		c.Env = testEnv("x")
		c.Stdout, c.Stderr = &o, &e
		if err := c.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTrue(b *testing.B) {
	s := Spec{Path: "/bin/true", Argv: []string{"true"}, Env: testEnv("bench"), Dir: os.TempDir(), Mark: "bench", Output: func(Stream, []byte) {}}
	for b.Loop() {
		p, err := Start(context.Background(), s)
		if err != nil {
			b.Fatal(err)
		}
		<-p.Done()
		if e := p.Exit(); e.Code != 0 || !e.Cleaned {
			b.Fatalf("%+v", e)
		}
	}
}

func BenchmarkShellForkBare(b *testing.B) {
	for b.Loop() {
		c := exec.Command("/bin/sh", "-c", "/bin/true; /bin/true")
		var o, e bytes.Buffer
		c.Stdout, c.Stderr = &o, &e
		if err := c.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkShellFork(b *testing.B) {
	s := Spec{Path: "/bin/sh", Argv: []string{"sh", "-c", "/bin/true; /bin/true"}, Env: testEnv("bench"), Dir: os.TempDir(), Mark: "bench"}
	for b.Loop() {
		p, err := Start(context.Background(), s)
		if err != nil {
			b.Fatal(err)
		}
		<-p.Done()
		if !p.Exit().Cleaned {
			b.Fatal("not cleaned")
		}
	}
}

const flood = 200 << 20

func BenchmarkFloodBare(b *testing.B) {
	b.SetBytes(flood)
	for b.Loop() {
		c := exec.Command("head", "-c", "209715200", "/dev/zero")
		w := &counter{}
		c.Stdout = w
		if err := c.Run(); err != nil || w.n != flood {
			b.Fatal(err, w.n)
		}
	}
}

type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }

func BenchmarkFlood(b *testing.B) {
	b.SetBytes(flood)
	path, err := Look("head", "/", os.Environ())
	if err != nil {
		b.Skip(err)
	}
	for b.Loop() {
		n := 0
		p, err := Start(context.Background(), Spec{Path: path, Argv: []string{"head", "-c", "209715200", "/dev/zero"}, Env: testEnv("bench"), Dir: "/", Mark: "bench",
			Output: func(_ Stream, b []byte) { n += len(b) }})
		if err != nil {
			b.Fatal(err)
		}
		<-p.Done()
		if n != flood {
			b.Fatal(n)
		}
	}
}
