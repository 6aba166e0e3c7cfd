//go:build linux || openbsd || dragonfly || solaris

package worktree

import (
	"syscall"
	"time"
)

func changeTime(st *syscall.Stat_t) int64 {
	return time.Unix(int64(st.Ctim.Sec), int64(st.Ctim.Nsec)).UnixNano()
}
