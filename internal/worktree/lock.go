package worktree

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Writers into one folder take turns. The unit is the folder and not the file, because the lock that works between
// processes without leaving anything behind is the one on the folder's own handle.

// leases hands out turns inside the process, by the identity of the folder. It is the one package variable whose
// state matters (the others are pools of memory): trees that were opened apart must share it. It makes waiters queue on a channel instead of asking the system again and again.
var leases = leaseTable{held: make(map[folderID]*lease)}

type folderID struct{ device, inode uint64 }

type leaseTable struct {
	mu   sync.Mutex
	held map[folderID]*lease
}

type lease struct {
	turn    chan struct{} // holds one token while the folder is free
	waiting int           // holders and waiters; guarded by the table's mu; the entry goes with the last
}

func (lt *leaseTable) acquire(ctx context.Context, id folderID) (release func(), err error) {
	lt.mu.Lock()
	l := lt.held[id]
	if l == nil {
		l = &lease{turn: make(chan struct{}, 1)}
		l.turn <- struct{}{}
		lt.held[id] = l
	}
	l.waiting++
	lt.mu.Unlock()

	leave := func() {
		lt.mu.Lock()
		if l.waiting--; l.waiting == 0 {
			delete(lt.held, id)
		}
		lt.mu.Unlock()
	}
	select {
	case <-l.turn:
		return func() { l.turn <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

const (
	// lockPatience bounds the wait for another process, which holds the lock for one commit: a synced write of 64 MiB
	// takes seconds on a slow disk.
	lockPatience = 30 * time.Second
	lockPauseMin = 500 * time.Microsecond
	lockPauseMax = 20 * time.Millisecond
)

// lockFolder gives the turn to write into the folder that dir holds, within the process and between processes.
func (t *Tree) lockFolder(ctx context.Context, dir *os.File) (release func(), err error) {
	id, err := identify(dir)
	if err != nil {
		return nil, err
	}
	folder := folderID{id.device, id.inode}
	leave, err := leases.acquire(ctx, folder)
	if err != nil {
		return nil, err
	}
	f, own := lockHandle(dir)
	locked := false
	if f != nil {
		locked, err = t.steps.lock(f)
	}
	if f == nil || err != nil {
		// The folder itself cannot be locked here: a file outside the tree stands for it.
		if f, err = t.lockFile(folder); err != nil {
			leave()
			return nil, err
		}
		own = true
		locked, err = t.steps.lock(f)
	}
	release = func() {
		unlock(f)
		if own {
			f.Close()
		}
		leave()
	}
	deadline := time.Now().Add(lockPatience)
	for pause := lockPauseMin; err == nil && !locked; pause = min(2*pause, lockPauseMax) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			if locked, err = t.steps.lock(f); err == nil && !locked && time.Now().After(deadline) {
				err = &Error{Reason: Busy, Limit: lockPatience.Milliseconds(), Actual: lockPatience.Milliseconds()}
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
		timer.Stop()
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// lockFile opens the file that stands for a folder. It stays, since removing it would let two processes lock two files of one name.
func (t *Tree) lockFile(folder folderID) (*os.File, error) {
	dir := t.o.LockDir
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(cache, "belay", "locks")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], folder.device)
	binary.BigEndian.PutUint64(b[8:], folder.inode)
	sum := sha256.Sum256(b[:])
	return os.OpenFile(filepath.Join(dir, hex.EncodeToString(sum[:8])+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
}
