package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/belayhq/belay/approve"
	"github.com/belayhq/belay/internal/termtext"
	"github.com/belayhq/belay/tool"
)

// A terminalAsker puts questions to the user on the terminal of the program, whatever its
// standard streams are. Only the word yes, typed after the question was shown whole, is
// a yes. What was typed before counts for nothing, and what is typed is not echoed
// unless it is a plain letter.
type terminalAsker struct {
	open func() (console, error)
}

// A console is a terminal whose keys come one by one, without an echo of its own.
type console interface {
	size() (cols, rows int)
	write(s string) error
	// discard throws away what was typed and not read yet.
	discard() error
	// key waits for the next byte that is typed; ctx ends the wait.
	key(ctx context.Context) (byte, error)
	// close gives the terminal back as it was.
	close()
}

// asker gives the one for the terminal of this program, or nil where there is none to ask
// on: no terminal, or one that another job has.
func (p *program) asker() approve.Asker {
	c, err := openConsole()
	if err != nil {
		return nil
	}
	c.close()
	return &terminalAsker{openConsole}
}

// oneConsole is held by who has the terminal: each saves how it was and sets it back, which has to
// come one after the other. This is state of the package since the terminal is one.
var oneConsole sync.Mutex

// consoles are those that have the terminal or wait for it.
var consoles atomic.Int64

// useConsole counts one until done is called.
func useConsole() (done func()) {
	consoles.Add(1)
	return sync.OnceFunc(func() { consoles.Add(-1) })
}

// giveConsoleBack waits until the terminal is as it was: a question that a signal made void is on its
// way out. It is a second at most, for a terminal that takes no output.
func giveConsoleBack() {
	for end := time.Now().Add(time.Second); consoles.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// Ask shows the question and reads the answer.
func (a *terminalAsker) Ask(ctx context.Context, p tool.Prompt) (bool, error) {
	defer useConsole()()
	oneConsole.Lock()
	defer oneConsole.Unlock()
	c, err := a.open()
	if err != nil {
		return false, approve.ErrUnavailable
	}
	defer c.close()
	yes, err := ask(ctx, c, p)
	_ = c.discard() // what was typed behind the answer was for nobody
	switch {
	case errors.Is(context.Cause(ctx), approve.ErrGone):
		_ = c.write("\r\nbelay: the process has ended; this question is void. Nothing was done.\r\n")
		return false, ctx.Err()
	case ctx.Err() != nil:
		_ = c.write("\r\nbelay: this question is void. Nothing was done.\r\n")
		return false, ctx.Err()
	case err != nil:
		return false, err
	case !yes:
		return false, c.write("\r\nbelay: no. Nothing was done.\r\n")
	}
	return true, c.write("\r\n")
}

func ask(ctx context.Context, c console, p tool.Prompt) (bool, error) {
	cols, rows := c.size()
	head, question := "", "Allow it?"
	switch p.Reason {
	case "input":
		head, question = "An agent wants to send this input to the process "+p.SessionID+":", "Send it?"
	case "guard_ask":
		head = "A guard leaves this to you:"
	}
	lines := []string{""}
	for _, s := range []string{"belay: " + head, p.Title, fmt.Sprintf("%d bytes, all of them:", p.Bytes)} {
		lines = append(lines, wrap(inert(s), "", cols)...)
	}
	lines = append(lines, wrap(blanks(inert(p.Shown)), "  | ", cols)...)

	// Nothing is approved unseen: what does not fit on the screen is shown in pages.
	// What was typed is thrown away right before each question, not after it: nothing that
	// was typed ahead counts, and nothing that answers is lost.
	for page := max(rows-4, 4); len(lines) > page; {
		if err := c.discard(); err != nil {
			return false, err
		}
		if err := c.write(strings.Join(lines[:page], "\r\n") + fmt.Sprintf("\r\n-- %d lines more: Enter shows them, anything else and Enter is no -- ", len(lines)-page)); err != nil {
			return false, err
		}
		lines = lines[page:]
		if next, err := nextPage(ctx, c); err != nil || !next {
			return false, err
		}
		if err := c.write("\r\n"); err != nil {
			return false, err
		}
	}
	if err := c.write(strings.Join(lines, "\r\n") + "\r\n"); err != nil {
		return false, err
	}
	if err := c.discard(); err != nil {
		return false, err
	}
	if err := c.write(question + " Type yes and Enter; anything else is no: "); err != nil {
		return false, err
	}
	return answer(ctx, c)
}

// onEnd calls wake when ctx ends, until stop returns: after that nothing of it runs any
// more, so that what wake uses can be closed.
func onEnd(ctx context.Context, wake func()) (stop func()) {
	ended := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() { defer close(ended); wake() })
	return func() {
		if !cancel() {
			<-ended
		}
	}
}

