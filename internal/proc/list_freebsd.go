package proc

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB of <sys/proc.h>

// kinfo is the head of struct kinfo_proc of <sys/user.h>, up to the name. The system tells its size
// in the first field; the layout is that of the 64-bit systems.
type kinfo struct {
	Size    int32
	Layout  int32
	_       [8]uintptr // args paddr addr tracep textvp fd vmspace wchan
	PID     int32
	PPID    int32
	PGID    int32
	TPGID   int32
	SID     int32
	TSID    int32
	_       [2]int16
	_       uint32
	_       [4][4]uint32 // signal sets
	_       [5]uint32    // uid ruid svuid rgid svgid
	_       [2]int16
	_       [16]uint32 // groups
	_       [6]int64   // sizes
	_       [2]uint16
	_       [5]uint32
	_       uint64
	Start   [2]int64 // seconds, microseconds
	_       [2]int64
	_       [2]int64
	_       int32
	State   int8
	_       [5]int8
	_       [17]byte // thread
	_       [9]byte  // wait message
	_       [18]byte // login
	_       [9]byte  // lock
	Command [20]byte
}

const kinfoSize = 1088 // sizeof(struct kinfo_proc) where pointers have 64 bits

func pipeCloexec(fds *[2]int) error { return unix.Pipe2(fds[:], unix.O_CLOEXEC) }

func parseKinfo(b []byte) (list []process, ok bool) {
	for len(b) > 0 {
		if len(b) < kinfoSize {
			return nil, false
		}
		k := (*kinfo)(unsafe.Pointer(&b[0]))
		if k.Size != kinfoSize {
			return nil, false // another layout: nothing is proven then
		}
		if k.State != zombie && k.PID > 0 {
			list = append(list, process{
				pid:   int(k.PID),
				name:  unix.ByteSliceToString(k.Command[:]),
				birth: k.Start[0]*1e6 + k.Start[1],
			})
		}
		b = b[kinfoSize:]
	}
	return list, true
}

func processes() ([]process, error) {
	for range 3 { // the list can outgrow the buffer between the two questions
		b, err := unix.SysctlRaw("kern.proc.proc")
		if err != nil {
			continue
		}
		if list, ok := parseKinfo(b); ok {
			return list, nil
		}
		break
	}
	return nil, errIncomplete
}

func processOf(pid int) (process, bool) {
	b, err := unix.SysctlRaw("kern.proc.pid", pid)
	if err != nil {
		return process{}, false
	}
	list, ok := parseKinfo(b)
	if !ok || len(list) != 1 || list[0].pid != pid {
		return process{}, false
	}
	return list[0], true
}
