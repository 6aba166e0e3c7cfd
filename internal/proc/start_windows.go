package proc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
)

// What CreateProcess takes as the command line, in UTF-16 units without the closing NUL.
const commandLineLimit = 32766

// killedCode is the exit code that the job gives to what it ends: 128 and 9, as shells have it.
const killedCode = 137

// procThreadAttributeJobList starts a program inside of jobs (Windows 10).
const procThreadAttributeJobList = 0x0002000d

const busyTries = 8 // after 1, 2, 4 ... 64 ms

// system is what Windows needs of a Proc. The handles are closed by release.
type system struct {
	job     windows.Handle
	process windows.Handle

	mu      sync.Mutex // guards what follows
	killed  bool       // the job was ended while the program ran
	console windows.Handle
	closed  bool // the console is being closed
}

func (s *Spec) checkStrings() error {
	bad := func(what string) error { return &StartError{Reason: BadArgument, What: what} }
	if strings.IndexByte(s.Path, 0) >= 0 {
		return bad(Program)
	}
	if strings.IndexByte(s.Dir, 0) >= 0 {
		return bad(Directory)
	}
	for _, a := range slices.Concat(s.Argv, s.Env) {
		if strings.IndexByte(a, 0) >= 0 {
			return bad(Argument)
		}
	}
	line, ok := commandLine(s.Path, s.Argv)
	if !ok {
		return bad(Argument)
	}
	if n := len(utf16.Encode([]rune(line))); n > commandLineLimit {
		return &StartError{Reason: ArgumentTooLong, What: Argument, Limit: commandLineLimit, Actual: int64(n)}
	}
	return nil
}

// plumbing is what Start opens: the child's side is closed in any case, ours if nothing was
// started.
type plumbing struct {
	child []windows.Handle
	ours  []*os.File
	std   [3]windows.Handle
}

func (pl *plumbing) closeChild() {
	for _, h := range pl.child {
		windows.CloseHandle(h)
	}
	pl.child = nil
}

func (pl *plumbing) closeOurs() {
	for _, f := range pl.ours {
		f.Close()
	}
}

func (p *Proc) start(ctx context.Context, s *Spec) (err error) {
	pl := &plumbing{}
	defer func() {
		pl.closeChild()
		if err != nil {
			pl.closeOurs()
			p.closeConsole()
			p.release()
		}
	}()
	p.began = time.Now()
	var feedFile *os.File
	if s.TTY != nil {
		if err := p.openTerminal(pl, s); err != nil {
			return &StartError{Reason: NoTerminal, What: Terminal, cause: errnoOf(err)}
		}
	} else if feedFile, err = p.openPipes(pl, s); err != nil {
		return &StartError{Reason: Resources, What: Program, cause: errnoOf(err)}
	}
	if p.sys.job, err = newJob(); err != nil {
		return &StartError{Reason: Resources, What: Program, cause: errnoOf(err)}
	}
	for try := 0; ; try++ {
		if s.Before != nil {
			if err := s.Before(); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		p.began = time.Now()
		err = p.create(pl, s)
		if errors.Is(err, windows.ERROR_SHARING_VIOLATION) && try < busyTries-1 {
			time.Sleep(time.Millisecond << try)
			continue
		}
		if err != nil {
			return s.explain(err)
		}
		break
	}
	for _, st := range p.streams {
		st.began = p.began
	}
	if feedFile != nil {
		rest := append([]byte(nil), s.Stdin...)
		p.feeding = feedFile
		p.feed.Go(func() { feed(feedFile, rest) })
	}
	return nil
}

// newJob makes the job that owns a program: whatever is in it ends with the last handle, and that
// is ours, also when this process is ended by force. Nothing can break away.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info))); err != nil {
		windows.CloseHandle(job)
		return 0, err
	}
	return job, nil
}

