// Package cli is belay as a program: arguments, streams, signals, exit codes and
// the last clean-up. It picks a face and hands it what it needs; nothing below it
// touches a standard stream or the environment of the program.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/tool"
)

// version is set by the release build (-ldflags -X).
var version = "0.1.0-dev"

// Exit codes of the contract.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitConfig      = 3
	exitProvider    = 4
	exitRefused     = 5
	exitUncertain   = 6
	exitLimit       = 7
	exitInterrupted = 130
	exitTerminated  = 143
)

// An exit is an error that already has its code. Where its error is nil the user
// was told.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprint("exit ", e.code)
	}
	return e.err.Error()
}

// program is the world that a command runs in.
type program struct {
	in       io.ReadCloser
	out, err io.Writer
	environ  []string
	getenv   func(string) string
	root     string // --root
	color    color  // --color
	models   Models

	pinged sync.Once // one attempt a start, however many suites it opens

	// again is what a second signal does, for commands that let themselves be hurried.
	again   atomic.Pointer[func()]
	hurried atomic.Bool // there was one
}

// keeperCommand is how belay starts itself as the keeper of what it runs. It is
// looked at before anything else is made: a keeper has to be there at once.
const keeperCommand = "keeper"

// Models makes the model of a provider, or says what has to be set for it. It is handed in, so
// that only the program itself is linked with the vendors' libraries: whatever else uses
// this package, such as its own tests, is built without them.
type Models func(provider, name, baseURL string, getenv func(string) string) (model.Provider, error)

// Main runs the program and gives its exit code.
func Main(models Models) int {
	if len(os.Args) == 2 && os.Args[1] == keeperCommand {
		coding.RunKeeper(os.Stdin)
		return 0
	}
	p := &program{in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ(), getenv: os.Getenv, models: models}
	// The reader of standard output may leave (belay tools | head): that is an
	// error of a write like any other, not the end by SIGPIPE in mid-work. It is
	// caught, not ignored: what is ignored would be ignored by the children too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	ctx, stopped := p.untilSignal()
	err := p.command().ExecuteContext(ctx)

	var done *exit
	var config *coding.ConfigError
	giveConsoleBack()
	switch code := stopped(); {
	case code != 0:
		return code
	case err == nil:
		return 0
	case errors.As(err, &done):
		if done.err != nil {
			fmt.Fprintln(p.err, "belay:", done.err)
		}
		return done.code
	case errors.As(err, &config):
		fmt.Fprintln(p.err, "belay:", err)
		return exitConfig
	}
	fmt.Fprintln(p.err, "belay:", err)
	return exitFailed
}

// untilSignal is done at the first SIGINT, SIGTERM or SIGHUP. The function it
// gives tells the exit code that the signal asks for, or 0.
func (p *program) untilSignal() (context.Context, func() int) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it: it is to outlive its terminal
		ends = append(ends, syscall.SIGHUP)
	}
	signal.Notify(signals, ends...)
	go func() {
		by := &stoppedBy{<-signals}
		cancel(by)
		time.AfterFunc(endTime, func() { os.Exit(by.code()) })
		for range signals {
			p.hurry()
		}
	}()
	return ctx, func() int {
		signal.Stop(signals)
		var by *stoppedBy
		if !errors.As(context.Cause(ctx), &by) {
			return 0
		}
		return by.code()
	}
}

// endTime is how long a signal takes at most to end the program. All that runs is ended in half of
// it; the rest is for somebody who does not read what belay still has to say.
const endTime = 10 * time.Second

// hurry is what a further signal does.
func (p *program) hurry() {
	p.hurried.Store(true)
	if again := p.again.Load(); again != nil {
		(*again)()
	}
}

// hurriedBy sets what a further signal does, also one that came already.
func (p *program) hurriedBy(f func()) {
	p.again.Store(&f)
	if p.hurried.Load() {
		f()
	}
}

type stoppedBy struct{ signal os.Signal }

func (s *stoppedBy) code() int {
	if s.signal == os.Interrupt {
		return exitInterrupted
	}
	return exitTerminated
}

