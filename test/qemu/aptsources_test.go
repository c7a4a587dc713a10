package qemu

import (
	"slices"
	"testing"
)

func TestOnlyDebiansOwnSourcesOfTheSuiteAreUsed(t *testing.T) {
	for name, c := range map[string]struct {
		parse func(string) []string
		text  string
		want  []string
	}{
		"one line": {parseOneLine, "deb http://m/debian bookworm main contrib # why\n", []string{"deb http://m/debian bookworm main contrib"}},
		"one line, options": {
			parseOneLine, "deb [arch=amd64 signed-by=/k] http://m/debian bookworm-updates main\n",
			[]string{"deb [arch=amd64 signed-by=/k] http://m/debian bookworm-updates main"},
		},
		"sources only":  {parseOneLine, "deb-src http://m/debian bookworm main\n", nil},
		"commented out": {parseOneLine, "# deb http://m/debian bookworm main\n", nil},
		"other suite":   {parseOneLine, "deb http://m/debian trixie main\ndeb http://x cloud-sdk-bookworm main\n", nil},
		"no main":       {parseOneLine, "deb http://m/debian bookworm contrib\n", nil},
		"stanzas": {
			parseDeb822,
			"Types: deb deb-src\n# note\nURIs: http://m/debian\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By: /k\n\n" +
				"Types: deb\nURIs: http://s/debian-security\nSuites: bookworm-security\nComponents: main\n",
			[]string{
				"deb [signed-by=/k] http://m/debian bookworm main", "deb [signed-by=/k] http://m/debian bookworm-updates main",
				"deb http://s/debian-security bookworm-security main",
			},
		},
		"stanza switched off": {parseDeb822, "Enabled: no\nTypes: deb\nURIs: http://m\nSuites: bookworm\nComponents: main\n", nil},
		"somebody else's":     {parseDeb822, "Types: deb\nURIs: http://n\nSuites: nodistro\nComponents: main\n", nil},
	} {
		if got := c.parse(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
