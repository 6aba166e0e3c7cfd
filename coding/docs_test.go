package coding

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/belayhq/belay/tool"
)

var update = flag.Bool("update", false, "write the definitions into docs/tools.md")

// C1, C2: docs/tools.md shows the definitions in force. The parts between the
// markers are written by `go test ./coding -run TestToolsPage -update`, the prose
// between them by people.
func TestToolsPageShowsTheDefinitions(t *testing.T) {
	t.Parallel()
	const page = "../docs/tools.md"
	was, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	suite, err := New(Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer suite.Close()
	is := string(was)
	for _, d := range suite.Definitions() {
		begin, end := "<!-- "+d.Name+" -->\n", "<!-- end -->\n"
		from := strings.Index(is, begin)
		if from < 0 {
			t.Errorf("%s is missing from %s", d.Name, page)
			continue
		}
		from += len(begin)
		to := strings.Index(is[from:], end)
		if to < 0 {
			t.Fatalf("%s: no end marker", d.Name)
		}
		is = is[:from] + section(t, d) + is[from+to:]
	}
	if n := len(regexp.MustCompile(`(?m)^<!-- [a-z_]+ -->$`).FindAllString(is, -1)) / 2; n != len(suite.Definitions()) {
		t.Errorf("%s has %d sections for %d tools", page, n, len(suite.Definitions()))
	}
	if !strings.Contains(is, tool.Disclaimer) {
		t.Errorf("%s does not say: %s", page, tool.Disclaimer)
	}
	switch {
	case is == string(was):
	case *update:
		if err := os.WriteFile(page, []byte(is), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not show the definitions in force; run go test ./coding -run TestToolsPage -update", page)
	}
}

// section is one definition as Markdown.
func section(t *testing.T, d tool.Definition) string {
	var s struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if err := json.Unmarshal(d.Schema, &s); err != nil {
		t.Fatal(err)
	}
	risks := "none"
	for i, r := range d.Risks {
		if i == 0 {
			risks = ""
		} else {
			risks += ", "
		}
		risks += string(r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nEffect %s, replay %s, risks %s. Fingerprint `%s`.\n\n", d.Description, d.Effect, d.Replay, risks, d.Fingerprint())
	rows := 0
	dec := json.NewDecoder(bytes.NewReader(s.Properties)) // token by token: the order of the schema is the order shown
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		name, err := dec.Token()
		var p struct {
			Type        string   `json:"type"`
			Description string   `json:"description"`
			Enum        []string `json:"enum"`
			Minimum     *int64   `json:"minimum"`
			Maximum     *int64   `json:"maximum"`
		}
		if err != nil || dec.Decode(&p) != nil {
			t.Fatal(d.Name, err)
		}
		if rows++; rows == 1 {
			b.WriteString("| argument | type | meaning |\n| --- | --- | --- |\n")
		}
		kind := p.Type
		if len(p.Enum) > 0 {
			kind = strings.Join(p.Enum, ", ")
		}
		if p.Minimum != nil && p.Maximum != nil {
			kind += fmt.Sprintf(", %d to %d", *p.Minimum, *p.Maximum)
		} else if p.Minimum != nil {
			kind += fmt.Sprintf(", at least %d", *p.Minimum)
		}
		need := ""
		for _, r := range s.Required {
			if r == name {
				need = " (required)"
			}
		}
		fmt.Fprintf(&b, "| `%s`%s | %s | %s |\n", name, need, kind, p.Description)
	}
	return b.String()
}
