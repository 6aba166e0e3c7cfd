package textedit

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

const noLimit = 1 << 30

func TestF9_Apply(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in string
		edits    []Edit
		want     string
	}{
		{"one", "a b c", []Edit{{Old: "b", New: "X"}}, "a X c"},
		{"several, in any order", "one two three", []Edit{{Old: "three", New: "3"}, {Old: "one", New: "1"}}, "1 two 3"},
		{"against the named content", "ab", []Edit{{Old: "a", New: "b"}, {Old: "b", New: "a"}}, "ba"},
		{"side by side", "abcd", []Edit{{Old: "ab", New: "1"}, {Old: "cd", New: "2"}}, "12"},
		{"deletion", "a b c", []Edit{{Old: " b"}}, "a c"},
		{"all", "aXbXc", []Edit{{Old: "X", New: "--", All: true}}, "a--b--c"},
		{"all, from the left", "aaaaa", []Edit{{Old: "aa", New: "b", All: true}}, "bba"},
		{"all, once", "aXb", []Edit{{Old: "X", New: "Y", All: true}}, "aYb"},
		{"all and one", "x1 x2 y", []Edit{{Old: "x", New: "z", All: true}, {Old: "y", New: "x"}}, "z1 z2 x"},
		{"no change", "abc", []Edit{{Old: "b", New: "b"}}, "abc"},
		{"no edit", "abc", nil, "abc"},
		{"everything", "abc", []Edit{{Old: "abc", New: ""}}, ""},

		{"FI-18 latin 1", "const x = 1;\n// caf\xe9 note\n", []Edit{{Old: "x = 1", New: "x = 2"}}, "const x = 2;\n// caf\xe9 note\n"},
		{"FI-18 GB", "const x = 1\n\xd6\xd0\xce\xc4\n", []Edit{{Old: "x = 1", New: "x = 2"}}, "const x = 2\n\xd6\xd0\xce\xc4\n"},
		{"FI-20 first line", bom + "int a = 1;\nint b = 2;\n", []Edit{{Old: "int a = 1;", New: "int a = 9;"}}, bom + "int a = 9;\nint b = 2;\n"},
		{"FI-20 other line", bom + "int a = 1;\nint b = 2;\n", []Edit{{Old: "int b = 2;", New: "int b = 8;"}}, bom + "int a = 1;\nint b = 8;\n"},
		{"FI-20 mark repeated in both", bom + "a\na\n", []Edit{{Old: bom + "a", New: bom + "b"}}, bom + "b\na\n"},
		{"FI-20 mark in old only", bom + "a\n", []Edit{{Old: bom + "a", New: "b"}}, bom + "b\n"},
		{"FI-20 mark in new only", bom + "a\n", []Edit{{Old: "a", New: bom + "b"}}, bom + "b\n"},
		{"FI-20 all at the mark", bom + "a a\n", []Edit{{Old: bom + "a", New: "b", All: true}}, bom + "b a\n"},
		{"a mark is text elsewhere", "a" + bom + "b", []Edit{{Old: bom + "b", New: bom + "c"}}, "a" + bom + "c"},
		{"FI-21 mixed", "one\r\ntwo\nthree\r\nfour\n", []Edit{{Old: "two", New: "TWO"}}, "one\r\nTWO\nthree\r\nfour\n"},
		{"FI-21 as shown", "a\r\nb\r\nc\r\n", []Edit{{Old: "a\r\nb\r\n", New: "a\r\nB\r\n"}}, "a\r\nB\r\nc\r\n"},
		{"FI-21 no newline at the end", "a\nb", []Edit{{Old: "b", New: "c"}}, "a\nc"},
		{"FI-24 indentation", "def f():\n    try:\n        a = 1\n\tb = 2\n", []Edit{{Old: "        a = 1\n", New: "        a = 10\n        c = 2\n"}}, "def f():\n    try:\n        a = 10\n        c = 2\n\tb = 2\n"},
		{"FI-24 blanks at the end", "    return a  \n", []Edit{{Old: "return a  ", New: "return a + c  "}}, "    return a + c  \n"},
	} {
		in := []byte(c.in)
		got, err := Apply(in, c.edits, noLimit)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, err, c.want)
		}
		if string(in) != c.in {
			t.Errorf("%s: the content was changed", c.name)
		}
	}
	for _, n := range []string{`$&`, `$$`, "$`", `$'`, `$1`, `${x}`, `\1`, `\0`, `&`, `%s`, `\n`, `$<n>`} { // FI-23
		if got, err := Apply([]byte("A PLACE B\n"), []Edit{{Old: "PLACE", New: n}}, noLimit); err != nil || string(got) != "A "+n+" B\n" {
			t.Errorf("FI-23 %q: got %q, %v", n, got, err)
		}
	}
}

