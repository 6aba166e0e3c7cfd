package worktree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Expect says what a commit may find. Exactly one of Create and SHA256 is meant to be set.
type Expect struct {
	Create bool   // there must be no such file
	SHA256 string // the lower-case hex SHA-256 of the content that is to be replaced
	Mkdirs bool   // with Create: missing folders are made, at most 64; taken back if the commit fails
}

// Commit is what was seen to happen. Where the content was there already, nothing was touched: Changed, Committed and Durable are false.
type Commit struct {
	Path      string // below the root, with "/", links resolved
	SHA256    string // of the content that is in place now
	Previous  string // of the content that was replaced; "" for a create
	Size      int64  // of the content that is in place now, bytes
	Changed   bool
	Created   bool
	Committed bool // the new content is in place under its name
	Durable   bool // and the system confirmed that content and name are on the disk; never on Windows, which cannot sync a folder
}

// Commit puts content in place of what [Expect] names, or changes nothing. Content that is in place already is a success
// that touches nothing, whatever was expected.
//
// A cancellation that arrives before the commit, the rename, ends the call with Cancelled; one that arrives later changes nothing
// about the result. Errors are [*Error] and, but for Unconfirmed, say that nothing was changed.
//
// The new file has the old one's permission bits, and on Unix its owner and group where the process may give them, and on Linux its
// extended attributes of users and its access control lists. Where the group cannot be kept its permissions are those of others.
// Set-user-ID and set-group-ID bits and capabilities are dropped: they were granted to other content. A new file gets 0666
// less the umask, or what the folder's default list says. A file that nobody may write (0444), or that the caller could
// not open for writing, is not replaced, although its folder would allow it: that is WriteFailed with read_only or permission.
func (t *Tree) Commit(ctx context.Context, name string, content []byte, e Expect) (Commit, error) {
	if int64(len(content)) > t.o.MaxFileBytes {
		return Commit{}, &Error{Reason: TooLarge, Path: name, What: "content", Limit: t.o.MaxFileBytes, Actual: int64(len(content))}
	}
	next := digesting(content)
	defer next.hex()
	return t.change(ctx, name, change{create: e.Create, mkdirs: e.Create && e.Mkdirs, expect: e.SHA256, content: content, next: next})
}

// Update is [Tree.Commit] with the new content computed by f from the old, which has the digest sha256, within the same turn. f must
// neither change nor keep old; what it returns may share its memory. It can be called more than once. Its error is returned as it is.
func (t *Tree) Update(ctx context.Context, name, sha256 string, f func(old []byte) ([]byte, error)) (Commit, error) {
	return t.change(ctx, name, change{expect: sha256, update: f})
}

// change is one wish for a commit.
type change struct {
	create, mkdirs bool
	expect         string
	content        []byte
	next           *digested                    // of content; nil before update ran
	update         func([]byte) ([]byte, error) // nil: content is given
}

const (
	// maxAttempts bounds how often a commit starts again because its folder, or the file without its content, changed under it.
	maxAttempts = 8
	// Programs that scan files on Windows hold them for moments; a rename then fails and works a little later.
	renameTries = 10
	renamePause = 20 * time.Millisecond
	// writeBytes is written at a time, between two looks at the context.
	writeBytes = 1 << 20
	// privatePerm is what new content has before it gets the permissions of the file that it replaces.
	privatePerm = 0o600
)

// errAgain: what was looked at is no longer what is there; the attempt left nothing behind.
var errAgain = errors.New("changed under the commit")

func (t *Tree) change(ctx context.Context, asked string, ch change) (Commit, error) {
	var err error
	for n := range maxAttempts {
		var c Commit
		c, err = t.attempt(ctx, asked, ch, n == maxAttempts-1)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, errAgain) {
			break
		}
	}
	var own *Error
	var foreign updateError
	switch {
	case errors.As(err, &foreign):
		return Commit{}, foreign.error
	case errors.As(err, &own):
		if own.Path == "" {
			own.Path = asked
		}
		return Commit{}, own
	}
	return Commit{}, t.systemError(WriteFailed, asked, err)
}

// updateError marks an error of the caller's own function on its way out.
type updateError struct{ error }

