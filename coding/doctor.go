package coding

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"

	"github.com/belayhq/belay/internal/proc"
	"github.com/belayhq/belay/tool"
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
	}
	var refused *tool.Error
	if _, err := s.probe(ctx, `{"cmd":"exit 0"}`); errors.As(err, &refused) {
		r.Missing = append(r.Missing, "a shell that can be started: "+refused.Message())
	}
	_, err = s.probe(ctx, `{"cmd":"exit 0","tty":true}`)
	r.PTY = err == nil
	r.Keeper = s.table.Kept()
	if f, err := os.CreateTemp("", "belay-doctor-*"); err != nil {
		r.Missing = append(r.Missing, "a temporary directory that can be written to")
	} else {
		f.Close()
		os.Remove(f.Name())
	}
	return r
}

func (s *Suite) probe(ctx context.Context, args string) (tool.Result, error) {
	return s.Call(ctx, Caller{}, tool.Call{ID: "doctor", Name: "exec_command", Args: json.RawMessage(args)})
}
