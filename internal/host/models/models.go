// Package models makes the model that the name of a provider stands for.
//
// It links every vendor's library, so that nothing else has to: only the program itself
// imports it. It makes no request, and reads the environment only through what it is given.
package models

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/belayhq/belay/internal/host/model"
	"github.com/belayhq/belay/internal/host/model/anthropic"
	"github.com/belayhq/belay/internal/host/model/openai"
	"github.com/belayhq/belay/internal/host/model/scripted"
	"github.com/belayhq/belay/internal/termtext"
)

// New makes a model: of openai (Responses), openai-chat, anthropic, or scripted, where the name
// is the path of the script. baseURL "" is the vendor's own variable, or its own address.
// Keys come from the environment only. The error is for the user: what has to be set.
func New(provider, name, baseURL string, getenv func(string) string) (model.Provider, error) {
	switch provider {
	case "scripted":
		m, err := scripted.Open(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("the script %s is not there", termtext.Escape(name))
		case err != nil:
			return nil, fmt.Errorf("the script %s cannot be used: %s", termtext.Escape(name), strings.ReplaceAll(err.Error(), "\n", " "))
		}
		return m, nil
	case "anthropic":
		config := anthropic.Config{Model: name, BaseURL: baseURL}.FromEnv(getenv)
		if err := checkAddress(config.BaseURL, baseURL, "ANTHROPIC_BASE_URL"); err != nil {
			return nil, err
		}
		if config.Check() != nil {
			return nil, errors.New("the provider anthropic needs a key: set ANTHROPIC_API_KEY")
		}
		return anthropic.New(config), nil
	case "openai", "openai-chat":
		config := openai.Config{Model: name, BaseURL: baseURL}.FromEnv(getenv)
		if err := checkAddress(config.BaseURL, baseURL, "OPENAI_BASE_URL"); err != nil {
			return nil, err
		}
		if config.Check() != nil {
			return nil, fmt.Errorf("the provider %s needs a key: set OPENAI_API_KEY, or OPENAI_BASE_URL for a server that wants none", provider)
		}
		if provider == "openai-chat" {
			return openai.NewChat(config), nil
		}
		return openai.NewResponses(config), nil
	}
	return nil, fmt.Errorf("there is no provider %s", termtext.Escape(provider))
}

// checkAddress tells early that there cannot be a server, and where the address comes from.
func checkAddress(address, configured, variable string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		return nil
	}
	from := "model.base_url"
	if configured == "" {
		from = variable
	}
	return fmt.Errorf("%s is no address of a server: it has to begin with http:// or https://", from)
}
