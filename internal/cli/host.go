package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/face/stream"
	"github.com/belayhq/belay/internal/host/agent"
	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/internal/host/transcript"
)

// A host opens conversations with the model that is configured.
type host struct {
	*program
	command *cobra.Command
	held    *configuration
	model   model.Provider
	kept    *transcript.Dir
	dispose func()       // of a folder that is kept only while the program runs
	say     func(string) // shows the user a line; standard error, but for the interactive form

	maxTurns  int
	maxTokens int64
	// hurries says that a second signal takes the grace. A program that ends its children
	// with one signal after another does not mean that.
	hurries bool
}

// talkFlags say which conversation is meant.
type talkFlags struct {
	last   bool
	resume string
}

func (f *talkFlags) add(c *cobra.Command) {
	c.Flags().BoolVarP(&f.last, "continue", "c", false, "go on with the last conversation about this root")
	c.Flags().StringVarP(&f.resume, "resume", "r", "", "go on with the conversation `ID`, see belay conversations")
}

func (f *talkFlags) which(c *cobra.Command) (stream.Which, error) {
	switch {
	case f.last && f.resume != "":
		return stream.Which{}, usage("-c and -r exclude each other")
	case f.resume == "" && c.Flags().Changed("resume"):
		return stream.Which{}, usage("-r takes the ID of a conversation; belay conversations lists them")
	}
	return stream.Which{Last: f.last, ID: f.resume}, nil
}

// heap is where the collector begins to work harder, in bytes. A long conversation is held in
// memory, in large strings that cost the collector next to nothing; without a limit it would
// let the heap grow to twice of what is held.
const heap = 120 << 20

// host reads the configuration and makes the model. Nothing is asked of it yet.
func (p *program) host(c *cobra.Command) (*host, error) {
	if p.getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heap)
	}
	held, err := p.configuration(configFlag(c))
	if err != nil {
		return nil, err
	}
	for _, note := range held.notes {
		fmt.Fprintln(p.err, "belay:", note)
	}
	h := &host{program: p, command: c, held: held, dispose: func() {}}
	h.say = func(s string) { fmt.Fprintln(p.err, s) }
	if h.model, err = p.provider(held); err != nil {
		return nil, &exit{exitConfig, err}
	}
	h.model = model.Patient{Provider: h.model, Retrying: h.retrying}
	dir, why := p.conversationsDir(), "neither HOME nor BELAY_HOME is set"
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			dir, why = "", inert(oneLine(err))
		}
	}
	if dir == "" {
		// A machine without a home that can be written to is no reason not to work.
		if dir, err = os.MkdirTemp("", "belay-conversation-"); err != nil {
			return nil, &exit{exitConfig, errors.New("there is no place for the conversation: set HOME, BELAY_HOME or TMPDIR")}
		}
		fmt.Fprintln(p.err, "belay: this conversation is not kept: "+why)
		h.dispose = func() { os.RemoveAll(dir) }
	}
	h.kept = transcript.In(dir)
	return h, nil
}

// retrying tells the user why it takes longer.
func (h *host) retrying(e *model.Error, d time.Duration) {
	h.say(fmt.Sprintf("belay: %v; trying again in %s", e, max(d, time.Second).Round(time.Second)))
}

// close gives back what the host holds beside its conversations.
func (h *host) close() {
	if p, ok := h.model.(model.Patient); ok {
		if c, ok := p.Provider.(model.Closer); ok {
			_ = c.Close()
		}
	}
	h.dispose()
}

const noModel = `no model is configured: set BELAY_MODEL=PROVIDER/NAME, or model.provider and model.name in the user's
configuration. Providers: openai, openai-chat (any compatible server), anthropic, scripted (a file). See docs/host.md`

// provider makes the model that is configured. Keys come from the environment only.
func (p *program) provider(c *configuration) (model.Provider, error) {
	provider, name := c.text("model.provider"), c.text("model.name")
	if provider == "" {
		return nil, errors.New(noModel)
	}
	if name == "" {
		return nil, fmt.Errorf("no model is configured: model.provider is %s, and model.name is empty", provider)
	}
	// An address belongs to the provider beside which it stands. A variable that chooses
	// another provider must not send its key there.
	base := c.text("model.base_url")
	if provider != c.files["model.provider"].v {
		base = ""
	}
	return p.models(provider, name, base, p.getenv)
}

