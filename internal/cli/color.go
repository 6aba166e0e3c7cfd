package cli

import "errors"

// A color is the choice of --color.
type color string

func (c *color) String() string { return string(*c) }
func (c *color) Type() string   { return "WHEN" }

func (c *color) Set(s string) error {
	switch s {
	case "auto", "always", "never":
		*c = color(s)
		return nil
	}
	return errors.New("it is auto, always or never")
}

// colored tells whether what belay itself says is set off from what a model says. By itself it
// is on a terminal, unless NO_COLOR says otherwise (no-color.org) or the terminal is a dumb one.
func (p *program) colored(terminal bool) bool {
	switch p.color {
	case "always":
		return true
	case "never":
		return false
	}
	return terminal && p.getenv("NO_COLOR") == "" && p.getenv("TERM") != "dumb"
}
