// Language reports how the Go comments of this repository read: how many of
// their words are pronouns, per folder. It reports and does not gate.
//
//	go run ./.ci/language              a line for each folder, the worst first
//	go run ./.ci/language -lines DIR   the comment lines of DIR with two pronouns or more
package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// pronouns are the words that make a reader look for the noun.
var pronouns = map[string]bool{
	"it": true, "its": true, "that": true, "which": true, "what": true,
	"who": true, "whose": true, "one": true, "those": true,
}

var word = regexp.MustCompile(`[A-Za-z][A-Za-z'-]*`)

type count struct {
	folder          string
	words, pronouns int
}

func (c count) rate() float64 { return 100 * float64(c.pronouns) / float64(max(c.words, 1)) }

func main() {
	lines := flag.String("lines", "", "a folder: print its comment lines with two pronouns or more")
	flag.Parse()
	if err := report(*lines); err != nil {
		fmt.Fprintln(os.Stderr, "language:", err)
		os.Exit(1)
	}
}

func report(lines string) error {
	root := cmp.Or(lines, ".")
	folders := map[string]count{}
	all := count{folder: "all"}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder := filepath.Dir(path)
		c := folders[folder]
		c.folder = folder
		eachLine(set, file, func(number int, text string) {
			words, found := rate(text)
			c.words, c.pronouns = c.words+words, c.pronouns+found
			if lines != "" && found >= 2 {
				fmt.Printf("%s:%d: %s\n", path, number, text)
			}
		})
		folders[folder] = c
		return nil
	})
	if err != nil || lines != "" {
		return err
	}
	var rows []count
	for _, c := range folders {
		rows = append(rows, c)
		all.words, all.pronouns = all.words+c.words, all.pronouns+c.pronouns
	}
	slices.SortFunc(rows, func(a, b count) int { return cmp.Or(cmp.Compare(b.rate(), a.rate()), cmp.Compare(a.folder, b.folder)) })
	fmt.Println("pronouns in 100 words of comments, and words of comments")
	for _, c := range append(rows, all) {
		fmt.Printf("%5.1f %7d  %s\n", c.rate(), c.words, c.folder)
	}
	return nil
}

// eachLine calls f for each line of each comment, but for directives.
func eachLine(set *token.FileSet, file *ast.File, f func(number int, text string)) {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if strings.HasPrefix(comment.Text, "//go:") || strings.HasPrefix(comment.Text, "//nolint") {
				continue
			}
			first := set.Position(comment.Pos()).Line
			for i, text := range strings.Split(comment.Text, "\n") {
				f(first+i, strings.TrimSpace(strings.Trim(text, "/* \t")))
			}
		}
	}
}

func rate(text string) (words, found int) {
	for _, w := range word.FindAllString(text, -1) {
		words++
		if pronouns[strings.ToLower(w)] {
			found++
		}
	}
	return words, found
}
