//go:build amd64 || arm64 || riscv64

package proc

import "unsafe"

// The offsets of a 64-bit kinfo_proc, checked when this is compiled.
var (
	_ [unsafe.Offsetof(kinfo{}.PID) - 72]struct{}      = [0]struct{}{}
	_ [unsafe.Offsetof(kinfo{}.Start) - 336]struct{}   = [0]struct{}{}
	_ [unsafe.Offsetof(kinfo{}.State) - 388]struct{}   = [0]struct{}{}
	_ [unsafe.Offsetof(kinfo{}.Command) - 447]struct{} = [0]struct{}{}
)
