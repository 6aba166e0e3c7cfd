package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/face/stream"
	"github.com/belayhq/belay/internal/host/agent"
	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/internal/host/transcript"
	"github.com/belayhq/belay/internal/termtext"
	"github.com/belayhq/belay/tool"
)

const interactiveHelp = `What you type is a task. While the model works it changes the direction: the model sees it
before its next step.

  /then TEXT    a task for when the model is done
  /ps           the processes of this conversation
  /kill ID      end one of them
  /new          leave this conversation, which ends its processes, and begin another
  /resume ID    the same, for one that is stored; see belay conversations
  /help  /quit

Alt-Enter begins another line. Ctrl-C stops the model; without a task Ctrl-C twice, or Ctrl-D, ends belay.
A text that begins with a slash is sent with a blank in front of it.`

// interactive is the plain form of a conversation on a terminal.
func (p *program) interactive(c *cobra.Command, talk talkFlags) error {
	which, err := talk.which(c)
	if err != nil {
		return err
	}
	if !isTerminal(p.in) || !isTerminal(p.out) {
		return usage("belay alone is for a terminal; use belay run for one task, belay rpc for another program, belay mcp for a client")
	}
	h, err := p.host(c)
	if err != nil {
		return err
	}
	defer h.close()
	h.hurries = true
	p.warnOnce()
	keyboard, err := openKeyboard()
	if err != nil {
		return errors.New("the terminal cannot be used: " + oneLine(err))
	}
	s := &session{host: h, ctx: c.Context(), console: keyboard, screen: newDisplay(keyboard), keys: make(chan byte), changed: make(chan struct{}, 1)}
	s.screen.dim = p.colored(true) // it is one, see above
	defer s.close()
	h.say = s.screen.aside
	return s.run(which)
}

// A session is a user on a terminal. One goroutine, that of run, reads what is typed; what the
// agent tells comes from another one.
type session struct {
	*host
	ctx     context.Context
	console console
	screen  *display
	keys    chan byte // what is typed; run takes it, or the dialog that has the terminal

	edit editor
	talk *stream.Talk
	// leaving is true after a Ctrl-C that had nothing to stop: the next one ends belay.
	leaving bool

	answer termtext.Cleaner // of the agent's goroutine

	mu       sync.Mutex
	calls    bool // the turn has some, so another one follows
	working  bool // a run is on, as far as the events tell
	aborting bool // Ctrl-C is being carried out
	notices  int
	usage    model.Usage // since the agent was settled last

	dialogs atomic.Int32  // that have the keys
	changed chan struct{} // one slot: the input row may have to be shown or taken away
}

func (s *session) close() {
	s.screen.noInput()
	s.screen.close()
	_ = s.console.write("\r" + unmarkPastes)
	s.console.close()
}

