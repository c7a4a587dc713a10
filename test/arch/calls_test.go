package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// shipped calls f with each Go file below the folders that becomes part of a program.
func shipped(t *testing.T, f func(name string, file *ast.File), folders ...string) {
	t.Helper()
	files := 0
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join("../..", folder), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || strings.HasSuffix(d.Name(), "test")):
				return filepath.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err == nil {
				files++
				f(path, file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 50 {
		t.Fatalf("only %d files were read", files)
	}
}

// A task's params are data: the agent and the broker name no program that could execute params as
// code.
func TestNoShellIsStarted(t *testing.T) {
	shells := map[string]bool{
		"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "busybox": true, "perl": true, "python3": true,
		"/bin/sh": true, "/bin/bash": true, "/usr/bin/sh": true, "/usr/bin/bash": true, "/usr/bin/env": true, "-c": true,
	}
	// These files use a shell's name as data: the completions that exist, and the login shells of
	// the accounts of tenants and of the site's staff.
	data := map[string]bool{
		"../../broker/cmd/hostler/completion.go": true, "../../agent/users/provision.go": true,
		"../../broker/cloudinit/deployuser.go": true,
	}
	shipped(t, func(name string, file *ast.File) {
		if data[name] {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if ok && lit.Kind == token.STRING && len(lit.Value) > 2 && shells[lit.Value[1:len(lit.Value)-1]] {
				t.Errorf("%s names %s", name, lit.Value)
			}
			return true
		})
	}, "agent", "broker")
}

// Nodes listen on nothing: every connection is the agent's own. A session's
// process gets its orders over a Unix socket in a folder that only root can access.
func TestTheAgentListensOnNothing(t *testing.T) {
	listening := map[string]bool{
		"Listen": true, "ListenTCP": true, "ListenUDP": true, "ListenUnix": true, "ListenUnixgram": true, "ListenIP": true, "ListenPacket": true,
		"ListenConfig": true, "ListenMulticastUDP": true, "ListenAndServe": true, "ListenAndServeTLS": true, "Serve": true, "ServeTLS": true,
	}
	handedOver := 0
	shipped(t, func(name string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			switch {
			case !ok || !listening[sel.Sel.Name]:
			case name == "../../agent/terminal/handover/socket.go" && sel.Sel.Name == "ListenUnix":
				handedOver++
			default:
				t.Errorf("%s calls %s", name, sel.Sel.Name)
			}
			return true
		})
	}, "agent")
	if handedOver != 1 {
		t.Errorf("%d sockets are opened to be handed something over", handedOver)
	}
}

// A node learns of vendors only by a signed task: the agent's own code names no vendor.
func TestTheAgentCarriesNoVendorsProfiles(t *testing.T) {
	shipped(t, func(name string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Shipped" {
				t.Errorf("%s uses the profiles that ship", name)
			}
			return true
		})
	}, "agent")
}
