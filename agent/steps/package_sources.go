package steps

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// Where apt's sources are, and how much of them is read.
const (
	sourceFile     = "/etc/apt/sources.list"
	sourceDir      = "/etc/apt/sources.list.d"
	maxSourceFiles = 1000
	maxSourceBytes = 1 << 20
)

// sourceTrust are the options of a source that let apt take packages that nobody has signed. They win
// over apt's arguments.
var sourceTrust = []string{"trusted", "allow-insecure", "allow-weak", "allow-downgrade-to-insecure"}

// signedSources refuses sources that need no signature.
func signedSources(m *machine.Machine) error {
	names, err := m.Names(sourceDir)
	if err != nil {
		return fmt.Errorf("cannot list %s: %w", sourceDir, err)
	}
	if len(names) > maxSourceFiles {
		return taskcatalog.Errorf(CodePackageUntrusted, "%s has more than %d files", sourceDir, maxSourceFiles)
	}
	slices.Sort(names)
	files := []string{sourceFile}
	for _, name := range names {
		if ext := path.Ext(name); ext == ".list" || ext == ".sources" { // apt reads no others
			files = append(files, path.Join(sourceDir, name))
		}
	}
	for _, file := range files {
		raw, err := m.ReadFile(file, maxSourceBytes)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, machine.ErrNotRegular) { // nor does it read these
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", file, err)
		}
		judge := unsignedLine
		if path.Ext(file) == ".sources" {
			judge = unsignedStanza
		}
		if option := judge(string(raw)); option != "" {
			return taskcatalog.Errorf(CodePackageUntrusted,
				"%s has a source with the option %q, so apt would take packages that nobody has signed (remove the option, and sign the source)",
				file, taskcatalog.Clean(option, 80))
		}
	}
	return nil
}

// unsignedLine returns the first such option in a file with a source on each line; empty: there is none.
// A word counts wherever it stands behind a '[', because apt's rules for brackets are its own.
func unsignedLine(text string) string {
	for line := range strings.Lines(text) {
		_, options, _ := strings.Cut(withoutComment(line), "[")
		for _, word := range strings.Fields(strings.NewReplacer("[", " ", "]", " ", `"`, "").Replace(options)) {
			if decoded, err := url.PathUnescape(word); err == nil { // apt decodes %74 as well
				word = decoded
			}
			name, value, _ := strings.Cut(word, "=")
			if weakens(strings.TrimRight(name, "+-"), value) {
				return word
			}
		}
	}
	return ""
}

// withoutComment cuts a line at its first '#' that is not between brackets.
func withoutComment(line string) string {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '#':
			return line[:i]
		case '[':
			i += max(0, strings.IndexByte(line[i:], ']'))
		}
	}
	return line
}

// unsignedStanza returns the first such field in a file with a source in each paragraph; empty: there is
// none.
func unsignedStanza(text string) string {
	found, off, name, value := "", false, "", ""
	field := func() {
		if found == "" && weakens(name, value) {
			found = name + ": " + strings.TrimSpace(value)
		}
		off = off || strings.EqualFold(name, "Enabled") && isNo(value)
		name, value = "", ""
	}
	for line := range strings.Lines(text + "\n\n") {
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			if field(); found != "" && !off {
				return found
			}
			found, off = "", false
		case line[0] == ' ' || line[0] == '\t':
			value += " " + line
		default:
			field()
			name, value, _ = strings.Cut(line, ":")
			name = strings.TrimSpace(name)
		}
	}
	return ""
}

// weakens reports whether an option permits a source without a signature. A value that is not known is
// not taken for no.
func weakens(name, value string) bool {
	return slices.Contains(sourceTrust, strings.ToLower(name)) && !isNo(value)
}

// isNo reports whether apt takes a value for no.
func isNo(value string) bool {
	return slices.Contains([]string{"no", "false", "without", "off", "disable", "0"}, strings.ToLower(strings.TrimSpace(value)))
}