func (t *Tree) attempt(ctx context.Context, asked string, ch change, last bool) (c Commit, err error) {
	if err := ended(ctx, asked); err != nil {
		return Commit{}, err
	}
	p, err := t.walk(asked, toWrite, ch.mkdirs)
	if err != nil {
		return Commit{}, err
	}
	defer p.close()
	defer func() {
		if err != nil && !unconfirmed(err) {
			p.undoDirs()
		}
	}()
	if p.entry == "." || p.slash {
		if p.info == nil && !ch.create {
			return Commit{}, &Error{Reason: NotFound, Path: asked, What: "missing"}
		}
		return Commit{}, &Error{Reason: NotRegular, Path: asked, What: "directory"}
	}
	dir, err := p.dir.Open(".")
	if err != nil {
		return Commit{}, err
	}
	defer dir.Close()
	release, err := t.lockFolder(ctx, dir)
	if err != nil {
		return Commit{}, err
	}
	defer release()

	// What is there, and whether it may be replaced.
	old, err := t.look(ctx, p, ch.update != nil)
	if err != nil {
		return Commit{}, err
	}
	defer old.close()
	same, err := t.decide(p, &ch, old)
	if err != nil {
		return Commit{}, err
	}
	if same {
		return Commit{Path: p.path(), SHA256: old.sum, Previous: old.sum, Size: old.id.size}, nil
	}
	if ch.update != nil {
		defer ch.next.hex()
	}
	if old != nil {
		if err := writable(dir, p.entry, old); err != nil {
			return Commit{}, err
		}
	}

	// The new content, whole and on the disk under its temporary name.
	temp := temporary(p.entry)
	written, err := t.prepare(ctx, p.dir, temp, ch.content, old)
	if errors.Is(err, fs.ErrNotExist) {
		err = errAgain // the folder was removed
	}
	if err != nil {
		return Commit{}, err
	}
	defer func() {
		if err != nil && !unconfirmed(err) {
			_ = t.steps.remove(p.dir, temp) // the error that is told is the one that ended the commit
		}
	}()

	// The last check and the commit.
	for try := 1; ; try++ {
		if err := t.recheck(ctx, p, dir, &ch, old, last); err != nil {
			return Commit{}, err
		}
		if err := ended(ctx, asked); err != nil {
			return Commit{}, err
		}
		if old == nil {
			err = t.steps.create(p.dir, dir, temp, p.entry)
		} else {
			err = t.steps.rename(p.dir, temp, p.entry)
		}
		if err == nil {
			break
		}
		if old == nil && errors.Is(err, fs.ErrExist) {
			return Commit{}, errAgain
		}
		switch seen, lerr := p.dir.Lstat(p.entry); {
		case lerr == nil && os.SameFile(seen, written):
			err = nil // it failed, and it happened: some network file systems answer twice
		case lerr != nil && !errors.Is(lerr, fs.ErrNotExist):
			return Commit{}, &Error{Reason: Unconfirmed, Path: asked, What: systemWord(err), cause: err}
		case lerr == nil && !seen.Mode().IsRegular():
			return Commit{}, errAgain // something else was put there: the next look names it
		case passing(err) && try < renameTries:
			if err := pause(ctx, renamePause); err != nil {
				return Commit{}, err
			}
			continue
		default:
			return Commit{}, err
		}
		break
	}

	// From here on nothing takes the commit back.
	c = Commit{
		Path:      p.path(),
		SHA256:    ch.next.hex(),
		Size:      int64(len(ch.content)),
		Changed:   true,
		Created:   old == nil,
		Committed: true,
		Durable:   t.steps.syncDir(dir) == nil,
	}
	if old != nil {
		c.Previous = old.sum
	}
	for _, m := range p.made {
		c.Durable = t.syncFolder(m.in) == nil && c.Durable
	}
	return c, nil
}

func unconfirmed(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == Unconfirmed
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *Tree) syncFolder(r *os.Root) error {
	dir, err := r.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return t.steps.syncDir(dir)
}

// target is the file that a commit found. A nil target is a file that does not exist.
type target struct {
	f        *os.File
	info     os.FileInfo
	id       identity
	sum      string
	content  []byte // only where it was asked for
	tooLarge bool   // then neither sum nor content
}

func (tg *target) close() {
	if tg != nil {
		tg.f.Close()
	}
}

