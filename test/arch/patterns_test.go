package arch

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"testing"
)

// texts are the texts of constants, by package and name, from all that ships.
type texts map[string]string

// of returns the text of an expression in a package; false if it has parts that are no literals and no constants.
func (c texts) of(pkg string, e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, sound := c.of(pkg, e.X)
		right, other := c.of(pkg, e.Y)
		return left + right, sound && other
	case *ast.Ident:
		text, known := c[pkg+"."+e.Name]
		return text, known
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			text, known := c[x.Name+"."+e.Sel.Name]
			return text, known
		}
	}
	return "", false
}

// A pattern that is not sound would panic at its first use, on some node, and not at the start of the program.
// Patterns of a package's own are compiled at their first use: compiled at the start, they were half of the time
// that a helper of the agent took.
func TestPatternsAreSoundAndCompiledAtTheirFirstUse(t *testing.T) {
	parts := []string{"agent", "broker", "taskcatalog", "resolver-profiles", "pki"}
	known := texts{}
	for range 2 { // constants of constants come with the second look
		shipped(t, func(_ string, file *ast.File) {
			ast.Inspect(file, func(n ast.Node) bool {
				g, ok := n.(*ast.GenDecl)
				if !ok || g.Tok != token.CONST {
					return true
				}
				for _, s := range g.Specs {
					spec := s.(*ast.ValueSpec)
					for i := range spec.Values {
						if text, ok := known.of(file.Name.Name, spec.Values[i]); ok {
							known[file.Name.Name+"."+spec.Names[i].Name] = text
						}
					}
				}
				return true
			})
		}, parts...)
	}
	patterns, unread := 0, 0
	shipped(t, func(name string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 || !calls(call, "lazyregexp", "New") {
				return true
			}
			text, ok := known.of(file.Name.Name, call.Args[0])
			if _, err := regexp.Compile(text); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if patterns++; !ok {
				unread++
			}
			return true
		})
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				ast.Inspect(g, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok && calls(call, "regexp", "MustCompile") {
						t.Errorf("%s compiles a pattern at the start of its programs: use lazyregexp.New", name)
					}
					_, within := n.(*ast.FuncLit)
					return !within
				})
			}
		}
	}, parts...)
	// Two are made from a function's argument: the faults of a scrub, and the name of a unit.
	if patterns < 150 || unread > 2 {
		t.Errorf("%d patterns were looked at, and of %d the text is not known", patterns, unread)
	}
}

// calls tells whether a call is of a package's function.
func calls(call *ast.CallExpr, pkg, name string) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}