// create starts the program suspended, in its job, and lets it go.
func (p *Proc) create(pl *plumbing, s *Spec) error {
	line, _ := commandLine(s.Path, s.Argv)
	path, err := windows.UTF16PtrFromString(s.Path)
	if err != nil {
		return err
	}
	cmd, err := windows.UTF16PtrFromString(line)
	if err != nil {
		return err
	}
	dir, err := windows.UTF16PtrFromString(s.Dir)
	if err != nil {
		return err
	}
	env := environmentBlock(s.Env)
	attrs, err := windows.NewProcThreadAttributeList(2)
	if err != nil {
		return err
	}
	defer attrs.Delete()
	inJob := attrs.Update(procThreadAttributeJobList, unsafe.Pointer(&p.sys.job), unsafe.Sizeof(p.sys.job)) == nil
	si := &windows.StartupInfoEx{}
	si.Cb = uint32(unsafe.Sizeof(*si))
	// Standard handles are named in any case: with a console and none named, a program would get
	// ours.
	si.Flags = windows.STARTF_USESTDHANDLES
	// A group and a console of its own: nothing reaches our terminal, as in another Unix session.
	flags := uint32(windows.CREATE_SUSPENDED | windows.CREATE_UNICODE_ENVIRONMENT | windows.EXTENDED_STARTUPINFO_PRESENT | windows.CREATE_NEW_PROCESS_GROUP)
	inherit := false
	if s.TTY != nil {
		// The value of this attribute is the handle itself.
		if err := attrs.Update(windows.PROC_THREAD_ATTRIBUTE_PSEUDOCONSOLE, *(*unsafe.Pointer)(unsafe.Pointer(&p.sys.console)), unsafe.Sizeof(p.sys.console)); err != nil {
			return err
		}
	} else {
		flags |= windows.CREATE_NO_WINDOW
		inherit = true
		si.StdInput, si.StdOutput, si.StdErr = pl.std[0], pl.std[1], pl.std[2]
		// Only these three are inherited. The list takes each handle once.
		list := []windows.Handle{pl.std[0], pl.std[1]}
		if pl.std[2] != pl.std[1] {
			list = append(list, pl.std[2])
		}
		if err := attrs.Update(windows.PROC_THREAD_ATTRIBUTE_HANDLE_LIST, unsafe.Pointer(&list[0]), uintptr(len(list))*unsafe.Sizeof(list[0])); err != nil {
			return err
		}
	}
	si.ProcThreadAttributeList = attrs.List()
	var pi windows.ProcessInformation
	if err := windows.CreateProcess(path, cmd, nil, nil, inherit, flags, &env[0], dir, &si.StartupInfo, &pi); err != nil {
		return err
	}
	defer windows.CloseHandle(pi.Thread)
	if !inJob { // before Windows 10
		err = windows.AssignProcessToJobObject(p.sys.job, pi.Process)
	}
	if err == nil {
		_, err = windows.ResumeThread(pi.Thread)
	}
	if err != nil {
		windows.TerminateProcess(pi.Process, killedCode)
		windows.CloseHandle(pi.Process)
		return err
	}
	p.sys.process, p.pid = pi.Process, int(pi.ProcessId)
	return nil
}

// environmentBlock is sorted by name without regard to case, as the system wants it.
func environmentBlock(env []string) []uint16 {
	sorted := slices.Clone(env)
	key := func(s string) string { k, _, _ := strings.Cut(s, "="); return strings.ToUpper(k) }
	slices.SortStableFunc(sorted, func(a, b string) int { return strings.Compare(key(a), key(b)) })
	var block []uint16
	for _, v := range sorted {
		block = append(block, utf16.Encode([]rune(v))...)
		block = append(block, 0)
	}
	if len(block) == 0 {
		block = append(block, 0)
	}
	return append(block, 0)
}

// commandLine joins the arguments so that the usual parser takes them apart again. cmd.exe has
// another parser: what follows /c or /k is given as it is, between one pair of quotes that /s has
// it take off. A batch file is run by that parser too: an argument that it would read in its own
// way is refused (ok is false).
func commandLine(path string, argv []string) (line string, ok bool) {
	base := strings.ToLower(filepath.Base(path))
	if base == "cmd.exe" || base == "cmd" {
		for i, a := range argv[1:] {
			if l := strings.ToLower(a); (l == "/c" || l == "/k") && i+2 < len(argv) {
				head := slices.DeleteFunc(slices.Clone(argv[:i+1]), func(a string) bool { return strings.EqualFold(a, "/s") })
				return windows.ComposeCommandLine(head) + " /s " + l + ` "` + strings.Join(argv[i+2:], " ") + `"`, true
			}
		}
	}
	if strings.HasSuffix(base, ".bat") || strings.HasSuffix(base, ".cmd") {
		for _, a := range argv[1:] {
			if strings.ContainsAny(a, "\"%!^&|<>()\r\n") {
				return "", false
			}
		}
	}
	return windows.ComposeCommandLine(argv), true
}