func (s *session) run(which stream.Which) error {
	if err := s.open(which); err != nil {
		return err
	}
	defer func() {
		id := s.talk.ID
		s.screen.noInput()
		if err := s.talk.Close(); err != nil {
			s.screen.aside("belay: " + oneLine(err))
		}
		if len(s.talk.Agent.Messages()) > 0 {
			s.screen.aside("belay -r " + id + " goes on with this conversation")
		}
	}()
	_ = s.console.write(markPastes)
	reading, stop := context.WithCancel(s.ctx)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer stop()
	failed := make(chan error, 1)
	reader.Go(func() {
		for {
			b, err := s.console.key(reading)
			if err != nil {
				failed <- err
				return
			}
			select {
			case s.keys <- b:
			case <-reading.Done():
				return
			}
		}
	})
	s.screen.aside("belay " + version + " on " + inert(s.talk.Suite.Root()) + ", " + inert(s.held.text("model.provider")+"/"+s.held.text("model.name")) + "; /help says how")
	s.begun()
	s.showInput()
	for {
		keys := s.keys
		if s.dialogs.Load() > 0 { // the dialog reads them
			keys = nil
		}
		select {
		case b := <-keys:
			if end := s.key(b); end {
				return s.screen.lost()
			}
		case <-s.changed:
			s.showInput()
		case err := <-failed:
			if s.ctx.Err() != nil {
				return s.ctx.Err()
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return errors.New("the terminal is gone: " + oneLine(err))
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// open opens a conversation in place of the one that is open, if there is one.
func (s *session) open(which stream.Which) error {
	var talk *stream.Talk // is set before anybody is asked
	var err error
	talk, err = s.host.open(s.ctx, which, stream.Ears{
		Event:  s.tell,
		Asker:  &terminalAsker{func() (console, error) { return s.dialog(talk.Agent) }},
		Notify: func(text string) { s.screen.aside("belay: " + termtext.Escape(text)) },
	})
	if err != nil {
		return err
	}
	s.talk = talk
	return nil
}

// changes says that the input row may have to change.
func (s *session) changes() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// showInput shows the input row while nothing runs, and while something is typed.
func (s *session) showInput() {
	s.mu.Lock()
	working := s.working
	s.mu.Unlock()
	if working && s.edit.empty() {
		s.screen.noInput()
		return
	}
	s.screen.input(&s.edit)
}

// key takes what is typed. It is true when belay is to end.
func (s *session) key(b byte) (end bool) {
	was := s.edit.empty()
	act := s.edit.key(b)
	leaving := s.leaving
	s.leaving = false
	switch act {
	case actNone:
		s.leaving = leaving
		return false
	case actLeave:
		return true
	case actInterrupt:
		return s.interrupt(leaving)
	case actSend:
		text := s.edit.take()
		s.screen.noInput()
		if strings.TrimSpace(text) == "" {
			break
		}
		s.screen.line(promptMark + string(termtext.Clean([]byte(text))))
		if end := s.said(text); end {
			return true
		}
	}
	if now := s.edit.empty(); now != was {
		s.talk.Agent.Typing(!now) // who types is not talked to
	}
	s.showInput()
	return false
}

// interrupt is Ctrl-C.
func (s *session) interrupt(leaving bool) (end bool) {
	busy := s.talk.Agent.Busy() // a summary is made without an event
	s.mu.Lock()
	working, aborting := s.working || busy, s.aborting
	s.aborting = working
	s.mu.Unlock()
	switch {
	case aborting: // it is told already, and ends in bounded time
	case working:
		a := s.talk.Agent
		s.screen.aside("belay: stopping")
		go func() {
			queued := a.Abort()
			s.mu.Lock()
			s.working, s.aborting = false, false
			s.mu.Unlock()
			for _, q := range queued {
				s.screen.aside("belay: not sent: " + string(termtext.Clean([]byte(q))))
			}
			s.changes()
		}()
	case !s.edit.empty():
		s.edit.take()
		s.talk.Agent.Typing(false)
		s.showInput()
	case leaving:
		return true
	default:
		s.leaving = true
		s.screen.aside("belay: Ctrl-C again, or Ctrl-D, ends belay and what it runs")
		s.showInput()
	}
	return false
}

// said takes a line.
func (s *session) said(text string) (end bool) {
	if !strings.HasPrefix(text, "/") {
		s.send(s.talk.Agent.Steer, text)
		return false
	}
	word, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "/quit", "/exit":
		return true
	case "/help":
		s.screen.line(interactiveHelp)
	case "/then":
		if rest == "" {
			s.screen.aside("belay: /then takes a text")
			break
		}
		s.send(s.talk.Agent.FollowUp, rest)
	case "/ps":
		s.call("exec_list", `{}`)
	case "/kill":
		s.call("exec_kill", fmt.Sprintf(`{"session_id":%q}`, strings.ToValidUTF8(rest, "")))
	case "/new":
		s.move(stream.Which{})
	case "/resume":
		if rest == "" {
			s.screen.aside("belay: /resume takes the ID of a conversation; belay conversations lists them")
			break
		}
		s.move(stream.Which{ID: rest})
	default:
		s.screen.aside("belay: there is no command " + inert(word) + "; /help lists them")
	}
	return false
}

// send gives a text to the agent. While it works a text steers it; while it is idle every
// text is a task.
func (s *session) send(to func(string) error, text string) {
	s.mu.Lock()
	was := s.working
	s.working = true
	s.mu.Unlock()
	if err := to(text); err != nil {
		s.mu.Lock()
		s.working = was
		s.mu.Unlock()
		s.screen.aside("belay: " + strings.TrimPrefix(err.Error(), "agent: "))
	}
}

// call makes a call for the user, beside the conversation.
func (s *session) call(name, args string) {
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	result, err := s.talk.Suite.Call(ctx, coding.Caller{}, tool.Call{ID: "user", Name: name, Args: []byte(args)})
	var e *tool.Error
	switch {
	case errors.As(err, &e):
		s.screen.aside("belay: " + e.Message())
	default:
		s.screen.line(string(termtext.Clean([]byte(strings.TrimSpace(result.Text)))))
	}
}

// move goes over to another conversation. The one that is open stays if the other cannot
// be opened.
func (s *session) move(which stream.Which) {
	old := s.talk
	if which.ID == old.ID {
		s.screen.aside("belay: this is the conversation that is open")
		return
	}
	if err := s.open(which); err != nil {
		s.screen.aside("belay: " + inert(oneLine(err)))
		return
	}
	if err := old.Close(); err != nil {
		s.screen.aside("belay: " + oneLine(err))
	}
	s.mu.Lock()
	s.working, s.aborting, s.calls, s.notices, s.usage = false, false, false, 0, model.Usage{}
	s.mu.Unlock()
	s.screen.aside("belay: conversation " + s.talk.ID)
	s.begun()
}

// maxShown bounds what is shown of the last words of a conversation, in bytes.
const maxShown = 2000

// begun tells what is to be known of the conversation that was opened, and how it stood.
func (s *session) begun() {
	for _, n := range s.talk.Notes {
		s.screen.aside("belay: " + n)
	}
	var last [2]string // of the user, and of the model
	err := s.talk.Entries(func(e transcript.Entry) error {
		switch {
		case e.Hidden() || e.Text == "":
		case e.Type == transcript.User:
			last = [2]string{e.Text, ""}
		case e.Type == transcript.Assistant:
			last[1] = e.Text
		}
		return nil
	})
	if err != nil {
		s.screen.aside("belay: " + oneLine(err))
	}
	for i, mark := range []string{promptMark, ""} {
		if last[i] == "" {
			continue
		}
		text := string(termtext.Clean([]byte(last[i])))
		if n := len(text) - maxShown; n > 0 {
			text = "… " + strings.ToValidUTF8(text[n:], "")
		}
		s.screen.line(mark + strings.TrimRight(text, "\n"))
	}
}

// tell is told what happens, by the agent's goroutine.
func (s *session) tell(e agent.Event) {
	s.mu.Lock()
	switch e.Type {
	case agent.TurnStart:
		s.working, s.calls = true, false
	case agent.ToolStart:
		s.calls = true
	case agent.TurnEnd:
		s.usage = s.usage.Add(e.Usage)
		if !s.calls { // nothing follows but what the user, or an end, begins
			s.working = s.aborting
		}
	case agent.Failed, agent.Settled:
		s.working = s.aborting
	case agent.Noticed:
		s.notices++
	}
	notices, usage := s.notices, s.usage
	if e.Type == agent.Settled {
		s.notices, s.usage = 0, model.Usage{}
	}
	s.mu.Unlock()

	switch e.Type {
	case agent.TurnStart:
		s.changes()
	case agent.TextDelta:
		s.screen.print(string(s.answer.Flush(s.answer.Append(nil, []byte(e.Text)))))
	case agent.Said:
		if e.Role == model.Assistant {
			s.answer = termtext.Cleaner{}
			s.screen.endLine()
		}
	case agent.ToolStart:
		s.screen.aside("  " + inert(e.Tool) + " " + inert(e.Preview))
	case agent.ToolEnd:
		if w := stream.Outcome(e); w != "" {
			s.screen.aside("    " + w)
		}
	case agent.Noticed: // its text is the model's, and not shown
		s.screen.aside(fmt.Sprintf("  %d of the background is in", notices))
	case agent.Failed:
		s.screen.aside("belay: " + inert(e.Message))
		s.changes()
	case agent.TurnEnd:
		s.changes()
	case agent.Settled:
		if usage.Input+usage.Output > 0 {
			s.screen.aside(fmt.Sprintf("  %d tokens in, %d out", usage.Input, usage.Output))
		}
		s.changes()
	}
}

// dialog gives the terminal to a question: what is typed is its answer, and nothing else is
// shown until it is closed.
func (s *session) dialog(a *agent.Agent) (console, error) {
	told, cancel := context.WithTimeout(s.ctx, time.Second) // what led to the question stands above it
	a.Told(told)
	cancel()
	s.dialogs.Add(1)
	s.changes() // run lets go of the keys
	s.screen.begin()
	return &inDialog{session: s}, nil
}

// inDialog is the terminal in the hands of a question.
type inDialog struct {
	*session
	once sync.Once
}

func (d *inDialog) size() (cols, rows int) { return d.console.size() }
func (d *inDialog) write(s string) error   { return d.console.write(s) }

func (d *inDialog) discard() error {
	if err := d.console.discard(); err != nil {
		return err
	}
	for { // what was read and not taken
		timer := time.NewTimer(20 * time.Millisecond)
		select {
		case <-d.keys:
			timer.Stop()
		case <-timer.C:
			return nil
		}
	}
}

func (d *inDialog) key(ctx context.Context) (byte, error) {
	select {
	case b := <-d.keys:
		return b, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

func (d *inDialog) close() {
	d.once.Do(func() {
		d.screen.end()
		d.dialogs.Add(-1)
		d.changes()
	})
}