func (s *stoppedBy) Error() string {
	name := s.signal.String()
	switch s.signal {
	case os.Interrupt:
		name = "SIGINT"
	case syscall.SIGTERM:
		name = "SIGTERM"
	case syscall.SIGHUP:
		name = "SIGHUP"
	}
	return "stopped by " + name
}

const exitCodes = `

Exit codes: 0 ok, 1 failed, 2 usage, 3 configuration, 4 the model's provider,
5 refused, 6 uncertain, 7 turn, token or time limit, 130 interrupted, 143 terminated.
A command that fails is a result of call: 0.`

func (p *program) command() *cobra.Command {
	var talk talkFlags
	root := &cobra.Command{
		Use:   "belay",
		Short: "Dependable hands for a coding agent",
		Long: "belay gives a coding agent dependable hands: files that stay inside one worktree,\n" +
			"processes that are owned from start to proven end, and the truth about every outcome.\n\n" + coding.SecurityWarning + exitCodes,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("there is no command %q; see belay help", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return p.interactive(c, talk) },
	}
	talk.add(root)
	root.SetOut(p.out)
	root.SetErr(p.err)
	root.SetIn(p.in)
	root.SetVersionTemplate("belay {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v", err) })
	root.PersistentFlags().StringVar(&p.root, "root", ".", "the worktree `DIR` that file tools are confined to")
	p.color = "auto"
	root.PersistentFlags().Var(&p.color, "color", "set off what belay says from what a model says, in a conversation on a terminal: auto, always, never")
	root.PersistentFlags().String("config", "", "the configuration `FILE` of the user, in place of the usual one")
	root.AddCommand(p.demo(), p.run(), p.rpc(), p.conversations(), p.mcp(), p.call(), p.tools(), p.doctor(), p.config(), p.trust(), p.install(), p.journal(), p.version())
	root.InitDefaultCompletionCmd()
	return root
}

func usage(format string, args ...any) error { return &exit{exitUsage, fmt.Errorf(format, args...)} }

// noArgs and exactArgs say what is wrong as a fault of usage.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no argument %q", c.Name(), args[0])
	}
	return nil
}

func (p *program) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			revision := ""
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						revision = " " + s.Value[:min(12, len(s.Value))]
					}
				}
			}
			_, err := fmt.Fprintf(p.out, "belay %s%s %s/%s %s\n", version, revision, runtime.GOOS, runtime.GOARCH, runtime.Version())
			return err
		},
	}
}

// suite opens the tools on the root, as they are configured.
func (p *program) suite(c *cobra.Command) (*coding.Suite, *configuration, error) {
	held, err := p.configuration(configFlag(c))
	if err != nil {
		return nil, nil, err
	}
	for _, note := range held.notes {
		fmt.Fprintln(p.err, "belay:", note)
	}
	s, err := p.open(c, held)
	return s, held, err
}

// open opens the tools on the root with a configuration.
func (p *program) open(c *cobra.Command, held *configuration) (*coding.Suite, error) {
	hooks, err := held.guards(p.environ)
	if err != nil {
		return nil, err
	}
	s, err := coding.New(coding.Config{
		Root: p.root, Limits: held.limits(), Env: held.env(), Protect: held.texts("protect"), Environ: p.environ,
		Hooks: hooks, ApprovalTimeout: held.approvalTimeout(), Journal: held.text("journal.path"), Keeper: keeper(),
		LockDir: p.lockDir(),
	})
	if err != nil {
		return nil, err
	}
	p.pinged.Do(func() { p.startPing(c.Context(), held) })
	return s, nil
}

// keeper is the command line of this program as a keeper, or nil where it does not
// know where it is.
func keeper() []string {
	exe, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{exe, keeperCommand}
}

// exitOf is the code for an error of the contract.
func exitOf(e *tool.Error) int {
	switch e.Kind {
	case tool.Refused:
		return exitRefused
	case tool.Uncertain:
		return exitUncertain
	}
	return exitFailed
}

// oneLine is for errors of others that go to the terminal.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", " ") }
