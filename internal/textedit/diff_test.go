package textedit

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestF9_Diff(t *testing.T) {
	t.Parallel()
	ten := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
	for _, c := range []struct{ name, path, old, new, want string }{
		{"same", "f", "a\n", "a\n", ""},
		{"middle", "f", ten, strings.Replace(ten, "5", "five", 1), `diff --git a/f b/f
--- a/f
+++ b/f
@@ -2,7 +2,7 @@
 2
 3
 4
-5
+five
 6
 7
 8
`},
		{"two near", "f", ten, strings.NewReplacer("3\n", "", "9\n", "9\nnew\n").Replace(ten), `diff --git a/f b/f
--- a/f
+++ b/f
@@ -1,10 +1,10 @@
 1
 2
-3
 4
 5
 6
 7
 8
 9
+new
 10
`},
		{"two apart", "f", ten, strings.NewReplacer("2\n", "", "9\n", "9\nnew\n").Replace(ten), `diff --git a/f b/f
--- a/f
+++ b/f
@@ -1,5 +1,4 @@
 1
-2
 3
 4
 5
@@ -7,4 +6,5 @@
 7
 8
 9
+new
 10
`},
		{"no newline", "d/f", "a\nb", "a\nc", `diff --git a/d/f b/d/f
--- a/d/f
+++ b/d/f
@@ -1,2 +1,2 @@
 a
-b
\ No newline at end of file
+c
\ No newline at end of file
`},
		{"newline added", "f", "a", "a\n", `diff --git a/f b/f
--- a/f
+++ b/f
@@ -1,1 +1,1 @@
-a
\ No newline at end of file
+a
`},
		{"emptied", "f", "a\n", "", `diff --git a/f b/f
--- a/f
+++ b/f
@@ -1,1 +0,0 @@
-a
`},
		{"CRLF", "f", "a\r\nb\r\n", "a\r\nc\r\n", "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n"},
		{"names", "a b\t\"\\\n\u00e9\xff", "a\n", "b\n", "diff --git \"a/a b\\011\\\"\\\\\\012\u00e9\\377\" \"b/a b\\011\\\"\\\\\\012\u00e9\\377\"\n--- \"a/a b\\011\\\"\\\\\\012\u00e9\\377\"\n+++ \"b/a b\\011\\\"\\\\\\012\u00e9\\377\"\n@@ -1,1 +1,1 @@\n-a\n+b\n"},
		{"blank in the name", "a b", "a\n", "b\n", "diff --git a/a b b/a b\n--- a/a b\t\n+++ b/a b\t\n@@ -1,1 +1,1 @@\n-a\n+b\n"},
	} {
		got, omitted := Diff(c.path, []byte(c.old), []byte(c.new), noLimit)
		if got != c.want || omitted != 0 {
			t.Errorf("%s: got (%d omitted)\n%q\nwant\n%q", c.name, omitted, got, c.want)
		}
	}
}

// F9: bounded in bytes, in whole lines, and the rest counted.
func TestF9_DiffIsBounded(t *testing.T) {
	t.Parallel()
	old, new := strings.Repeat("old line\n", 100), strings.Repeat("new line!\n", 100)
	whole, omitted := Diff("f", []byte(old), []byte(new), noLimit)
	if omitted != 0 {
		t.Fatalf("%d omitted", omitted)
	}
	for _, limit := range []int{-1, 0, 1, 20, 100, 1000, len(whole) - 1, len(whole)} {
		got, omitted := Diff("f", []byte(old), []byte(new), limit)
		if len(got) > max(limit, 0) || !strings.HasPrefix(whole, got) || int64(len(got))+omitted != int64(len(whole)) ||
			got != "" && !strings.HasSuffix(got, "\n") || len(got)+40 < limit && omitted > 0 {
			t.Errorf("limit %d: %d bytes, %d omitted of %d", limit, len(got), omitted, len(whole))
		}
	}
}

