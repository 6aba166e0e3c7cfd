package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayhq/belay/internal/face/stream"
	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/internal/termtext"
)

// usualWait is how long run waits for background results, if it is not told otherwise.
const usualWait = 10 * time.Minute

func (p *program) run() *cobra.Command {
	var (
		talk      talkFlags
		asJSON    bool
		maxTurns  int
		maxTokens int64
		wait      time.Duration
	)
	c := &cobra.Command{
		Use: "run [PROMPT|-]", Short: "Carry out one task and print the final answer",
		Long: "Carry out one task. The final answer goes to standard output, what happens on the way to standard\n" +
			"error; with --json standard output carries the events, one JSON object a line.\n\n" +
			"The prompt is the argument. With - it is read from standard input, and so it is without an\n" +
			"argument where standard input is no terminal; PROMPT - puts standard input behind the prompt.\n" +
			"With a prompt alone standard input is not read.\n\n" +
			"What the model started in the background is waited for, and wakes it; when nothing is left to do,\n" +
			"or --wait is over, what still runs is ended, and the model is not told. What needs the user's yes\n" +
			"is asked on the terminal, and refused where there is none.\n\n" +
			"Exits with 0 if the model came to its end, 1 if something failed, 4 if the model could not be asked,\n" +
			"5 if an approval that was needed could not be had, 6 if the outcome of a call is not known,\n" +
			"7 at a limit, 130 and 143 if it was interrupted or terminated.",
		Example: "  belay run 'make the tests pass'\n" +
			"  git diff | belay run 'review this' -\n" +
			"  belay run --json --max-turns 20 'upgrade the dependencies'\n" +
			"  belay run -c 'and now commit it'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 2 || len(args) == 2 && args[1] != "-" {
				return usage("run takes one prompt; quote it")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			which, err := talk.which(c)
			switch {
			case err != nil:
				return err
			case maxTurns < 0 || c.Flags().Changed("max-turns") && maxTurns == 0:
				return usage("--max-turns takes a number from 1")
			case maxTokens < 0 || c.Flags().Changed("max-tokens") && maxTokens == 0:
				return usage("--max-tokens takes a number from 1")
			case wait < 0:
				return usage("--wait takes a duration, for example 5m")
			}
			prompt, err := p.prompt(c.Context(), args)
			if err != nil {
				return err
			}
			h, err := p.host(c)
			if err != nil {
				return err
			}
			defer h.close()
			h.maxTurns, h.maxTokens, h.hurries = maxTurns, maxTokens, true
			p.warnOnce()
			task := stream.Task{Prompt: prompt, Wait: wait, Asker: p.asker(), Notify: p.notify}
			return h.carryOut(c.Context(), which, task, asJSON)
		},
	}
	talk.add(c)
	f := c.Flags()
	f.BoolVar(&asJSON, "json", false, "print the events as JSON lines in place of the answer")
	f.IntVar(&maxTurns, "max-turns", 0, "the most requests to the model [no limit]")
	f.Int64Var(&maxTokens, "max-tokens", 0, "the most tokens, input and output, as the provider counts them [no limit]")
	f.DurationVar(&wait, "wait", usualWait, "how long results of background commands are waited for, in all")
	return c
}

// prompt is what the arguments and standard input say.
func (p *program) prompt(ctx context.Context, args []string) (string, error) {
	text := ""
	fromStdin := len(args) == 0
	if fromStdin && isTerminal(p.in) {
		return "", usage("run takes a prompt: belay run 'make the tests pass'")
	}
	for _, a := range args {
		if a == "-" {
			fromStdin = true
			continue
		}
		text += a
	}
	if fromStdin {
		in, err := p.readAll(ctx)
		if err != nil {
			return "", err
		}
		if text != "" && in != "" {
			text += "\n\n"
		}
		text += in
	}
	text = strings.ToValidUTF8(text, "\ufffd")
	if strings.TrimSpace(text) == "" {
		return "", usage("the prompt is empty")
	}
	return text, nil
}

