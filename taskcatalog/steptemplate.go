package taskcatalog

import (
	"strings"
	"text/template"
	"text/template/parse"
)

// StepTemplateNames returns the values that the template of a step names, in their order, and its faults:
// a template may name values ({{.name}}), and do nothing else.
func StepTemplateNames(text string) (names, faults []string) {
	t, err := template.New("template").Parse(text)
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return nil, []string{"the template cannot be read: " + line}
	}
	if len(t.Templates()) > 1 {
		faults = append(faults, "the template defines another template")
	}
	if t.Tree == nil {
		return nil, append(faults, "the template is empty")
	}
	for _, n := range t.Root.Nodes {
		switch n := n.(type) {
		case *parse.TextNode, *parse.CommentNode:
			continue
		case *parse.ActionNode:
			if name := onlyField(n); name != "" {
				names = append(names, name)
				continue
			}
		}
		faults = append(faults, `"`+Clean(n.String(), 80)+`" does more than name a value ({{.name}})`)
	}
	return names, faults
}

// onlyField returns the name in {{.name}}; empty: the action is something else.
func onlyField(n *parse.ActionNode) string {
	if n.Pipe == nil || len(n.Pipe.Decl) > 0 || len(n.Pipe.Cmds) != 1 || len(n.Pipe.Cmds[0].Args) != 1 {
		return ""
	}
	f, ok := n.Pipe.Cmds[0].Args[0].(*parse.FieldNode)
	if !ok || len(f.Ident) != 1 {
		return ""
	}
	return f.Ident[0]
}
