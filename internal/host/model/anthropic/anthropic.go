// Package anthropic speaks the Messages protocol of Anthropic, to Anthropic and to any
// server that speaks it.
//
// The beginning of each request is marked for the vendor's cache, up to the newest
// message: the next request repeats it.
package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/belayhq/belay/internal/host/model"
)

// DefaultBaseURL is Anthropic's own.
const DefaultBaseURL = "https://api.anthropic.com"

// DefaultMaxTokens is the bound of an answer where the request has none: the protocol wants
// one, and each model since Claude Sonnet 4 takes this.
const DefaultMaxTokens = 16384

// Config says which model to ask, and where.
type Config struct {
	Model   string
	BaseURL string // without a version; "" is DefaultBaseURL
	Key     string // "" for a server that wants none; Anthropic does, or a Token
	Token   string // of a gateway, sent as a bearer token
	Timing  model.Timing
}

// FromEnv fills what is not set from the vendor's own variables: ANTHROPIC_API_KEY,
// ANTHROPIC_AUTH_TOKEN, ANTHROPIC_BASE_URL.
func (c Config) FromEnv(getenv func(string) string) Config {
	for _, v := range []struct {
		to   *string
		name string
	}{{&c.Key, "ANTHROPIC_API_KEY"}, {&c.Token, "ANTHROPIC_AUTH_TOKEN"}, {&c.BaseURL, "ANTHROPIC_BASE_URL"}} {
		if *v.to == "" {
			*v.to = strings.TrimSpace(getenv(v.name))
		}
	}
	return c
}

// Check tells early what the server would say late: that there is no model or no key. The
// error is a *model.Error.
func (c Config) Check() error {
	switch {
	case c.Model == "":
		return &model.Error{Reason: model.BadRequest, Code: "no_model"}
	case c.Key == "" && c.Token == "" && (c.BaseURL == "" || strings.TrimRight(c.BaseURL, "/") == DefaultBaseURL):
		return &model.Error{Reason: model.Auth, Code: "no_key"}
	}
	return nil
}

// Messages is a model behind the Messages protocol. It is safe for concurrent use.
type Messages struct {
	config  Config
	client  *http.Client
	service sdk.MessageService
	by      string // of what is native
}

var _ model.Closer = (*Messages)(nil)

// New makes the provider. It does no I/O.
func New(c Config) *Messages {
	client := model.NewClient(c.Timing)
	base := c.BaseURL
	if base == "" {
		base = DefaultBaseURL
	}
	opts := []option.RequestOption{
		option.WithBaseURL(base), option.WithHTTPClient(client), option.WithMaxRetries(0), // model.Patient does it, and says so
		option.WithHeader("User-Agent", "belay"), option.WithHeader("anthropic-version", "2023-06-01"),
	}
	if c.Key != "" {
		opts = append(opts, option.WithAPIKey(c.Key))
	}
	if c.Token != "" {
		opts = append(opts, option.WithAuthToken(c.Token))
	}
	return &Messages{config: c, client: client, service: sdk.NewMessageService(opts...), by: "anthropic:" + c.Model}
}

// Close closes the connections that are idle.
func (p *Messages) Close() error { p.client.CloseIdleConnections(); return nil }

// block is a part of the answer that is being streamed.
type block struct {
	kind      string
	call      int // of the builder, for tool_use
	text      strings.Builder
	signature string
	data      string
}

func (p *Messages) Stream(ctx context.Context, r model.Request, text func(string)) (model.Answer, error) {
	b := model.NewBuilder(text, p.config.Key, p.config.Token)
	if err := errors.Join(p.config.Check(), r.Check()); err != nil {
		return b.Answer(ctx, err)
	}
	stream := p.service.NewStreaming(ctx, p.params(r))
	defer stream.Close()
	var (
		blocks []*block // by their index
		stop   model.Stop
		err    error
	)
	at := func(index int64) *block {
		if index < 0 || index >= int64(len(blocks)) {
			return &block{} // of a kind that is not known, or a fault of the server
		}
		return blocks[index]
	}
	for b.Stop == "" && stream.Next() {
		event := stream.Current()
		switch event.Type {
		case "message_start":
			u := event.Message.Usage
			b.Usage = model.Usage{Input: u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens,
				CacheRead: u.CacheReadInputTokens, CacheWrite: u.CacheCreationInputTokens, Output: u.OutputTokens}
		case "content_block_start":
			start := event.ContentBlock
			k := &block{kind: start.Type, signature: start.Signature, data: start.Data}
			switch start.Type {
			case "text":
				k.text.WriteString(start.Text)
				err = b.Text(start.Text)
			case "thinking":
				k.text.WriteString(start.Thinking)
				err = b.Grow(len(start.Thinking))
			case "redacted_thinking":
				err = b.Grow(len(start.Data))
			case "tool_use":
				k.call, err = b.Call(start.ID, start.Name)
			}
			if event.Index == int64(len(blocks)) {
				blocks = append(blocks, k)
			} else {
				err = &model.Error{Reason: model.Protocol, Code: "block_index"}
			}
		case "content_block_delta":
			k, d := at(event.Index), event.Delta
			switch {
			case d.Type == "text_delta" && k.kind == "text":
				k.text.WriteString(d.Text)
				err = b.Text(d.Text)
			case d.Type == "input_json_delta" && k.kind == "tool_use":
				err = b.Args(k.call, d.PartialJSON)
			case d.Type == "thinking_delta" && k.kind == "thinking":
				k.text.WriteString(d.Thinking)
				err = b.Grow(len(d.Thinking))
			case d.Type == "signature_delta" && k.kind == "thinking":
				k.signature += d.Signature
				err = b.Grow(len(d.Signature))
			}
		case "message_delta":
			if u := event.Usage; u.OutputTokens != 0 {
				b.Usage.Output = u.OutputTokens
				b.Usage.Reasoning = u.OutputTokensDetails.ThinkingTokens
			}
			switch event.Delta.StopReason {
			case "":
			case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
				stop = model.Length
			case sdk.StopReasonRefusal:
				stop = model.Filtered
			default:
				stop = model.Done
			}
		case "message_stop":
			b.Stop = stop
			if stop == "" {
				b.Stop = model.Done
			}
		}
		if err != nil {
			return b.Answer(ctx, err)
		}
	}
	if b.Stop == "" {
		b.Stop = stop // all blocks were complete before it; only the farewell is missing
	}
	if b.Stop == "" {
		return b.Answer(ctx, streamError(stream.Err()))
	}
	a, err := b.Answer(ctx, nil)
	if err == nil && a.Stop != model.Length {
		a.Native = p.native(blocks, a)
	}
	return a, err
}

