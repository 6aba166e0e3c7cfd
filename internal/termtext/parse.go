package termtext

// The parser knows where terminal sequences begin and end, and nothing of what
// they do. It follows the state machine of the VT500 series as xterm has it
// (vt100.net/emu/dec_ansi_parser), on characters instead of bytes: an 8-bit
// control is U+0080 to U+009F here. It remembers where it is, never what a
// sequence carried, so that an endless one costs no memory.
//
// One rule is our own. A terminal swallows everything that follows a string
// sequence (OSC, DCS, SOS, PM, APC) until its end comes, so that one that was
// never finished would hide the rest of a log. Here such a sequence is given up
// at a line feed, once it looks like a text and not like data:
//
//   - begun by an 8-bit control: at the first line feed. Nobody sends these on
//     purpose, but text that was encoded twice is full of them.
//   - with a blank in the payload: at the first line feed after textLeash.
//     Window titles with several lines in them are shorter.
//   - without a blank (an image, a clipboard): at the first line feed after
//     dataLeash.
//
// What was swallowed until then stays swallowed.
const (
	textLeash = 1 << 10 // characters
	dataLeash = 1 << 20 // characters; more than a screen of sixels
)

// LookBack is how many bytes a reader who starts in the middle of a stream
// should give to [Cleaner.Skip] first. It covers any sequence that was begun
// there, but for images and clipboards.
const LookBack = 4 << 10

type state uint8

const (
	ground     state = iota
	escape           // after ESC
	escapeMore       // after ESC and an intermediate character: only a final one is awaited
	control          // after CSI
	payload          // in a string sequence
)

type event uint8

const (
	nothing    event = iota
	printed          // the character itself
	executed         // a C0 control
	dispatched       // an escape sequence (or 8-bit control), named by parser.final
	commanded        // a control sequence of the plain form, named by parser.final
)

type parser struct {
	state state
	final rune // of the sequence that just ended

	// Of a control sequence. Only the first parameter of the plain form
	// matters here: no private marker, no intermediate, no sub-parameter.
	param  int
	params int // separators seen
	plain  bool

	// Of a string sequence.
	bell    bool // BEL ends it
	eight   bool // begun by an 8-bit control
	blank   bool // a blank was in it
	carried int  // characters
}

// next takes one character.
func (p *parser) next(r rune) event {
	if p.state == payload {
		return p.inPayload(r)
	}
	switch {
	case r == 0x1b:
		p.state = escape
		return nothing
	case r == 0x18, r == 0x1a: // CAN, SUB: whatever was begun is void
		p.state = ground
		return nothing
	case r < 0x20: // also within a sequence, which goes on after it
		return executed
	case r >= 0x80 && r < 0xa0: // an 8-bit control is ESC and a letter
		p.state = ground
		return p.escaped(r-0x40, true)
	case r >= 0xa0: // no part of any sequence
		p.state = ground
		return printed
	case r == 0x7f:
		return nothing
	}
	switch p.state {
	case escape:
		return p.escaped(r, false)
	case escapeMore:
		if r >= 0x30 {
			p.state = ground
		}
		return nothing
	case control:
		return p.inControl(r)
	default:
		return printed
	}
}

func (p *parser) escaped(r rune, eight bool) event {
	switch {
	case r < 0x30:
		p.state = escapeMore
		return nothing
	case r == '[':
		p.state, p.param, p.params, p.plain = control, 0, 0, true
		return nothing
	case r == ']', r == 'P', r == 'X', r == '^', r == '_':
		p.state, p.bell, p.eight = payload, r == ']', eight
		p.blank, p.carried = false, 0
		return nothing
	}
	p.state, p.final = ground, r
	return dispatched
}

func (p *parser) inControl(r rune) event {
	switch {
	case r >= '0' && r <= '9':
		if p.params == 0 {
			p.param = min(p.param*10+int(r-'0'), 1<<16)
		}
	case r == ';':
		p.params++
	case r < 0x40: // markers, intermediates, sub-parameters
		p.plain = false
	default:
		p.state, p.final = ground, r
		if p.plain {
			return commanded
		}
	}
	return nothing
}

func (p *parser) inPayload(r rune) event {
	switch r {
	case 0x1b: // ESC \ ends it; ESC and anything else voids it and begins anew
		p.state = escape
		return nothing
	case 0x9c, 0x18, 0x1a:
		p.state = ground
		return nothing
	case 0x07:
		if p.bell {
			p.state = ground
			return nothing
		}
	case '\n':
		if p.eight || p.carried > dataLeash || p.blank && p.carried > textLeash {
			p.state = ground
			return executed
		}
	case ' ', '\t':
		p.blank = true
	}
	p.carried++
	return nothing
}