func TestF9_ApplyRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in string
		edits    []Edit
		max      int64
		want     error
	}{
		{"empty", "abc", []Edit{{Old: "a"}, {New: "x"}}, noLimit, &EmptyError{Edit: 1}},
		{"empty behind a mark", bom + "abc", []Edit{{Old: bom, New: "x"}}, noLimit, &EmptyError{}},
		{"NUL", "a\x00b", []Edit{{Old: "a", New: "c"}}, noLimit, &NotTextError{}},
		{"UTF-16", "\xff\xfea\x01", []Edit{{Old: "a", New: "c"}}, noLimit, &NotTextError{}},
		{"UTF-16 big", "\xfe\xff\x01a", []Edit{{Old: "a", New: "c"}}, noLimit, &NotTextError{}},
		{"twice", "x\na b a\n", []Edit{{Old: "a"}}, noLimit, &AmbiguousError{Matches: 2, Lines: []int{2, 2}}},
		{"twice, overlapping", "\naaa", []Edit{{Old: "aa"}}, noLimit, &AmbiguousError{Matches: 2, Lines: []int{2, 2}}},
		{"many", strings.Repeat("a\n", 50), []Edit{{Old: "a"}}, noLimit, &AmbiguousError{Matches: 50, Lines: []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}},
		{"overlap", "abcd", []Edit{{Old: "bc"}, {Old: "ab"}}, noLimit, &OverlapError{Edit: 1, Other: 0}},
		{"same place", "abcd", []Edit{{Old: "bc"}, {Old: "bc"}}, noLimit, &OverlapError{Edit: 1, Other: 0}},
		{"within all", "ab ab", []Edit{{Old: "b ", New: ""}, {Old: "ab", New: "c", All: true}}, noLimit, &OverlapError{Edit: 1, Other: 0}},
		{"too large", "aaaa", []Edit{{Old: "a", New: "0123456789", All: true}}, 39, &TooLargeError{Limit: 39, Actual: 40}},
		{"mark not at the start", bom + "ab", []Edit{{Old: bom + "b", New: "c"}}, noLimit, &MissError{NearLine: 1, NearPercent: 99, Differs: DiffersText}},

		{"FI-21 LF for CRLF", "x\r\na\r\nb\r\n", []Edit{{Old: "a\nb\n"}}, noLimit, &MissError{NearLine: 2, NearPercent: 99, Differs: DiffersLineEnds}},
		{"FI-21 CRLF for LF", "x\na\nb\n", []Edit{{Old: "a\r\nb"}}, noLimit, &MissError{NearLine: 2, NearPercent: 99, Differs: DiffersLineEnds}},
		{"FI-21 mixed", "x\r\na\nb\r\nc\n", []Edit{{Old: "a\nb\nc\n"}}, noLimit, &MissError{NearLine: 2, NearPercent: 99, Differs: DiffersLineEnds}},
		{"FI-24 spacing", "a\n    x  =  3\n", []Edit{{Old: "    x = 3", New: "    x = 4"}}, noLimit, &MissError{NearLine: 2, NearPercent: 99, Differs: DiffersWhitespace}},
		{"FI-24 tabs", "a\n\tif x {\n\t\ty()\n", []Edit{{Old: "    if x {\n        y()\n"}}, noLimit, &MissError{NearLine: 2, NearPercent: 99, Differs: DiffersWhitespace}},
		{"case", "one\nfunc HandleGet() {\n", []Edit{{Old: "func handleGet() {"}}, noLimit, &MissError{NearLine: 2, NearPercent: 99, Differs: DiffersCase}},
		{"typing error", "one\ntwo\nfunc handleGet(w http.ResponseWriter) {\n}\n", []Edit{{Old: "func handleGat(w http.ResponseWriter) {"}}, noLimit, &MissError{NearLine: 3, NearPercent: 94, Differs: DiffersText}},
		{"nothing near", "one\ntwo\n", []Edit{{Old: "completely different"}}, noLimit, &MissError{}},
		{"nothing", "", []Edit{{Old: "a"}}, noLimit, &MissError{}},
		{"only blanks", "ab", []Edit{{Old: "  \n"}}, noLimit, &MissError{}},
		{"the second", "ab", []Edit{{Old: "a"}, {Old: "zz"}}, noLimit, &MissError{Edit: 1}},
	} {
		got, err := Apply([]byte(c.in), c.edits, c.max)
		if got != nil || !reflect.DeepEqual(err, c.want) {
			t.Errorf("%s: got %q, %#v, want %#v", c.name, got, err, c.want)
		}
		if err != nil && c.in != "" && len(c.edits[0].Old) > 3 && strings.Contains(err.Error(), c.edits[0].Old) { // C5
			t.Errorf("%s: the error tells the text: %v", c.name, err)
		}
	}
}

