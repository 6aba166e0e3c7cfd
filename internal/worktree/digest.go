package worktree

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"
)

const (
	// scratchBytes is what a read streams through besides its page: half of what it may take more (F2).
	scratchBytes = 32 << 10
	// chunkBytes is what a commit compares at a time.
	chunkBytes = 128 << 10
)

var (
	scratch = sync.Pool{New: func() any { return new([scratchBytes]byte) }}
	chunk   = sync.Pool{New: func() any { return new([chunkBytes]byte) }}
)

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

const (
	// A file that changed this recently can change again without a new time: clocks of file systems tick in steps of up
	// to 2 s (FAT; ext4 and others some ms).
	settleTime = 2 * time.Second
	// A session pages through a few files at a time; an entry is some 150 bytes.
	maxDigests = 256
)

// digestCache remembers digests by identity, so that paging through a file reads only the pages. A commit never trusts
// it; at most it takes a guess from it, and checks the guess before anything happens.
type digestCache struct {
	mu    sync.Mutex
	known map[identity]remembered
	order [maxDigests]identity // ring, oldest at next once it is full
	next  int
}

type remembered struct {
	sum     string
	plain   bool // the whole file is plain, as isPlain says
	settled bool // it was computed so long after the last change that another change shows in the identity
}

// get gives what is known of a file in this state, and whether anything is.
func (c *digestCache) get(id identity) (remembered, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.known[id]
	return r, r.settled
}

// guess gives what the digest most likely is, or "".
func (c *digestCache) guess(id identity) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[id].sum
}

// put remembers what was computed from content read at now or later.
func (c *digestCache) put(id identity, r remembered, now time.Time) {
	latest := now.Add(-settleTime).UnixNano()
	r.settled = id.modified < latest && id.changed < latest
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = make(map[identity]remembered)
	}
	if _, ok := c.known[id]; !ok {
		delete(c.known, c.order[c.next])
		c.order[c.next] = id
		c.next = (c.next + 1) % maxDigests
	}
	c.known[id] = r
}
