package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/belayhq/belay/coding"
	"github.com/belayhq/belay/tool"
)

// The same calls through Serve and through the least that the job costs with
// encoding/json: a loop that decodes a line and encodes an answer. Both keep the
// text once and the data once, as the contract asks.
//
//	go test -bench . -benchmem ./internal/face/mcp
func BenchmarkCall(b *testing.B) {
	small := `{"path":"README.md","limit":10}`
	source := func(size int) string {
		text, err := json.Marshal(result(size).Text)
		if err != nil {
			b.Fatal(err)
		}
		return `{"path":"x","content":` + string(text) + `}`
	}
	for _, c := range []struct {
		name, arguments string
		answer          int
	}{
		{"null", small, 20},
		{"64 KiB result", small, 64 << 10},
		{"256 KiB argument", source(256 << 10), 20},
		{"1 MB argument", source(1_000_000), 20},
	} {
		fixed := fixedSuite{result: result(c.answer)}
		b.Run(c.name+"/belay", func(b *testing.B) {
			benchmark(b, c.arguments, func(in *os.File, out io.Writer) {
				Serve(context.Background(), fixed, Config{}, in, out)
			})
		})
		b.Run(c.name+"/bare", func(b *testing.B) {
			benchmark(b, c.arguments, func(in *os.File, out io.Writer) { bare(in, out, fixed.result) })
		})
	}
}

func result(size int) tool.Result {
	content := strings.Repeat("\tif err != nil { return fmt.Errorf(\"%w\", err) }\n", size/48+1)[:size]
	return tool.Result{Text: "path=x size=1\n\n" + content, Data: struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}{"x", content}}
}

type fixedSuite struct {
	silent
	result tool.Result
}

func (fixedSuite) Definitions() []tool.Definition {
	return []tool.Definition{def("read", tool.ReadOnly, tool.Safe, json.RawMessage(`{"type":"object"}`))}
}

func (s fixedSuite) Call(context.Context, coding.Caller, tool.Call) (tool.Result, error) {
	return s.result, nil
}

func benchmark(b *testing.B, arguments string, serve func(*os.File, io.Writer)) {
	inR, inW, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); serve(inR, outW) }()
	answers := bufio.NewReaderSize(outR, 1<<20)
	ask := func(line string) {
		outR.SetReadDeadline(time.Now().Add(hang))
		if _, err := io.WriteString(inW, line+"\n"); err != nil {
			b.Fatal(err)
		}
		answer, err := answers.ReadSlice('\n')
		if err != nil || !bytes.Contains(answer, []byte(`"result":{`)) {
			b.Fatalf("%v, %.200s", err, answer)
		}
	}
	ask(initialize)
	line := callOf("7", "read", arguments)
	b.SetBytes(int64(len(line)))
	b.ResetTimer()
	for range b.N {
		ask(line)
	}
	b.StopTimer()
	inW.Close()
	<-done
	outW.Close()
	outR.Close()
}

func bare(in io.Reader, out io.Writer, result tool.Result) {
	lines := bufio.NewReaderSize(in, 1<<20)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Params struct {
				Name      string `json:"name"`
				Arguments struct {
					Path    string `json:"path"`
					Content string `json:"content"`
				} `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(line, &m) != nil {
			return
		}
		enc.Encode(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": map[string]any{
			"content": []any{map[string]string{"type": "text", "text": result.Text}}, "_meta": map[string]any{metaResult: result.Data},
		}})
	}
}

// BenchmarkStart is the work from nothing to the answer to tools/list.
func BenchmarkStart(b *testing.B) {
	s := newSuite()
	in := initialize + "\n" + initialized + "\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"
	b.ReportAllocs()
	for range b.N {
		var out strings.Builder
		if err := Serve(context.Background(), s, Config{}, io.NopCloser(strings.NewReader(in)), &out); err != nil || strings.Count(out.String(), "\n") != 2 {
			b.Fatal(err, fmt.Sprintf("%.200s", out.String()))
		}
	}
}
