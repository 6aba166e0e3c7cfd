package tool

import (
	"encoding/json"
	"strings"
	"testing"
)

// BenchmarkParseMegabyte is the arguments of a large replace.
func BenchmarkParseMegabyte(b *testing.B) {
	raw, err := json.Marshal(map[string]any{"path": "f", "content": strings.Repeat("a line of \"code\" with\tsome escapes\n", 30000)})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		in := ParseArguments(raw)
		if in.NeedText("path") == "" || len(in.NeedText("content")) == 0 || in.Err() != nil {
			b.Fatal("not parsed")
		}
	}
}
