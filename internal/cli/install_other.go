//go:build !darwin && !windows

package cli

import "path/filepath"

func (p *program) appData(name ...string) []string {
	dir := p.getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(p.home(), ".config")
	}
	return []string{filepath.Join(append([]string{dir}, name...)...)}
}

func (p *program) zedSettings() []string { return p.appData("zed", "settings.json") }
