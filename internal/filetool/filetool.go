// Package filetool is the verbs on files: read, replace and edit. It turns arguments
// into calls of one tree and outcomes into results; the promises about files are
// the tree's.
package filetool

import (
	"encoding/json"

	"github.com/belayhq/belay/internal/border"
	"github.com/belayhq/belay/internal/worktree"
	"github.com/belayhq/belay/tool"
)

// New gives the file tools on a tree. maxPage is the largest page in bytes, maxFile
// the largest content that a file may get.
func New(tree *worktree.Tree, maxPage, maxFile int64) []tool.Tool {
	return []tool.Tool{&read{tree, maxPage}, &replace{tree}, &edit{tree, maxFile}}
}

// input is a call as hooks see it. It is built when one looks: most calls have none,
// and content is large.
type input func() map[string]any

func (in input) MarshalJSON() ([]byte, error) { return json.Marshal(in()) }

func turn(err error, tree *worktree.Tree, path string) error {
	return border.Error(err, border.Place{Root: tree.Root(), Argument: "path", Path: path})
}
