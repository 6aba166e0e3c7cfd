package mcp

import (
	"io"
	"runtime"
	"strings"
	"testing"
)

// C6, MC-08: a message over 8 MiB is refused, by its id where that can be had,
// without being held; one that is exactly as long is served.
func TestOversize(t *testing.T) {
	const code = `"code":-32600,"message":"the message is over 8388608 bytes"`
	long := strings.Repeat("x", maxLine)
	umlauts := strings.Repeat("ü", maxLine/2)
	for name, c := range map[string]struct{ line, id string }{
		"id first":               {`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"write_stdin","arguments":{"text":"` + long + `"}}}`, `"a"`},
		"id last":                {`{"method":"tools/call","params":{"name":"write_stdin","arguments":{"text":"` + long + `"}},"jsonrpc":"2.0","id":9007199254740993}`, `9007199254740993`},
		"id last, spaced":        {`{"method":"m","params":{"t":"` + long + `"}, "id" : "é" } ` + "\t\r", `"é"`},
		"id in the middle":       {`{"method":"m","params":{"t":"` + long + `"},"id":5,"jsonrpc":"2.0"}`, `null`},
		"an id that is none":     {`{"method":"m","params":{"t":"` + long + `","id":5}}`, `null`},
		"a name that ends in id": {`{"method":"m","params":{"t":"` + long + `"},"x,\"id":5}`, `null`},
		"a cut character":        {`{"jsonrpc":"2.0","id":1,"method":"m","params":{"t":"` + umlauts + `"}}`, `1`},
		"a cut character, odd":   {`{"jsonrpc":"2.0", "id":1,"method":"m","params":{"t":"` + umlauts + `"}}`, `1`},
		"notification":           {`{"jsonrpc":"2.0","method":"m","params":{"t":"` + long + `"}}`, `null`},
		"no JSON":                {long + "x", `null`},
		"a number that goes on":  {strings.Repeat(" ", maxLine-8) + `{"id":12345678901234567890,"jsonrpc":"2.0"}`, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, newSuite()).hello()
			p.send(c.line)
			if got, want := p.line(), `{"jsonrpc":"2.0","id":`+c.id+`,"error":{`+code+`}}`; got != want {
				t.Errorf("got %.300s, want %s", got, want)
			}
			p.silent("end")
		})
	}

	p := newPeer(t, newSuite()).hello()
	p.send(`{"jsonrpc":"2.0","id":1,"result":{"x":"`+long+`"}}`, `{"result":{"x":"`+long+`"},"jsonrpc":"2.0","id":2}`)
	p.silent("a") // a long answer to nothing is none of our business

	call := callOf("1", "write_stdin", `{"text":"@"}`)
	exact := strings.Replace(call, "@", strings.Repeat("x", maxLine-len(call)+1), 1)
	if len(exact) != maxLine {
		t.Fatal(len(exact))
	}
	p.send(exact + "\r")
	if r := p.reply(); r.Error != nil || len(r.Result) < maxLine {
		t.Errorf("a message of 8 MiB: %+v", r.Error)
	}
	p.send(strings.Replace(exact, "xx", "xxx", 1))
	if r := p.reply(); r.Error == nil {
		t.Error("a message of 8 MiB and one byte was served")
	}

	p.write(exact + "x")
	p.in.Close()
	if rest := p.rest(); len(rest) != 1 || !strings.Contains(rest[0], code) {
		t.Errorf("an endless line that ends: %.300q", rest)
	}
}

// C6: a line of 200 MB costs what the bound allows.
func TestOversizeIsNotHeld(t *testing.T) {
	p := newPeer(t, newSuite()).hello()
	chunk := strings.Repeat("x", 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p.write(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"t":"`)
	for range 200 {
		if _, err := io.WriteString(p.in, chunk); err != nil {
			t.Fatal(err)
		}
	}
	p.send(`"}}`)
	if r := p.reply(); string(r.ID) != "1" || r.Error == nil {
		t.Errorf("%+v", r)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 4*maxLine {
		t.Errorf("%d bytes were allocated on the way", got)
	}
}
