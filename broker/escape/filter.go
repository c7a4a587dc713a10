package escape

import (
	"slices"
	"unicode/utf8"
)

// Policy says what may pass in addition to drawing.
type Policy struct {
	Title     bool // of the window
	Clipboard bool // writing text to it
	// Answers: the session has the keyboard, so the terminal's own answers go to the node and not
	// to the operator's shell.
	Answers bool
}

// Bounds, in bytes.
const (
	maxSequence  = 256
	maxTitle     = 256
	maxClipboard = 64 << 10
)

// Filter filters one stream of output. A Filter is not safe for concurrent use.
type Filter struct {
	policy Policy
	state  state
	held   []byte // of a sequence, after its introducer
	over   bool   // the sequence is too long
	skip   int    // remaining digits of a colour of Linux's console
	screen screen
}

// New returns a Filter at the beginning of a stream.
func New(p Policy) *Filter {
	f := &Filter{policy: p}
	f.screen.set = map[mode]bool{}
	return f
}

type state byte

const (
	text       state = iota
	character        // held has the beginning of a character
	escape           // after ESC; held has its intermediates
	control          // after CSI; held has parameters and intermediates
	command          // after OSC; held has its content
	commandEnd       // after ESC in an OSC, most likely the start of its end
	str              // in a string that never passes: DCS, SOS, PM, APC, a title of screen
	palette          // in a colour of Linux's console, which has no terminator
)

const (
	esc         = 0x1b
	replacement = "\ufffd"
)

// Append appends the permitted part of b to to.
func (f *Filter) Append(to, b []byte) []byte {
	to = slices.Grow(to, len(b)) // most of it passes
	for i := 0; i < len(b); {
		if f.state == text {
			n := passing(b[i:])
			to = append(to, b[i:i+n]...)
			if i += n; i == len(b) {
				break
			}
		}
		to = f.next(to, b[i])
		i++
	}
	return to
}

// Lost says that bytes of the stream are missing: a started sequence will not be completed.
func (f *Filter) Lost() { f.toText() }

// passing returns the number of leading bytes that pass unchanged, each by itself.
func passing(b []byte) int {
	for i, c := range b {
		if !passes[c] {
			return i
		}
	}
	return len(b)
}

// passes are the ASCII characters that are shown, and the controls that are not sequences.
var passes = func() (all [256]bool) {
	for c := range all {
		all[c] = c >= ' ' && c <= '~' || len(single(nil, byte(c))) > 0
	}
	return all
}()

func (f *Filter) toText() { f.begin(text) }

func (f *Filter) begin(s state) { f.state, f.held, f.over, f.skip = s, f.held[:0], false, 0 }

func (f *Filter) next(to []byte, c byte) []byte {
	if f.state == character {
		if c&0xc0 == 0x80 {
			return f.character(to, c)
		}
		f.toText() // the character is cut
		to = append(to, replacement...)
	}
	switch {
	case c == esc && f.state == command:
		f.state = commandEnd
		return to
	case c == esc: // also within a sequence, which ESC aborts
		f.begin(escape)
		return to
	case c == 0x18 || c == 0x1a: // CAN, SUB
		f.toText()
		return to
	}
	switch f.state {
	case escape:
		return f.escape(to, c)
	case control:
		return f.control(to, c)
	case command:
		return f.command(to, c)
	case commandEnd:
		if c == '\\' {
			return f.commanded(to)
		}
		f.begin(escape)
		return f.escape(to, c)
	case str:
		return to
	case palette:
		if f.skip--; f.skip == 0 {
			f.toText()
		}
		return to
	}
	return f.text(to, c)
}

func (f *Filter) text(to []byte, c byte) []byte {
	switch {
	case c < ' ' || c == 0x7f:
		return single(to, c)
	case c < utf8.RuneSelf:
		return append(to, c)
	case utf8.RuneStart(c) && c >= 0xc2 && c <= 0xf4:
		f.begin(character)
		f.held = append(f.held, c)
		return to
	}
	return append(to, replacement...)
}

// single appends a control that is not a sequence.
func single(to []byte, c byte) []byte {
	switch c {
	case '\a', '\b', '\t', '\n', '\v', '\f', '\r', 0x0e, 0x0f:
		return append(to, c)
	}
	return to
}

func (f *Filter) character(to []byte, c byte) []byte {
	f.held = append(f.held, c)
	if !utf8.FullRune(f.held) {
		return to
	}
	r, n := utf8.DecodeRune(f.held)
	if r < 0xa0 || n != len(f.held) { // a C1 control, or not a character
		to = append(to, replacement...)
	} else {
		to = append(to, f.held...)
	}
	f.toText()
	return to
}

// hold keeps a byte of a sequence, up to a bound.
func (f *Filter) hold(c byte, most int) {
	if len(f.held) >= most {
		f.over = true
		return
	}
	f.held = append(f.held, c)
}

func (f *Filter) escape(to []byte, c byte) []byte {
	switch {
	case c < ' ' || c == 0x7f:
		return single(to, c)
	case c <= '/':
		f.hold(c, maxSequence)
		return to
	case len(f.held) == 0:
		switch c {
		case '[':
			f.begin(control)
			return to
		case ']':
			f.begin(command)
			return to
		case 'P', 'X', '^', '_', 'k':
			f.begin(str)
			return to
		}
	}
	if c < utf8.RuneSelf && !f.over {
		to = f.screen.escape(to, f.policy, string(f.held), c)
	}
	f.toText()
	if c >= utf8.RuneSelf { // the byte belongs to no sequence
		return f.text(to, c)
	}
	return to
}

func (f *Filter) control(to []byte, c byte) []byte {
	switch {
	case c < ' ' || c == 0x7f:
		return single(to, c)
	case c < '@':
		f.hold(c, maxSequence)
		return to
	case c < 0x7f:
		if s, ok := parse(f.held, c); ok && !f.over {
			to = f.screen.control(to, f.policy, s)
		}
		f.toText()
		return to
	}
	f.toText()
	return f.text(to, c)
}

func (f *Filter) command(to []byte, c byte) []byte {
	if len(f.held) == 0 {
		switch c {
		case 'R': // Linux's console: resets its colours, without a terminator
			f.toText()
			return to
		case 'P':
			f.begin(palette)
			f.skip = 7
			return to
		}
	}
	if c == '\a' {
		return f.commanded(to)
	}
	most := maxTitle + 2
	if f.policy.Clipboard {
		most = maxClipboard + 16
	}
	f.hold(c, most)
	return to
}

// commanded handles a complete OSC.
func (f *Filter) commanded(to []byte) []byte {
	if !f.over {
		to = f.screen.command(to, f.policy, f.held)
	}
	if cap(f.held) > maxSequence { // release the memory of a clipboard
		f.held = nil
	}
	f.toText()
	return to
}
