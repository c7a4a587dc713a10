package main

import (
	"bytes"
	"encoding/json"
	"sort"

	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// resultPages are the results with a page of their own, by task type.
var resultPages = map[string]func(*render.Page, json.RawMessage) bool{
	"node.gpu_scrub@1":       as(gpuScrubPage),
	"node.disk_erase@1":      as(diskErasePage),
	"node.resolver_config@1": as(resolverConfigPage),
	"node.hw_sync_reseed@1":  as(hwSyncPage),
	"node.diagnostics@1":     as(diagnosticsPage),
}

// as decodes a result for its page. A result of another form, as an agent of another version may
// send, has no page.
func as[T any](page func(*render.Page, T)) func(*render.Page, json.RawMessage) bool {
	return func(p *render.Page, raw json.RawMessage) bool {
		var result *T
		if json.Unmarshal(raw, &result) != nil || result == nil {
			return false
		}
		page(p, *result)
		return true
	}
}

// taskResult shows the result of a task.
func taskResult(p *render.Page, id string, raw json.RawMessage) {
	if page, ok := resultPages[id]; !ok || !page(p, raw) {
		resultFields(p, raw)
	}
}

// maxRows bounds a table of a result, because the node decides its length.
const maxRows = 200

// resultTable shows rows below a title, unless there are none.
func resultTable(p *render.Page, title string, heads []render.Column, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	p.Title(title)
	p.Table(heads, rows[:min(len(rows), maxRows)])
	if more := len(rows) - maxRows; more > 0 {
		p.Line("and " + plural(more, "line") + " more (see -o json)")
	}
}

// resultFields shows a task's result: plain values unchanged, and the number of elements of a list
// or an object (a baseline is not for reading here).
func resultFields(p *render.Page, raw json.RawMessage) {
	var result map[string]json.RawMessage
	if json.Unmarshal(raw, &result) != nil || len(result) == 0 {
		return
	}
	names := make([]string, 0, len(result))
	for name := range result {
		names = append(names, name)
	}
	sort.Strings(names)
	pairs := []string{}
	for _, name := range names {
		pairs = append(pairs, name, brief(result[name]))
	}
	p.Title("Result")
	p.Fields(pairs...)
}

// brief is a JSON value in one line.
func brief(raw json.RawMessage) string {
	var text string
	var list []json.RawMessage
	switch {
	case json.Unmarshal(raw, &text) == nil:
		return text
	case json.Unmarshal(raw, &list) == nil:
		if len(list) == 0 {
			return "none"
		}
		if len(raw) <= render.MaxCell {
			return string(raw)
		}
		return plural(len(list), "item") + " (see -o json)"
	case bytes.HasPrefix(raw, []byte("{")) && len(raw) > render.MaxCell:
		return "(see -o json)"
	}
	return string(raw)
}