const (
	ctrlC = 0x03
	ctrlD = 0x04
	esc   = 0x1b
)

// nextPage waits until the user has read a page: an empty line shows the next one.
func nextPage(ctx context.Context, c console) (bool, error) {
	typed, ok, err := typedLine(ctx, c)
	return ok && typed == "", err
}

// answer is true for a line that says yes.
func answer(ctx context.Context, c console) (bool, error) {
	typed, ok, err := typedLine(ctx, c)
	return ok && strings.EqualFold(typed, "yes"), err
}

const (
	// maxReply bounds what is kept of a reply, in bytes; what is longer is no yes any more.
	maxReply = 256
	// keyQuiet is how soon the rest of a key, or of what was pasted, is behind its first byte.
	keyQuiet = 50 * time.Millisecond
	// maxSwallowed bounds what is taken along with a key, in bytes.
	maxSwallowed = 1 << 20
)

// typedLine reads what is typed up to Enter, all of it: were the answer taken at the first
// letter that is wrong, the rest would be typed into whatever has the terminal next. ok is
// false where it is no line: Ctrl-C, Ctrl-D, or a key that is no letter (Esc, an arrow, a
// paste), with what comes along with it.
func typedLine(ctx context.Context, c console) (typed string, ok bool, err error) {
	var line []byte
	for {
		k, err := c.key(ctx)
		if err != nil {
			return "", false, err
		}
		echo := ""
		switch {
		case k == '\r' || k == '\n':
			return string(line), true, nil
		case k == ctrlC || k == ctrlD:
			return "", false, nil
		case k == esc:
			return "", false, swallow(ctx, c)
		case k == 0x7f || k == '\b':
			if _, size := utf8.DecodeLastRune(line); size > 0 {
				line, echo = line[:len(line)-size], "\b \b"
			}
		case len(line) == maxReply: // until Enter
		default:
			line = append(line, k)
			switch {
			case k >= ' ' && k < 0x7f:
				echo = string(rune(k))
			case utf8.RuneStart(k):
				echo = "?"
			}
		}
		if echo != "" {
			if err := c.write(echo); err != nil {
				return "", false, err
			}
		}
	}
}

// swallow takes what comes at once with a key.
func swallow(ctx context.Context, c console) error {
	for range maxSwallowed {
		soon, cancel := context.WithTimeout(ctx, keyQuiet)
		_, err := c.key(soon)
		cancel()
		if err != nil {
			break
		}
	}
	return ctx.Err()
}

// inert is for text that was escaped by others: should something be left in it that acts
// on a terminal, all of it is escaped again.
func inert(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return termtext.Escape(s)
	}
	return s
}

// blanks writes out how many there are in a long run of them, which could push what
// follows out of sight. A backslash in front of a brace comes from here only: those of
// the text are doubled.
func blanks(s string) string {
	const long = 16
	var b strings.Builder
	for len(s) > 0 {
		n := len(s) - len(strings.TrimLeft(s, " "))
		if n >= long {
			fmt.Fprintf(&b, `\{%d blanks}`, n)
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
		next := strings.IndexByte(s, ' ')
		if next < 0 {
			next = len(s)
		}
		b.WriteString(s[:next])
		s = s[next:]
	}
	return b.String()
}

// wrap cuts a line into pieces that fit. A character counts as two columns if it is not
// ASCII: rather too short than one that the terminal breaks.
func wrap(s, prefix string, cols int) []string {
	width := max(cols-len(prefix)-1, 8)
	var lines []string
	var line strings.Builder
	used := 0
	for _, r := range s {
		w := 1
		if r >= utf8.RuneSelf {
			w = 2
		}
		if used+w > width {
			lines = append(lines, prefix+line.String())
			line.Reset()
			used = 0
		}
		line.WriteRune(r)
		used += w
	}
	return append(lines, prefix+line.String())
}
