package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// plainText removes the byte order mark that Excel and editors on Windows put first.
func plainText(raw []byte) []byte { return bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")) }

// csvRows reads CSV with a header line. The header names the columns in any order: all needed
// columns, and possibly some of the others. A row has its line of the file, too (lineColumn). Empty rows and columns, which a spreadsheet writes as
// commas alone, are ignored.
func csvRows(name, code string, raw []byte, needed, others []string) ([]map[string]string, error) {
	bad := func(format string, args ...any) ([]map[string]string, error) {
		return nil, broker.Errorf(broker.Invalid, code, "cannot use %s: "+format, append([]any{name}, args...)...)
	}
	known := slices.Concat(needed, others)
	r := csv.NewReader(bytes.NewReader(plainText(raw)))
	r.TrimLeadingSpace, r.Comment, r.FieldsPerRecord = true, '#', -1
	head, err := r.Read()
	if err != nil {
		return bad("its first line does not name its columns: %s", strings.Join(needed, ","))
	}
	for i, column := range head {
		head[i] = strings.ToLower(strings.TrimSpace(column))
		if head[i] != "" && (slices.Contains(head[:i], head[i]) || !slices.Contains(known, head[i])) {
			return bad("its column %q is named twice, or is none of %s", head[i], strings.Join(known, ", "))
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
		line := lineOf(r)
		row := map[string]string{lineColumn: strconv.Itoa(line)}
		if blank(cells) {
			continue
		}
		if len(cells) != len(head) {
			return bad("line %d has %d cells, and the first line has %d", line, len(cells), len(head))
		}
		for i, c := range cells {
			if c = strings.TrimSpace(c); c != "" && head[i] == "" {
				return bad("line %d has %q in a column without a name", line, taskcatalog.Clean(c, 64))
			} else if c != "" {
				row[head[i]] = c
			}
		}
		for _, column := range needed {
			if row[column] == "" {
				return bad("line %d has no %s", line, column)
			}
		}
		rows = append(rows, row)
	}
}

// lineColumn is the column of csvRows that has the number of the line. No column of a file has this name.
const lineColumn = "#line"

func blank(cells []string) bool { return strings.TrimSpace(strings.Join(cells, "")) == "" }

// lineOf is the line of the file at which the last row begins.
func lineOf(r *csv.Reader) int {
	line, _ := r.FieldPos(0)
	return line
}