// readAll reads standard input to its end, or until ctx is done: a Read under way cannot be
// ended, so it is left to itself.
func (p *program) readAll(ctx context.Context) (string, error) {
	type input struct {
		text []byte
		err  error
	}
	read := make(chan input, 1)
	go func() {
		b, err := io.ReadAll(io.LimitReader(p.in, maxCall+1))
		read <- input{b, err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case in := <-read:
		switch {
		case in.err != nil:
			return "", fmt.Errorf("reading the prompt: %w", in.err)
		case len(in.text) > maxCall:
			return "", usage("the prompt is over %d bytes", maxCall)
		}
		return string(in.text), nil
	}
}

func (h *host) carryOut(ctx context.Context, which stream.Which, task stream.Task, asJSON bool) error {
	var report stream.Report
	config, stop := h.face(which)
	defer stop()
	var err error
	if asJSON {
		report, err = stream.JSON(ctx, config, task, h.out)
	} else {
		report, err = stream.Print(ctx, config, task, screen{h.program}, h.err)
	}
	err = h.ended(report, err, asJSON)
	if asJSON {
		return err
	}
	if ctx.Err() != nil {
		fmt.Fprintln(h.err, "belay:", context.Cause(ctx))
	}
	var e *exit
	if errors.As(err, &e) && e.err != nil { // the way on is the last line
		fmt.Fprintln(h.err, "belay:", e.err)
		err = &exit{code: e.code}
	}
	if way := h.wayOn(report); way != "" {
		fmt.Fprintln(h.err, "belay:", way)
	}
	return err
}

// ended is the exit of a task. Events that are not read to their end tell nobody what came of it,
// whatever did; an answer that was read far enough is one.
func (h *host) ended(report stream.Report, err error, asJSON bool) error {
	var refused *stream.Refusal
	switch {
	case errors.Is(err, stream.ErrReader) && !readerLeft(err):
		return &exit{exitFailed, err}
	case errors.Is(err, stream.ErrReader) && (report.Aborted || asJSON):
		return &exit{code: exitFailed} // its reader knows
	case errors.Is(err, stream.ErrReader):
	case errors.As(err, &refused):
		return &exit{exitFailed, err}
	case err != nil:
		return err
	}
	return verdict(report)
}

// wayOn says how to go on, and what it cost; "" where nothing was said.
func (h *host) wayOn(r stream.Report) string {
	tokens := ""
	if u := r.Usage; u.Input+u.Output > 0 {
		tokens = fmt.Sprintf("%d tokens in, %d out", u.Input, u.Output)
	}
	if r.Conversation == "" || filepath.Dir(h.kept.Path(r.Conversation)) != h.conversationsDir() { // it is not kept
		return tokens
	}
	way := "belay -r " + r.Conversation + " goes on with this conversation"
	if tokens != "" {
		way += "; " + tokens
	}
	return way
}

// screen is standard output for a text of the model.
type screen struct{ *program }

func (s screen) Write(b []byte) (int, error) {
	if _, err := io.WriteString(s.out, s.forScreen(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// verdict is the exit of a task that came to its end: the worst of what can be said of it.
func verdict(r stream.Report) error {
	var asked *model.Error
	switch {
	case errors.As(r.Err, &asked):
		if asked.Detail != "" {
			return &exit{exitProvider, fmt.Errorf("%w: %s", asked, termtext.Escape(asked.Detail))}
		}
		return &exit{exitProvider, asked}
	case r.Err != nil:
		return &exit{exitFailed, r.Err}
	case r.Limit != "":
		return &exit{exitLimit, fmt.Errorf("the limit of %s is reached", r.Limit)}
	case r.Waited:
		return &exit{exitLimit, errors.New("--wait is over: what still ran in the background was ended, and the model was not told")}
	case r.Uncertain > 0:
		return &exit{exitUncertain, fmt.Errorf("%d calls have an outcome that is not known", r.Uncertain)}
	case r.Ended != nil:
		return &exit{exitUncertain, r.Ended}
	case r.Approval != "":
		return &exit{exitRefused, fmt.Errorf("an approval that was needed could not be had (%s)", r.Approval)}
	case r.Stop == model.Length:
		return &exit{exitFailed, errors.New("the answer is cut off: it reached the model's own limit")}
	case r.Stop == model.Filtered:
		return &exit{exitFailed, errors.New("the model declined to answer")}
	}
	return nil
}