func (s *Spec) explain(err error) error {
	e := &StartError{Reason: IO, What: Program, cause: errnoOf(err)}
	if fi, serr := os.Stat(s.Dir); serr != nil || !fi.IsDir() {
		e.What, e.Reason = Directory, NotDirectory
		switch {
		case errors.Is(serr, os.ErrNotExist):
			e.Reason = Missing
		case errors.Is(serr, os.ErrPermission):
			e.Reason = Permission
		case serr != nil:
			e.Reason = IO
		}
		return e
	}
	errno, _ := e.cause.(syscall.Errno)
	switch errno {
	case windows.ERROR_FILE_NOT_FOUND, windows.ERROR_PATH_NOT_FOUND, windows.ERROR_INVALID_NAME, windows.ERROR_BAD_PATHNAME:
		e.Reason = Missing
	case windows.ERROR_DIRECTORY:
		e.What, e.Reason = Directory, NotDirectory
	case windows.ERROR_BAD_EXE_FORMAT, windows.ERROR_EXE_MACHINE_TYPE_MISMATCH:
		e.Reason = NotExecutable
	case windows.ERROR_ACCESS_DENIED, windows.ERROR_ELEVATION_REQUIRED:
		e.Reason = Permission
		if fi, err := os.Stat(s.Path); err == nil && fi.IsDir() {
			e.Reason = NotExecutable
		}
	case windows.ERROR_FILENAME_EXCED_RANGE:
		e.Reason, e.What = ArgumentTooLong, Argument
	case windows.ERROR_SHARING_VIOLATION, windows.ERROR_LOCK_VIOLATION:
		e.Reason = Busy
	case windows.ERROR_NOT_ENOUGH_MEMORY, windows.ERROR_NO_SYSTEM_RESOURCES, windows.ERROR_COMMITMENT_LIMIT:
		e.Reason = Resources
	}
	return e
}

// errnoOf keeps the number of an error and drops whatever path is around it.
func errnoOf(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return nil
}

// awaitExit returns when the program has ended. A thread waits for each program.
func (p *Proc) awaitExit() {
	windows.WaitForSingleObject(p.sys.process, windows.INFINITE)
}

func (p *Proc) reap() (code int, signal string) {
	p.mu.Lock()
	p.reaped = true
	p.mu.Unlock()
	var c uint32
	if windows.GetExitCodeProcess(p.sys.process, &c) != nil {
		return -1, ""
	}
	p.sys.mu.Lock()
	defer p.sys.mu.Unlock()
	if p.sys.killed && c == killedCode {
		return -1, KILL.String()
	}
	return int(c), ""
}

func (p *Proc) release() {
	for _, h := range []*windows.Handle{&p.sys.process, &p.sys.job} {
		if *h != 0 {
			windows.CloseHandle(*h)
			*h = 0
		}
	}
}

// canAsk: a program without a console cannot be asked to end. One on a terminal sees it closed.
func (p *Proc) canAsk() bool { return p.tty != nil }

// inGroup: whatever the console is told, all in the job are.
func (p *Proc) inGroup(*member) bool { return true }

// sendGroup ends the job for KILL. On a terminal INT is the key, TERM and HUP close the console,
// which every program in it is told and given a few seconds for.
func (p *Proc) sendGroup(sig Signal) error {
	switch {
	case sig == KILL:
		gone := p.isGone()
		p.sys.mu.Lock()
		defer p.sys.mu.Unlock()
		p.sys.killed = p.sys.killed || !gone
		return windows.TerminateJobObject(p.sys.job, killedCode)
	case p.tty == nil:
		return ErrSignal
	case sig == INT:
		_, err := p.input.file.Write([]byte{0x03})
		return err
	}
	p.closeConsole()
	return nil
}