// face is what the forms need. stop ends what it holds.
func (h *host) face(which stream.Which) (config stream.Config, stop func()) {
	gone, stop := watchReader(h.out)
	return stream.Config{Version: version, Open: h.open, Which: which, Gone: gone}, stop
}

// open opens a conversation with tools and an agent of its own.
func (h *host) open(_ context.Context, which stream.Which, ears stream.Ears) (talk *stream.Talk, err error) {
	suite, err := h.program.open(h.command, h.held)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			suite.Close()
		}
	}()
	talk = &stream.Talk{Suite: suite}
	system, skipped, err := agent.System(suite.Root(), workdir(suite.Root()), suite.Definitions(), h.held.flag("project_text"))
	if err != nil {
		return nil, err
	}
	for _, s := range skipped {
		talk.Notes = append(talk.Notes, "project text: "+inert(s))
	}
	if which.Last {
		if which.ID, err = h.kept.Last(suite.Root()); err != nil {
			return nil, err
		}
		if which.ID == "" {
			return nil, &stream.Refusal{Code: "not_found", Text: "there is no conversation about this root yet"}
		}
	}
	if which.ID == "" { // else the one that is open would be left for one that cannot be begun
		if err := h.kept.Try(); err != nil {
			return nil, err
		}
	}
	kept := h.kept.New(suite.Root())
	var history []transcript.Entry
	if which.ID != "" {
		var repair transcript.Repair
		kept, repair, err = h.kept.Resume(which.ID, func(e transcript.Entry) error {
			history = append(history, e)
			return nil
		})
		if err != nil {
			return nil, unnamed(err, which.ID)
		}
		if kept.Root() != suite.Root() {
			root := kept.Root()
			kept.Close()
			return nil, &stream.Refusal{Code: "other_root", Text: "conversation " + which.ID + " is about another root: start belay with --root " + inert(root)}
		}
		talk.Notes = append(talk.Notes, repaired(repair, history)...)
	}
	talk.ID = kept.ID()
	talk.Agent = agent.New(agent.Config{
		Model: h.model, Suite: suite, Transcript: kept, History: history, System: system,
		MaxTurns: h.maxTurns, MaxTokens: h.maxTokens,
		Asker: ears.Asker, Notify: ears.Notify, Event: ears.Event,
	})
	talk.Entries = func(each func(transcript.Entry) error) error {
		err := h.kept.Read(kept.ID(), each)
		var e *transcript.Error
		if errors.As(err, &e) && (e.Reason == transcript.NotFound || e.Reason == transcript.Empty) {
			return nil // nothing was said yet
		}
		return err
	}
	talk.Close = func() error {
		if h.hurries {
			h.hurriedBy(suite.Hurry)
		}
		return closeTalk(talk.Agent, suite, kept)
	}
	return talk, nil
}

// workdir is where the user is, relative to the root, if that is inside of it: the project's text
// of the folders on the way there is theirs.
func workdir(root string) string {
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if err == nil {
		here, err = filepath.Rel(root, here)
	}
	if err != nil || !filepath.IsLocal(here) {
		return "."
	}
	return here
}

// closeTalk ends an agent, its processes and its transcript. The agent by itself would give a
// call under way the grace of a cancellation, which is for a user who goes on; at the end
// closing the suite ends it in 250 ms. What the processes still had to say is not said (D9).
func closeTalk(a *agent.Agent, suite *coding.Suite, kept *transcript.Transcript) error {
	a.Stop() // from here on it starts nothing more
	closed := suite.Close()
	return cmp.Or(a.Close(), closed, kept.Close())
}

// maxLost bounds the calls that are named when a crash is told of.
const maxLost = 16

// repaired says what a crash left of a conversation: a line for each call that had no result.
func repaired(r transcript.Repair, history []transcript.Entry) (notes []string) {
	if r.Dropped > 0 {
		notes = append(notes, fmt.Sprintf("the last line of the conversation was cut off by a crash: %d bytes were dropped", r.Dropped))
	}
	for i, id := range r.Closed {
		if i == maxLost {
			return append(notes, fmt.Sprintf("%d more calls had no result", len(r.Closed)-i))
		}
		about := "a call"
		for _, e := range slices.Backward(history) { // an ID may have been there before
			if e.Type == transcript.Call && e.CallID == id {
				about = strings.TrimSpace(inert(e.Tool) + " " + agent.Preview(e.Args))
				break
			}
		}
		notes = append(notes, about+": it had no result when belay ended; it is closed as uncertain, and not made again")
	}
	return notes
}
