package coding

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/belayhq/belay/guard"
	"github.com/belayhq/belay/internal/proctool"
	"github.com/belayhq/belay/internal/spool"
)

// Config is how a Suite is set up. Every field but Root may be left at its zero
// value, which stands for the built-in value in brackets.
type Config struct {
	Root    string // directory; a relative path counts from the current directory
	Limits  Limits
	Env     Env
	Protect []string // names that the file tools do not write to [.git .belay]
	Environ []string // the environment that children inherit from [os.Environ]
	Shell   string   // the user's shell, by name or path [$SHELL, else the platform's]

	// Hooks judge calls before they run, in order; the strictest verdict wins.
	Hooks []guard.Hook
	// ApprovalTimeout is how long a question to the user stands, counted from its
	// showing [60 s, which is also the most].
	ApprovalTimeout time.Duration
	// Journal is a file that records, for each call, that it started and how it
	// ended, and nothing of its arguments [none].
	Journal string

	// LockDir is a directory that is made for lock files where a folder cannot be locked
	// itself: on Windows, on some network file systems [belay/locks in the user's cache].
	// All that write to one tree have to name the same, outside of the tree.
	LockDir string

	// Keeper is the program, by its absolute path, with its arguments, that ends
	// what runs if this process is killed: it calls RunKeeper and does nothing else
	// [none: then a SIGKILL of this process leaves its children alive on Unix].
	Keeper []string
}

// Limits are in force from the start and are reported by Doctor.
type Limits struct {
	MaxPageBytes   int64 `json:"max_page_bytes"`   // of one read [262144; 4096 to 1048576]
	MaxFileBytes   int64 `json:"max_file_bytes"`   // largest file that is digested and replaced [67108864; at most 1073741824]
	MaxOutputBytes int64 `json:"max_output_bytes"` // kept in memory of each stream of a one-shot command [262144; 4096 to 16777216]
	MaxSessions    int   `json:"max_sessions"`     // running at once [256; 1 to 4096]
	MaxFinished    int   `json:"max_finished"`     // sessions kept after their end [64; 1 to 4096]
	TailBytes      int   `json:"tail_bytes"`       // of output that each session keeps in memory [64000; 1024 to 64000]

	LogBytesPerProcess int64 `json:"log_bytes_per_process"` // of output that each session keeps on disk [8388608; 1024 to 8388608]
	LogBytesTotal      int64 `json:"log_bytes_total"`       // of output that all sessions keep on disk [33554432; 1024 to 33554432]
}

// Env says what children inherit.
type Env struct {
	Shell string            // for the tool shell: allowlist or inherit [allowlist]
	Exec  string            // for exec_command [inherit]
	Allow []string          // the allowlist: names, or beginnings that end in *
	Set   map[string]string // variables that every child gets; they win over all others
}

// A ConfigError names the setting that cannot be used.
type ConfigError struct{ Setting, Expects string }

func (e *ConfigError) Error() string { return "setting " + e.Setting + ": expects " + e.Expects }

// fill checks the settings and puts the built-in values in.
func (c *Config) fill() error {
	if c.Root == "" {
		return &ConfigError{"root", "a directory"}
	}
	root, err := filepath.Abs(c.Root)
	if err != nil {
		return &ConfigError{"root", "an absolute path: there is no current directory"}
	}
	c.Root = root
	l := &c.Limits
	for _, n := range []struct {
		name          string
		value         *int64
		def, min, max int64
	}{
		{"limits.max_page_bytes", &l.MaxPageBytes, 256 << 10, 4 << 10, 1 << 20},
		{"limits.max_file_bytes", &l.MaxFileBytes, 64 << 20, 0, 1 << 30},
		{"limits.max_output_bytes", &l.MaxOutputBytes, 256 << 10, 4 << 10, 16 << 20},
		{"limits.log_bytes_per_process", &l.LogBytesPerProcess, spool.MaxPerLog, 1 << 10, spool.MaxPerLog},
		{"limits.log_bytes_total", &l.LogBytesTotal, spool.MaxTotal, 1 << 10, spool.MaxTotal},
	} {
		if err := inRange(n.name, n.value, n.def, n.min, n.max); err != nil {
			return err
		}
	}
	for _, n := range []struct {
		name          string
		value         *int
		def, min, max int
	}{
		{"limits.max_sessions", &l.MaxSessions, 256, 1, 4096},
		{"limits.max_finished", &l.MaxFinished, 64, 1, 4096},
		{"limits.tail_bytes", &l.TailBytes, 64_000, 1 << 10, 64_000},
	} {
		if err := inRange(n.name, n.value, n.def, n.min, n.max); err != nil {
			return err
		}
	}
	for _, p := range []struct {
		name  string
		value *string
		def   proctool.Policy
	}{{"env.shell", &c.Env.Shell, proctool.Allowlist}, {"env.exec", &c.Env.Exec, proctool.Inherit}} {
		switch proctool.Policy(*p.value) {
		case "":
			*p.value = string(p.def)
		case proctool.Allowlist, proctool.Inherit:
		default:
			return &ConfigError{p.name, "allowlist or inherit"}
		}
	}
	for name, value := range c.Env.Set {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return &ConfigError{"env.set", "names without = and NUL, and values without NUL"}
		}
	}
	if c.Env.Allow == nil {
		c.Env.Allow = slices.Clone(proctool.DefaultAllow)
	}
	if c.Protect == nil {
		c.Protect = []string{".git", ".belay"}
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Shell == "" {
		c.Shell = proctool.UserShell(c.Environ)
	}
	return nil
}

func inRange[N int | int64](name string, value *N, def, low, high N) error {
	if *value == 0 {
		*value = def
	}
	if *value < low || *value > high {
		return &ConfigError{name, fmt.Sprintf("a number from %d to %d", low, high)}
	}
	return nil
}
