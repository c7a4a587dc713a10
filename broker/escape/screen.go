package escape

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	"github.com/hostler/hostler/taskcatalog"
)

// mode is a mode that a sequence sets or resets.
type mode struct {
	private bool
	number  int
}

// screen decides which sequences pass, and records the changes to the terminal.
type screen struct {
	set    map[mode]bool // modes that differ from a fresh terminal
	margin bool          // of scrolling
	shape  bool          // of the cursor
	keypad bool
	titled bool
	tabs   bool // stops
	// character sets, G0 to G3, that were not ASCII at some time: a saved cursor keeps them, also
	// over a reset, and restores them.
	sets [4]bool
}

// tabStops is the number of tab stops that are restored: a terminal is hardly ever wider.
const tabStops = 63

// mostRepeats bounds the repeats of a character: a line of the widest terminal.
const mostRepeats = 4096

var origin = mode{true, 6}

// savesCursor is a mode without state.
const savesCursor = 1048

func (s *screen) escape(to []byte, p Policy, between string, final byte) []byte {
	whole := append(append([]byte{esc}, between...), final)
	switch {
	case between == "" && among(final, "78DEHM"):
		s.tabs = s.tabs || final == 'H'
		return append(to, whole...)
	case between == "" && among(final, "=>"):
		if !p.Answers {
			return to
		}
		s.keypad = final == '='
		return append(to, whole...)
	case between == "" && final == 'c':
		return append(append(to, s.restore()...), "\x1b[!p\x1b[H\x1b[2J"...)
	case len(between) == 1 && among(between[0], "()*+") && among(final, "0AB"):
		g := between[0] - '('
		s.sets[g] = s.sets[g] || final != 'B'
		return append(to, whole...)
	case between == "#" && among(final, "34568"):
		return append(to, whole...)
	}
	return to
}

func (s *screen) control(to []byte, p Policy, q sequence) []byte {
	if s.passes(p, q) {
		return q.appendTo(to)
	}
	if among(q.final, "hl") && q.between == "" && (q.private == 0 || q.private == '?') {
		return s.switched(to, p, q)
	}
	return to
}

// passes decides about all sequences except modes; one sequence may have several modes.
func (s *screen) passes(p Policy, q sequence) bool {
	switch {
	case q.private == 0 && q.between == "":
		return s.usual(p, q)
	case q.private == 0 && q.between == " " && q.final == 'q':
		s.shape = q.one() >= 0 && q.one() <= 6
		return s.shape
	case q.private == 0 && q.between == "!" && q.final == 'p': // soft reset
		return len(q.params) == 0
	case q.private == '?' && q.between == "" && among(q.final, "JK"): // erases unprotected text
		return q.one() >= 0 && q.one() <= 2
	case q.private == '?' && q.between == "" && q.final == 'n': // asks the cursor's position
		return p.Answers && q.one() == 6
	case q.private == '>' && q.between == "" && q.final == 'c': // asks the kind of terminal
		return p.Answers && q.one() == 0
	}
	return false
}

func (s *screen) usual(p Policy, q sequence) bool {
	switch q.final {
	case 'b':
		return q.one() >= 0 && q.one() <= mostRepeats
	case 'J': // without the scrollback
		return q.one() >= 0 && q.one() <= 2
	case 'T': // with more numbers it tracks a mouse, and hangs until an answer
		return q.one() >= 0
	case 'c': // asks the kind of terminal
		return p.Answers && q.one() == 0
	case 'n': // asks the status and the cursor's position
		return p.Answers && (q.one() == 5 || q.one() == 6)
	case 'r', 's': // without a number, s saves the cursor
		s.margin = s.margin || q.final == 'r' || len(q.params) > 0
		return true
	case 'u':
		return len(q.params) == 0
	case 'g':
		s.tabs = true
	}
	return among(q.final, "@ABCDEFGHIKLMPSXZ`adefgm")
}

