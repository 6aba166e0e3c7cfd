package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// maxConfig is far more than a configuration needs.
const maxConfig = 1 << 20

// projectFile is where a project says how belay behaves in it.
const projectFile = ".belay/config.jsonc"

// A configFile is one file while it is read: JSON with comments, strictly. Its first
// fault ends it.
type configFile struct {
	path  string // fit for a terminal
	raw   []byte
	place place
	err   error
}

// A layer is what one file says.
type layer map[string]value

// member is a name with its value; at is where the name stands.
type member struct {
	name      string
	at, value hujson.Value
}

// parse reads a whole file.
func (f *configFile) parse() (layer, error) {
	f.raw = bytes.TrimPrefix(f.raw, []byte("\ufeff"))
	if !utf8.Valid(f.raw) {
		return nil, fmt.Errorf("%s: expects text in UTF-8", f.path)
	}
	if len(bytes.TrimSpace(f.raw)) == 0 {
		return layer{}, nil
	}
	if line := tooDeep(f.raw); line > 0 {
		return nil, fmt.Errorf("%s:%d: expects at most %d objects and lists in each other", f.path, line, maxDepth)
	}
	top, err := hujson.Parse(f.raw)
	if err != nil {
		return nil, f.syntax(err)
	}
	out := layer{}
	f.group(top, "", out)
	if f.err != nil {
		return nil, f.err
	}
	return out, nil
}

// maxDepth is more than any setting has. The parser descends by calling itself, and a
// project that nobody trusts must not be able to exhaust the stack.
const maxDepth = 16

// tooDeep gives the line where the nesting is over maxDepth, or 0. It looks at brackets
// only, outside of strings and comments.
func tooDeep(raw []byte) (line int) {
	depth := 0
	skip := func(from int, end string) int { // to the last byte of end
		if n := bytes.Index(raw[from:], []byte(end)); n >= 0 {
			return from + n + len(end) - 1
		}
		return len(raw)
	}
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return 1 + bytes.Count(raw[:i], []byte("\n"))
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '/':
			switch rest := raw[i:]; {
			case bytes.HasPrefix(rest, []byte("//")):
				i = skip(i, "\n")
			case bytes.HasPrefix(rest, []byte("/*")):
				i = skip(i+2, "*/")
			}
		}
	}
	return 0
}

// group reads an object whose members are settings, or groups of settings.
func (f *configFile) group(v hujson.Value, prefix string, out layer) {
	whole := strings.TrimSuffix(prefix, ".")
	if whole == "" {
		whole = "the file"
	}
	members, ok := f.members(v, whole)
	if !ok {
		f.fault(v, whole, "an object")
		return
	}
	for _, m := range members {
		name := prefix + m.name
		at := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
		switch {
		case f.err != nil:
			return
		case at >= 0:
			if got := settings[at].kind.read(f, m.value, name); f.err == nil {
				out[name] = value{got, fmt.Sprintf("%s:%d", f.path, f.line(m.at))}
			}
		case slices.ContainsFunc(settings, func(s setting) bool { return strings.HasPrefix(s.name, name+".") }):
			f.group(m.value, name+".", out)
		default:
			f.fault(m.at, shortName(name), "no such setting; known here: "+strings.Join(namesBelow(prefix), " "))
		}
	}
}

