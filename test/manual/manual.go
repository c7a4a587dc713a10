package manual

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// command is a command of a program, in the form that pages name it.
type command struct {
	path     string // hostler node create
	text     string // what it does
	usage    string
	example  string
	flagText string
	flags    map[string]bool // long and short names, and whether the flag takes a value
	hidden   bool            // may be named, but is not in the reference
	under    []command
}

// of returns a command with all its subcommands.
func of(c *cobra.Command) command {
	m := command{
		path: c.CommandPath(), text: c.Long, usage: c.UseLine(), example: c.Example, hidden: c.Hidden,
		flagText: c.LocalFlags().FlagUsages(), flags: map[string]bool{"-h": false, "--help": false},
	}
	if m.text == "" {
		m.text = c.Short
	}
	take := func(f *pflag.Flag) {
		m.flags["--"+f.Name] = f.NoOptDefVal == ""
		if f.Shorthand != "" {
			m.flags["-"+f.Shorthand] = f.NoOptDefVal == ""
		}
	}
	c.Flags().VisitAll(take)
	c.InheritedFlags().VisitAll(take)
	for _, sub := range c.Commands() {
		m.under = append(m.under, of(sub))
	}
	return m
}

func (c command) below(name string) (command, bool) {
	for _, sub := range c.under {
		if sub.path == c.path+" "+name {
			return sub, true
		}
	}
	return command{}, false
}

// pages are the texts for people, by their paths from the repository's root.
func pages(root string) (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && name != "docs" && !strings.HasPrefix(name, "docs"+string(filepath.Separator)) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".md" || name == "CHANGELOG.md" { // the changelog also names removed commands
			return nil
		}
		text, err := os.ReadFile(path)
		found[name] = string(text)
		return err
	})
	return found, err
}

var (
	span    = regexp.MustCompile("`([^`]+)`")
	aside   = regexp.MustCompile(`\s{3,}\S.*$|\s+#\s.*$`) // a line's remark beside its command
	quoted  = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	within  = regexp.MustCompile(`\$\(([^()]*)\)`)
	between = regexp.MustCompile(` \| | && | \|\| | & |; | > |\)|\x00`) // one command and the next
	wordish = regexp.MustCompile(`^[a-z][a-z-]*(\|[a-z][a-z-]*)*$`)
)

// mentions are the command lines of a program that a page names, each after the
// program's name, by line.
func mentions(page, program string) map[int][]string {
	called := regexp.MustCompile(`(?:^|[\s(|]|bin/)` + regexp.QuoteMeta(program) + `\s+(\S.*)`)
	found := map[int][]string{}
	take := func(n int, text string) {
		for _, m := range within.FindAllStringSubmatch(text, -1) {
			text += "\x00" + m[1] // command substitution: its output is an argument
		}
		text = quoted.ReplaceAllString(within.ReplaceAllString(text, "X"), "X")
		for _, part := range between.Split(text, -1) {
			at := called.FindStringSubmatchIndex(part)
			if at == nil || strings.Contains(part[:at[0]], "hostler") { // or the program is another program's argument
				continue
			}
			found[n] = append(found[n], aside.ReplaceAllString(part[at[2]:], ""))
		}
	}
	block, joined, start := false, "", 0
	flush := func(from int) { // a span may go over the end of a line
		for _, m := range span.FindAllStringSubmatch(joined, -1) {
			take(from, strings.Join(strings.Fields(m[1]), " "))
		}
		joined = ""
	}
	for i, line := range strings.Split(page, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			flush(start)
			block = !block
		case block && strings.HasSuffix(line, `\`):
			joined += strings.TrimSpace(strings.TrimSuffix(line, `\`)) + " "
		case block && joined != "":
			take(i+1, joined+strings.TrimSpace(line))
			joined = ""
		case block:
			take(i+1, line)
		default:
			if line == "" || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "- ") {
				flush(start)
			}
			if joined == "" {
				start = i + 1
			}
			joined += line + "\n"
		}
	}
	flush(start)
	return found
}

// faults returns the names in a command line that the program does not have.
func faults(root command, line string) []string {
	words := strings.Fields(line)
	if end := slices.Index(words, "--"); end >= 0 { // the rest belongs to another program
		words = words[:end]
	}
	at, i := root, 0
	for i < len(words) && len(at.under) > 0 {
		word := words[i]
		if strings.HasPrefix(word, "-") {
			name, _, whole := strings.Cut(word, "=")
			if at.flags[name] && !whole {
				i++
			}
			i++
			continue
		}
		if !wordish.MatchString(word) {
			break
		}
		names := strings.Split(word, "|")
		for _, name := range names[1:] {
			if _, ok := at.below(name); !ok {
				return []string{fmt.Sprintf("%s has no command %q", at.path, name)}
			}
		}
		sub, ok := at.below(names[0])
		if !ok {
			return []string{fmt.Sprintf("%s has no command %q", at.path, names[0])}
		}
		at = sub
		i++
	}
	var bad []string
	for _, word := range words {
		name, _, _ := strings.Cut(strings.Trim(word, "[],.:;"), "=")
		if !regexp.MustCompile(`^--?[a-z][a-z-]*$`).MatchString(name) {
			continue
		}
		if _, ok := at.flags[name]; !ok {
			bad = append(bad, fmt.Sprintf("%s has no flag %s", at.path, name))
		}
	}
	return bad
}

// Check compares the pages' mentions of a program with its commands, and requires at least the
// given number of mentions.
func Check(t *testing.T, repository string, tree *cobra.Command, least int) {
	t.Helper()
	root := of(tree)
	all, err := pages(repository)
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for page, text := range all {
		for n, lines := range mentions(text, root.path) {
			for _, line := range lines {
				named++
				for _, fault := range faults(root, line) {
					t.Errorf("%s:%d: %s", page, n, fault)
				}
			}
		}
	}
	if named < least {
		t.Errorf("the pages name %s only %d times", root.path, named)
	}
}

// reference is the page of a program's commands.
func reference(root command, how string) string {
	var page strings.Builder
	fmt.Fprintf(&page, "# %s: commands\n\n", root.path)
	fmt.Fprintf(&page, "This page is made from the program itself by `%s`; a test holds it.\n", how)
	var write func(c command)
	write = func(c command) {
		fmt.Fprintf(&page, "\n## %s\n\n```\n%s\n```\n", c.path, strings.TrimSpace(c.text))
		fmt.Fprintf(&page, "\n```\n%s\n```\n", strings.TrimSpace(c.usage))
		if c.example != "" {
			fmt.Fprintf(&page, "\n```\n%s\n```\n", strings.Trim(c.example, "\n"))
		}
		if c.flagText != "" {
			fmt.Fprintf(&page, "\n```\n%s\n```\n", strings.Trim(c.flagText, "\n"))
		}
		for _, sub := range c.under {
			if !sub.hidden {
				write(sub)
			}
		}
	}
	write(root)
	return page.String()
}

// HoldReference holds a page of commands against the program, or writes the page anew.
func HoldReference(t *testing.T, page string, tree *cobra.Command, update bool, how string) {
	t.Helper()
	Hold(t, page, reference(of(tree), how), update, how)
}

// Hold compares a page with the text that the code generates, or writes the page anew. how is the
// command that writes it.
func Hold(t *testing.T, page, want string, update bool, how string) {
	t.Helper()
	if update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s differs from what the code generates (run %s, and read the diff)", page, how)
	}
}
