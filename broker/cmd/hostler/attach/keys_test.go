package attach

import (
	"strings"
	"testing"
)

func TestEscapesAreFoundAtTheBeginningOfALineOnly(t *testing.T) {
	for name, c := range map[string]struct {
		typed, input, escapes, rest string
	}{
		"text":                   {"ls\r", "ls\r", "", ""},
		"end at the beginning":   {"~.x", "", ".", "x"},
		"end after a line":       {"ls\r~.", "ls\r", ".", ""},
		"after a line feed":      {"ls\n~d", "ls\n", "d", ""},
		"in the middle":          {"a~.\r", "a~.\r", "", ""},
		"after a space":          {" ~.", " ~.", "", ""},
		"a tilde":                {"~~.\r", "~.\r", "", ""},
		"a home":                 {"~/x\r", "~/x\r", "", ""},
		"a tilde and a line":     {"~\r~.", "~\r", ".", ""},
		"help, then end":         {"~?~.", "", "?.", ""},
		"help, then a line":      {"\r~?ls\r", "\rls\r", "?", ""},
		"three tildes":           {"~~~.", "~~.", "", ""},
		"an interrupt is a byte": {"~\x03~.", "~\x03~.", "", ""},
	} {
		for cut := range len(c.typed) + 1 {
			k := keys{first: true}
			var input, escapes, rest string
			for _, part := range []string{c.typed[:cut], c.typed[cut:]} {
				for b := []byte(part); len(b) > 0 && !strings.ContainsAny(escapes, ".d"); {
					in, escape, after := k.take(b)
					input += string(in)
					if b = after; escape != 0 {
						escapes += string(escape)
						if escape == '.' || escape == 'd' {
							rest, b = string(after), nil
						}
					}
				}
			}
			if input != c.input || escapes != c.escapes || rest != c.rest && cut == 0 {
				t.Errorf("%s, cut at %d: %q, %q, %q", name, cut, input, escapes, rest)
			}
		}
	}
}
