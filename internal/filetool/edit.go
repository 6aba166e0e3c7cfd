package filetool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/belayhq/belay/internal/textedit"
	"github.com/belayhq/belay/internal/worktree"
	"github.com/belayhq/belay/tool"
)

type edit struct {
	tree    *worktree.Tree
	maxFile int64
}

const (
	// maxEdits bounds one call: each edit is a pass over the file.
	maxEdits = 200
	// maxDiff is what a result shows of the diff: 2,000 tokens of 4 bytes.
	maxDiff = 8 << 10
)

func (t *edit) Definition() tool.Definition {
	return tool.Definition{
		Name: "edit",
		Description: "Change parts of a file, all or nothing: each old_text must be in the content that expected_sha256 names exactly once " +
			"(or set all), byte for byte, line ends and blanks included. The result has the new digest, so edits chain without another read.",
		Schema: json.RawMessage(fmt.Sprintf(`{
	"type": "object",
	"properties": {
		"path": {"type": "string", "description": "relative to the root"},
		"expected_sha256": {"type": "string", "description": "digest that read or the last edit gave"},
		"edits": {"type": "array", "minItems": 1, "maxItems": %d, "description": "matched against the content as it is, not one after the other", "items": {
			"type": "object",
			"properties": {
				"old_text": {"type": "string"},
				"new_text": {"type": "string"},
				"all": {"type": "boolean", "description": "replace every occurrence"}
			},
			"required": ["old_text", "new_text"],
			"additionalProperties": false
		}}
	},
	"required": ["path", "expected_sha256", "edits"],
	"additionalProperties": false
}`, maxEdits)),
		Effect: tool.Mutating, Replay: tool.Idempotent, Risks: []tool.Risk{tool.RiskRead, tool.RiskWrite},
	}
}

func (t *edit) Prepare(_ context.Context, call tool.Call) (tool.Plan, error) {
	in := tool.ParseArguments(call.Args)
	p := &editPlan{tree: t.tree, maxFile: t.maxFile, name: in.NeedText("path"), sha256: in.NeedText("expected_sha256")}
	if !isDigest(p.sha256) {
		in.Fail("expected_sha256", "64 lower-case hexadecimal digits")
	}
	in.Each("edits", func(e *tool.Arguments) {
		one := textedit.Edit{Old: e.NeedText("old_text"), New: e.NeedText("new_text"), All: e.Bool("all")}
		if one.Old == "" {
			e.Fail("old_text", "text that is not empty")
		}
		p.edits = append(p.edits, one)
	})
	if n := len(p.edits); n == 0 || n > maxEdits {
		in.Fail("edits", fmt.Sprintf("a list of 1 to %d objects with old_text and new_text", maxEdits))
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

type editPlan struct {
	tree    *worktree.Tree
	maxFile int64
	name    string
	sha256  string
	edits   []textedit.Edit
}

func (p *editPlan) Action() tool.Action {
	return tool.Action{Tool: "edit", Input: input(p.input)}
}

func (p *editPlan) input() map[string]any {
	edits := make([]map[string]any, len(p.edits))
	for i, e := range p.edits {
		edits[i] = map[string]any{"old_text": e.Old, "new_text": e.New, "all": e.All}
	}
	return map[string]any{"path": p.name, "expected_sha256": p.sha256, "edits": edits}
}

func (p *editPlan) Close() {}

// editData is the result as data; its names are the contract's.
type editData struct {
	commitData
	Diff             string `json:"diff"`
	DiffOmittedBytes int64  `json:"diff_omitted_bytes"`
}

func (p *editPlan) Run(ctx context.Context, _ tool.Reporter) (tool.Result, error) {
	var d editData
	c, err := p.tree.Update(ctx, p.name, p.sha256, func(path string, old []byte) ([]byte, error) {
		changed, err := textedit.Apply(old, p.edits, p.maxFile)
		if err == nil {
			d.Diff, d.DiffOmittedBytes = textedit.Diff(path, old, changed, maxDiff)
		}
		return changed, err
	})
	if err != nil {
		return tool.Result{}, turn(err, p.tree, p.name)
	}
	d.commitData = newCommitData(c)
	// Bytes that are not UTF-8 can be shown no other way; such a diff is to be read, not to be applied.
	d.Diff = strings.ToValidUTF8(d.Diff, "\ufffd")
	h := d.header()
	if d.DiffOmittedBytes > 0 {
		h.Fact("diff_omitted_bytes", d.DiffOmittedBytes)
	}
	return tool.Result{Text: h.Text(d.Diff), Data: d}, nil
}
