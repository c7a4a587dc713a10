package taskcatalog

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestCleanTakesTheTeethOutOfText(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		"plain ünïcode 漢字 🚂":        "plain ünïcode 漢字 🚂",
		"\x1b[2J\x1b]0;owned\x07":   `\x1b[2J\x1b]0;owned\x07`,
		"\u009b31m":                 `\u{9b}31m`, // the one-byte form of ESC [
		"a\nb\r\tc\x00":             `a\x0ab\x0d\x09c\x00`,
		"\x7f":                      `\x7f`,
		"\xff\xfeok\xc3":            `\xff\xfeok\xc3`,
		"evil\u202egpj.exe":         `evil\u{202e}gpj.exe`, // right to left
		"a\u2066b\u2069":            `a\u{2066}b\u{2069}`,
		"zero\u200bwidth\ufeff":     `zero\u{200b}width\u{feff}`,
		"line\u2028para\u2029":      `line\u{2028}para\u{2029}`,
		"private\ue000":             `private\u{e000}`,
		"\ufffd":                    "\ufffd",                    // a replacement character that is really there
		"<script>alert(1)</script>": "<script>alert(1)</script>", // HTML is escaped where HTML is made
		strings.Repeat("é", 200):    strings.Repeat("é", 48) + "…",
		strings.Repeat("\x1b", 100): strings.Repeat(`\x1b`, 24) + "…",
		strings.Repeat("a", 100):    strings.Repeat("a", 100),
		strings.Repeat("a", 101):    strings.Repeat("a", 97) + "…",
		strings.Repeat("a", 10<<20): strings.Repeat("a", 97) + "…",
	} {
		if got := Clean(in, 100); got != want {
			t.Errorf("%.40q: %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[2J", 20)
	f.Add("\u202e\xff…", 4)
	f.Add(strings.Repeat("漢", 40), 50)
	f.Fuzz(func(t *testing.T, in string, most int) {
		most = 3 + int(uint(most)%2000)
		out := Clean(in, most)
		if len(out) > most {
			t.Fatalf("%q has %d bytes, more than %d", out, len(out), most)
		}
		if !utf8.ValidString(out) {
			t.Fatalf("%q is not UTF-8", out)
		}
		for _, r := range out {
			if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) {
				t.Fatalf("%q holds %U", out, r)
			}
		}
		if again := Clean(out, most); again != out {
			t.Fatalf("cleaning twice changes %q to %q", out, again)
		}
	})
}
