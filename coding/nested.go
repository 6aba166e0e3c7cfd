package coding

import (
	"slices"
	"sync"

	"github.com/belayhq/belay/tool"
)

// Bounds of nested calls, those with a Parent (C6). A program that a model wrote makes
// them, and a loop of it must not keep a machine busy for ever.
const (
	// MaxNested is how many calls one parent may make in all.
	MaxNested = 1000
	// MaxNestedAtOnce is how many of them may be under way.
	MaxNestedAtOnce = 16
	// keptParents is how many parents are remembered. Beyond that the one that began
	// first and has nothing under way is forgotten; its count would begin anew.
	keptParents = 1024
)

// nests counts the calls of each parent. The zero value is ready.
type nests struct {
	mu      sync.Mutex
	parents map[string]*nest
	order   []string // the oldest first
}

type nest struct{ all, open int }

// enter counts a call in, or refuses it.
func (n *nests) enter(parent string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.parents[parent]
	if p == nil {
		if len(n.order) >= keptParents {
			i := slices.IndexFunc(n.order, func(id string) bool { return n.parents[id].open == 0 })
			if i < 0 {
				return tooMany("parents with nested calls under way", keptParents, len(n.order))
			}
			delete(n.parents, n.order[i])
			n.order = slices.Delete(n.order, i, i+1)
		}
		if n.parents == nil {
			n.parents = map[string]*nest{}
		}
		p = &nest{}
		n.parents[parent] = p
		n.order = append(n.order, parent)
	}
	switch {
	case p.all >= MaxNested:
		return tooMany("nested calls", MaxNested, p.all)
	case p.open >= MaxNestedAtOnce:
		return tooMany("nested calls at once", MaxNestedAtOnce, p.open)
	}
	p.all++
	p.open++
	return nil
}

func (n *nests) leave(parent string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.parents[parent].open-- // what has calls under way is not forgotten
}

func tooMany(what string, limit, actual int) error {
	return tool.NewError(tool.Limit, tool.Fact{Name: "what", Value: what},
		tool.Fact{Name: "limit", Value: limit}, tool.Fact{Name: "actual", Value: actual})
}
