package cli

import "path/filepath"

func (p *program) appData(name ...string) []string {
	return []string{filepath.Join(append([]string{p.home(), "Library", "Application Support"}, name...)...)}
}

func (p *program) zedSettings() []string {
	return []string{filepath.Join(p.home(), ".config", "zed", "settings.json")}
}
