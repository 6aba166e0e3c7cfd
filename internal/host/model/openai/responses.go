package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

	"github.com/belayhq/belay/internal/host/model"
)

// Responses is a model behind the Responses protocol. It is safe for concurrent use.
type Responses struct {
	config  Config
	client  *http.Client
	service responses.ResponseService
	by      string // of what is native
}

var _ model.Closer = (*Responses)(nil)

// NewResponses makes the provider. It does no I/O.
func NewResponses(c Config) *Responses {
	client := model.NewClient(c.Timing)
	return &Responses{config: c, client: client, service: responses.NewResponseService(c.options(client)...), by: "openai:" + c.Model}
}

// Close closes the connections that are idle.
func (p *Responses) Close() error { p.client.CloseIdleConnections(); return nil }

func (p *Responses) Stream(ctx context.Context, r model.Request, text func(string)) (model.Answer, error) {
	b := model.NewBuilder(text, p.config.Key)
	if err := errors.Join(p.config.Check(), r.Check()); err != nil {
		return b.Answer(ctx, err)
	}
	params, err := p.params(r)
	if err != nil {
		return b.Answer(ctx, err)
	}
	stream := p.service.NewStreaming(ctx, params)
	defer stream.Close()
	var items []json.RawMessage // of the output, in their order
	private := false            // there is reasoning among them that the model wants back
	for b.Stop == "" && stream.Next() {
		event := stream.Current()
		switch event.Type {
		case "response.output_text.delta", "response.refusal.delta":
			err = b.Text(event.Delta)
		case "response.output_item.done":
			raw := event.Item.RawJSON()
			items = append(items, json.RawMessage(raw))
			private = private || event.Item.Type == "reasoning" && event.Item.EncryptedContent != ""
			err = errors.Join(b.Grow(len(raw)), item(b, event.Item))
		case "response.completed":
			b.Stop = model.Done
		case "response.incomplete":
			b.Stop = model.Length
			if event.Response.IncompleteDetails.Reason == "content_filter" {
				b.Stop = model.Filtered
			}
		case "response.failed":
			err = model.Refusal(0, nil, string(event.Response.Error.Code), event.Response.Error.Type, event.Response.Error.Message)
		case "error":
			err = model.Refusal(0, nil, event.Code, "", event.Message)
		}
		if b.Stop != "" {
			b.Usage = usage(event.Response.Usage)
			if len(items) == 0 { // a server that tells its items only together
				for _, it := range event.Response.Output {
					err = errors.Join(err, item(b, it))
				}
			}
		}
		if err != nil {
			return b.Answer(ctx, err)
		}
	}
	if private && b.Stop != model.Length {
		if whole, err := json.Marshal(items); err == nil {
			b.Native = &model.Native{By: p.by, JSON: whole}
		}
	}
	if b.Stop != "" {
		return b.Answer(ctx, nil)
	}
	return b.Answer(ctx, streamError(stream.Err()))
}

// item takes a part of the output that is complete.
func item(b *model.Builder, it responses.ResponseOutputItemUnion) error {
	switch it.Type {
	case "function_call":
		n, err := b.Call(it.CallID, it.Name)
		if err != nil {
			return err
		}
		return b.Args(n, it.Arguments.OfString)
	case "message":
		if b.HasText() {
			return nil // it came in pieces
		}
		for _, c := range it.Content {
			if err := b.Text(c.Text + c.Refusal); err != nil {
				return err
			}
		}
	}
	return nil
}

func usage(u responses.ResponseUsage) model.Usage {
	return model.Usage{Input: u.InputTokens, CacheRead: u.InputTokensDetails.CachedTokens, CacheWrite: u.InputTokensDetails.CacheWriteTokens,
		Output: u.OutputTokens, Reasoning: u.OutputTokensDetails.ReasoningTokens}
}

// streamError knows an error that came as an event.
func streamError(err error) error {
	var event *ssestream.StreamError
	if errors.As(err, &event) {
		return model.StreamRefusal(event.Event.Data)
	}
	return err
}

func (p *Responses) params(r model.Request) (responses.ResponseNewParams, error) {
	params := responses.ResponseNewParams{Model: p.config.Model, Store: param.NewOpt(false)}
	if r.System != "" {
		params.Instructions = param.NewOpt(r.System)
	}
	if r.MaxTokens > 0 {
		params.MaxOutputTokens = param.NewOpt(int64(r.MaxTokens))
	}
	if reasons(p.config.Model) {
		params.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	for _, t := range r.Tools {
		var schema map[string]any
		if err := json.Unmarshal(t.Schema, &schema); err != nil {
			return params, &model.Error{Reason: model.BadRequest, Code: "tool_schema"}
		}
		params.Tools = append(params.Tools, responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{
			Name: t.Name, Description: param.NewOpt(t.Description), Parameters: schema, Strict: param.NewOpt(false), // strict wants every argument
		}})
	}
	var input responses.ResponseInputParam
	for _, m := range r.Messages {
		switch m.Role {
		case model.User:
			input = append(input, responses.ResponseInputItemParamOfMessage(m.Text, responses.EasyInputMessageRoleUser))
		case model.Result:
			input = append(input, responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
				CallID: param.NewOpt(m.CallID), Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: param.NewOpt(m.Text)},
			}})
		case model.Assistant:
			var native []json.RawMessage
			if m.Native != nil && m.Native.By == p.by && json.Unmarshal(m.Native.JSON, &native) == nil {
				for _, raw := range native {
					input = append(input, param.Override[responses.ResponseInputItemUnionParam](raw))
				}
				continue
			}
			if m.Text != "" {
				input = append(input, responses.ResponseInputItemParamOfMessage(m.Text, responses.EasyInputMessageRoleAssistant))
			}
			for _, c := range m.Calls {
				input = append(input, responses.ResponseInputItemParamOfFunctionCall(string(c.Object()), c.ID, c.Name))
			}
		}
	}
	params.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: input}
	return params, nil
}
