package main

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/taskcatalog"
)

// bindingFlags add the operations that run by themselves on allocations to a document.
func bindingFlags(a *app, f *fields) {
	bindingFlag(a, f, "on-begin", "on_begin", "`OPERATION` that runs before an allocation becomes active, with its version; empty: none")
	bindingFlag(a, f, "on-end", "on_end", "`OPERATION` that runs first when an allocation is released, with its version; empty: none")
}

func bindingFlag(a *app, f *fields, flag, field, help string) {
	operation := f.c.Flags().String(flag, "", help)
	inputs := f.c.Flags().String(flag+"-inputs", "", "`FILE` with the inputs of --"+flag+" as one JSON object (-: stdin)")
	f.on(flag+"-inputs", func(client.Document) error {
		if *operation == "" {
			return usage("--%s-inputs needs --%s", flag, flag)
		}
		return nil
	})
	f.on(flag, func(d client.Document) error {
		b := client.Document{"operation": *operation}
		if *inputs != "" {
			params, err := a.readParams(*inputs)
			if err != nil {
				return err
			}
			b["inputs"] = params
		}
		d[field] = b
		return nil
	})
}

func projectBindCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "bind PROJECT", Short: "say which operations run when an allocation begins and ends", Args: exactly("PROJECT"),
		Long: `Say which operations run by themselves on the allocations of a project. --on-begin runs
before an allocation becomes active; if it does not end well, the allocation fails.
--on-end runs first when an allocation is released; if it fails, the release goes on.
What the SKU names runs instead of what the project names. A flag that is not given
changes nothing, and "" binds none.`,
		Example: "  hostler project bind acme/lab --on-begin model.artifact.stage@v1 --on-begin-inputs model.json\n" +
			"  hostler project bind acme/lab --on-end=",
	}
	f := fieldsOf(c)
	bindingFlags(a, f)
	f.reason()
	c.RunE = func(c *cobra.Command, args []string) error {
		d, err := f.change()
		if err != nil {
			return err
		}
		raw, err := json.Marshal(d)
		if err != nil {
			return err
		}
		var b api.ProjectBindings
		if err := taskcatalog.DecodeStrict(raw, &b); err != nil {
			return err
		}
		remote, err := a.connect()
		if err != nil {
			return err
		}
		p, err := remote.BindProject(c.Context(), args[0], b)
		if err != nil {
			return err
		}
		return a.showProject(p)
	}
	return c
}

// noteJudgedLater says which conditions a binding leaves open.
func (a *app) noteJudgedLater(later []string) {
	if len(later) > 0 {
		a.note("judged when an allocation begins or ends, and not now: %s", strings.Join(later, "; "))
	}
}

// boundText is a bound operation in a page.
func boundText(b *api.BoundOperation, none string) string {
	switch {
	case b == nil:
		return none
	case len(b.Inputs) == 0:
		return b.Operation
	}
	return b.Operation + " with " + string(b.Inputs)
}
