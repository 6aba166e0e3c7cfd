//go:build !windows

package cli

import "path/filepath"

func (p *program) platformConfigDir() string {
	if dir := p.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "belay")
	}
	if home := p.getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "belay")
	}
	return ""
}
