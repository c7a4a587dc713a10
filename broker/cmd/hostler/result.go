package main

import (
	"bytes"
	"encoding/json"
	"sort"

	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// resultFields shows a task's result: plain values as they are, and how many
// things a list or an object holds (a baseline is not for reading here).
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
