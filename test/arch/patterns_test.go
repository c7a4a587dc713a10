package arch

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"testing"
)

// texts are the texts of constants, by name, from all that ships.
type texts map[string]string

// of returns the text of an expression of literals and constants; false if it has other parts.
func (c texts) of(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, sound := c.of(e.X)
		right, other := c.of(e.Y)
		return left + right, sound && other
	case *ast.Ident:
		text, known := c[e.Name]
		return text, known
	case *ast.SelectorExpr:
		text, known := c[e.Sel.Name]
		return text, known
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
				if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
					for i, name := range spec.Names {
						if text, ok := known.of(spec.Values[i]); ok {
							known[name.Name] = text
						}
					}
				}
				return true
			})
		}, parts...)
	}
	sound, unread := 0, 0
	shipped(t, func(name string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 || !calls(call, "lazyregexp", "New") {
				return true
			}
			text, ok := known.of(call.Args[0])
			if _, err := regexp.Compile(text); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if sound++; !ok {
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
	if sound < 150 || unread > 2 {
		t.Errorf("%d patterns were looked at, and of %d the text is not known", sound, unread)
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