// namesBelow lists what can stand in a group.
func namesBelow(prefix string) []string {
	var names []string
	for _, s := range settings {
		if rest, ok := strings.CutPrefix(s.name, prefix); ok {
			name, _, _ := strings.Cut(rest, ".")
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// shortName keeps a name that somebody made up fit for one line.
func shortName(name string) string {
	if len(name) > 100 {
		name = strings.ToValidUTF8(name[:100], "") + "…"
	}
	return strings.Trim(fmt.Sprintf("%q", name), `"`)
}

// members gives the members of an object. A name that is given twice is a fault.
func (f *configFile) members(v hujson.Value, name string) ([]member, bool) {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, false
	}
	var out []member
	seen := map[string]bool{}
	for _, m := range object.Members {
		var key string
		if !f.decode(m.Name, '"', &key) {
			return nil, false
		}
		if seen[key] {
			f.fault(m.Name, shortName(name+"."+key), "to be given once")
		}
		seen[key] = true
		out = append(out, member{key, m.Name, m.Value})
	}
	return out, true
}

// fault records what is wrong, unless something was before. It gives nil, the value of
// what is wrong.
func (f *configFile) fault(v hujson.Value, name, expects string) any {
	if f.err == nil {
		if rest, ok := strings.CutPrefix(expects, "no such"); ok {
			f.err = fmt.Errorf("%s:%d: %s: there is no such%s", f.path, f.line(v), name, rest)
		} else {
			f.err = fmt.Errorf("%s:%d: %s: expects %s", f.path, f.line(v), name, expects)
		}
	}
	return nil
}

func (f *configFile) line(v hujson.Value) int {
	return 1 + bytes.Count(f.raw[:min(v.StartOffset, len(f.raw))], []byte("\n"))
}

// whereItBroke is how the parser tells the place.
var whereItBroke = regexp.MustCompile(`line (\d+), column (\d+)`)

// syntax tells where the file is no JSON with comments. The parser's words may hold
// something out of the file, so they are not used.
func (f *configFile) syntax(err error) error {
	if at := whereItBroke.FindStringSubmatch(err.Error()); at != nil {
		return fmt.Errorf("%s:%s: expects JSON with comments (column %s)", f.path, at[1], at[2])
	}
	return fmt.Errorf("%s: expects JSON with comments", f.path)
}

// userLayer reads the user's file, or that of --config, which has to exist.
func (p *program) userLayer(name string) (layer, error) {
	must := name != ""
	if !must {
		dir := p.configDir()
		if dir == "" {
			return nil, nil
		}
		name = filepath.Join(dir, "config.jsonc")
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("%s: expects a path that can be resolved", inert(name))
	}
	path := inert(abs)
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !must:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: expects a file that can be read", path)
	case !info.Mode().IsRegular(): // a pipe would wait
		return nil, fmt.Errorf("%s: expects a regular file", path)
	}
	file, err := os.Open(abs)
	if err != nil {
		return nil, fmt.Errorf("%s: expects a file that can be read", path)
	}
	defer file.Close()
	raw, err := bounded(file)
	if err != nil {
		return nil, fmt.Errorf("%s: expects %w", path, err)
	}
	f := &configFile{path: path, raw: raw, place: place{dir: filepath.Dir(abs), home: p.getenv("HOME")}}
	return f.parse()
}

// projectLayer reads the project's file, without leaving the root, and whether it is
// trusted.
func (p *program) projectLayer(c *configuration) (layer, error) {
	raw, err := readProject(c.root)
	name := filepath.Join(c.root, filepath.FromSlash(projectFile))
	path := inert(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: expects %w", path, err)
	case raw == nil:
		return nil, nil
	}
	sum := sha256.Sum256(raw)
	c.project, c.sum = name, hex.EncodeToString(sum[:])
	c.trusted = p.isTrusted(c.root, c.sum)
	f := &configFile{path: path, raw: raw, place: place{dir: c.root, project: true}}
	return f.parse()
}

// readProject gives nil where there is no file. A root that cannot be opened has none
// either: whoever opens it next says so.
func readProject(root string) ([]byte, error) {
	dir, err := os.OpenRoot(strings.TrimRight(root, "/") + "/") // with the slash no FIFO is waited for
	if err != nil {
		return nil, nil
	}
	defer dir.Close()
	// Each component, since a link to somewhere else inside of the root would let a file
	// be written under a name that is not protected.
	for _, name := range []string{".belay", projectFile} {
		info, err := dir.Lstat(filepath.FromSlash(name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, errors.New("a file that can be read")
		case name == projectFile && !info.Mode().IsRegular(), name != projectFile && !info.IsDir():
			return nil, errors.New("a regular file in a folder, and no link")
		}
	}
	file, err := dir.Open(filepath.FromSlash(projectFile))
	if err != nil {
		return nil, errors.New("a file that can be read")
	}
	defer file.Close()
	return bounded(file)
}

func bounded(file *os.File) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(file, maxConfig+1))
	switch {
	case err != nil:
		return nil, errors.New("a file that can be read")
	case len(raw) > maxConfig:
		return nil, fmt.Errorf("at most %d bytes", maxConfig)
	}
	if raw == nil {
		raw = []byte{}
	}
	return raw, nil
}

// resolvedRoot is the root without links, as it is trusted.
func (p *program) resolvedRoot() string {
	root, err := filepath.Abs(p.root)
	if err != nil {
		return p.root
	}
	if resolved, err := filepath.EvalSymlinks(root); err == nil {
		return resolved
	}
	return root
}

// configDir is where the user's file is, or "" where the environment names no place.
func (p *program) configDir() string {
	if home := p.getenv("BELAY_HOME"); home != "" {
		return home
	}
	return p.platformConfigDir()
}
