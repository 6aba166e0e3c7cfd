package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hang bounds what must happen but takes no time of its own.
const hang = 20 * time.Second

// A peer is a client that speaks raw lines over real pipes.
type peer struct {
	t      *testing.T
	suite  *suite
	in     *os.File // write here
	out    *os.File // read here
	lines  *bufio.Reader
	served chan error
	stop   context.CancelFunc
}

// patient bounds are for what the machine is too busy to do in time of service.
var patient = bounds{chance: hang / 2, windUp: hang / 2}

// newPeer starts a server; the test ends with it gone.
func newPeer(t *testing.T, s Suite) *peer {
	t.Helper()
	return newPeerIn(t, s, patient)
}

func newPeerIn(t *testing.T, s Suite, b bounds) *peer {
	t.Helper()
	return newPeerWith(t, s, Config{Version: "1.2.3"}, b)
}

func newPeerWith(t *testing.T, s Suite, c Config, b bounds) *peer {
	t.Helper()
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	ctx, stop := context.WithCancel(context.Background())
	own, _ := s.(*suite)
	p := &peer{t: t, suite: own, in: inW, out: outR, lines: bufio.NewReader(outR), served: make(chan error, 1), stop: stop}
	go func() {
		err := serve(ctx, s, c, inR, piecemeal{outW}, b)
		outW.Close()
		p.served <- err
	}()
	t.Cleanup(func() {
		stop()
		p.gone()
		inW.Close()
		outR.Close()
	})
	return p
}

// piecemeal writes each message in two, as nothing forbids a writer to. An
// *os.File would keep the messages of a server apart that does not.
type piecemeal struct{ w io.Writer }

func (p piecemeal) Write(b []byte) (int, error) {
	n, err := p.w.Write(b[:len(b)/2])
	if err != nil {
		return n, err
	}
	runtime.Gosched()
	m, err := p.w.Write(b[len(b)/2:])
	return n + m, err
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// gone waits for the server to end, and wants no error.
func (p *peer) gone() {
	p.t.Helper()
	select {
	case err := <-p.served:
		p.served <- err
		if err != nil {
			p.t.Errorf("Serve: %v", err)
		}
	case <-time.After(hang):
		p.t.Fatal("the server did not end")
	}
}

func (p *peer) send(lines ...string) {
	p.t.Helper()
	p.write(strings.Join(lines, "\n") + "\n")
}

func (p *peer) write(s string) {
	p.t.Helper()
	p.in.SetWriteDeadline(time.Now().Add(hang))
	if _, err := io.WriteString(p.in, s); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

// line is the next line of the server.
func (p *peer) line() string {
	p.t.Helper()
	p.out.SetReadDeadline(time.Now().Add(hang))
	line, err := p.lines.ReadString('\n')
	if err != nil {
		p.t.Fatalf("read: %v after %q", err, line)
	}
	return strings.TrimSuffix(line, "\n")
}

// A reply is one line of the server, decoded. Decoding is strict about its form:
// one JSON object of JSON-RPC 2.0.
type reply struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (p *peer) reply() reply {
	p.t.Helper()
	return decode(p.t, p.line())
}

func decode(t *testing.T, line string) (r reply) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &r); err != nil || r.Version != "2.0" || r.Method == "" && (r.Result == nil) == (r.Error == nil) {
		t.Fatalf("no message (%v): %.300s", err, line)
	}
	return r
}

// silent wants that the server has nothing more to say than the answer to a
// ping.
func (p *peer) silent(id string) {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","id":"` + id + `","method":"ping"}`)
	if got, want := p.line(), `{"jsonrpc":"2.0","id":"`+id+`","result":{}}`; got != want {
		p.t.Fatalf("got %.300s, want %s", got, want)
	}
}

// rest is what the server still says until its output ends.
func (p *peer) rest() (out []string) {
	p.t.Helper()
	p.out.SetReadDeadline(time.Now().Add(hang))
	for {
		line, err := p.lines.ReadString('\n')
		if line != "" {
			out = append(out, strings.TrimSuffix(line, "\n"))
		}
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
}

const (
	initialize  = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// hello does the handshake of the older protocol versions.
func (p *peer) hello() *peer {
	p.t.Helper()
	p.send(initialize, initialized)
	if r := p.reply(); r.Error != nil {
		p.t.Fatal(r.Error)
	}
	return p
}

func callOf(id, name, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `}}`
}
