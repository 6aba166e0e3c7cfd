//go:build linux || darwin

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/host/model/scripted"
	"github.com/belayhq/belay/internal/host/transcript"
)

// A disk that is full in the middle of a turn ends the run before anything follows from
// what is not written, and loses nothing: with room again the conversation goes on, and
// the transcript has what the model was shown. The full disk is a limit on the size of
// files, which is a matter of the whole process.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"user", "assistant", "result", "notice", "notice within a run", "notice at the stop"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			if out := helperOutput(t, "full", t.TempDir(), at); out != "fine\n" {
				t.Error(out)
			}
		})
	}
}

func init() { helpers["full"] = func(args []string) { fmt.Println(fullDisk(args[0], args[1])) } }

// fullDisk says fine, or what is not.
func fullDisk(dir, at string) string {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err.Error()
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte(strings.Repeat("x", 20_000)), 0o600); err != nil {
		return err.Error()
	}
	kept := transcript.In(filepath.Join(dir, "conversations"))
	tr := kept.New(dir)
	size := func() uint64 {
		info, err := os.Stat(kept.Path(tr.ID()))
		if err != nil {
			return 0
		}
		return uint64(info.Size())
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err.Error()
	}
	// room leaves so many bytes for the transcript; below 0 there is no limit.
	room := func(n int) {
		l := old
		if n >= 0 {
			l.Cur = size() + uint64(n)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			panic(err)
		}
	}
	reads := `"calls":[{"name":"read","args":{"path":"f"}},{"name":"read","args":{"path":"gone"}}]`
	script := map[string]string{
		"user":      `{"text":"one"}` + "\n" + `{"text":"two","expect":["(?s)^user:\nlost.*user:\nagain\n$"]}`,
		"assistant": `{"text":"one"}` + "\n" + `{"text":"` + strings.Repeat("w", 5000) + `",` + reads + "}\n" + `{"text":"two","expect":["(?s)^user:\nlost\nuser:\nagain\n$"]}`,
		"result":    `{"text":"one"}` + "\n{" + reads + "}\n" + `{"text":"two","expect":["(?s)^tool:\n.*xxx.*tool failed:\nnot_found.*user:\nagain\n$"]}`,
		"notice": `{"text":"x","calls":[{"name":"exec_command","args":{"cmd":"while [ ! -e go ]; do sleep 0.02; done; head -c 9000 f","yield_time_ms":250,"completion_mode":"steer"}}]}` + "\n" +
			`{"text":"one"}` + "\n" + `{"text":"two","expect":["(?s)^user:\nagain\n.*untrusted.*xxxx"]}`,
		"notice within a run": `{"text":"one"}` + "\n" + `{"calls":[{"name":"exec_command","args":{"cmd":"sleep 0.4; head -c 9000 f","yield_time_ms":250,"completion_mode":"steer"}},{"name":"exec_command","args":{"cmd":"sleep 1"}}]}` + "\n" +
			`{"text":"two","expect":["(?s)user:\nagain\n.*untrusted.*xxxx"]}`,
		"notice at the stop": `{"text":"one"}` + "\n" + `{"calls":[{"name":"exec_command","args":{"cmd":"sleep 0.4; head -c 9000 f","yield_time_ms":250,"completion_mode":"steer"}}]}` + "\n" +
			`{"text":"it runs","wait_ms":800}` + "\n" + `{"text":"two","expect":["(?s)user:\nagain\n.*untrusted.*xxxx"]}`,
	}[at]
	p, err := scripted.Parse(strings.NewReader(script))
	if err != nil {
		return err.Error()
	}
	s, err := coding.New(coding.Config{Root: dir, Shell: "/bin/sh"})
	if err != nil {
		return err.Error()
	}
	defer s.Close()
	a := New(Config{Model: p, Suite: s, Transcript: tr})
	defer a.Close()
	do := func(text string) Outcome {
		if err := a.Prompt(text); err != nil {
			panic(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), long)
		defer cancel()
		if err := a.Wait(ctx); err != nil {
			panic(err)
		}
		return a.Outcome()
	}
	a.Typing(true)
	if at == "notice" {
		if err := a.Prompt("begin"); err != nil {
			return err.Error()
		}
		for a.Outcome().Text != "one" || a.Busy() {
		}
		room(100)
		a.Typing(false)
		if f, err := os.Create(filepath.Join(dir, "go")); err == nil {
			f.Close()
		}
		ctx, cancel := context.WithTimeout(context.Background(), long)
		defer cancel()
		if err := a.Wait(ctx); err != nil {
			return err.Error()
		}
	} else {
		do("begin")
		room(map[string]int{"user": 20, "assistant": 1000, "result": 2000, "notice within a run": 5000, "notice at the stop": 5000}[at])
		do("lost")
	}
	o := a.Outcome()
	var e *transcript.Error
	if !errors.As(o.Err, &e) {
		return fmt.Sprintf("full: %+v", o)
	}
	if n := p.Left(); n != 1 {
		return fmt.Sprintf("%d requests are left: it went on", n)
	}
	room(-1)
	if o := do("again"); o.Err != nil || o.Text != "two" {
		return fmt.Sprintf("with room again: %+v %s", o, sentence(o.Err))
	}
	var entries []transcript.Entry
	if err := kept.Read(tr.ID(), func(e transcript.Entry) error { entries = append(entries, e); return nil }); err != nil {
		return err.Error()
	}
	var restored history
	restored.restore(entries)
	if x, y := shown(a.Messages()), shown(restored.messages); x != y {
		return "the transcript has another conversation: " + x + "\n" + y
	}
	if err := tr.Close(); err != nil {
		return err.Error()
	}
	return "fine"
}