// apply is a reader of unified diffs of our own: strict, and no cleverer than
// the format.
func apply(old []byte, diff string) ([]byte, error) {
	if diff == "" {
		return old, nil
	}
	lines := strings.SplitAfter(diff, "\n")
	if len(lines) < 4 || !strings.HasPrefix(lines[0], "diff --git ") || !strings.HasPrefix(lines[1], "--- ") || !strings.HasPrefix(lines[2], "+++ ") || lines[len(lines)-1] != "" {
		return nil, errors.New("header")
	}
	lines = lines[3 : len(lines)-1]
	src := strings.SplitAfter(string(old), "\n")
	if src[len(src)-1] == "" {
		src = src[:len(src)-1]
	}
	var out strings.Builder
	at, outLine := 0, 0
	for len(lines) > 0 {
		var a, an, b, bn int
		if _, err := fmt.Sscanf(lines[0], "@@ -%d,%d +%d,%d @@\n", &a, &an, &b, &bn); err != nil {
			return nil, fmt.Errorf("%q: %v", lines[0], err)
		}
		lines = lines[1:]
		if an > 0 {
			a--
		}
		if bn > 0 {
			b--
		}
		if a < at || a > len(src) {
			return nil, errors.New("hunk out of order")
		}
		out.WriteString(strings.Join(src[at:a], ""))
		outLine += a - at
		at = a
		if outLine != b {
			return nil, fmt.Errorf("new line %d, header says %d", outLine, b)
		}
		for an > 0 || bn > 0 {
			if len(lines) == 0 {
				return nil, errors.New("hunk too short")
			}
			sign, text := lines[0][0], lines[0][1:]
			lines = lines[1:]
			if len(lines) > 0 && lines[0] == "\\ No newline at end of file\n" {
				text = strings.TrimSuffix(text, "\n")
				lines = lines[1:]
			}
			if sign != '+' {
				if at >= len(src) || src[at] != text {
					return nil, fmt.Errorf("old line %d is not %q", at+1, text)
				}
				at++
				an--
			}
			if sign != '-' {
				out.WriteString(text)
				outLine++
				bn--
			}
		}
	}
	out.WriteString(strings.Join(src[at:], ""))
	return []byte(out.String()), nil
}

func FuzzDiffApplies(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), []byte("a\nx\nc\n"), 1000)
	f.Add([]byte("a"), []byte("a\n"), 10)
	f.Add([]byte(""), []byte("a\r\nb"), 0)
	f.Add([]byte("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n"), []byte("b\nc\nd\ne\nf\ng\nh\ni\nj\nk"), 60)
	f.Fuzz(func(t *testing.T, old, new []byte, limit int) {
		diff, omitted := Diff("f", old, new, noLimit)
		if got, err := apply(old, diff); err != nil || omitted != 0 || !bytes.Equal(got, new) {
			t.Fatalf("%q to %q: %v, got %q by\n%s", old, new, err, got, diff)
		}
		if (diff == "") != bytes.Equal(old, new) {
			t.Fatal("a diff of nothing, or none of something")
		}
		part, omitted := Diff("f", old, new, limit)
		whole := len(diff) <= max(limit, 0)
		if (omitted == 0) != whole || whole && part != diff || len(part) > max(limit, 0) || part != "" && !strings.HasPrefix(part, diff[:strings.Index(diff, "\n")+1]) {
			t.Fatalf("limit %d: %d and %d omitted of %d", limit, len(part), omitted, len(diff))
		}
	})
}

// texts makes two related texts: few kinds of lines, so that they repeat.
func texts(rng *rand.Rand, lines int) (old, new []byte) {
	kinds := 2 + rng.IntN(lines+2)
	line := func() string { return strconv.Itoa(rng.IntN(kinds)) + []string{"\n", "\n", "\n", "\r\n"}[rng.IntN(4)] }
	every := 1 + rng.IntN(40)
	for range lines {
		l := line()
		old = append(old, l...)
		switch {
		case rng.IntN(every) > 0:
			new = append(new, l...)
		case rng.IntN(3) == 0:
			for range rng.IntN(20) {
				new = append(new, line()...)
			}
		case rng.IntN(2) == 0:
			new = append(new, line()...)
		}
	}
	if rng.IntN(3) == 0 {
		old = bytes.TrimRight(old, "\r\n")
	}
	if rng.IntN(3) == 0 {
		new = bytes.TrimRight(new, "\r\n")
	}
	return old, new
}

