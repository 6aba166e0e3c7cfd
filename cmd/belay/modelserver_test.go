//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A mind is a model behind HTTP for which the test thinks: it sees each request as it comes, and
// only then decides what the answer is.
type mind struct {
	*httptest.Server
	t        *testing.T
	vendor   vendor
	requests chan *request
	over     chan struct{}
	mu       sync.Mutex
	n        int
}

// A request is what the model was asked.
type request struct {
	n      int
	items  []item
	news   []item // behind those of the request before
	answer chan say
	gone   <-chan struct{} // closed when nobody waits for the answer any more
}

// An item is one thing of a request in the order of it, the same for each protocol.
type item struct{ kind, id, text string } // user, assistant, call, result

func think(t *testing.T, v vendor) *mind {
	t.Helper()
	m := &mind{t: t, vendor: v, requests: make(chan *request, 100), over: make(chan struct{})}
	m.Server = httptest.NewServer(m)
	t.Cleanup(func() {
		close(m.over)
		m.Close()
	})
	return m
}

func (m *mind) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.URL.Path != m.vendor.path || !m.vendor.authorized(r.Header) {
		m.t.Errorf("a request to %s, or without the key, or cut off", r.URL.Path)
	}
	q := &request{answer: make(chan say, 1), gone: r.Context().Done()}
	if q.items, err = items(body); err != nil {
		m.t.Errorf("%v in %s", err, body)
	}
	m.mu.Lock()
	q.n = m.n
	m.n++
	m.mu.Unlock()
	m.requests <- q
	select {
	case a := <-q.answer:
		w.Header().Set("Content-Type", "text/event-stream")
		m.vendor.stream(&sse{w}, a, q.n)
	case <-q.gone:
	case <-m.over:
	}
}

// say answers.
func (q *request) say(text string, calls ...ask) { q.answer <- say{text: text, calls: calls} }

// items reads a request of any of the three protocols, without what the system says. It wants
// that each call has its result, in the order of the calls, with nothing in between, and that
// nothing is told of one process twice (D9).
func items(body []byte) (list []item, err error) {
	var m struct{ Messages, Input []map[string]any }
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, err
	}
	str := func(v any) string { s, _ := v.(string); return s }
	add := func(kind string, id any, text string) {
		if kind == "call" || kind == "result" || text != "" {
			list = append(list, item{kind, str(id), text})
		}
	}
	for _, e := range append(m.Messages, m.Input...) {
		role := str(e["role"])
		switch {
		case role == "system" || role == "developer":
			continue
		case role == "tool":
			add("result", e["tool_call_id"], said(e["content"]))
			continue
		case e["type"] == "function_call":
			add("call", e["call_id"], str(e["name"])+" "+str(e["arguments"]))
			continue
		case e["type"] == "function_call_output":
			add("result", e["call_id"], said(e["output"]))
			continue
		case role != "user" && role != "assistant":
			return nil, fmt.Errorf("an unknown item %v", e)
		}
		parts, isList := e["content"].([]any)
		if !isList {
			add(role, "", str(e["content"]))
		}
		for _, part := range parts {
			p := part.(map[string]any)
			switch p["type"] {
			case "tool_use":
				args, _ := json.Marshal(p["input"])
				add("call", p["id"], str(p["name"])+" "+string(args))
			case "tool_result":
				add("result", p["tool_use_id"], said(p["content"]))
			default:
				add(role, "", str(p["text"]))
			}
		}
		calls, _ := e["tool_calls"].([]any)
		for _, call := range calls {
			c := call.(map[string]any)
			f := c["function"].(map[string]any)
			add("call", c["id"], str(f["name"])+" "+str(f["arguments"]))
		}
	}
	var open []string
	answering, told := false, map[string]bool{}
	for _, i := range list {
		switch {
		case i.kind == "call" && !answering:
			open = append(open, i.id)
		case i.kind == "result" && len(open) > 0 && open[0] == i.id:
			open = open[1:]
			answering = len(open) > 0
		case i.kind == "call" || i.kind == "result" || len(open) > 0:
			return list, fmt.Errorf("%s %s stands between a call and its result, or is one of nothing", i.kind, i.id)
		}
		if id := i.about(); id != "" {
			if told[id] {
				return list, fmt.Errorf("%s is told twice", id)
			}
			told[id] = true
		}
	}
	if len(open) > 0 {
		return list, fmt.Errorf("%d calls have no result", len(open))
	}
	return list, nil
}

