package cli

import "path/filepath"

func (p *program) appData(name ...string) []string {
	return []string{filepath.Join(append([]string{p.getenv("APPDATA")}, name...)...)}
}

func (p *program) zedSettings() []string { return p.appData("Zed", "settings.json") }
