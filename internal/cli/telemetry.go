package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	// pingTime bounds the whole of an attempt (T1).
	pingTime = 5 * time.Second
	// claimTime is how long an attempt can hold its claim: one that is older was left
	// behind by a crash.
	claimTime = 2 * pingTime
)

// ciVariables tell that a machine is at work and no user (T2).
var ciVariables = strings.Fields("CI APPVEYOR BITBUCKET_BUILD_NUMBER BUILDKITE CIRCLECI CODESPACES DRONE GITHUB_ACTIONS " +
	"GITLAB_CI JENKINS_URL NETLIFY TEAMCITY_VERSION TF_BUILD TRAVIS VERCEL")

// telemetryState says in words whether an install ping may be sent, and why not. Any "off"
// wins: a variable with any value in it counts, but for one that is a plain no to what
// would turn it off.
func (p *program) telemetryState(c *configuration) string {
	for _, name := range ciVariables {
		if p.getenv(name) != "" {
			return "off: " + name + " is set"
		}
	}
	for _, name := range []string{"BELAY_OFFLINE", "DO_NOT_TRACK"} {
		if v := p.getenv(name); v != "" && !saysNo(v) {
			return "off: " + name + " is set"
		}
	}
	switch {
	case saysNo(p.getenv("BELAY_TELEMETRY")):
		return "off: BELAY_TELEMETRY says so"
	case !c.flag("telemetry.enabled"):
		return "off: by setting (" + c.values["telemetry.enabled"].source + ")"
	case c.text("telemetry.endpoint") == "":
		return "off: there is no endpoint"
	}
	return "on"
}

// ping is the install ping: what it sends, and nothing more, once a version.
type ping struct {
	Package  string `json:"package"`
	Version  string `json:"version"`
	Platform string `json:"platform"`
	Runtime  string `json:"runtime"`
	Arch     string `json:"arch"`
}

// startPing makes the one attempt of this start, beside the program and without a word: it
// delays nothing and fails nothing. It ends with ctx; nobody has to wait for it. The
// channel is closed when it is over.
func (p *program) startPing(ctx context.Context, c *configuration) <-chan struct{} {
	over := make(chan struct{})
	if p.telemetryState(c) != "on" {
		close(over)
		return over
	}
	endpoint, state := c.text("telemetry.endpoint"), p.stateDir()
	go func() {
		defer close(over)
		if state != "" { // without a place to remember it, it would be sent at each start
			pingOnce(ctx, endpoint, filepath.Join(state, "telemetry"))
		}
	}()
	return over
}

// pingOnce sends the ping unless it was accepted before, and remembers that only once it
// was.
func pingOnce(ctx context.Context, endpoint, dir string) {
	done := filepath.Join(dir, fileName(version)+".sent")
	if _, err := os.Stat(done); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	release, ok := claim(dir)
	if !ok {
		return
	}
	defer release()
	if _, err := os.Stat(done); !errors.Is(err, fs.ErrNotExist) { // it was sent while the claim was another's
		return
	}
	if send(ctx, endpoint) {
		_ = writeState(done, nil)
	}
}

// claim keeps two starts from sending the same ping.
func claim(dir string) (release func(), ok bool) {
	if os.MkdirAll(dir, 0o700) != nil {
		return nil, false
	}
	name := filepath.Join(dir, "sending")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > claimTime {
			os.Remove(name) // for the next start
		}
		return nil, false
	}
	f.Close()
	return func() { os.Remove(name) }, true
}

func send(ctx context.Context, endpoint string) (accepted bool) {
	body, err := json.Marshal(ping{"belay", version, runtime.GOOS, runtime.Version(), runtime.GOARCH})
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return false
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "belay")
	transport := &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: 64 << 10,
	}
	client := &http.Client{
		Transport: transport,
		// What was configured is where it goes: a redirection is no acceptance.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 4<<10))
	return response.StatusCode/100 == 2
}

// fileName keeps a version fit for the name of a file.
func fileName(version string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune(".-+", r) {
			return r
		}
		return '_'
	}, version)
}