// said are the texts of a content, which is a string or a list.
func said(v any) string {
	var b strings.Builder
	switch v := v.(type) {
	case string:
		return v
	case []any:
		for _, p := range v {
			m, _ := p.(map[string]any)
			s, _ := m["text"].(string)
			b.WriteString(s)
		}
	}
	return b.String()
}

var message = regexp.MustCompile(`^session=(\S+) mode=`)

// about is the session whose completion message an item is, or "".
func (i item) about() string {
	if found := message.FindStringSubmatch(i.text); found != nil && i.kind == "user" {
		return found[1]
	}
	return ""
}

// A talk is belay rpc, or belay run, in the real program with a mind as its model.
type talk struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	mind *mind
	home string

	before []item // of the last request
	procs  []*proc
	sent   int
	seen   int // events that await has passed

	mu      sync.Mutex
	log     []map[string]any
	closed  bool
	changed chan struct{} // one slot
	ended   bool
}

// converse begins one over a protocol: openai, openai-chat or anthropic.
func converse(t *testing.T, provider string, args ...string) *talk {
	t.Helper()
	v := vendors[slices.IndexFunc(vendors, func(v vendor) bool { return v.provider == provider })]
	k := &talk{t: t, mind: think(t, v), home: t.TempDir(), changed: make(chan struct{}, 1)}
	if len(args) == 0 {
		args = []string{"rpc"}
	}
	k.cmd = built(t, args...)
	k.cmd.Env = append(append(k.cmd.Env, v.env(k.mind.URL)...), "BELAY_HOME="+k.home, "BELAY_MODEL="+v.provider+"/test-model")
	var err error
	if args[0] == "rpc" {
		if k.in, err = k.cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
	}
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go k.read(out)
	t.Cleanup(func() {
		if !k.ended {
			k.end("shutdown")
		}
	})
	return k
}