// Signal sends INT to a program on a terminal, as the key would. Nothing else can be sent here:
// ErrSignal. ErrEnded after the end of the program.
func (p *Proc) Signal(sig Signal) error {
	if err := p.endedOr(nil); err != nil {
		return err
	}
	if sig != INT || p.tty == nil || p.sendGroup(sig) != nil {
		return ErrSignal
	}
	return nil
}

// member is a live process of the job, held by a handle.
type member struct {
	pid     int
	name    string
	stray   bool // never here: nothing leaves a job
	process windows.Handle
}

func (m *member) close() {
	if m.process != 0 {
		windows.CloseHandle(m.process)
		m.process = 0
	}
}

func (m *member) bury() {}

// processor: what a process wants is not asked here.
func (m *member) processor() (had time.Duration, wanted bool) { return 0, false }

func (m *member) alive() bool {
	e, err := windows.WaitForSingleObject(m.process, 0)
	return err == nil && e == uint32(windows.WAIT_TIMEOUT)
}

func (m *member) send(sig Signal) {
	if sig == KILL {
		windows.TerminateProcess(m.process, killedCode)
	}
}

func (m *member) resume() {}

func (p *Proc) waitMember(m *member, until time.Time) bool { return p.waitPolling(m, until) }

// How far survivors looks: a job holds everything.
type scope int

const (
	sessionAndMarked scope = iota
	everything
)

var procIsProcessInJob = windows.NewLazySystemDLL("kernel32.dll").NewProc("IsProcessInJob")

// survivors lists what is alive in the job, the program itself left out.
func (p *Proc) survivors(scope) ([]*member, error) {
	pids, err := jobPIDs(p.sys.job)
	if err != nil {
		return nil, errIncomplete
	}
	var found []*member
	for _, pid := range pids {
		if pid == p.pid {
			continue
		}
		h, err := windows.OpenProcess(windows.SYNCHRONIZE|windows.PROCESS_TERMINATE|windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
		if err != nil {
			if errors.Is(err, windows.ERROR_INVALID_PARAMETER) {
				continue // gone
			}
			// It is in the job and may not be opened: count it, by its number.
			found = append(found, &member{pid: pid})
			continue
		}
		var in int32
		r, _, _ := procIsProcessInJob.Call(uintptr(h), uintptr(p.sys.job), uintptr(unsafe.Pointer(&in)))
		m := &member{pid: pid, process: h, name: imageName(h)}
		// The console that the system runs for a program can be in the job. It ends with its last
		// program and is nobody's descendant.
		host := strings.EqualFold(m.name, "conhost.exe")
		if host || r != 0 && in == 0 || !m.alive() { // the number went to somebody else, or it ended
			m.close()
			continue
		}
		found = append(found, m)
	}
	return found, nil
}

// jobPIDs is the system's own list. It is whole or an error.
func jobPIDs(job windows.Handle) ([]int, error) {
	const head = int(8 / unsafe.Sizeof(uintptr(0))) // two counters of 32 bits come before the numbers
	for n := 64; n <= 1<<16; n *= 4 {
		buf := make([]uintptr, n+head)
		err := windows.QueryInformationJobObject(job, windows.JobObjectBasicProcessIdList, uintptr(unsafe.Pointer(&buf[0])), uint32(uintptr(len(buf))*unsafe.Sizeof(buf[0])), nil)
		if errors.Is(err, windows.ERROR_MORE_DATA) {
			continue
		}
		if err != nil {
			return nil, err
		}
		counters := (*[2]uint32)(unsafe.Pointer(&buf[0]))
		if counters[1] < counters[0] {
			continue
		}
		var pids []int
		for _, pid := range buf[head:][:counters[1]] {
			pids = append(pids, int(pid))
		}
		return pids, nil
	}
	return nil, errIncomplete
}

func imageName(h windows.Handle) string {
	buf := make([]uint16, 1024)
	n := uint32(len(buf))
	if windows.QueryFullProcessImageName(h, 0, &buf[0], &n) != nil {
		return ""
	}
	return filepath.Base(windows.UTF16ToString(buf[:n]))
}

func nameOf(pid int) string {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return ""
	}
	defer windows.CloseHandle(h)
	return imageName(h)
}
