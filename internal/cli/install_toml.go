package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// inTOML edits a file of TOML: the table mcp_servers.belay, as codex mcp add writes it.
// It changes two values in a table that is there, or adds the table at the end. What says
// the same in another form (dotted keys, tables on one line) it does not touch.
func inTOML(text []byte, s server) ([]byte, error) {
	eol := "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		eol = "\r\n"
	}
	want := []entry{{"command", tomlText(s.Command)}, {"args", tomlList(s.Args)}}
	f, err := scanTOML(text)
	if err != nil {
		return nil, err
	}
	if f.otherForm {
		return nil, errors.New("names MCP servers in a form that is not edited here; add the table [mcp_servers.belay] by hand")
	}
	if f.table < 0 {
		var b strings.Builder
		b.Write(text)
		if len(text) > 0 {
			if !bytes.HasSuffix(text, []byte("\n")) {
				b.WriteString(eol)
			}
			b.WriteString(eol)
		}
		b.WriteString("[mcp_servers." + serverName + "]" + eol)
		for _, e := range want {
			b.WriteString(e.key + " = " + e.value + eol)
		}
		return []byte(b.String()), nil
	}
	if _, http := f.values["url"]; http {
		return nil, errors.New("has a belay that is reached by its url")
	}
	added := ""
	out := text
	for i := len(want) - 1; i >= 0; i-- { // from the end, so that the positions stay
		e := want[i]
		at, there := f.values[e.key]
		switch {
		case !there:
			added = e.key + " = " + e.value + eol + added
		case !tomlSame(text[at.from:at.to], e.value):
			f.changes = append(f.changes, change{at, e.value})
		}
	}
	if added != "" {
		if f.table == len(text) && !bytes.HasSuffix(text, []byte("\n")) {
			added = eol + strings.TrimSuffix(added, eol)
		}
		f.changes = append(f.changes, change{span{f.table, f.table}, added})
	}
	for len(f.changes) > 0 { // the last one in the file first
		last := 0
		for i, c := range f.changes {
			if c.from > f.changes[last].from {
				last = i
			}
		}
		c := f.changes[last]
		out = splice(out, c.from, c.to, c.with)
		f.changes = append(f.changes[:last], f.changes[last+1:]...)
	}
	return out, nil
}

type entry struct{ key, value string }
type span struct{ from, to int }
type change struct {
	span
	with string
}

// A tomlFile is what is known of a file.
type tomlFile struct {
	table     int // right behind the line of the header of mcp_servers.belay, -1 without it
	values    map[string]span
	otherForm bool
	changes   []change
}

// scanTOML steps through a file by lines, over strings and lists that go on for more than
// one. It finds what it needs, and is no check of the rest.
func scanTOML(text []byte) (tomlFile, error) {
	f := tomlFile{table: -1, values: map[string]span{}}
	var table []string
	mine := func(path []string) bool { return len(path) == 2 && path[0] == "mcp_servers" && path[1] == serverName }
	if !bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) && bytes.IndexByte(text, 0) >= 0 {
		return f, errors.New("is no text")
	}
	at := 0
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		at = 3
	}
	for at < len(text) {
		for at < len(text) && (text[at] == ' ' || text[at] == '\t') {
			at++
		}
		switch {
		case at == len(text):
		case text[at] == '\n' || text[at] == '\r':
			at++
			continue
		case text[at] == '#':
		case text[at] == '[':
			start := at + 1
			list := start < len(text) && text[start] == '['
			if list {
				start++
			}
			path, end, ok := tomlKey(text, start)
			if !ok || end >= len(text) || text[end] != ']' {
				return f, fmt.Errorf("is no TOML in line %d", 1+bytes.Count(text[:at], []byte("\n")))
			}
			table = path
			at = end
			if mine(path) {
				if list || f.table >= 0 {
					return f, errors.New("has mcp_servers.belay twice")
				}
				f.table = lineEnd(text, at)
			}
		default:
			path, end, ok := tomlKey(text, at)
			if !ok || end >= len(text) || text[end] != '=' {
				return f, fmt.Errorf("is no TOML in line %d", 1+bytes.Count(text[:at], []byte("\n")))
			}
			from := end + 1
			for from < len(text) && (text[from] == ' ' || text[from] == '\t') {
				from++
			}
			to, ok := tomlValue(text, from)
			if !ok {
				return f, fmt.Errorf("is no TOML in line %d", 1+bytes.Count(text[:at], []byte("\n")))
			}
			whole := append(append([]string{}, table...), path...)
			switch {
			case mine(table) && len(path) == 1:
				if _, twice := f.values[path[0]]; twice {
					return f, fmt.Errorf("has %s twice", path[0])
				}
				f.values[path[0]] = span{from, to}
			case mine(table): // env.X and the like
			case len(whole) == 1 && whole[0] == "mcp_servers", len(whole) >= 2 && mine(whole[:2]) && !(len(table) > 2 && mine(table[:2])):
				f.otherForm = true
			}
			at = to
		}
		at = lineEnd(text, at)
	}
	return f, nil
}

