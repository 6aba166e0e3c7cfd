package models

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belayhq/belay/internal/host/model/anthropic"
	"github.com/belayhq/belay/internal/host/model/openai"
	"github.com/belayhq/belay/internal/host/model/scripted"
)

// Each name has its model, and what is missing is said before anything is sent.
func TestNew(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte(`{"text":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		provider, name, base string
		env                  map[string]string
		want                 string // a kind, or a part of an error
	}{
		{"openai", "m", "", map[string]string{"OPENAI_API_KEY": "k"}, "responses"},
		{"openai-chat", "m", "", map[string]string{"OPENAI_API_KEY": "k"}, "chat"},
		{"openai-chat", "m", "http://127.0.0.1:1/v1", nil, "chat"},
		{"openai-chat", "m", "", map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, "chat"},
		{"anthropic", "m", "", map[string]string{"ANTHROPIC_API_KEY": "k"}, "messages"},
		{"anthropic", "m", "", map[string]string{"ANTHROPIC_AUTH_TOKEN": "k"}, "messages"},
		{"scripted", script, "", nil, "scripted"},

		{"openai", "m", "", nil, "set OPENAI_API_KEY"},
		{"openai-chat", "m", "", map[string]string{"ANTHROPIC_API_KEY": "k"}, "set OPENAI_API_KEY"},
		{"anthropic", "m", "", map[string]string{"OPENAI_API_KEY": "k"}, "set ANTHROPIC_API_KEY"},
		{"scripted", script + "\x1b[31m", "", nil, `\x1b[31m is not there`},
		{"scripted", filepath.Dir(script), "", nil, "cannot be used"},
		{"openai-chat", "m", "", map[string]string{"OPENAI_BASE_URL": "localhost:11434"}, "OPENAI_BASE_URL is no address"},
		{"openai", "m", "ftp://x", map[string]string{"OPENAI_API_KEY": "k"}, "model.base_url is no address"},
		{"anthropic", "m", "", map[string]string{"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://"}, "ANTHROPIC_BASE_URL is no address"},
		{"other", "m", "", nil, "there is no provider other"},
	} {
		m, err := New(c.provider, c.name, c.base, func(name string) string { return c.env[name] })
		got := ""
		switch m.(type) {
		case *openai.Responses:
			got = "responses"
		case *openai.Chat:
			got = "chat"
		case *anthropic.Messages:
			got = "messages"
		case *scripted.Model:
			got = "scripted"
		}
		if err != nil {
			got = err.Error()
		}
		if got == "" || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %q, want %q", c.provider, c.name, got, c.want)
		}
	}
}
