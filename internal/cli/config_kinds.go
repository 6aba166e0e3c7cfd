package cli

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/belayhq/belay/guard"
)

// A kind is the type of a setting: how it is read, and how it is described.
type kind interface {
	// read gives the value, or adds a fault to the file.
	read(f *configFile, v hujson.Value, name string) any
	words() string
}

// place is where a value stands, for those that name files.
type place struct {
	dir     string // what a relative path counts from
	home    string
	project bool // a program may be named relative to the root
}

type whole struct{ min, max int64 }

func (k whole) words() string { return fmt.Sprintf("a whole number from %d to %d", k.min, k.max) }
func (k whole) read(f *configFile, v hujson.Value, name string) any {
	var n int64
	if f.decode(v, '0', &n) && n >= k.min && n <= k.max {
		return n
	}
	return f.fault(v, name, k.words())
}

type onOff struct{}

func (onOff) words() string { return "true or false" }
func (k onOff) read(f *configFile, v hujson.Value, name string) any {
	var b bool
	if f.decode(v, 't', &b) || f.decode(v, 'f', &b) {
		return b
	}
	return f.fault(v, name, k.words())
}

type plainText struct{}

func (plainText) words() string { return "a string" }
func (k plainText) read(f *configFile, v hujson.Value, name string) any {
	var s string
	if f.decode(v, '"', &s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return f.fault(v, name, k.words())
}

type choice []string

func (k choice) words() string {
	quoted := make([]string, len(k))
	for i, c := range k {
		quoted[i] = fmt.Sprintf("%q", c)
	}
	return strings.Join(quoted[:len(quoted)-1], ", ") + " or " + quoted[len(quoted)-1]
}

func (k choice) check(s string) (any, string) {
	if slices.Contains(k, s) {
		return s, ""
	}
	return nil, k.words()
}

func (k choice) read(f *configFile, v hujson.Value, name string) any {
	var s string
	if f.decode(v, '"', &s) && slices.Contains(k, s) {
		return s
	}
	return f.fault(v, name, k.words())
}

// texts is a list of strings; names are not empty and lead nowhere.
type texts struct{ names bool }

func (k texts) words() string {
	if k.names {
		return "a list of names"
	}
	return "a list of strings"
}

func (k texts) read(f *configFile, v hujson.Value, name string) any {
	list := []string{}
	array, ok := v.Value.(*hujson.Array)
	if !ok {
		return f.fault(v, name, k.words())
	}
	for i, e := range array.Elements {
		var s string
		if !f.decode(e, '"', &s) || strings.IndexByte(s, 0) >= 0 || k.names && (s == "" || strings.ContainsAny(s, `/\=`)) {
			what := "a string"
			if k.names {
				what = "a name"
			}
			return f.fault(e, fmt.Sprintf("%s[%d]", name, i), what)
		}
		list = append(list, s)
	}
	return list
}

// dict is variables of the environment.
type dict struct{}

func (dict) words() string { return "an object of strings" }
func (k dict) read(f *configFile, v hujson.Value, name string) any {
	out := map[string]string{}
	members, ok := f.members(v, name)
	if !ok {
		return f.fault(v, name, k.words())
	}
	for _, m := range members {
		var s string
		if m.name == "" || strings.ContainsAny(m.name, "=\x00") || !f.decode(m.value, '"', &s) || strings.IndexByte(s, 0) >= 0 {
			return f.fault(m.at, name, k.words()+", with names of variables")
		}
		out[m.name] = s
	}
	return out
}

// command is a program and its arguments, or nothing.
type programLine struct{}

func (programLine) words() string { return "a list of strings, the program first" }

func (k programLine) check(argv []string, at place) (any, string) {
	if slices.ContainsFunc(argv, func(s string) bool { return strings.IndexByte(s, 0) >= 0 }) {
		return nil, k.words()
	}
	if len(argv) == 0 {
		return []string{}, ""
	}
	program := argv[0]
	if rest, ok := strings.CutPrefix(program, "~/"); ok && filepath.IsAbs(at.home) {
		program = filepath.Join(at.home, rest)
	}
	// Relative to what? To the directory of a call it would be the model's choice.
	relative := strings.ContainsAny(program, `/\`) && !filepath.IsAbs(program)
	if program == "" || relative && !at.project {
		return nil, "a program by its name in PATH or its absolute path"
	}
	return append([]string{program}, argv[1:]...), ""
}

func (k programLine) read(f *configFile, v hujson.Value, name string) any {
	argv, ok := texts{}.read(f, v, name).([]string)
	if !ok {
		return nil
	}
	checked, expects := k.check(argv, f.place)
	if expects != "" {
		return f.fault(v, name, expects)
	}
	return checked
}

// path is of a file; a relative one counts from where it is written.
type filePath struct{}

func (filePath) words() string { return "the path of a file" }
func (k filePath) read(f *configFile, v hujson.Value, name string) any {
	s, ok := plainText{}.read(f, v, name).(string)
	if !ok {
		return nil
	}
	if rest, home := strings.CutPrefix(s, "~/"); home && filepath.IsAbs(f.place.home) {
		return filepath.Join(f.place.home, rest)
	}
	if s != "" && !filepath.IsAbs(s) {
		s = filepath.Join(f.place.dir, s)
	}
	return s
}

// address is a URL. What is secure goes in clear text to this machine only.
type webAddress struct{ secure bool }

func (k webAddress) words() string {
	if k.secure {
		return "an https address, or http to this machine"
	}
	return "an http or https address"
}

func (k webAddress) read(f *configFile, v hujson.Value, name string) any {
	s, ok := plainText{}.read(f, v, name).(string)
	if !ok {
		return nil
	}
	if s == "" {
		return s
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || k.secure && !loopback(u.Hostname())) {
		return f.fault(v, name, k.words())
	}
	return s
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

type hookList struct{}

func (hookList) words() string {
	return "a list of objects with match, command, timeout_ms and on_error"
}
func (k hookList) read(f *configFile, v hujson.Value, name string) any {
	array, ok := v.Value.(*hujson.Array)
	if !ok {
		return f.fault(v, name, k.words())
	}
	list := []hook{}
	for i, e := range array.Elements {
		at := fmt.Sprintf("%s[%d]", name, i)
		members, ok := f.members(e, at)
		if !ok {
			return f.fault(e, at, "an object with match, command, timeout_ms and on_error")
		}
		h := hook{TimeoutMS: 5000, OnError: "allow"}
		for _, m := range members {
			key := at + "." + m.name
			switch m.name {
			case "match":
				s, ok := plainText{}.read(f, m.value, key).(string)
				if _, err := guard.ParseMatch(s); ok && err != nil {
					return f.fault(m.value, key, "a regular expression on the names of tools")
				}
				h.Match = s
			case "command":
				h.Command, _ = programLine{}.read(f, m.value, key).([]string)
			case "timeout_ms":
				h.TimeoutMS, _ = whole{100, guard.MaxTimeout.Milliseconds()}.read(f, m.value, key).(int64)
			case "on_error":
				h.OnError, _ = choice{"allow", "block"}.read(f, m.value, key).(string)
			default:
				return f.fault(m.at, key, "no such name; known: match command timeout_ms on_error")
			}
			if f.err != nil {
				return nil
			}
		}
		if len(h.Command) == 0 {
			return f.fault(e, at+".command", programLine{}.words())
		}
		list = append(list, h)
	}
	return list
}

// decode reads a literal of one sort: a number, a string, true or false.
func (f *configFile) decode(v hujson.Value, sort hujson.Kind, into any) bool {
	l, ok := v.Value.(hujson.Literal)
	return ok && l.Kind() == sort && json.Unmarshal(l, into) == nil
}
