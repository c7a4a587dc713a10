package client_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api/client"
)

// A file holds the methods of one noun. An example calls at least one of them.
func TestEveryNounHasAnExample(t *testing.T) {
	called := map[string]bool{}
	examples, err := filepath.Glob("example_*test.go")
	if err != nil || len(examples) < 10 {
		t.Fatalf("%d files of examples, %v", len(examples), err)
	}
	for _, name := range examples {
		ast.Inspect(parsed(t, name), func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				called[s.Sel.Name] = true
			}
			return true
		})
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		methods, shown := 0, false
		for _, d := range parsed(t, name).Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.IsExported() {
				methods++
				shown = shown || called[f.Name.Name]
			}
		}
		if methods > 0 && !shown && name != "client.go" {
			t.Errorf("no example calls a method of %s", name)
		}
	}
}

func parsed(t *testing.T, name string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The page for programs names methods that exist.
func TestThePageForProgramsNamesMethods(t *testing.T) {
	page, err := os.ReadFile("../../../docs/how-to/integrate.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\bc\.([A-Z]\w+)`).FindAllSubmatch(page, -1)
	if len(named) < 8 {
		t.Errorf("it names only %d", len(named))
	}
	for _, m := range named {
		if _, ok := reflect.TypeFor[*client.Client]().MethodByName(string(m[1])); !ok {
			t.Errorf("the client has no method %s", m[1])
		}
	}
}
