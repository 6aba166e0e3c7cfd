package filetool

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"

	"github.com/belayhq/belay/internal/worktree"
	"github.com/belayhq/belay/tool"
)

type read struct {
	tree    *worktree.Tree
	maxPage int64
}

// defaultPage is 8,000 tokens of 4 bytes.
const defaultPage = 32 << 10

func (t *read) Definition() tool.Definition {
	return tool.Definition{
		Name: "read",
		Description: "Read a page of a file in the worktree, with the SHA-256 of the whole file (needed to replace it). " +
			"Read on from next_offset; a negative offset counts from the end. What is not text comes as base64.",
		Schema: json.RawMessage(fmt.Sprintf(`{
	"type": "object",
	"properties": {
		"path": {"type": "string", "description": "relative to the root"},
		"offset": {"type": "integer", "description": "bytes; negative counts from the end (default 0)"},
		"line": {"type": "integer", "minimum": 1, "description": "start at this line instead of offset"},
		"limit": {"type": "integer", "minimum": 1, "maximum": %d, "description": "bytes (default %d)"}
	},
	"required": ["path"],
	"additionalProperties": false
}`, t.maxPage, min(defaultPage, t.maxPage))),
		Effect: tool.ReadOnly, Replay: tool.Safe, Risks: []tool.Risk{tool.RiskRead},
	}
}

func (t *read) Prepare(_ context.Context, call tool.Call) (tool.Plan, error) {
	in := tool.ParseArguments(call.Args)
	r := worktree.PageRequest{
		Name:   in.NeedText("path"),
		Offset: in.Int("offset", tool.Range{Min: math.MinInt64, Max: math.MaxInt64}),
		Line:   in.Int("line", tool.Range{Min: 1, Max: math.MaxInt64}),
		Limit:  int(in.Int("limit", tool.Range{Default: min(defaultPage, t.maxPage), Min: 1, Max: t.maxPage, Clamp: true})),
	}
	if in.Has("line") && in.Has("offset") {
		in.Fail("line", "to be given without offset, or offset without line")
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	return &readPlan{t.tree, r}, nil
}

func (p *readPlan) input() map[string]any {
	in := map[string]any{"path": p.request.Name, "limit": p.request.Limit}
	if p.request.Line > 0 {
		in["line"] = p.request.Line
	} else {
		in["offset"] = p.request.Offset
	}
	return in
}

type readPlan struct {
	tree    *worktree.Tree
	request worktree.PageRequest
}

func (p *readPlan) Action() tool.Action { return tool.Action{Tool: "read", Input: input(p.input)} }
func (p *readPlan) Close()              {}

// readData is the result as data; its names are the contract's.
type readData struct {
	Path       string  `json:"path"`
	Size       int64   `json:"size"`
	Offset     int64   `json:"offset"`
	NextOffset *int64  `json:"next_offset"` // null at the end
	EOF        bool    `json:"eof"`
	FirstLine  *int64  `json:"first_line"` // null unless offset is 0 or line was given
	SHA256     *string `json:"sha256"`     // null where the file is too large or changed
	Changed    bool    `json:"changed"`
	Encoding   string  `json:"encoding"`
	EOL        string  `json:"eol"`
	BOM        bool    `json:"bom"`
	Content    string  `json:"content"`
}

func (p *readPlan) Run(ctx context.Context, _ tool.Reporter) (tool.Result, error) {
	page, err := p.tree.Read(ctx, p.request)
	if err != nil {
		return tool.Result{}, turn(err, p.tree, p.request.Name)
	}
	d := readData{
		Path: page.Path, Size: page.Size, Offset: page.Offset, EOF: page.EOF, Changed: page.Changed,
		Encoding: "utf-8", EOL: page.EOL, BOM: page.BOM,
	}
	if page.Text {
		d.Content = string(page.Content)
	} else {
		d.Encoding, d.Content = "base64", base64.StdEncoding.EncodeToString(page.Content)
	}
	if !page.EOF {
		d.NextOffset = &page.Next
	}
	if page.FirstLine > 0 {
		d.FirstLine = &page.FirstLine
	}
	if page.SHA256 != "" {
		d.SHA256 = &page.SHA256
	}

	var h tool.Header
	h.Fact("path", d.Path)
	h.Fact("size", d.Size)
	if d.Offset > 0 {
		h.Fact("offset", d.Offset)
	}
	if d.NextOffset != nil {
		h.Fact("next_offset", d.NextOffset)
	}
	h.Fact("eof", d.EOF)
	if d.FirstLine != nil && *d.FirstLine > 1 {
		h.Fact("first_line", d.FirstLine)
	}
	h.Fact("sha256", d.SHA256)
	if d.Changed {
		h.Fact("changed", true)
	}
	if d.Encoding != "utf-8" {
		h.Fact("encoding", d.Encoding)
	}
	if d.EOL == "crlf" || d.EOL == "mixed" {
		h.Fact("eol", d.EOL)
	}
	if d.BOM {
		h.Fact("bom", true)
	}
	return tool.Result{Text: h.Text(d.Content), Data: d}, nil
}
