package worktree

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"
)

// scratchBytes is what a call streams through besides its page.
const scratchBytes = 32 << 10

var scratch = sync.Pool{New: func() any { return new([scratchBytes]byte) }}

// Digest is the lower-case hex SHA-256 of content.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// identity is a state of one file: as long as none of it changes the content is taken to be the same. The change time is
// part of it, since size and modification time can be set back; times are nanoseconds since 1970.
type identity struct {
	device, inode uint64
	size          int64
	modified      int64
	changed       int64
}

func (id identity) sameFile(other identity) bool {
	return id.device == other.device && id.inode == other.inode
}

const (
	// A file that changed this recently can change again without a new time: clocks of file systems tick in steps of up
	// to 2 s (FAT; ext4 and others some ms).
	settleTime = 2 * time.Second
	// A session pages through a few files at a time; an entry is some 150 bytes.
	maxDigests = 256
)

// digestCache remembers digests by identity, so that paging through a file reads only the pages. A commit never asks it.
type digestCache struct {
	mu    sync.Mutex
	known map[identity]string
	order [maxDigests]identity // ring, oldest at next once it is full
	next  int
}

func (c *digestCache) get(id identity) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum, ok := c.known[id]
	return sum, ok
}

func (c *digestCache) put(id identity, sum string, now time.Time) {
	settled := now.Add(-settleTime).UnixNano()
	if id.modified > settled || id.changed > settled {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = make(map[identity]string)
	}
	if _, ok := c.known[id]; ok {
		return
	}
	delete(c.known, c.order[c.next])
	c.known[id], c.order[c.next] = sum, id
	c.next = (c.next + 1) % maxDigests
}