func (k *talk) read(out io.Reader) {
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadString('\n')
		var m map[string]any
		if err == nil && json.Unmarshal([]byte(line), &m) != nil {
			k.t.Errorf("%q is no JSON", line)
		}
		k.mu.Lock()
		if err == nil {
			k.log = append(k.log, m)
		} else {
			k.closed = true
		}
		k.mu.Unlock()
		select {
		case k.changed <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// find is the first line from number from on that is like this, when it comes.
func (k *talk) find(from int, what string, is func(map[string]any) bool) (map[string]any, int) {
	k.t.Helper()
	late := time.After(hang)
	for {
		k.mu.Lock()
		log, closed := k.log, k.closed
		k.mu.Unlock()
		for i := from; i < len(log); i++ {
			if is(log[i]) {
				return log[i], i
			}
		}
		if closed {
			k.t.Fatalf("belay ended before %s", what)
		}
		from = max(from, len(log))
		select {
		case <-k.changed:
		case <-late:
			k.t.Fatalf("%s did not come", what)
		}
	}
}

// await is the next event of a type.
func (k *talk) await(kind string) map[string]any {
	k.t.Helper()
	m, at := k.find(k.seen, kind, func(m map[string]any) bool { return m["type"] == kind })
	k.seen = at + 1
	return m
}

// said waits until an answer of the model is in the transcript.
func (k *talk) said(text string) {
	k.t.Helper()
	_, at := k.find(k.seen, text, func(m map[string]any) bool { return m["type"] == "message" && m["text"] == text })
	k.seen = at
}

// send makes a request, and done gives its result, which has to be one.
func (k *talk) send(kind string, members ...any) (id int) {
	k.t.Helper()
	k.sent++
	m := map[string]any{"id": k.sent, "type": kind}
	for i := 0; i < len(members); i += 2 {
		m[members[i].(string)] = members[i+1]
	}
	k.write(m)
	return k.sent
}

func (k *talk) write(m map[string]any) {
	k.t.Helper()
	line, err := json.Marshal(m)
	if err != nil {
		k.t.Fatal(err)
	}
	if _, err := k.in.Write(append(line, '\n')); err != nil {
		k.t.Fatalf("%v: %v", m, err)
	}
}

func (k *talk) response(id int) map[string]any {
	k.t.Helper()
	m, _ := k.find(0, "a response", func(m map[string]any) bool { return m["type"] == "response" && m["id"] == float64(id) })
	return m
}

func (k *talk) done(id int) map[string]any {
	k.t.Helper()
	m := k.response(id)
	if m["ok"] != true {
		k.t.Fatalf("%v", m)
	}
	result, _ := m["result"].(map[string]any)
	return result
}

func (k *talk) do(kind string, members ...any) map[string]any {
	k.t.Helper()
	return k.done(k.send(kind, members...))
}

// prompt gives a task. The run before may have said its last word and not be over.
func (k *talk) prompt(text string) {
	k.t.Helper()
	for end := time.Now().Add(hang); ; time.Sleep(5 * time.Millisecond) {
		m := k.response(k.send("prompt", "text", text))
		if m["ok"] == true {
			return
		}
		if fault, _ := m["error"].(map[string]any); fault["code"] != "busy" || time.Now().After(end) {
			k.t.Fatalf("%v", m)
		}
	}
}

// started waits until a call of the answer to q was begun, and yielded until it has its result.
func (k *talk) started(q *request, call int) { k.t.Helper(); k.call(q, call, "tool_start") }
func (k *talk) yielded(q *request, call int, p *proc) {
	k.t.Helper()
	facts, _ := k.call(q, call, "tool_end")["facts"].(map[string]any)
	if p.session, _ = facts["session"].(string); p.session == "" || facts["status"] != "running" {
		k.t.Fatalf("%s: %v", p.name, facts)
	}
}

func (k *talk) call(q *request, call int, kind string) map[string]any {
	k.t.Helper()
	id := fmt.Sprintf("c_%d_%d", q.n, call)
	m, _ := k.find(0, kind+" of "+id, func(m map[string]any) bool { return m["type"] == kind && m["call_id"] == id })
	return m
}

// asked is the next request to the model. What is new in it is this: user, assistant, result, the
// name of a tool, or notice: with the name of a process. It has all that the request before had.
func (k *talk) asked(wants ...string) *request {
	k.t.Helper()
	select {
	case q := <-k.mind.requests:
		if len(q.items) < len(k.before) || !slices.Equal(q.items[:len(k.before)], k.before) {
			k.t.Errorf("the request is no continuation:\n%v\n%v", k.before, q.items)
		} else {
			q.news = q.items[len(k.before):]
		}
		k.before = q.items
		k.name(q)
		var got []string
		for _, i := range q.news {
			switch {
			case i.about() != "":
				name := i.about()
				for _, p := range k.procs {
					if p.session == name {
						name = p.name
					}
				}
				got = append(got, "notice:"+name)
			case i.kind == "call":
				name, _, _ := strings.Cut(i.text, " ")
				got = append(got, name)
			default:
				got = append(got, i.kind)
			}
		}
		if !slices.Contains(wants, strings.Join(got, " ")) {
			k.t.Fatalf("request %d has\n%s, want\n%s:\n%q", q.n, strings.Join(got, " "), strings.Join(wants, "\nor "), q.news)
		}
		return q
	case <-time.After(hang):
		k.t.Fatalf("no request with %s", wants[0])
		return nil
	}
}

var startedAs = regexp.MustCompile(`^session=(\S+) status=running`)

// name finds out which session a process has.
func (k *talk) name(q *request) {
	for _, r := range q.news {
		found := startedAs.FindStringSubmatch(r.text)
		if r.kind != "result" || found == nil {
			continue
		}
		for _, c := range q.items {
			for _, p := range k.procs {
				if c.kind == "call" && c.id == r.id && strings.Contains(c.text, "alive-"+p.name+";") {
					p.session = found[1]
				}
			}
		}
	}
}

// left waits until nobody waits for the answer.
func (k *talk) left(q *request) {
	k.t.Helper()
	select {
	case <-q.gone:
	case <-time.After(hang):
		k.t.Fatal("the request is not cancelled")
	}
}

// last is the text of the last new item of a kind.
func (q *request) last(kind string) (text string) {
	for _, i := range q.news {
		if i.kind == kind {
			text = i.text
		}
	}
	return text
}

// A proc is a command that ends when it is told to. The system, not belay, tells when it is dead:
// it holds a FIFO open.
type proc struct {
	k             *talk
	name, session string
	dead          chan struct{}
}

// proc makes one.
func (k *talk) proc(name string) *proc {
	k.t.Helper()
	p := &proc{k: k, name: name, dead: make(chan struct{})}
	for _, f := range []string{"go-", "alive-"} {
		if err := syscall.Mkfifo(filepath.Join(k.cmd.Dir, f+name), 0o600); err != nil {
			k.t.Fatal(err)
		}
	}
	go func() {
		defer close(p.dead)
		f, err := os.Open(filepath.Join(k.cmd.Dir, "alive-"+name)) // waits for the command
		if err != nil {
			k.t.Error(err)
			return
		}
		defer f.Close()
		io.Copy(io.Discard, f)
	}()
	k.procs = append(k.procs, p)
	return p
}

// line is its command line. It says early-NAME at its beginning, and late-NAME when it may go on;
// what is more, it does then.
func (p *proc) line(more string) string {
	return fmt.Sprintf("exec 9>alive-%[1]s; echo early-%[1]s; read -r x <go-%[1]s; echo late-%[1]s; %s", p.name, more)
}

// event is what so many commands wait for with the part of a command line that is returned, a line
// for each.
func (k *talk) event(name string, waiting int) (happen func(), wait string) {
	k.t.Helper()
	file := filepath.Join(k.cmd.Dir, name)
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		k.t.Fatal(err)
	}
	// Open for both it waits for nobody, and who comes late finds a line too.
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { f.Close() })
	return func() { io.WriteString(f, strings.Repeat("\n", waiting)) }, "read -r x <" + name + "; "
}

