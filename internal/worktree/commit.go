package worktree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sync"
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
	next := unstarted(content)
	defer next.end()
	if len(content) > keepBytes { // the digests take longer than the disk
		next.start(nil)
	}
	return t.change(ctx, name, change{create: e.Create, mkdirs: e.Create && e.Mkdirs, expect: e.SHA256, content: content, next: next})
}

// Update is [Tree.Commit] with the new content computed by f from the old, which has the digest sha256, within the same turn. f is
// given the path below the root, links resolved, and must neither change nor keep old; what it returns may share its memory. It can be called more than once. Its error is returned as it is.
func (t *Tree) Update(ctx context.Context, name, sha256 string, f func(path string, old []byte) ([]byte, error)) (Commit, error) {
	return t.change(ctx, name, change{expect: sha256, update: f})
}

// change is one wish for a commit.
type change struct {
	create, mkdirs bool
	expect         string
	content        []byte
	next           *digested                            // of content; nil before update ran
	update         func(string, []byte) ([]byte, error) // nil: content is given
}

const (
	// maxAttempts bounds how often a commit starts again because its folder, or the file without its content, changed under it.
	maxAttempts = 8
	// Programs that scan files on Windows hold them for moments; a rename then fails and works a little later.
	renameTries = 10
	renamePause = 20 * time.Millisecond
	// pieceBytes is read or written at a time, between two looks at the context.
	pieceBytes = 1 << 20
	// keepBytes is the size up to which a replace keeps the old content, so that the last check before the commit compares bytes
	// (10 GB/s) rather than digests them again (1.5 GB/s).
	keepBytes = 4 << 20
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
	dir, err := p.dir.OpenFile(".", os.O_RDONLY|openWithoutWaiting, 0)
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
	keep, lend := int64(keepBytes), true
	if ch.update != nil {
		keep, lend = t.o.MaxFileBytes, false // what the function returns may share the memory
	}
	old, err := t.look(ctx, p, keep, lend)
	if err != nil {
		return Commit{}, err
	}
	defer old.close()
	same, err := t.decide(p, &ch, old)
	if err != nil {
		return Commit{}, err
	}
	if same {
		sum := old.sum.hex()
		return Commit{Path: p.path(), SHA256: sum, Previous: sum, Size: old.id.size}, nil
	}
	if ch.update != nil {
		defer ch.next.end()
	}
	if old != nil {
		if err := writable(dir, p.entry, old); err != nil {
			return Commit{}, err
		}
	}

	// The new content, whole and on the disk under its temporary name.
	temp := temporary(p.entry)
	written, err := t.prepare(ctx, p.dir, temp, ch, old)
	if errors.Is(err, fs.ErrNotExist) {
		err = errAgain // the folder was removed
	}
	if err != nil {
		return Commit{}, err
	}
	if old != nil {
		old.f.Close() // some systems rename over no open file
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
	durable := t.steps.syncDir(dir) == nil
	c = Commit{
		Path:      p.path(),
		SHA256:    ch.next.hex(), // had until now
		Size:      int64(len(ch.content)),
		Changed:   true,
		Created:   old == nil,
		Committed: true,
		Durable:   durable,
	}
	if old != nil {
		c.Previous = old.sum.hex()
	}
	for _, m := range p.made {
		c.Durable = t.syncFolder(m.in) == nil && c.Durable
	}
	if fi, err := p.dir.Lstat(p.entry); err == nil && os.SameFile(fi, written) {
		if id, ok := identityAt(fi); ok {
			t.digests.put(id, remembered{sum: c.SHA256}, time.Now()) // a guess for the next commit
		}
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
	sum      *digested
	content  []byte  // nil where the file is larger than was to be kept
	lent     *[]byte // content's memory, where it goes back to kept
	tooLarge bool    // then neither sum nor content
}

// kept lends out memory for the old content of replaces: fresh memory for each costs more than the reading into it.
var kept = sync.Pool{New: func() any { return new([]byte) }}

func (tg *target) close() {
	if tg == nil {
		return
	}
	if tg.sum != nil {
		tg.sum.end()
	}
	tg.f.Close()
	if tg.lent != nil {
		tg.content = nil
		kept.Put(tg.lent)
		tg.lent = nil
	}
}

// look opens what is at p now, and digests it; up to keep bytes it also keeps the content, and then the digest may still
// be on its way. It has the folder's lock, but only this package's writers heed that.
func (t *Tree) look(ctx context.Context, p *place, keep int64, lend bool) (*target, error) {
	for range maxSwaps {
		tg, err := t.open(p)
		if errors.Is(err, errSwapped) {
			continue
		}
		if tg == nil || err != nil || tg.tooLarge {
			return tg, err
		}
		err = tg.digest(ctx, keep, lend)
		if err == nil {
			return tg, nil
		}
		tg.close()
		if !errors.Is(err, errSwapped) {
			return nil, t.systemError(ReadFailed, p.asked, err)
		}
	}
	return nil, errAgain
}

// open opens the regular file at p, without a digest; nil if there is nothing.
func (t *Tree) open(p *place) (*target, error) {
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
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errSwapped
	}
	if err != nil {
		if !errors.Is(err, errSwapped) {
			err = t.systemError(ReadFailed, p.asked, err)
		}
		return nil, err
	}
	return &target{f: f, info: info, id: id, tooLarge: id.size > t.o.MaxFileBytes}, nil
}

// digest reads the target once; errSwapped means that its length is not what it was a moment before.
func (tg *target) digest(ctx context.Context, keep int64, lend bool) error {
	if tg.id.size > keep {
		sum := sha256.New()
		n, err := chunks(ctx, tg.f, tg.id.size, func(b []byte) bool { sum.Write(b); return true })
		if err == nil && n != tg.id.size {
			err = errSwapped
		}
		tg.sum = known(hex.EncodeToString(sum.Sum(nil)))
		return err
	}
	var content []byte
	if lend {
		tg.lent = kept.Get().(*[]byte)
		*tg.lent = slices.Grow((*tg.lent)[:0], int(tg.id.size))
		content = (*tg.lent)[:tg.id.size]
	} else {
		content = make([]byte, tg.id.size)
	}
	sum, done := overlapped()
	defer done()
	tg.sum = sum.digested
	var n int64
	for n < int64(len(content)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		piece := content[n:min(int64(len(content)), n+pieceBytes)]
		got, err := tg.f.ReadAt(piece, n)
		sum.write(piece[:got])
		n += int64(got)
		if err == io.EOF {
			return errSwapped
		}
		if err != nil {
			return err
		}
	}
	var more [1]byte
	if got, _ := tg.f.ReadAt(more[:], n); got > 0 {
		return errSwapped
	}
	tg.content = content
	return nil
}

// chunks passes the content of f on in small pieces, up to size and one piece more where it is longer, until pass has enough.
func chunks(ctx context.Context, f io.ReaderAt, size int64, pass func([]byte) bool) (n int64, err error) {
	buf := chunk.Get().(*[chunkBytes]byte)
	defer chunk.Put(buf)
	for n <= size {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		got, err := f.ReadAt(buf[:], n)
		n += int64(got)
		if !pass(buf[:got]) || err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// decide says whether the change may go on. same means that its content is there already.
//
// Where the digest is still on its way and the memory of digests makes it likely that it is the expected one, the new content is
// written meanwhile; [Tree.recheck] waits for the digest before anything is committed. Without that likelihood
// the digest is waited for here, so that a stale expectation does not stir the folder.
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
	case ch.update != nil && old.sum.hex() != ch.expect:
		return false, &Error{Reason: Stale, Path: p.asked, Current: old.sum.hex()}
	case ch.update != nil:
		next, err := ch.update(p.path(), old.content)
		if err != nil {
			return false, updateError{err}
		}
		if int64(len(next)) > t.o.MaxFileBytes {
			return false, &Error{Reason: TooLarge, Path: p.asked, What: "content", Limit: t.o.MaxFileBytes, Actual: int64(len(next))}
		}
		if bytes.Equal(next, old.content) {
			return true, nil
		}
		ch.content, ch.next = next, unstarted(next)
		return false, nil
	case old.id.size == int64(len(ch.content)) && old.holds(ch):
		return true, nil
	case ch.create:
		return false, &Error{Reason: Exists, Path: p.asked, Current: old.sum.hex()}
	case ch.expect != "" && ch.expect == t.digests.guess(old.id) && old.content != nil:
		return false, nil
	case old.sum.hex() != ch.expect:
		return false, &Error{Reason: Stale, Path: p.asked, Current: old.sum.hex()}
	}
	return false, nil
}

// holds tells whether a target of the right size has the new content already.
func (tg *target) holds(ch *change) bool {
	if tg.content != nil {
		return bytes.Equal(tg.content, ch.content)
	}
	return tg.sum.hex() == ch.next.hex()
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
	if sum := old.sum.hex(); sum != ch.expect {
		return &Error{Reason: Stale, Path: p.asked, Current: sum}
	}
	now, err := t.open(p)
	if errors.Is(err, errSwapped) || err == nil && now == nil {
		return errAgain
	}
	if err != nil {
		return err
	}
	defer now.close()
	unchanged, err := now.equals(ctx, old)
	switch {
	case err != nil:
		return t.systemError(ReadFailed, p.asked, err)
	case !unchanged:
		return errAgain // the next look finds out to what, and says so
	case now.id != old.id && !last:
		return errAgain // the same content with other permissions, perhaps: they are to be kept as they are now
	}
	return nil
}

// equals reads the target to its end and tells whether it has the content that old was found with.
func (tg *target) equals(ctx context.Context, old *target) (bool, error) {
	if tg.id.size != old.id.size {
		return false, nil
	}
	if old.content == nil {
		err := tg.digest(ctx, -1, false)
		if errors.Is(err, errSwapped) {
			return false, nil
		}
		return err == nil && tg.sum.hex() == old.sum.hex(), err
	}
	rest, same := old.content, true
	_, err := chunks(ctx, tg.f, tg.id.size, func(b []byte) bool {
		same = len(b) <= len(rest) && bytes.Equal(b, rest[:len(b)])
		if same {
			rest = rest[len(b):]
		}
		return same
	})
	return same && len(rest) == 0, err
}

// prepare writes the new content under the temporary name, gives it the metadata of the file that it is to replace, and syncs it. It
// leaves nothing behind when it fails.
func (t *Tree) prepare(ctx context.Context, dir *os.Root, temp string, ch change, old *target) (written os.FileInfo, err error) {
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
	for rest := ch.content; len(rest) > 0 && err == nil; {
		var n int
		n, err = t.steps.write(f, rest[:min(len(rest), pieceBytes)])
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
	var before *digested
	if old != nil {
		before = old.sum
	}
	ch.next.start(before)
	return written, t.settle(dir, temp, f, written, old, allowForks)
}

// digested is a digest that is computed beside the call that needs it. It belongs to that call's goroutine.
type digested struct {
	content []byte        // what start is to digest
	done    chan struct{} // nil before the start
	sum     string        // set before done is closed
}

func known(sum string) *digested {
	d := &digested{done: make(chan struct{}), sum: sum}
	close(d.done)
	return d
}

// unstarted is the digest of content, once start or hex is called. The caller sees to it that end is called before content
// is given back.
func unstarted(content []byte) *digested { return &digested{content: content} }

// start begins to digest, after another digest if there is one. The moment for it is when the call begins to wait for the disk:
// earlier it would take a processor from the reading and writing, and two digests at once would take both of a small machine
// from what the system does for the disk.
func (d *digested) start(after *digested) {
	if d.done != nil {
		return
	}
	d.done = make(chan struct{})
	if len(d.content) < 32<<10 { // 18 µs: cheaper than a goroutine
		d.sum = Digest(d.content)
		close(d.done)
		return
	}
	go func() {
		if after != nil {
			<-after.done
		}
		h := sha256.New()
		stepAside(h, d.content)
		d.sum = hex.EncodeToString(h.Sum(nil))
		close(d.done)
	}()
}

// hex waits for the digest.
func (d *digested) hex() string {
	d.start(nil)
	<-d.done
	return d.sum
}

// end waits until the content is not read any more.
func (d *digested) end() {
	if d.done != nil {
		<-d.done
	}
}

// stepAside digests b and lets others run in between: with few processors the call that is to be overlapped, when it comes
// back from the disk, would else wait for the digest to end before it could go on to the next step.
func stepAside(h hash.Hash, b []byte) {
	const piece = 64 << 10 // some 40 µs
	for len(b) > piece {
		h.Write(b[:piece])
		b = b[piece:]
		runtime.Gosched()
	}
	h.Write(b)
}

// digester digests what is written to it beside the writer.
type digester struct {
	*digested
	pieces chan []byte
}

// overlapped starts a digester. finish ends the writing, not the digesting.
func overlapped() (d digester, finish func()) {
	d = digester{digested: &digested{done: make(chan struct{})}, pieces: make(chan []byte, 64)}
	go func() {
		h := sha256.New()
		for b := range d.pieces {
			stepAside(h, b)
		}
		d.sum = hex.EncodeToString(h.Sum(nil))
		close(d.done)
	}()
	return d, func() { close(d.pieces) }
}

func (d digester) write(b []byte) { d.pieces <- b }
