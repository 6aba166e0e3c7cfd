package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/belayhq/belay/internal/host/model"
)

// Chat is a model behind the Chat Completions protocol, which most local servers speak.
// It is safe for concurrent use.
//
// The protocol is spelled out here, and only the events are read by the vendor's library:
// its package for Chat Completions brings all other services of the vendor along, 14 MB in
// a program that may have 40, and ends a stream at an "error": null, which some servers
// send with each event.
type Chat struct {
	config Config
	client *http.Client
	by     string // of what is native
}

var _ model.Closer = (*Chat)(nil)

// NewChat makes the provider. It does no I/O.
func NewChat(c Config) *Chat {
	return &Chat{config: c, client: model.NewClient(c.Timing), by: "openai-chat:" + c.Model}
}

// Close closes the connections that are idle.
func (p *Chat) Close() error { p.client.CloseIdleConnections(); return nil }

// What goes out.
type (
	chatRequest struct {
		Model               string        `json:"model"`
		Messages            []chatMessage `json:"messages"`
		Tools               []chatTool    `json:"tools,omitempty"`
		MaxTokens           int           `json:"max_tokens,omitempty"`
		MaxCompletionTokens int           `json:"max_completion_tokens,omitempty"`
		Stream              bool          `json:"stream"`
		StreamOptions       struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	chatMessage struct {
		Role       string          `json:"role"`
		Content    *string         `json:"content,omitempty"` // nil beside calls
		ToolCalls  []chatCall      `json:"tool_calls,omitempty"`
		ToolCallID string          `json:"tool_call_id,omitempty"`
		Reasoning  json.RawMessage `json:"reasoning_content,omitempty"`
	}
	chatCall struct {
		ID       string       `json:"id"`
		Type     string       `json:"type"`
		Function chatFunction `json:"function"`
	}
	chatFunction struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	chatTool struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description,omitempty"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
)

// chatChunk is what comes in with each event.
type chatChunk struct {
	Choices []struct {
		Delta struct {
			Content   string `json:"content"`
			Refusal   string `json:"refusal"`
			Reasoning string `json:"reasoning_content"` // several servers send it, and some refuse to miss it when the results of calls come
			ToolCalls []struct {
				Index    int64        `json:"index"`
				ID       string       `json:"id"`
				Function chatFunction `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		PromptTokens        int64 `json:"prompt_tokens"`
		CompletionTokens    int64 `json:"completion_tokens"`
		PromptTokensDetails struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		CompletionTokensDetails struct {
			ReasoningTokens int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

func (p *Chat) Stream(ctx context.Context, r model.Request, text func(string)) (model.Answer, error) {
	b := model.NewBuilder(text, p.config.Key)
	if err := errors.Join(p.config.Check(), r.Check()); err != nil {
		return b.Answer(ctx, err)
	}
	req, err := p.request(ctx, r)
	if err != nil {
		return b.Answer(ctx, err)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return b.Answer(ctx, err)
	}
	defer resp.Body.Close()
	events := ssestream.NewDecoder(resp)
	calls := map[int64]int{} // by the number that the server gave
	var reasoning strings.Builder
	for events.Next() {
		data := bytes.TrimSpace(events.Event().Data)
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			break
		}
		var chunk chatChunk
		if err := json.Unmarshal(data, &chunk); err != nil {
			return b.Answer(ctx, &model.Error{Reason: model.Protocol, Code: "event"})
		}
		if len(chunk.Error) > 0 && string(chunk.Error) != "null" {
			return b.Answer(ctx, model.StreamRefusal(data))
		}
		if u := chunk.Usage; u.PromptTokens != 0 || u.CompletionTokens != 0 {
			b.Usage = model.Usage{Input: u.PromptTokens, CacheRead: u.PromptTokensDetails.CachedTokens,
				Output: u.CompletionTokens, Reasoning: u.CompletionTokensDetails.ReasoningTokens}
		}
		if len(chunk.Choices) == 0 {
			continue
		}
		choice := chunk.Choices[0]
		err = errors.Join(b.Text(choice.Delta.Content), b.Text(choice.Delta.Refusal))
		if s := choice.Delta.Reasoning; s != "" {
			reasoning.WriteString(s)
			err = errors.Join(err, b.Grow(len(s)))
		}
		for _, c := range choice.Delta.ToolCalls {
			n, known := calls[c.Index]
			if known && c.ID != "" && b.ID(n) != "" && c.ID != b.ID(n) {
				known = false // a server that gives every call the same number
			}
			var e error
			if known {
				e = b.Named(n, c.ID, c.Function.Name)
			} else {
				n, e = b.Call(c.ID, c.Function.Name)
				calls[c.Index] = n
			}
			err = errors.Join(err, e, b.Args(n, c.Function.Arguments))
		}
		if err != nil {
			return b.Answer(ctx, err)
		}
		// The stream goes on: the usage comes behind.
		switch choice.FinishReason {
		case "":
		case "length":
			b.Stop = model.Length
		case "content_filter":
			b.Stop = model.Filtered
		default: // stop, tool_calls, function_call, and names that others made up
			b.Stop = model.Done
		}
	}
	if s := reasoning.String(); s != "" {
		if raw, err := json.Marshal(s); err == nil {
			b.Native = &model.Native{By: p.by, JSON: raw}
		}
	}
	if b.Stop != "" { // whole; without its usage, if the stream broke behind it
		return b.Answer(ctx, nil)
	}
	return b.Answer(ctx, events.Err())
}

func (p *Chat) request(ctx context.Context, r model.Request) (*http.Request, error) {
	out := chatRequest{Model: p.config.Model, Stream: true}
	out.StreamOptions.IncludeUsage = true
	if p.config.ours() { // whose newer models refuse the older name
		out.MaxCompletionTokens = max(r.MaxTokens, 0)
	} else { // many of which know only that
		out.MaxTokens = max(r.MaxTokens, 0)
	}
	for _, t := range r.Tools {
		tool := chatTool{Type: "function"}
		tool.Function.Name, tool.Function.Description, tool.Function.Parameters = t.Name, t.Description, t.Schema
		out.Tools = append(out.Tools, tool)
	}
	if r.System != "" {
		out.Messages = append(out.Messages, chatMessage{Role: "system", Content: &r.System})
	}
	for _, m := range r.Messages {
		c := chatMessage{Role: string(m.Role), Content: &m.Text, ToolCallID: m.CallID}
		if m.Role == model.Assistant {
			if m.Text == "" && len(m.Calls) == 0 {
				continue
			}
			if m.Text == "" {
				c.Content = nil
			}
			for _, call := range m.Calls {
				c.ToolCalls = append(c.ToolCalls, chatCall{ID: call.ID, Type: "function", Function: chatFunction{Name: call.Name, Arguments: string(call.Object())}})
			}
			if m.Native != nil && m.Native.By == p.by {
				c.Reasoning = m.Native.JSON
			}
		}
		out.Messages = append(out.Messages, c)
	}
	body, err := json.Marshal(out)
	if err != nil {
		return nil, &model.Error{Reason: model.BadRequest, Code: "tool_schema"} // all else always marshals
	}
	base := p.config.BaseURL
	if base == "" {
		base = DefaultBaseURL
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(base, "/")+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, &model.Error{Reason: model.BadRequest, Code: "base_url"}
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "text/event-stream", "User-Agent": "belay",
		"OpenAI-Organization": p.config.Organization, "OpenAI-Project": p.config.Project} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if p.config.Key != "" {
		req.Header.Set("Authorization", "Bearer "+p.config.Key)
	}
	return req, nil
}
