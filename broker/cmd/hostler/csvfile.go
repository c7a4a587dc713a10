package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
)

// csvRows reads CSV by its first line, which names the columns in any order: all
// that are needed, and perhaps others that may be there.
func csvRows(name, code string, raw []byte, needed, others []string) ([]map[string]string, error) {
	bad := func(format string, args ...any) ([]map[string]string, error) {
		return nil, broker.Errorf(broker.Invalid, code, "cannot use %s: "+format, append([]any{name}, args...)...)
	}
	known := slices.Concat(needed, others)
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))))
	r.TrimLeadingSpace, r.Comment = true, '#'
	head, err := r.Read()
	if err != nil {
		return bad("it does not begin with the names of its columns: %s", strings.Join(needed, ","))
	}
	for i, column := range head {
		head[i] = strings.ToLower(strings.TrimSpace(column))
		if slices.Contains(head[:i], head[i]) || !slices.Contains(known, head[i]) {
			return bad("its column %q is there twice, or is none of %s", head[i], strings.Join(known, ", "))
		}
	}
	for _, column := range needed {
		if !slices.Contains(head, column) {
			return bad("it has no column %s", column)
		}
	}
	rows := []map[string]string{}
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return bad("%v", err)
		}
		row := map[string]string{}
		for i, c := range cells {
			row[head[i]] = strings.TrimSpace(c)
		}
		rows = append(rows, row)
	}
}
