package cli

import "path/filepath"

func (p *program) platformStateDir() string {
	if dir := p.getenv("LOCALAPPDATA"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "belay")
	}
	return ""
}
