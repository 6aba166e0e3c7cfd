package proctool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/belayhq/belay/internal/jobs"
	"github.com/belayhq/belay/internal/worktree"
	"github.com/belayhq/belay/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A bench is the process tools on a root of their own.
type bench struct {
	t     *testing.T
	root  string
	table *jobs.Table
	tools map[string]tool.Tool
}

func newBench(t *testing.T, change func(*Config)) *bench {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree, err := worktree.Open(root, worktree.Options{})
	if err != nil {
		t.Fatal(err)
	}
	table, err := jobs.New(jobs.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{
		Tree: tree, Table: table, Shell: DefaultShell, StreamBytes: 64 << 10,
		Environment: Environment{Base: []string{"PATH=" + os.Getenv("PATH")}, Shell: Allowlist, Exec: Inherit, Allow: DefaultAllow},
	}
	if change != nil {
		change(&c)
	}
	b := &bench{t: t, root: root, table: table, tools: map[string]tool.Tool{}}
	for _, x := range New(c) {
		b.tools[x.Definition().Name] = x
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := table.Close(ctx); err != nil {
			t.Error(err)
		}
		tree.Close()
	})
	return b
}

// prepare gives the plan, or the refusal.
func (b *bench) prepare(name string, args map[string]any) (tool.Plan, *tool.Error) {
	b.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		b.t.Fatal(err)
	}
	plan, err := b.tools[name].Prepare(context.Background(), tool.Call{ID: "1", Name: name, Args: raw})
	if err == nil {
		b.t.Cleanup(plan.Close)
		return plan, nil
	}
	return nil, b.contract(err)
}

// contract is the error as the contract has it; any other type is a fault.
func (b *bench) contract(err error) *tool.Error {
	b.t.Helper()
	var e *tool.Error
	if !errors.As(err, &e) {
		b.t.Fatalf("an error of type %T", err)
	}
	return e
}

func factsOf(e *tool.Error) map[string]string {
	m := map[string]string{}
	for _, f := range e.Facts {
		m[f.Name] = fmt.Sprint(f.Value)
	}
	return m
}

// session starts a session that sleeps, and gives its ID.
func (b *bench) session() string {
	b.t.Helper()
	plan, e := b.prepare("exec_command", map[string]any{"cmd": "sleep 300", "yield_time_ms": 0})
	if e != nil {
		b.t.Fatal(e.Message())
	}
	r, err := plan.Run(context.Background(), func(string) {})
	if err != nil {
		b.t.Fatal(err)
	}
	return r.Data.(sessionData).SessionID
}
