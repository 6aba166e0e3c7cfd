package textedit

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// The place of a long text is the one that the library finds.
func TestIndexIsTheLibrarys(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		content := make([]byte, 1+r.IntN(20_000))
		letters := 1 + r.IntN(4)
		for i := range content {
			content[i] = byte(r.IntN(letters)) * 85
		}
		n := min(len(content), longText-2+r.IntN(2000))
		at := r.IntN(len(content) - n + 1)
		text := bytes.Clone(content[at : at+n])
		if r.IntN(2) == 0 {
			text[r.IntN(n)] ^= byte(r.IntN(2)) * 3
		}
		if got, want := index(content, text), bytes.Index(content, text); got != want {
			t.Fatalf("%d of %d in %d: %d, want %d", n, at, len(content), got, want)
		}
	}
	for _, c := range []struct{ content, text []byte }{
		{nil, make([]byte, longText)}, {make([]byte, longText), make([]byte, longText)}, {make([]byte, longText+1), bytes.Repeat([]byte{1}, longText)},
		{append(make([]byte, 5000), bytes.Repeat([]byte{255}, longText)...), bytes.Repeat([]byte{255}, longText)},
	} {
		if got, want := index(c.content, c.text), bytes.Index(c.content, c.text); got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
}

// An edit of all matches takes the mark from what comes right behind the file's own only.
func TestOnlyTheFirstMarkIsTheFiles(t *testing.T) {
	t.Parallel()
	got, err := Apply([]byte(bom+"x x"), []Edit{{Old: "x", New: bom + "y", All: true}}, 100)
	if err != nil || string(got) != bom+"y "+bom+"y" {
		t.Errorf("%q, %v", got, err)
	}
}

// F9: a long block that differs in one place is found where it is, however long it is.
func TestLongMissIsNear(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 5000 {
		lines = append(lines, fmt.Sprintf("line %d of the file, as it is\n", i*7919%5000))
	}
	content := []byte(strings.Join(lines, ""))
	for _, n := range []int{10, 999, 1000, 1001, 1100, 3000} {
		old := strings.Replace(strings.Join(lines[1000:1000+n], ""), "file", "fill", 1)
		_, err := Apply(content, []Edit{{Old: old, New: "x"}}, 1<<20)
		var miss *MissError
		if !errors.As(err, &miss) || miss.NearLine != 1001 || miss.NearPercent < 90 {
			t.Errorf("%d lines: %+v", n, err)
		}
	}
}

// The time does not depend on what is looked for: a text of a megabyte in lines that are all alike
// took half a minute once.
func BenchmarkIndexOfLongText(b *testing.B) {
	content := bytes.Repeat([]byte("the same line of text\n"), 1<<20)
	text := append(bytes.Clone(content[:1<<20]), "and another"...)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		if index(content, text) >= 0 {
			b.Fatal("found")
		}
	}
}
