package plan

import (
	"bytes"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hostler/hostler/agent/redact"
	"github.com/hostler/hostler/taskcatalog"
)

// wipe overwrites the secrets of the task, reports each, and returns how many there were. It reports no
// check: those are the rows of taskcatalog.Checks, and a broker refuses any other.
func (o *Operation) wipe(report *taskcatalog.Report) int {
	for _, step := range slices.Sorted(maps.Keys(o.secrets)) {
		o.secrets[step].Wipe()
		report.Dispose(taskcatalog.Disposition{
			Check: "secrets", Path: "steps." + step, Action: taskcatalog.ActionRemoved, Reason: "overwritten in the agent's memory",
		})
	}
	return len(o.secrets)
}

// The lengths from which a part of a secret is looked for: a text of its JSON, and a value in the query
// of a URL. Shorter ones are parts of other words.
const (
	minPart  = 8
	minQuery = 16
)

// partsOf are the parts of a secret that are secrets themselves, the longest first, and the secret: the
// texts in its JSON, words in them, and the values in the query of a URL. Names in the JSON, and hosts
// and paths of URLs, are none: a path on the node may have the same words. The caller clears them.
func partsOf(secret []byte) (parts [][]byte) {
	add := func(part []byte, least int) {
		if len(part) >= least {
			parts = append(parts, bytes.Clone(part))
		}
	}
	add(secret, 1)
	d := jsontext.NewDecoder(bytes.NewReader(secret))
	for {
		kind := d.PeekKind()
		container, read := d.StackIndex(d.StackDepth())
		name := container == '{' && read%2 == 0
		if kind != '"' {
			if _, err := d.ReadToken(); err != nil { // the end, or no JSON
				break
			}
			continue
		}
		raw, err := d.ReadValue()
		if err != nil {
			break
		}
		text, _ := jsontext.AppendUnquote(nil, raw)
		if !name {
			add(text, minPart)
			_, query, _ := bytes.Cut(text, []byte("?"))
			for pair := range bytes.SplitSeq(query, []byte("&")) {
				_, value, _ := bytes.Cut(pair, []byte("="))
				add(value, minQuery)
			}
			for word := range bytes.FieldsSeq(text) {
				add(word, minPart)
			}
		}
		clear(text)
	}
	slices.SortFunc(parts, func(a, b []byte) int { return len(b) - len(a) })
	return parts
}

// each calls do with each secret of the task, and with its parts.
func (o *Operation) each(do func(part []byte)) {
	for _, s := range o.secrets {
		_ = s.Use(func(value []byte) error {
			for _, part := range partsOf(value) {
				do(part)
				clear(part)
			}
			return nil
		})
	}
}

// leaks reports whether data holds a secret of the task, or a part of one.
func (o *Operation) leaks(data []byte) (found bool) {
	o.each(func(part []byte) { found = found || bytes.Contains(data, part) })
	return found
}

// hide takes the secrets of the task out of a message. A step that has a secret as an argument also
// loses what looks like one: its code may have quoted a part.
func (o *Operation) hide(s *taskcatalog.PlannedStep, message string) string {
	text := []byte(message)
	o.each(func(part []byte) { text = bytes.ReplaceAll(text, part, []byte("[redacted]")) })
	for _, v := range s.With {
		if _, ok := o.secretOf(v); ok {
			redacted, _ := redact.New(nil, nil).Text(string(text))
			return redacted
		}
	}
	return string(text)
}
