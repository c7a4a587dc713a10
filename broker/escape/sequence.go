package escape

import (
	"slices"
	"strconv"
)

// sequence is a control sequence: CSI, a private marker, parameters, intermediates, and the final
// byte.
type sequence struct {
	private byte // < = > ? or 0
	params  []byte
	between string
	final   byte
}

// parse reads the bytes between CSI and the final byte.
func parse(held []byte, final byte) (sequence, bool) {
	s := sequence{final: final}
	if len(held) > 0 && held[0] >= '<' && held[0] <= '?' {
		s.private, held = held[0], held[1:]
	}
	n := 0
	for n < len(held) && held[n] >= '0' && held[n] <= ';' {
		n++
	}
	s.params, s.between = held[:n], string(held[n:])
	for _, c := range []byte(s.between) {
		if c > '/' {
			return s, false
		}
	}
	digits := 0
	for _, c := range s.params {
		if digits++; c > '9' {
			digits = 0
		}
		if digits > 5 { // no such number occurs on a screen
			return s, false
		}
	}
	return s, true
}

// numbers returns the parameters; a missing parameter is 0. false: a parameter has subparameters.
func (s sequence) numbers() ([]int, bool) {
	all := []int{0}
	for _, c := range s.params {
		switch {
		case c == ':':
			return nil, false
		case c == ';':
			all = append(all, 0)
		default:
			all[len(all)-1] = all[len(all)-1]*10 + int(c-'0')
		}
	}
	return all, true
}

// one returns the only parameter, or -1 if there are more.
func (s sequence) one() int {
	if n, ok := s.numbers(); ok && len(n) == 1 {
		return n[0]
	}
	return -1
}

func (s sequence) appendTo(to []byte) []byte {
	to = append(to, esc, '[')
	if s.private != 0 {
		to = append(to, s.private)
	}
	return append(append(append(to, s.params...), s.between...), s.final)
}

// of returns the sequence with other parameters.
func (s sequence) of(numbers []int) sequence {
	s.params = nil
	for i, n := range numbers {
		if i > 0 {
			s.params = append(s.params, ';')
		}
		s.params = strconv.AppendInt(s.params, int64(n), 10)
	}
	return s
}

func among(c byte, all string) bool { return slices.Contains([]byte(all), c) }
