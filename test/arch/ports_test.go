package arch

import (
	"go/ast"
	"path/filepath"
	"slices"
	"testing"
)

// maxMethods is how many methods an interface of a feature may declare itself.
const maxMethods = 6

// A port of a feature is made of small interfaces, each beside the stages that call it, and has no
// method that no stage calls.
func TestPortsAreSmallAndUsed(t *testing.T) {
	ports := append(slices.Clone(features), "broker/reconcile")
	declared, called := map[string][]string{}, map[string]bool{} // by folder, and by folder and method
	shipped(t, func(name string, file *ast.File) {
		folder := filepath.Dir(name)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				called[folder+" "+n.Sel.Name] = true
			case *ast.TypeSpec:
				port, is := n.Type.(*ast.InterfaceType)
				if !is {
					break
				}
				own := 0
				for _, m := range port.Methods.List {
					for _, method := range m.Names {
						own++
						declared[folder] = append(declared[folder], method.Name)
					}
				}
				if own > maxMethods {
					t.Errorf("%s: %s declares %d methods (split it by the files that call them)", name, n.Name, own)
				}
			}
			return true
		})
	}, ports...)
	if len(declared) == 0 {
		t.Fatal("no port was found")
	}
	for folder, methods := range declared {
		for _, m := range methods {
			if !called[folder+" "+m] {
				t.Errorf("%s: no stage calls %s of a port", folder, m)
			}
		}
	}
}
