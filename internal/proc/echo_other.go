//go:build !(linux || darwin || freebsd)

package proc

// Echoes is true here: the console does not tell.
func (p *Proc) Echoes() bool { return true }
