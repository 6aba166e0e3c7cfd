package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/internal/face/mcp"
)

// maxWaitVariable takes the place of --max-wait.
const maxWaitVariable = "BELAY_MCP_MAX_WAIT"

// mcpFlags are the flags of one run of belay mcp.
type mcpFlags struct {
	tools      []string
	readOnly   bool
	maxWait    time.Duration
	http       string
	anyAddress bool
	tokenFile  string
}

func (p *program) mcp() *cobra.Command {
	var f mcpFlags
	c := &cobra.Command{
		Use: "mcp", Short: "Serve the tools to an MCP client", Args: noArgs,
		Long: "Serve the tools over MCP on standard input and output, which carry protocol only, or over HTTP.\n" +
			"At the end of the input, and on SIGINT, SIGTERM and SIGHUP, the server and all that it started end.\n\n" +
			"Over HTTP every request needs a bearer token, from BELAY_HTTP_TOKEN or a file of mode 0600, one on\n" +
			"each line. Each token has a runtime of its own: its sessions mean nothing to another token.\n\n" +
			"A wait of a tool ends in time for the clients that are known; --max-wait (or " + maxWaitVariable + ") is for\n" +
			"others, for example 4m.",
		Example: "  belay mcp --root ~/src/project\n" +
			"  belay mcp --read-only\n" +
			"  BELAY_HTTP_TOKEN=$(openssl rand -hex 32) belay mcp --http 127.0.0.1:8765",
		RunE: func(c *cobra.Command, _ []string) error { return p.serveMCP(c, f) },
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.tools, "tools", nil, "serve only these tools, a `LIST` with commas")
	flags.BoolVar(&f.readOnly, "read-only", false, "serve only the tools that change nothing")
	flags.DurationVar(&f.maxWait, "max-wait", 0, "the longest that a tool only waits, in place of what is known of the client")
	flags.StringVar(&f.http, "http", "", "serve HTTP at this `ADDRESS` and /mcp, in place of standard input and output")
	flags.BoolVar(&f.anyAddress, "http-any-address", false, "let --http be no loopback address: the tokens go over the network in the clear")
	flags.StringVar(&f.tokenFile, "token-file", "", "the `FILE` with the bearer tokens for --http")
	return c
}

func (p *program) serveMCP(c *cobra.Command, f mcpFlags) error {
	config := mcp.Config{Version: version, Tools: f.tools, ReadOnly: f.readOnly, MaxWait: f.maxWait}
	if !c.Flags().Changed("max-wait") && p.getenv(maxWaitVariable) != "" {
		wait, err := time.ParseDuration(p.getenv(maxWaitVariable))
		if err != nil {
			return &exit{exitConfig, fmt.Errorf("%s takes a duration, for example 4m", maxWaitVariable)}
		}
		config.MaxWait = wait
	}
	switch overHTTP := f.http != ""; {
	case config.MaxWait < 0, config.MaxWait > 0 && config.MaxWait < time.Second:
		return usage("a wait of at least a second is needed")
	case c.Flags().Changed("tools") && len(f.tools) == 0:
		return usage("--tools takes the names of tools")
	case !overHTTP && c.Flags().Changed("http"):
		return usage("--http takes an address, for example 127.0.0.1:8765")
	case !overHTTP && (f.anyAddress || f.tokenFile != ""):
		return usage("--http-any-address and --token-file are for --http")
	case overHTTP:
		return p.serveHTTP(c, f, config)
	}
	p.warnOnce()
	suite, err := p.served(c, f.tools)
	if err != nil {
		return err
	}
	if isTerminal(p.in) {
		fmt.Fprintln(p.err, "belay: waiting for an MCP client on standard input; a client starts this command itself")
	}
	err = mcp.Serve(c.Context(), suite, config, p.in, p.out)
	if closeErr := suite.Close(); err == nil {
		err = closeErr
	}
	return err
}

// served is a suite that has the tools that are to be served.
func (p *program) served(c *cobra.Command, tools []string) (*coding.Suite, error) {
	suite, _, err := p.suite(c)
	if err != nil {
		return nil, err
	}
	var known []string
	for _, d := range suite.Definitions() {
		known = append(known, d.Name)
	}
	for _, name := range tools {
		if !slices.Contains(known, name) {
			suite.Close()
			return nil, usage("there is no tool %q; known: %s", name, strings.Join(known, " "))
		}
	}
	return suite, nil
}