// switched appends the permitted modes of a sequence.
func (s *screen) switched(to []byte, p Policy, q sequence) []byte {
	numbers, ok := q.numbers()
	if !ok {
		return to
	}
	on := q.final == 'h'
	numbers = slices.DeleteFunc(numbers, func(n int) bool {
		known, input := plain[n], false
		usually := false
		if q.private != 0 {
			m, there := modes[n]
			known, usually, input = there, m.set, m.input
		}
		if !known || input && !p.Answers {
			return true
		}
		switch at := (mode{q.private != 0, n}); {
		case on == usually:
			delete(s.set, at)
		case n != savesCursor:
			s.set[at] = on
		}
		return false
	})
	if len(numbers) == 0 {
		return to
	}
	return q.of(numbers).appendTo(to)
}

// command handles an OSC.
func (s *screen) command(to []byte, p Policy, held []byte) []byte {
	number, rest, ok := bytes.Cut(held, []byte{';'})
	switch string(number) {
	case "0", "1", "2":
		if !ok || !p.Title || len(rest) > maxTitle {
			return to
		}
		if !s.titled { // so that Restore can restore the old title
			s.titled = true
			to = append(to, "\x1b[22;0t"...)
		}
		return fmt.Appendf(to, "\x1b]%s;%s\x1b\\", number, taskcatalog.Clean(string(rest), maxTitle))
	case "52":
		where, what, ok := bytes.Cut(rest, []byte{';'})
		if !ok || !p.Clipboard || len(where) > 16 || len(what) == 0 || bytes.Trim(where, "cpqs01234567") != nil {
			return to
		}
		plain, err := base64.StdEncoding.Strict().DecodeString(string(what))
		if err != nil {
			return to
		}
		return fmt.Appendf(to, "\x1b]52;%s;%s\x1b\\", where, base64.StdEncoding.EncodeToString(plain))
	}
	return to
}

// Restore appends sequences that repair the terminal, whatever state the stream left: the earlier
// screen, a visible cursor, the usual letters and tab stops, and the usual keys, mouse and paste.
// The stream has ended; the next stream starts anew.
func (f *Filter) Restore(to []byte) []byte {
	f.toText()
	tabs := f.screen.tabs
	f.screen.tabs = false
	to = append(to, f.screen.restore()...)
	f.screen.sets = [4]bool{}
	if tabs { // first by hand, then, on terminals that know the sequence, at their own width
		to = append(to, "\x1b7\x1b[3g\r"...)
		for range tabStops {
			to = append(to, "\x1b[8C\x1bH"...)
		}
		to = append(to, "\x1b[?5W\x1b8"...)
	}
	return to
}

// restore resets everything except the tab stops, which are too long to write at each reset.
// restore keeps the records of tab stops and character sets.
func (s *screen) restore() []byte {
	var to []byte
	if s.set[origin] { // resetting origin moves the cursor: place it out of the way
		to = append(to, "\x1b[?6l\x1b[r\x1b[9999;1H"...)
		delete(s.set, origin)
	}
	for _, m := range slices.SortedFunc(maps.Keys(s.set), func(a, b mode) int { return b.number - a.number }) {
		private, final := "", "h"
		if m.private {
			private = "?"
		}
		if s.set[m] {
			final = "l"
		}
		to = fmt.Appendf(to, "\x1b[%s%d%s", private, m.number, final)
	}
	if s.margin {
		to = append(to, "\x1b7\x1b[r\x1b8"...)
	}
	if s.keypad {
		to = append(to, "\x1b>"...)
	}
	if s.shape {
		to = append(to, "\x1b[0 q"...)
	}
	if s.titled {
		to = append(to, "\x1b[23;0t"...)
	}
	for g := 1; g < len(s.sets); g++ {
		if s.sets[g] {
			to = append(to, esc, "()*+"[g], 'B')
		}
	}
	*s = screen{set: map[mode]bool{}, tabs: s.tabs, sets: s.sets}
	return append(to, "\x1b[0m\x1b(B\x0f"...)
}