func TestF9_RandomDiffsApply(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 3))
		old, new := texts(rng, rng.IntN(3000))
		diff, _ := Diff("f", old, new, noLimit)
		if got, err := apply(old, diff); err != nil || !bytes.Equal(got, new) {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// F9: what `git apply` makes of the diffs, also of unusual names.
func TestF9_GitApplies(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git")
	}
	dir := t.TempDir()
	names := []string{"f", "d/e f", "tab\tname", "quote\"back\\slash", "n\u00e9e \u4f60", "-dash", "new\nline", "b/x", "a/ b/" + "x", "\xff\xfe"}
	var patch strings.Builder
	want := map[string][]byte{}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 4))
		name := fmt.Sprintf("%d/%s", seed, names[int(seed)%len(names)])
		var old, new []byte
		for bytes.Equal(old, new) || len(old) == 0 {
			old, new = texts(rng, rng.IntN(200))
		}
		if seed%20 == 7 {
			new = nil
		}
		if seed%20 == 8 {
			old = nil
			new = []byte("a\nb")
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, old, 0o666); err != nil {
			t.Skipf("this file system does not take %q: %v", name, err)
		}
		diff, _ := Diff(name, old, new, noLimit)
		patch.WriteString(diff)
		want[path] = new
	}
	cmd := exec.Command(git, "apply", "--whitespace=nowarn", "-")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_DIR="+filepath.Join(dir, "none"), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	cmd.Stdin = strings.NewReader(patch.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v\n%s", err, out)
	}
	for path, new := range want {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, new) {
			t.Errorf("%q: %v, got %d bytes, want %d", path, err, len(got), len(new))
		}
	}
}

// C6: far apart, all over the place, nothing in common: never long, never big.
func TestDiffOfBigTextsIsBoundedAndShort(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&b, "line %d of it\n", i)
	}
	old := b.String()
	block := strings.Repeat("inserted\n}\n\n", 150)
	var code strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&code, "func f%d() {\n\treturn %d\n}\n\n", i, i)
	}
	funcs := code.String()
	other := strings.ReplaceAll(funcs[:len(block)], "f", "g")
	half := strings.Index(funcs, "func f2000()")
	for _, c := range []struct {
		name, old, new string
		atMost         int // bytes of the diff
	}{
		{"both ends", old, "first\n" + old + "last\n", 300},
		{"both ends and middle", old, "first\n" + old[:len(old)/2] + "middle" + old[len(old)/2:] + "last\n", 600},
		{"blocks", old, block + old[:len(old)/2] + "\n" + block + old[len(old)/2:] + block, 5 * len(block)},
		{"functions among functions", funcs, other + funcs[:half] + other + funcs[half:] + "end\n", 2*len(other)*3/2 + 1000},
		{"a hundred changes", old, strings.ReplaceAll(old, "321 of", "three two one of"), 60 * 400},
		{"every tenth", old, strings.ReplaceAll(old, "7 of", "seven of"), 20 * len(old)},
		{"every line", old, strings.ReplaceAll(old, "of", "off"), 3 * len(old)},
		{"nothing common", old, strings.ToUpper(old), 3 * len(old)},
		{"reversed blanks", strings.Repeat("\n", 1<<20), strings.Repeat("\n", 1<<20-7) + "x", 200},
	} {
		diff, omitted := Diff("f", []byte(c.old), []byte(c.new), noLimit)
		if omitted != 0 || len(diff) > c.atMost {
			t.Errorf("%s: %d bytes, at most %d expected", c.name, len(diff), c.atMost)
		}
		if got, err := apply([]byte(c.old), diff); err != nil || string(got) != c.new {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func BenchmarkDiff50MB(b *testing.B) {
	old := bigFile()
	new := bytes.Replace(append([]byte("first\n"), old...), []byte("needle"), []byte("found"), 1)
	b.SetBytes(int64(len(old)))
	b.ReportAllocs()
	for b.Loop() {
		if diff, _ := Diff("f", old, new, 32<<10); len(diff) > 2000 {
			b.Fatal(len(diff))
		}
	}
}
