// Package proc starts one program, owns everything that grows from it, and proves when all of it is
// gone.
//
// What is owned. On Unix every program gets a session of its own (setsid), and all process groups
// of that session are owned: job control and timeout(1) make new groups. On Windows it is a Job
// Object that the program is in before its first instruction. End signals all of it, kills what is
// left after the grace, and looks again until nothing but zombies is found. A program that exits by
// itself has its leftovers ended the same way (TERM, 250 ms, KILL); they are named in Exit.Ended.
//
// What is not promised. A process that moves to another session leaves what is owned. On Linux such
// escaped descendants are found by Spec.Mark in their environment and, while their parent lives, as
// its children: they are named after a normal exit and ended by End. A process that did both, leave
// the session and drop the mark, after its parent ended, is not found; nor is a service that was
// merely asked to do work. On other Unix systems descendants outside of the session are not found
// at all. A member that runs as another user cannot be signalled: it stays, and Exit says so.
//
// Identity. The direct child is reaped last, after the clean-up and its proof. Until then its
// number, which is also that of its group and session, cannot be given to anybody else. Every other
// process is signalled through a handle (a pidfd on Linux) that was checked after it was opened;
// where a system has no such handle the check comes directly before the signal, and that gap is the
// one that is left.
//
// Concurrency. All methods of Proc may be called by several goroutines at once. Each Proc owns one
// goroutine that waits for its end, one for each output stream, and, while there is something to
// do, one for input and one for End. On Linux waiting takes no thread; on Darwin, FreeBSD and
// Windows it takes one for each running program. The process that uses this package must not wait
// for "any child" (wait4 with -1).
//
// Start marks every descriptor of this process above 2 as close-on-exec, so that a child gets
// nothing but its three streams.
package proc