// look opens and digests what is at p now; it has the folder's lock, but only this package's writers heed that.
func (t *Tree) look(ctx context.Context, p *place, whole bool) (*target, error) {
	for range maxSwaps {
		info, err := p.dir.Lstat(p.entry)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if _, isLink, _ := readLink(p.dir, p.entry, info); isLink {
			return nil, t.linkAsTarget(p.asked)
		}
		now := *p
		now.info = info
		f, id, err := t.openEntry(&now)
		if errors.Is(err, errSwapped) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, t.systemError(ReadFailed, p.asked, err)
		}
		tg := &target{f: f, info: info, id: id, tooLarge: id.size > t.o.MaxFileBytes}
		if !tg.tooLarge {
			err = tg.digest(ctx, whole)
		}
		if err != nil {
			f.Close()
			if errors.Is(err, errAgain) {
				continue
			}
			return nil, t.systemError(ReadFailed, p.asked, err)
		}
		return tg, nil
	}
	return nil, errAgain
}

// digest reads the target once; errAgain means that its length is not what it was a moment before.
func (tg *target) digest(ctx context.Context, whole bool) error {
	if whole {
		content := make([]byte, tg.id.size)
		sum := newOverlapped()
		n, err := readChunks(ctx, tg.f, content, sum.write)
		tg.sum = sum.hex()
		if err == nil && n != tg.id.size || err == nil && grown(tg.f, n) {
			err = errAgain
		}
		tg.content = content
		return err
	}
	buf := scratch.Get().(*[scratchBytes]byte)
	defer scratch.Put(buf)
	h := sha256.New()
	var n int64
	for n <= tg.id.size {
		if err := ctx.Err(); err != nil {
			return err
		}
		got, err := tg.f.ReadAt(buf[:], n)
		h.Write(buf[:got])
		n += int64(got)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if n != tg.id.size {
		return errAgain
	}
	tg.sum = hex.EncodeToString(h.Sum(nil))
	return nil
}

func grown(f *os.File, size int64) bool {
	var one [1]byte
	n, _ := f.ReadAt(one[:], size)
	return n > 0
}

// decide says whether the change may go on. same means that its content is there already.
func (t *Tree) decide(p *place, ch *change, old *target) (same bool, err error) {
	switch {
	case old == nil && ch.create:
		return false, nil
	case old == nil:
		return false, &Error{Reason: NotFound, Path: p.asked, What: "missing"}
	case old.tooLarge && ch.create:
		return false, &Error{Reason: Exists, Path: p.asked}
	case old.tooLarge:
		return false, &Error{Reason: TooLarge, Path: p.asked, What: "file", Limit: t.o.MaxFileBytes, Actual: old.id.size}
	case ch.update != nil && old.sum != ch.expect:
		return false, &Error{Reason: Stale, Path: p.asked, Current: old.sum}
	case ch.update != nil:
		next, err := ch.update(old.content)
		if err != nil {
			return false, updateError{err}
		}
		if int64(len(next)) > t.o.MaxFileBytes {
			return false, &Error{Reason: TooLarge, Path: p.asked, What: "content", Limit: t.o.MaxFileBytes, Actual: int64(len(next))}
		}
		if bytes.Equal(next, old.content) {
			return true, nil
		}
		ch.content, ch.next = next, digesting(next)
		return false, nil
	case old.id.size == int64(len(ch.content)) && old.sum == ch.next.hex():
		return true, nil
	case ch.create:
		return false, &Error{Reason: Exists, Path: p.asked, Current: old.sum}
	case old.sum != ch.expect:
		return false, &Error{Reason: Stale, Path: p.asked, Current: old.sum}
	}
	return false, nil
}

// writable keeps to what opening the file for writing would say. A rename asks only the folder, and so would replace a file
// that somebody made read-only to keep it as it is; and the superuser, whom modes do not stop, meant it no less.
func writable(dir *os.File, entry string, old *target) error {
	if old.info.Mode().Perm()&0o222 == 0 {
		return &Error{Reason: WriteFailed, What: "read_only"}
	}
	return mayWrite(dir, entry)
}

// recheck looks again at all that the commit rests on, right before it: the folder is still the one that the name leads to,
// and the file still has its content.
func (t *Tree) recheck(ctx context.Context, p *place, dir *os.File, ch *change, old *target, last bool) error {
	if len(p.dirPath) > 0 {
		held, err := dir.Stat()
		if err != nil {
			return err
		}
		if now, err := t.root.Stat(p.dirName()); err != nil || !os.SameFile(now, held) {
			return errAgain // moved or swapped: the next walk finds out to what
		}
	}
	if old == nil {
		return nil // the commit itself does not overwrite
	}
	now, err := t.look(ctx, p, false)
	if err != nil {
		return err
	}
	defer now.close()
	switch {
	case now == nil:
		return errAgain
	case now.tooLarge || now.sum != old.sum:
		if now.sum == ch.next.hex() {
			return errAgain // somebody else wrote the same: the next look sees it in place
		}
		return &Error{Reason: Stale, Path: p.asked, Current: now.sum}
	case now.id != old.id && !last:
		return errAgain // the same content with other permissions, perhaps: they are to be kept as they are now
	}
	return nil
}

// prepare writes content under the temporary name, gives it the metadata of the file that it is to replace, and syncs it. It
// leaves nothing behind when it fails.
func (t *Tree) prepare(ctx context.Context, dir *os.Root, temp string, content []byte, old *target) (written os.FileInfo, err error) {
	perm := os.FileMode(newFilePerm)
	if old != nil {
		perm = privatePerm
	}
	// A process that is started while this handle is open for writing inherits it until its exec, and meanwhile nobody
	// can execute the file ("text file busy"). So no process of ours starts before it is closed.
	syscall.ForkLock.RLock()
	forksHeld := true
	allowForks := func() {
		if forksHeld {
			forksHeld = false
			syscall.ForkLock.RUnlock()
		}
	}
	defer allowForks()

	f, err := t.steps.temp(dir, temp, perm)
	if errors.Is(err, fs.ErrExist) {
		// Under the folder's lock no other writer can be at work on it: a killed process left it.
		if err = t.steps.remove(dir, temp); err == nil || errors.Is(err, fs.ErrNotExist) {
			f, err = t.steps.temp(dir, temp, perm)
		}
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = t.steps.remove(dir, temp)
		}
	}()
	for rest := content; len(rest) > 0 && err == nil; {
		var n int
		n, err = t.steps.write(f, rest[:min(len(rest), writeBytes)])
		if err == nil && n == 0 {
			err = io.ErrShortWrite
		}
		rest = rest[n:]
		if err == nil {
			err = ctx.Err()
		}
	}
	if err == nil {
		written, err = f.Stat()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return written, t.settle(dir, temp, f, written, old, allowForks)
}

// digested is a digest that is being computed beside the call that needs it.
type digested struct {
	done chan struct{}
	sum  string
}

// digesting starts to digest content. The caller sees to it that hex is called before it returns.
func digesting(content []byte) *digested {
	d := &digested{done: make(chan struct{})}
	work := func() {
		d.sum = Digest(content)
		close(d.done)
	}
	if len(content) < scratchBytes {
		work() // cheaper than a goroutine
	} else {
		go work()
	}
	return d
}

func (d *digested) hex() string {
	<-d.done
	return d.sum
}

// overlapped digests what is written to it beside the writer.
type overlapped struct {
	chunks chan []byte
	digested
}

func newOverlapped() *overlapped {
	o := &overlapped{chunks: make(chan []byte, 4), digested: digested{done: make(chan struct{})}}
	go func() {
		h := sha256.New()
		for c := range o.chunks {
			h.Write(c)
		}
		o.sum = hex.EncodeToString(h.Sum(nil))
		close(o.done)
	}()
	return o
}

func (o *overlapped) write(b []byte) { o.chunks <- b }

// hex ends the writing.
func (o *overlapped) hex() string {
	close(o.chunks)
	return o.digested.hex()
}

// readChunks fills b from the start of f and passes on each piece when it is there.
func readChunks(ctx context.Context, f io.ReaderAt, b []byte, pass func([]byte)) (int64, error) {
	var n int64
	for n < int64(len(b)) {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		piece := b[n:min(int64(len(b)), n+writeBytes)]
		got, err := f.ReadAt(piece, n)
		pass(piece[:got])
		n += int64(got)
		if err == io.EOF {
			break
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
