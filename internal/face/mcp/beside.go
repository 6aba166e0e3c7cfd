package mcp

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belayhq/belay/coding"
)

// A server wakes no model, so that the answer to a call is its only safe boundary: what
// ended since the last one rides on it, each message as a block of its own. Only results
// carry messages. Some clients show their model no more than the first block of an error,
// and a message would be lost there.

const (
	// maxAnswer bounds the text of an answer with all its messages, in bytes: what the
	// strictest of the known clients lets through whole, as the contract says.
	maxAnswer = 45_000
	// leastBeside is the room for messages beside a page of a file, which has a limit of
	// its own and may be over that bound alone.
	leastBeside = 4096
)

// load gives an answer the messages that it carries, and sees to it that they count as
// delivered only once it was written (D5).
func (f *face) load(a *answer, name string, req *sdk.CallToolRequest) {
	if a.failed {
		return
	}
	var taken []coding.Message
	if f.suite.Waiting(coding.Safe) > 0 {
		bound := maxAnswer
		if info := req.ClientInfo(); info != nil {
			if tokens := paceOf(info.Name).tokens; tokens > 0 {
				bound = 4 * tokens
			}
		}
		room := bound - len(a.text)
		if name == "read" {
			room = max(room, leastBeside)
		}
		taken = f.suite.TakeBeside(coding.Safe, a.ends, room)
		for _, m := range taken {
			if m.Text != "" { // else its end is in the result itself
				a.beside = append(a.beside, m)
			}
		}
	}
	if len(taken) == 0 && len(a.ends) == 0 {
		return
	}
	ends := a.ends
	a.settle = func(written bool) {
		if !written {
			f.suite.Return(taken)
			return
		}
		f.suite.Observed(ends)
		f.suite.Delivered(taken)
	}
}

// became tells what became of an answer, which may be nil. It is called once.
func (a *answer) became(written bool) {
	if a != nil && a.settle != nil {
		a.settle(written)
	}
}

// Over HTTP the SDK writes the answers, and does not tell. What it writes, it writes to
// the request that brought the call, so that is watched. The two are tied by a header
// that nobody outside can set: the SDK hands it on with the call.
const postHeader = "Belay-Post"

// posts are the requests of one runtime that are being served.
type posts struct {
	counter atomic.Uint64
	mu      sync.Mutex
	open    map[string]*post // by the value of postHeader
}

// A post is one request. It has one call at most.
type post struct {
	out    *watchedWriter
	loaded *answer // whose fate is not known yet
	before int64   // written when it was loaded
}

// begin watches a request; end is called when it is over.
func (p *posts) begin(req *http.Request, out *watchedWriter) (end func()) {
	id := strconv.FormatUint(p.counter.Add(1), 10)
	req.Header.Set(postHeader, id)
	this := &post{out: out}
	p.mu.Lock()
	p.open[id] = this
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		delete(p.open, id)
		p.mu.Unlock()
		this.loaded.became(out.written.Load() > this.before && !out.failed.Load())
	}
}

// load notes the answer of a call. Where its request is over, nobody will read it.
func (p *posts) load(req *sdk.CallToolRequest, a *answer) {
	if a.settle == nil {
		return
	}
	var this *post
	p.mu.Lock()
	if extra := req.GetExtra(); extra != nil {
		this = p.open[extra.Header.Get(postHeader)]
	}
	if this != nil {
		this.loaded, this.before = a, this.out.written.Load()
	}
	p.mu.Unlock()
	if this == nil {
		a.became(false)
	}
}

// A watchedWriter knows whether all that was written was taken.
type watchedWriter struct {
	http.ResponseWriter
	written atomic.Int64
	failed  atomic.Bool
}

func (w *watchedWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.written.Add(int64(n))
	if err != nil {
		w.failed.Store(true)
	}
	return n, err
}

// FlushError is what http.ResponseController looks for.
func (w *watchedWriter) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if err != nil {
		w.failed.Store(true)
	}
	return err
}

func (w *watchedWriter) Flush() { _ = w.FlushError() }

func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
