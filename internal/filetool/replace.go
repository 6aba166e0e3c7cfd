package filetool

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/belayhq/belay/internal/worktree"
	"github.com/belayhq/belay/tool"
)

type replace struct {
	tree *worktree.Tree
}

func (t *replace) Definition() tool.Definition {
	return tool.Definition{
		Name: "replace",
		Description: "Write a whole file, atomically: replace the content that expected_sha256 names (from read), " +
			"or create a file with create: true. If the file is not what you named, nothing is written and the current digest is told.",
		Schema: json.RawMessage(`{
	"type": "object",
	"properties": {
		"path": {"type": "string", "description": "relative to the root"},
		"content": {"type": "string", "description": "the whole new content"},
		"encoding": {"type": "string", "enum": ["utf-8", "base64"], "description": "of content (default utf-8)"},
		"expected_sha256": {"type": "string", "description": "digest of the content to replace; or create"},
		"create": {"type": "boolean", "description": "the file must not exist yet"},
		"mkdirs": {"type": "boolean", "description": "with create: make missing folders"}
	},
	"required": ["path", "content"],
	"additionalProperties": false
}`),
		Effect: tool.Mutating, Replay: tool.Idempotent, Risks: []tool.Risk{tool.RiskRead, tool.RiskWrite},
	}
}

func (t *replace) Prepare(_ context.Context, call tool.Call) (tool.Plan, error) {
	in := tool.ParseArguments(call.Args)
	p := &replacePlan{tree: t.tree, name: in.NeedText("path")}
	content := in.NeedText("content")
	encoding := in.OneOf("encoding", "utf-8", "base64")
	p.expect.SHA256 = in.Text("expected_sha256", "")
	p.expect.Create = in.Bool("create")
	p.expect.Mkdirs = in.Bool("mkdirs")
	switch {
	case p.expect.Create == in.Has("expected_sha256"):
		in.Fail("expected_sha256", "the digest that read gave, or create: true; exactly one of the two")
	case !p.expect.Create && !isDigest(p.expect.SHA256):
		in.Fail("expected_sha256", "64 lower-case hexadecimal digits")
	case p.expect.Mkdirs && !p.expect.Create:
		in.Fail("mkdirs", "to be given only with create: true")
	}
	if encoding == "base64" {
		b, err := base64.StdEncoding.DecodeString(content)
		if err != nil {
			in.Fail("content", "standard base64, since encoding says so")
		}
		p.content = b
	} else {
		p.content = []byte(content)
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

func isDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

type replacePlan struct {
	tree    *worktree.Tree
	name    string
	content []byte
	expect  worktree.Expect
}

func (p *replacePlan) Action() tool.Action {
	return tool.Action{Tool: "replace", Input: input(p.input)}
}

func (p *replacePlan) input() map[string]any {
	in := map[string]any{"path": p.name, "encoding": "utf-8", "content": string(p.content)}
	if !utf8.Valid(p.content) {
		in["encoding"], in["content"] = "base64", base64.StdEncoding.EncodeToString(p.content)
	}
	if p.expect.Create {
		in["create"], in["mkdirs"] = true, p.expect.Mkdirs
	} else {
		in["expected_sha256"] = p.expect.SHA256
	}
	return in
}

func (p *replacePlan) Close() {}

// commitData is the result of a commit as data; its names are the contract's.
type commitData struct {
	Path           string  `json:"path"`
	SHA256         string  `json:"sha256"`
	PreviousSHA256 *string `json:"previous_sha256"` // null for a create
	Size           int64   `json:"size"`
	Changed        bool    `json:"changed"`
	Created        bool    `json:"created"`
	Committed      bool    `json:"committed"`
	Durable        bool    `json:"durable"`
}

func (p *replacePlan) Run(ctx context.Context, _ tool.Reporter) (tool.Result, error) {
	c, err := p.tree.Commit(ctx, p.name, p.content, p.expect)
	if err != nil {
		err = turn(err, p.tree, p.name)
		var e *tool.Error
		if errors.As(err, &e) && e.Code == tool.NotFound && p.expect.Create && !p.expect.Mkdirs && slices.Contains(e.Facts, tool.Fact{Name: "what", Value: "missing"}) {
			// a create asks for no file: it is a folder that is missing
			e.Facts = append(e.Facts, tool.Fact{Name: "hint", Value: "a folder on the way is missing; mkdirs: true makes it"})
		}
		return tool.Result{}, err
	}
	d := newCommitData(c)
	return tool.Result{Text: d.header().Text(""), Data: d}, nil
}

func newCommitData(c worktree.Commit) commitData {
	d := commitData{
		Path: c.Path, SHA256: c.SHA256, Size: c.Size,
		Changed: c.Changed, Created: c.Created, Committed: c.Committed, Durable: c.Durable,
	}
	if c.Previous != "" {
		d.PreviousSHA256 = &c.Previous
	}
	return d
}

func (d *commitData) header() *tool.Header {
	var h tool.Header
	h.Fact("path", d.Path)
	h.Fact("sha256", d.SHA256)
	h.Fact("size", d.Size)
	h.Fact("changed", d.Changed)
	if d.Created {
		h.Fact("created", true)
	}
	if d.Changed {
		h.Fact("committed", d.Committed)
		h.Fact("durable", d.Durable)
	}
	return &h
}
