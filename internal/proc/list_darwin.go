package proc

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB of <sys/proc.h>

func pipeCloexec(fds *[2]int) error {
	// No pipe2 here: no fork may come in between.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := unix.Pipe(fds[:]); err != nil {
		return err
	}
	unix.CloseOnExec(fds[0])
	unix.CloseOnExec(fds[1])
	return nil
}

func fromKinfo(k *unix.KinfoProc) (process, bool) {
	x := process{
		pid:   int(k.Proc.P_pid),
		name:  unix.ByteSliceToString(k.Proc.P_comm[:]),
		birth: k.Proc.P_starttime.Sec*1e6 + int64(k.Proc.P_starttime.Usec),
	}
	return x, k.Proc.P_stat != zombie && x.pid > 0
}

func processes() ([]process, error) {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, errIncomplete
	}
	list := make([]process, 0, len(all))
	for i := range all {
		if x, live := fromKinfo(&all[i]); live {
			list = append(list, x)
		}
	}
	return list, nil
}

func processOf(pid int) (process, bool) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return process{}, false
	}
	x, live := fromKinfo(k)
	return x, live && x.pid == pid
}
