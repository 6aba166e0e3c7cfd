package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/belayhq/belay/internal/host/model"
)

// Chat is a model behind the Chat Completions protocol, which most local servers speak.
// It is safe for concurrent use.
type Chat struct {
	config  Config
	client  *http.Client
	service sdk.ChatCompletionService
	by      string // of what is native
}

var _ model.Closer = (*Chat)(nil)

// NewChat makes the provider. It does no I/O.
func NewChat(c Config) *Chat {
	client := model.NewClient(c.Timing)
	return &Chat{config: c, client: client, service: sdk.NewChatCompletionService(c.options(client)...), by: "openai-chat:" + c.Model}
}

// Close closes the connections that are idle.
func (p *Chat) Close() error { p.client.CloseIdleConnections(); return nil }

// thoughts is the member in which several servers send reasoning, and in which some of
// them refuse to miss it when the results of calls come.
const thoughts = "reasoning_content"

func (p *Chat) Stream(ctx context.Context, r model.Request, text func(string)) (model.Answer, error) {
	b := model.NewBuilder(text)
	if err := errors.Join(p.config.check(), r.Check()); err != nil {
		return b.Answer(ctx, err)
	}
	params, err := p.params(r)
	if err != nil {
		return b.Answer(ctx, err)
	}
	stream := p.service.NewStreaming(ctx, params)
	defer stream.Close()
	calls := map[int64]int{} // by the number that the server gave
	var reasoning strings.Builder
	for stream.Next() {
		chunk := stream.Current()
		if u := chunk.Usage; u.PromptTokens != 0 || u.CompletionTokens != 0 {
			b.Usage = model.Usage{Input: u.PromptTokens, CacheRead: u.PromptTokensDetails.CachedTokens,
				Output: u.CompletionTokens, Reasoning: u.CompletionTokensDetails.ReasoningTokens}
		}
		if len(chunk.Choices) == 0 {
			continue
		}
		choice := chunk.Choices[0]
		err = errors.Join(b.Text(choice.Delta.Content), b.Text(choice.Delta.Refusal))
		if f, ok := choice.Delta.JSON.ExtraFields[thoughts]; ok {
			var s string
			if json.Unmarshal([]byte(f.Raw()), &s) == nil {
				reasoning.WriteString(s)
				err = errors.Join(err, b.Grow(len(s)))
			}
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
	return b.Answer(ctx, streamError(stream.Err()))
}

func (p *Chat) params(r model.Request) (sdk.ChatCompletionNewParams, error) {
	params := sdk.ChatCompletionNewParams{
		Model:         p.config.Model,
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)},
	}
	switch {
	case r.MaxTokens <= 0:
	case p.config.ours(): // whose newer models refuse the older name
		params.MaxCompletionTokens = sdk.Int(int64(r.MaxTokens))
	default: // many of which know only that
		params.MaxTokens = sdk.Int(int64(r.MaxTokens))
	}
	for _, t := range r.Tools {
		var schema shared.FunctionParameters
		if err := json.Unmarshal(t.Schema, &schema); err != nil {
			return params, &model.Error{Reason: model.BadRequest, Code: "tool_schema"}
		}
		params.Tools = append(params.Tools, sdk.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.Name, Description: sdk.String(t.Description), Parameters: schema,
		}))
	}
	if r.System != "" {
		params.Messages = append(params.Messages, sdk.SystemMessage(r.System))
	}
	for _, m := range r.Messages {
		switch m.Role {
		case model.User:
			params.Messages = append(params.Messages, sdk.UserMessage(m.Text))
		case model.Result:
			params.Messages = append(params.Messages, sdk.ToolMessage(m.Text, m.CallID))
		case model.Assistant:
			if m.Text == "" && len(m.Calls) == 0 {
				continue
			}
			a := sdk.ChatCompletionAssistantMessageParam{}
			if m.Text != "" {
				a.Content.OfString = param.NewOpt(m.Text)
			}
			for _, c := range m.Calls {
				a.ToolCalls = append(a.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
					ID: c.ID, Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: string(c.Object())},
				}})
			}
			if m.Native != nil && m.Native.By == p.by {
				a.SetExtraFields(map[string]any{thoughts: m.Native.JSON})
			}
			params.Messages = append(params.Messages, sdk.ChatCompletionMessageParamUnion{OfAssistant: &a})
		}
	}
	return params, nil
}