// native is the answer as the vendor gave it, if there is thinking in it that goes back.
func (p *Messages) native(blocks []*block, a model.Answer) *model.Native {
	private := false
	var parts []any
	for _, k := range blocks {
		switch k.kind {
		case "text":
			if strings.TrimSpace(k.text.String()) != "" { // a blank one would be refused
				parts = append(parts, map[string]any{"type": "text", "text": k.text.String()})
			}
		case "thinking":
			private = true
			parts = append(parts, map[string]any{"type": "thinking", "thinking": k.text.String(), "signature": k.signature})
		case "redacted_thinking":
			private = true
			parts = append(parts, map[string]any{"type": "redacted_thinking", "data": k.data})
		case "tool_use":
			c := a.Calls[k.call]
			parts = append(parts, map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name, "input": c.Object()})
		}
	}
	raw, err := json.Marshal(parts)
	if !private || err != nil {
		return nil
	}
	return &model.Native{By: p.by, JSON: raw}
}

// streamError knows an error that came as an event.
func streamError(err error) error {
	var own *model.Error
	var event *sdk.Error
	if !errors.As(err, &own) && errors.As(err, &event) {
		return model.StreamRefusal([]byte(event.RawJSON()))
	}
	return err
}

func (p *Messages) params(r model.Request) sdk.MessageNewParams {
	params := sdk.MessageNewParams{Model: p.config.Model, MaxTokens: DefaultMaxTokens}
	if r.MaxTokens > 0 {
		params.MaxTokens = int64(r.MaxTokens)
	}
	if r.System != "" {
		params.System = []sdk.TextBlockParam{{Text: r.System, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	}
	for _, t := range r.Tools {
		params.Tools = append(params.Tools, sdk.ToolUnionParam{OfTool: &sdk.ToolParam{
			Name: t.Name, Description: param.NewOpt(t.Description), InputSchema: param.Override[sdk.ToolInputSchemaParam](t.Schema),
		}})
	}
	// Results belong at the beginning of the user's turn, and turns alternate.
	add := func(role sdk.MessageParamRole, blocks ...sdk.ContentBlockParamUnion) {
		if n := len(params.Messages); n > 0 && params.Messages[n-1].Role == role {
			params.Messages[n-1].Content = append(params.Messages[n-1].Content, blocks...)
		} else if len(blocks) > 0 {
			params.Messages = append(params.Messages, sdk.MessageParam{Role: role, Content: blocks})
		}
	}
	for _, m := range r.Messages {
		switch m.Role {
		case model.User:
			if strings.TrimSpace(m.Text) != "" {
				add(sdk.MessageParamRoleUser, sdk.NewTextBlock(m.Text))
			}
		case model.Result:
			result := sdk.ToolResultBlockParam{ToolUseID: m.CallID}
			if m.Failed {
				result.IsError = param.NewOpt(true)
			}
			if strings.TrimSpace(m.Text) != "" {
				result.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: m.Text}}}
			}
			add(sdk.MessageParamRoleUser, sdk.ContentBlockParamUnion{OfToolResult: &result})
		case model.Assistant:
			var native []json.RawMessage
			if m.Native != nil && m.Native.By == p.by && json.Unmarshal(m.Native.JSON, &native) == nil {
				for _, raw := range native {
					add(sdk.MessageParamRoleAssistant, param.Override[sdk.ContentBlockParamUnion](raw))
				}
				continue
			}
			if strings.TrimSpace(m.Text) != "" {
				add(sdk.MessageParamRoleAssistant, sdk.NewTextBlock(m.Text))
			}
			for _, c := range m.Calls {
				add(sdk.MessageParamRoleAssistant, sdk.NewToolUseBlock(c.ID, c.Object(), c.Name))
			}
		}
	}
	if n := len(params.Messages); n > 0 {
		last := params.Messages[n-1].Content
		switch k := last[len(last)-1]; {
		case k.OfText != nil:
			k.OfText.CacheControl = sdk.NewCacheControlEphemeralParam()
		case k.OfToolResult != nil:
			k.OfToolResult.CacheControl = sdk.NewCacheControlEphemeralParam()
		}
	}
	return params
}
