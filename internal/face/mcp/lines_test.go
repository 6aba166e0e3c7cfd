package mcp

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var section = regexp.MustCompile(`(?m)^-- (.+) --\n`)

// C3, C4, C7, MC-01, MC-08: what raw peers get, answer by answer, in every
// protocol version; the format is told at the top of the file.
func TestLines(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/lines.txtar")
	if err != nil {
		t.Fatal(err)
	}
	marks := section.FindAllStringSubmatchIndex(string(file), -1)
	if len(marks) < 10 {
		t.Fatalf("%d sections", len(marks))
	}
	for i, m := range marks {
		name, end := string(file[m[2]:m[3]]), len(file)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		steps := strings.Split(string(file[m[1]:end]), "\n")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, newSuite())
			for n, step := range steps {
				kind, text, _ := strings.Cut(step, " ")
				switch kind {
				case "":
				case ">":
					p.send(text)
				case ">q":
					raw, err := strconv.Unquote(text)
					if err != nil {
						t.Fatalf("line %d: %v", n+1, err)
					}
					p.write(raw)
				case ">1":
					for _, b := range []byte(text + "\n") {
						p.write(string(b))
					}
				case ">release":
					close(p.suite.release)
				case ">end":
					p.in.Close()
				case "<":
					if got := p.line(); !matches(text, got) {
						t.Fatalf("line %d\n got %.2000s\nwant %s", n+1, got, text)
					}
				default:
					t.Fatalf("line %d: no such step: %s", n+1, step)
				}
			}
			p.in.Close()
			if rest := p.rest(); rest != nil {
				t.Errorf("nobody asked for %q", rest)
			}
			p.gone()
		})
	}
}

// matches compares a line with a pattern in which * stands for anything.
func matches(pattern, line string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == line
	}
	if !strings.HasPrefix(line, parts[0]) {
		return false
	}
	line = line[len(parts[0]):]
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(line, part)
		if i < 0 {
			return false
		}
		line = line[i+len(part):]
	}
	return strings.HasSuffix(line, last)
}