func lineEnd(text []byte, at int) int {
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(text)
}

// tomlKey reads a key, with dots, and gives where it ends, blanks behind it included.
func tomlKey(text []byte, at int) (path []string, end int, ok bool) {
	blanks := func() {
		for at < len(text) && (text[at] == ' ' || text[at] == '\t') {
			at++
		}
	}
	for {
		blanks()
		if at == len(text) {
			return nil, at, false
		}
		start := at
		switch c := text[at]; {
		case c == '"' || c == '\'':
			to, ok := tomlString(text, at)
			if !ok {
				return nil, at, false
			}
			path = append(path, string(text[at+1:to-1])) // escapes in a key: another name than ours
			at = to
		default:
			for at < len(text) && (text[at] == '_' || text[at] == '-' || '0' <= text[at] && text[at] <= '9' || 'a' <= text[at]|0x20 && text[at]|0x20 <= 'z') {
				at++
			}
			if at == start {
				return nil, at, false
			}
			path = append(path, string(text[start:at]))
		}
		blanks()
		if at == len(text) || text[at] != '.' {
			return path, at, true
		}
		at++
	}
}

// tomlString gives where a string of any kind ends.
func tomlString(text []byte, at int) (end int, ok bool) {
	quote := text[at]
	if three := bytes.Repeat([]byte{quote}, 3); bytes.HasPrefix(text[at:], three) {
		for i := at + 3; i < len(text); i++ {
			switch {
			case text[i] == '\\' && quote == '"':
				i++
			case bytes.HasPrefix(text[i:], three):
				for i += 3; i < len(text) && text[i] == quote; i++ { // up to two belong to the string
				}
				return i, true
			}
		}
		return 0, false
	}
	for i := at + 1; i < len(text) && text[i] != '\n'; i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] == quote:
			return i + 1, true
		}
	}
	return 0, false
}

// tomlValue gives where a value ends.
func tomlValue(text []byte, at int) (end int, ok bool) {
	depth := 0
	last := at
	for at < len(text) {
		switch c := text[at]; {
		case c == '"' || c == '\'':
			if at, ok = tomlString(text, at); !ok {
				return 0, false
			}
			last = at
			continue
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			if depth--; depth < 0 {
				return 0, false
			}
		case c == '#':
			if depth == 0 {
				return last, last > 0
			}
			at = lineEnd(text, at)
			continue
		case c == '\n' && depth == 0:
			return last, true
		}
		if text[at] > ' ' {
			last = at + 1
		}
		at++
	}
	return last, depth == 0
}

// tomlSame compares two values by their parts: blanks, line ends and comments between
// them, and a comma at the end, mean nothing.
func tomlSame(is []byte, should string) bool { return tomlParts(is) == tomlParts([]byte(should)) }

func tomlParts(text []byte) string {
	var b strings.Builder
	for at := 0; at < len(text); {
		switch c := text[at]; {
		case c == '"' || c == '\'':
			end, ok := tomlString(text, at)
			if !ok {
				return string(text)
			}
			word := string(text[at+1 : end-1])
			if c == '\'' { // as it stands
				word = strings.Trim(tomlText(word), `"`)
			}
			b.WriteString(`"` + word + `"`)
			at = end
			continue
		case c == '#':
			at = lineEnd(text, at)
			continue
		case c == ']':
			joined := strings.TrimSuffix(b.String(), ",")
			b.Reset()
			b.WriteString(joined + "]")
		case c > ' ':
			b.WriteByte(c)
		}
		at++
	}
	return b.String()
}

// tomlText is a basic string. JSON's escapes are TOML's, but for DEL, which JSON leaves.
func tomlText(s string) string { return strings.ReplaceAll(asJSON(s), "\x7f", `\u007F`) }

func tomlList(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = tomlText(w)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