// start is the call that starts it: members are those of exec_command.
func (p *proc) start(members, more string) ask {
	return ask{"exec_command", fmt.Sprintf(`{"cmd":%s,"yield_time_ms":250,%s}`, quoted(p.line(more)), members)}
}

func (p *proc) background() ask { return p.start(`"mode":"background"`, "exit 0") }

// shell is a call that runs it to its end.
func (p *proc) shell() ask {
	return ask{"shell", fmt.Sprintf(`{"argv":["sh","-c",%s]}`, quoted(p.line("exit 0")))}
}

// use is a call with its session.
func (p *proc) use(tool, more string) ask {
	return ask{tool, fmt.Sprintf(`{"session_id":%q%s}`, p.session, more)}
}

// open opens a FIFO for writing as soon as somebody reads it.
func (p *proc) open(fifo string) {
	p.k.t.Helper()
	for end := time.Now().Add(hang); ; time.Sleep(2 * time.Millisecond) {
		f, err := os.OpenFile(filepath.Join(p.k.cmd.Dir, fifo+p.name), os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			io.WriteString(f, "\n")
			f.Close()
			return
		}
		if time.Now().After(end) {
			p.k.t.Fatalf("%s: nobody reads %s", p.name, fifo)
		}
	}
}

// release lets it go on, and waits until it is dead.
func (p *proc) release() {
	p.k.t.Helper()
	p.open("go-")
	p.waitDead()
}

