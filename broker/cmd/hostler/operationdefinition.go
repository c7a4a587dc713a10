package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/broker/operation/definition"
	profiles "github.com/hostler/hostler/resolver-profiles"
)

func operationDefinitionCommand(a *app) *cobra.Command {
	return noun("operation-definition", "definitions of operations: what may be done to a node, as data",
		"  hostler operation-definition list",
		operationDefinitionValidateCommand(a), operationDefinitionPushCommand(a), operationDefinitionActivateCommand(a),
		operationDefinitionListCommand(a), operationDefinitionShowCommand(a), operationDefinitionDeprecateCommand(a),
		operationDefinitionRetireCommand(a))
}

func operationDefinitionValidateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "validate DIR|FILE …", Short: "check definitions without a broker, with file and line", Args: exactly("DIR|FILE …"),
		Long: `Check definitions of operations, one in each file. Every fault is printed, with file,
line and code. docs/reference/operations.md has the format, the kinds of steps and
the codes.`,
		Example: "  hostler operation-definition validate model.artifact.stage@v1.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := a.readDefinitions(args)
			if err != nil {
				return err
			}
			type valid struct {
				ID     string `json:"id"`
				Digest string `json:"digest"`
				Steps  int    `json:"steps"`
			}
			out := struct {
				Items []valid `json:"items"`
			}{}
			ids, rows := []string{}, [][]string{}
			for _, d := range all {
				out.Items = append(out.Items, valid{d.ID(), d.Digest(), len(d.Steps)})
				ids = append(ids, d.ID())
				rows = append(rows, []string{d.ID(), fmt.Sprint(len(d.Steps)), d.Digest()})
			}
			return a.show(out, ids, func(p *render.Page) {
				p.Table([]render.Column{render.Keep("DEFINITION"), render.Main("STEPS"), render.Keep("DIGEST")}, rows)
			})
		},
	}
}

// definitionFile is a definition with the file that has it.
type definitionFile struct {
	*definition.Definition
	file profiles.File
}

// readDefinitions reads and checks definitions; every problem goes to stderr.
func (a *app) readDefinitions(names []string) (all []definitionFile, err error) {
	files, err := profiles.ReadEach(names...)
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, "operation_definition_unreadable", "%v", err)
	}
	faults, of := 0, map[string]string{}
	for _, f := range files {
		d, problems := definition.Parse(f)
		if d != nil {
			if first, twice := of[d.ID()]; twice {
				problems = append(problems, profiles.Problem{
					File: f.Name, Line: 1, Code: profiles.CodeDuplicate,
					Message: fmt.Sprintf("%s is in %s, too", d.ID(), first),
				})
			}
			of[d.ID()] = f.Name
			all = append(all, definitionFile{d, f})
		}
		for _, p := range problems {
			_, _ = fmt.Fprintln(a.err, render.Cell(p.String()))
		}
		faults += len(problems)
	}
	if faults > 0 {
		return nil, broker.Errorf(broker.Invalid, "operation_definition_invalid", "cannot use these definitions: %s (see above)", plural(faults, "problem"))
	}
	return all, nil
}