// F9: of a block that was changed a little the place is found, by its longest line.
func TestF9_MissFindsTheBlock(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	for i := range 2000 {
		file.WriteString("func f" + strings.Repeat("x", i%50) + "() {\n\tcall(" + strings.Repeat("y", i%17) + ")\n}\n\n")
	}
	content := file.String() + "// Load reads the settings.\nfunc Load(path string) (Settings, error) {\n\tb, err := os.ReadFile(path)\n}\n" + file.String()
	_, err := Apply([]byte(content), []Edit{{Old: "// Load reads the configuration.\nfunc Load(path string) (Config, error) {\n\tb, err := os.ReadFile(path)\n"}}, noLimit)
	var miss *MissError
	if !errors.As(err, &miss) || miss.NearLine != 8001 || miss.Differs != DiffersText || miss.NearPercent < 60 {
		t.Fatalf("%#v", err)
	}
}

// F9: a near text is found wherever it lies in a big file.
func TestF9_MissSeesAcrossItsBlocks(t *testing.T) {
	t.Parallel()
	for _, before := range []int{64<<10 - 8, 64<<10 - 1, 128<<10 - 5, 200_000} {
		content := strings.Repeat("x", before-1) + "\nthe  needle  here\n" + strings.Repeat("y", 70_000)
		_, err := Apply([]byte(content), []Edit{{Old: "the needle here"}}, noLimit)
		if want := (&MissError{NearLine: 2, NearPercent: 99, Differs: DiffersWhitespace}); !reflect.DeepEqual(err, want) {
			t.Errorf("behind %d bytes: %#v", before, err)
		}
	}
}

// F9: whatever the edits, only the named texts change; judged by strings.Replace.
func FuzzEditKeepsRest(f *testing.F) {
	f.Add("a b c", "b", "X", "c", "", false)
	f.Add("aXbXc", "X", "--", "c", "d", true)
	f.Add(bom+"int a;\r\n", "int", "$&", "\r\n", "\n", false)
	f.Add("caf\xe9\n\xd6\xd0", "\xe9", "e", "\xd6", "\xce", false)
	f.Add("aaa", "aa", "a", "", "", false)
	f.Fuzz(func(t *testing.T, content, old1, new1, old2, new2 string, all bool) {
		got, err := Apply([]byte(content), []Edit{{old1, new1, all}}, noLimit)
		body := strings.TrimPrefix(content, bom)
		if strings.HasPrefix(old1, bom) || strings.HasPrefix(new1, bom) {
			body = content // another rule: see the table
		}
		switch n := strings.Count(body, old1); {
		case err != nil:
			var miss *MissError
			if errors.As(err, &miss) && n > 0 && body != content || errors.As(err, &miss) && (miss.NearPercent < 0 || miss.NearPercent > 99 || miss.NearLine > 1+strings.Count(content, "\n")) {
				t.Fatalf("%d matches, and %#v", n, err)
			}
		case body == content && strings.HasPrefix(content, bom):
		case n == 0 || n > 1 && !all:
			t.Fatalf("%d matches of %q in %q were edited", n, old1, content)
		default:
			if want := content[:len(content)-len(body)] + strings.ReplaceAll(body, old1, new1); string(got) != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
		// Two edits at once are the same as one after the other where neither
		// touches what the other wrote: with what is between them kept.
		both, err := Apply([]byte(content), []Edit{{old1, new1, false}, {old2, new2, false}}, noLimit)
		if err != nil || strings.HasPrefix(content, bom) {
			return
		}
		i, j := strings.Index(content, old1), strings.Index(content, old2)
		if i > j {
			i, j, old1, old2, new1, new2 = j, i, old2, old1, new2, new1
		}
		if want := content[:i] + new1 + content[i+len(old1):j] + new2 + content[j+len(old2):]; string(both) != want {
			t.Fatalf("got %q, want %q", both, want)
		}
	})
}

func bigFile() []byte {
	line := "the same long beginning of every line of this file, as generated code has it: "
	var b bytes.Buffer
	for i := 0; b.Len() < 50<<20; i++ {
		b.WriteString(line)
		b.WriteString(strings.Repeat("x", i%13))
		b.WriteByte('\n')
	}
	b.WriteString("the needle\n")
	return b.Bytes()
}

func BenchmarkApply50MB(b *testing.B) {
	content := bigFile()
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		if _, err := Apply(content, []Edit{{Old: "the needle", New: "found"}}, noLimit); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMiss50MB(b *testing.B) {
	content := bigFile()
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		if _, err := Apply(content, []Edit{{Old: "the neddle of the haystack\nis not here", New: "found"}}, noLimit); err == nil {
			b.Fatal("found")
		}
	}
}
