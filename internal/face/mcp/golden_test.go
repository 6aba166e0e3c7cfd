package mcp

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belayhq/belay/coding"
)

var update = flag.Bool("update", false, "write the golden files anew")

// maxListed bounds the answer to tools/list, in bytes: every conversation pays for it.
const maxListed = 8 << 10

// The list of the real tools is fixed, its order and its bytes: a client's prompt cache
// depends on it. Where it is meant to change: go test ./internal/face/mcp -run Golden -update
func TestGoldenList(t *testing.T) {
	t.Parallel()
	suite, err := coding.New(coding.Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { suite.Close() })
	p := newPeer(t, suite).hello()
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	answer := p.line()
	if len(answer) >= maxListed {
		t.Errorf("tools/list is %d bytes, %d is the bound", len(answer), maxListed)
	}
	var list struct {
		Result struct{ Tools []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(answer), &list); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, d := range list.Result.Tools {
		got.Write(append(d, '\n'))
	}
	file := filepath.Join("testdata", "tools.jsonl")
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the list is not that of %s; now it is:\n%s", file, got.String())
	}
}