func (p *program) serveHTTP(c *cobra.Command, f mcpFlags, config mcp.Config) (err error) {
	loopback, err := loopbackAddress(c.Context(), f.http)
	switch {
	case err != nil:
		return usage("--http takes an address with a port, for example 127.0.0.1:8765")
	case !loopback && !f.anyAddress:
		return usage("%s is no loopback address; if that is meant, say --http-any-address", f.http)
	}
	tokens, err := p.httpTokens(f.tokenFile)
	if err != nil {
		return &exit{exitConfig, err}
	}
	p.warnOnce()
	var runtimes []mcp.Runtime
	var suites []*coding.Suite
	defer func() { // at once: each takes its grace
		ended := make(chan error, len(suites))
		for _, s := range suites {
			go func() { ended <- s.Close() }()
		}
		for range suites {
			if closeErr := <-ended; err == nil {
				err = closeErr
			}
		}
	}()
	for _, token := range tokens {
		suite, err := p.served(c, f.tools)
		if err != nil {
			return err
		}
		suites = append(suites, suite)
		runtimes = append(runtimes, mcp.Runtime{Token: token, Suite: suite})
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(c.Context(), "tcp", f.http)
	if err != nil {
		return errors.New("cannot listen: " + oneLine(err))
	}
	fmt.Fprintf(p.err, "belay: serving MCP at http://%s%s\n", listener.Addr(), mcp.Path)
	return mcp.ServeHTTP(c.Context(), config, listener, loopback, runtimes)
}

// loopbackAddress tells whether all that an address stands for is loopback.
func loopbackAddress(ctx context.Context, address string) (bool, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return false, errors.New("no host and port")
	}
	if host == "" {
		return false, nil // every address
	}
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	found, err := net.DefaultResolver.LookupIPAddr(bounded, host)
	if err != nil {
		return false, err
	}
	for _, a := range found {
		if !a.IP.IsLoopback() {
			return false, nil
		}
	}
	return len(found) > 0, nil
}

const (
	// maxTokens bounds the runtimes: each can have all the sessions of a runtime.
	maxTokens    = 32
	maxTokenFile = 64 << 10
	tokenNeeded  = "--http needs a token: set BELAY_HTTP_TOKEN, or give --token-file"
)

// httpTokens are the tokens of the file, or else that of the variable.
func (p *program) httpTokens(file string) ([]string, error) {
	text := p.getenv("BELAY_HTTP_TOKEN")
	if file != "" {
		raw, err := readPrivate(file)
		if err != nil {
			return nil, fmt.Errorf("--token-file %s: %w", file, err)
		}
		text = string(raw)
	}
	var tokens []string
	for line := range strings.Lines(text) {
		token := strings.TrimSpace(line)
		switch {
		case token == "":
			continue
		case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
			return nil, errors.New("a token is one word of printable ASCII")
		case slices.Contains(tokens, token):
			return nil, errors.New("a token is given twice")
		}
		tokens = append(tokens, token)
	}
	switch {
	case len(tokens) == 0:
		return nil, errors.New(tokenNeeded)
	case len(tokens) > maxTokens:
		return nil, fmt.Errorf("there are more than %d tokens", maxTokens)
	}
	return tokens, nil
}

// readPrivate reads a file that nobody else may read. Its name is opened once, so that
// what is checked is what is read.
func readPrivate(name string) ([]byte, error) {
	f, err := openPrivate(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, errors.New("cannot be looked at")
	case !info.Mode().IsRegular():
		return nil, errors.New("is no regular file")
	case info.Size() > maxTokenFile:
		return nil, errors.New("is too large")
	}
	if err := private(info); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil || len(raw) > maxTokenFile {
		return nil, errors.New("cannot be read")
	}
	return raw, nil
}

func why(err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("is not there")
	case errors.Is(err, os.ErrPermission):
		return errors.New("may not be read")
	}
	return errors.New("cannot be opened")
}
