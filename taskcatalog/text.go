package taskcatalog

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes text from outside fit to store and to show: valid UTF-8 of at most max bytes, with
// every control, format and line-separating character replaced by its escape (\x1b, \u{202e}).
// Shortened text ends in "…".
func Clean(s string, max int) string {
	var b strings.Builder
	room := 0 // how much of b leaves room for "…"
	for i, r := range s {
		piece := string(r)
		switch {
		case r == utf8.RuneError && !validAt(s, i):
			piece = `\x` + hex2(s[i])
		case r < 0x80 && unicode.IsControl(r):
			piece = `\x` + hex2(byte(r))
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co):
			piece = `\u{` + strconv.FormatInt(int64(r), 16) + `}`
		}
		if b.Len()+len(piece) > max {
			return b.String()[:room] + "…"
		}
		b.WriteString(piece)
		if b.Len() <= max-len("…") {
			room = b.Len()
		}
	}
	return b.String()
}

func validAt(s string, i int) bool {
	_, size := utf8.DecodeRuneInString(s[i:])
	return size > 1
}

func hex2(b byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[b>>4], digits[b&15]})
}
