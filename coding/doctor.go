package coding

import (
	"context"
	"errors"
	"os"
	"runtime"

	"github.com/belayhq/belay/internal/proc"
	"github.com/belayhq/belay/internal/proctool"
)

// A Report says what is in force and what is missing. It holds no file content,
// no command line, no environment value and no output.
type Report struct {
	Warning  string   `json:"warning"`
	Root     string   `json:"root"`
	Limits   Limits   `json:"limits"`
	Shell    string   `json:"shell"`  // program file of the user's shell, "" if there is none
	PTY      bool     `json:"pty"`    // a pseudo-terminal could be had
	Keeper   bool     `json:"keeper"` // what runs ends even if this process is killed
	Guard    string   `json:"guard"`
	Temp     string   `json:"temp"` // directory for temporary files
	Protect  []string `json:"protect"`
	EnvShell string   `json:"env_shell"` // what shell inherits
	EnvExec  string   `json:"env_exec"`  // what exec_command inherits
	Platform string   `json:"platform"`
	Missing  []string `json:"missing"` // what is needed and not there, in words
}

// Doctor looks at what the suite stands on: it starts the user's shell once on
// pipes and once on a terminal, and makes a file in the temporary directory.
func (s *Suite) Doctor(ctx context.Context) Report {
	r := Report{
		Warning: SecurityWarning, Root: s.Root(), Limits: s.config.Limits,
		Guard: "none", Temp: os.TempDir(), Protect: s.config.Protect,
		EnvShell: s.config.Env.Shell, EnvExec: s.config.Env.Exec,
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Missing: []string{},
	}
	shell, err := proc.Look(s.config.Shell, s.Root(), s.config.Environ)
	if err == nil {
		r.Shell = shell
		err = s.probe(ctx, shell, nil)
	}
	if err != nil {
		r.Missing = append(r.Missing, "a shell that can be started")
	}
	r.PTY = err == nil && s.probe(ctx, shell, &proc.Size{Cols: 80, Rows: 24}) == nil
	r.Keeper = s.table.Kept()
	if f, err := os.CreateTemp("", "belay-doctor-*"); err != nil {
		r.Missing = append(r.Missing, "a temporary directory that can be written to")
	} else {
		f.Close()
		os.Remove(f.Name())
	}
	return r
}

// probe starts the shell and sees it end.
func (s *Suite) probe(ctx context.Context, shell string, tty *proc.Size) error {
	p, err := s.table.Launch(ctx, proc.Spec{
		Path: shell, Argv: proctool.ShellArgv(s.config.Shell, "exit 0", false), Env: s.config.Environ, Dir: s.Root(), TTY: tty,
	})
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.End(proc.KILL, 0)
		<-p.Done()
		return ctx.Err()
	}
	if exit := p.Exit(); exit.Code != 0 {
		return errors.New("the shell fails")
	}
	return nil
}
