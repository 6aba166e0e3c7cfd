package cli

import "path/filepath"

func (p *program) platformConfigDir() string {
	if dir := p.getenv("APPDATA"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "belay")
	}
	return ""
}