func (p *proc) waitDead() {
	p.k.t.Helper()
	select {
	case <-p.dead:
	case <-time.After(hang):
		p.k.t.Fatalf("%s does not end", p.name)
	}
}

// finish releases it, and waits until belay knows of its end: what is to be told is ready then,
// or never will be.
func (p *proc) finish() {
	p.k.t.Helper()
	p.release()
	p.known()
}

func (p *proc) known() {
	p.k.t.Helper()
	for end := time.Now().Add(hang); ; time.Sleep(10 * time.Millisecond) {
		list, _ := p.k.do("processes")["sessions"].([]any)
		for _, s := range list {
			if m := s.(map[string]any); m["session_id"] == p.session && m["status"] != "running" {
				return
			}
		}
		if time.Now().After(end) {
			p.k.t.Fatalf("belay does not see that %s has ended", p.name)
		}
	}
}

// end ends the conversation in some way, and looks at what there has to be always: the last line
// answers a shutdown, no process is left, nobody asks the model, each notice is one about another
// process, and not to be displayed.
func (k *talk) end(how string) {
	k.t.Helper()
	k.ended = true
	id, code := 0, 0
	switch how {
	case "shutdown":
		id = k.send("shutdown")
	case "end of input":
		k.in.Close()
	case "SIGTERM":
		k.cmd.Process.Signal(syscall.SIGTERM)
		code = 143
	case "its time":
		code = 7
	}
	late := time.After(hang)
	for {
		k.mu.Lock()
		closed := k.closed
		k.mu.Unlock()
		if closed {
			break
		}
		select {
		case <-k.changed:
		case <-late:
			k.t.Errorf("belay does not end at %s", how)
			k.cmd.Process.Kill()
		}
	}
	if k.in != nil {
		k.in.Close()
	}
	if got := waitFor(k.t, k.cmd); got != code {
		k.t.Errorf("exit code %d, want %d", got, code)
	}
	told := map[any]bool{}
	for _, m := range k.log {
		if m["type"] == "notice" {
			if told[m["session_id"]] || m["display"] != false {
				k.t.Errorf("again, or displayed: %v", m)
			}
			told[m["session_id"]] = true
		}
	}
	if last := k.log[len(k.log)-1]; id > 0 && (last["id"] != float64(id) || last["ok"] != true) {
		k.t.Errorf("the last line is %v", last)
	}
	if n := len(k.mind.requests); n > 0 {
		k.t.Errorf("%d requests that nobody expects: %q", n, (<-k.mind.requests).items)
	}
	for _, p := range k.procs {
		// One that was never started is let go; one that was has to be dead.
		if f, err := os.OpenFile(filepath.Join(k.cmd.Dir, "alive-"+p.name), os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			f.Close()
		}
		select {
		case <-p.dead:
		case <-time.After(10 * time.Second):
			k.t.Errorf("%s lives on", p.name)
		}
	}
}

// told are the processes of which there was a notice event, in order.
func (k *talk) told() (names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range k.log {
		if m["type"] != "notice" {
			continue
		}
		name := fmt.Sprint(m["session_id"])
		for _, p := range k.procs {
			if p.session == name {
				name = p.name
			}
		}
		names = append(names, name)
	}
	return names
}

// kept is what all conversations of the home hold of completion messages.
func (k *talk) kept() (n int) {
	k.t.Helper()
	files, err := filepath.Glob(filepath.Join(k.home, "conversations", "*.jsonl"))
	if err != nil || len(files) == 0 {
		k.t.Fatalf("%d conversations", len(files))
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			k.t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			var e map[string]any
			if json.Unmarshal([]byte(line), &e) == nil && e["type"] == "notice" && e["session"] != nil {
				n++
			}
		}
	}
	return n
}
