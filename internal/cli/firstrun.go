package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/belayhq/belay/coding"
)

// warnOnce shows the security warning on the first run of this user: on standard
// error, until a marker in the state directory says that it was shown. Where the
// marker cannot be written it is shown each time.
func (p *program) warnOnce() {
	dir := p.stateDir()
	marker := filepath.Join(dir, "warned")
	if dir != "" {
		if _, err := os.Stat(marker); err == nil {
			return
		}
	}
	fmt.Fprintln(p.err, coding.SecurityWarning)
	if dir == "" || os.MkdirAll(dir, 0o700) != nil {
		return
	}
	_ = os.WriteFile(marker, []byte("The security warning was shown.\n"), 0o600)
}

// lockDir is for lock files, or "": the cache of the user has them then.
func (p *program) lockDir() string {
	dir := p.stateDir()
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "locks")
}

// stateDir is where belay keeps what outlives a run, or "" where the environment
// names no place. A relative path in a variable of the XDG kind is passed over, as
// their specification wants it.
func (p *program) stateDir() string {
	if home := p.getenv("BELAY_HOME"); home != "" {
		return home
	}
	return p.platformStateDir()
}
