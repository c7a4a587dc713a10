package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/taskcatalog"
)

func formatFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", "table", "`FORMAT`: table, json or yaml")
}

func checkFormat(format string) error {
	if format != "table" && format != "json" && format != "yaml" {
		return usage("-o %q is not a format: use table, json or yaml", taskcatalog.Clean(format, 20))
	}
	return nil
}

// page is output for people. All written text is cleaned, because much of it comes from a device or
// a tenant.
type page struct{ *tabwriter.Writer }

// line writes a named value; an empty value is left out.
func (p *page) line(name, value string) {
	if value != "" {
		p.row(name, value)
	}
}

func (p *page) row(cells ...string) {
	for i := range cells {
		cells[i] = taskcatalog.Clean(cells[i], taskcatalog.MaxText)
	}
	fmt.Fprintln(p, strings.Join(cells, "\t"))
}

// show writes v in the format: unchanged for programs, as a page for people.
func show(w io.Writer, v any, format string, table func(*page)) error {
	if format == "table" {
		p := &page{tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)}
		table(p)
		return p.Flush()
	}
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if format == "json" {
		_, err = fmt.Fprintf(w, "%s\n", raw)
		return err
	}
	var fields any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	if raw, err = yaml.Marshal(fields); err != nil {
		return err
	}
	_, err = w.Write(raw)
	return err
}
