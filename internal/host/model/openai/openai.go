// Package openai speaks the two protocols of OpenAI, Responses and Chat Completions, to
// OpenAI and to any server that speaks one of them.
//
// Nothing is stored at the server: each request carries the whole conversation, and
// reasoning goes along encrypted where the model gives it.
package openai

import (
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3/option"

	"github.com/belayhq/belay/internal/host/model"
)

// DefaultBaseURL is OpenAI's own.
const DefaultBaseURL = "https://api.openai.com/v1"

// Config says which model to ask, and where.
type Config struct {
	Model   string
	BaseURL string // with its version, as in DefaultBaseURL, which "" stands for
	Key     string // "" for a server that wants none; OpenAI does
	// Organization and Project are OpenAI's, for accounts with several.
	Organization, Project string
	Timing                model.Timing
}

// FromEnv fills what is not set from the vendor's own variables: OPENAI_API_KEY,
// OPENAI_BASE_URL, OPENAI_ORG_ID, OPENAI_PROJECT_ID.
func (c Config) FromEnv(getenv func(string) string) Config {
	for _, v := range []struct {
		to   *string
		name string
	}{{&c.Key, "OPENAI_API_KEY"}, {&c.BaseURL, "OPENAI_BASE_URL"}, {&c.Organization, "OPENAI_ORG_ID"}, {&c.Project, "OPENAI_PROJECT_ID"}} {
		if *v.to == "" {
			*v.to = strings.TrimSpace(getenv(v.name))
		}
	}
	return c
}

// ours tells whether requests go to OpenAI itself, whose protocol is ahead of all others.
func (c Config) ours() bool {
	return c.BaseURL == "" || strings.HasPrefix(strings.TrimRight(c.BaseURL, "/")+"/", DefaultBaseURL+"/")
}

// Check tells early what the server would say late: that there is no model or no key. The
// error is a *model.Error.
func (c Config) Check() error {
	switch {
	case c.Model == "":
		return &model.Error{Reason: model.BadRequest, Code: "no_model"}
	case c.Key == "" && c.ours():
		return &model.Error{Reason: model.Auth, Code: "no_key"}
	}
	return nil
}

func (c Config) options(client *http.Client) []option.RequestOption {
	base := c.BaseURL
	if base == "" {
		base = DefaultBaseURL
	}
	opts := []option.RequestOption{
		option.WithBaseURL(base), option.WithHTTPClient(client), option.WithMaxRetries(0), // model.Patient does it, and says so
		option.WithHeader("User-Agent", "belay"), option.WithHeader("Accept", "text/event-stream"),
	}
	if c.Key != "" {
		opts = append(opts, option.WithAPIKey(c.Key))
	}
	if c.Organization != "" {
		opts = append(opts, option.WithOrganization(c.Organization))
	}
	if c.Project != "" {
		opts = append(opts, option.WithProject(c.Project))
	}
	return opts
}

// reasons tells whether a model reasons, by OpenAI's names: the others refuse a request for
// its encrypted form.
func reasons(name string) bool {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	digit := func(s string, from byte) bool { return s != "" && s[0] >= from && s[0] <= '9' }
	o, isO := strings.CutPrefix(name, "o")
	gpt, isGPT := strings.CutPrefix(name, "gpt-")
	return isO && digit(o, '1') || isGPT && digit(gpt, '5') && !strings.Contains(gpt, "-chat") || strings.HasPrefix(name, "codex")
}
