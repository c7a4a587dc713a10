package profiles

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/taskcatalog"
)

// Document is the only document of a plain YAML file that holds command profiles among other keys. It
// collects the problems of the file: those that it finds itself, and those that its caller adds.
type Document struct {
	r     *reader
	root  *yaml.Node
	found Problems
}

// Open reads a file by the same rules as a set: no anchors, aliases, tags, merges or second documents, no
// key twice. A file that is no such document has no Document, but all its problems.
func Open(f File) (*Document, Problems) {
	d := &Document{}
	d.r = &reader{file: f.Name, found: &d.found, where: places{"": {file: f.Name, line: 1}}}
	if len(f.Text) > MaxSize {
		d.found.add(place{f.Name, 1}, CodeTooLarge, "the file is %d bytes; %d are taken", len(f.Text), MaxSize)
		return nil, d.found
	}
	if d.root = d.r.document(f.Text); d.root == nil {
		return nil, d.found
	}
	d.r.each("", d.root, func(string, *yaml.Node, *yaml.Node) {})
	if len(d.found) > 0 {
		return nil, d.found
	}
	return d, nil
}

// Commands reads the list of command profiles under a key, and checks each of them.
func (d *Document) Commands(key string) (all []CommandProfile) {
	d.r.each("", d.root, func(part string, k, value *yaml.Node) {
		if k.Value != key {
			return
		}
		d.r.list(part, value, func(part string, n *yaml.Node) { all = append(all, d.r.command(part, n)) })
	})
	c := &checker{where: d.r.where}
	seen := map[string]bool{}
	for i := range all {
		part := partOf("/"+key, i)
		if seen[all[i].ID] {
			c.refuse(CodeDuplicate, part+"/id", "there are two command profiles %s", quote(all[i].ID))
		}
		seen[all[i].ID] = true
		c.command(part, &all[i])
	}
	if len(all) > maxCommands {
		c.refuse(CodeTooMany, "/"+key, "there are more than %d command profiles", maxCommands)
	}
	d.found = append(d.found, c.found...)
	return all
}

// JSON returns the document without a key, as JSON.
func (d *Document) JSON(without string) json.RawMessage {
	all, _ := d.value("", d.root).(map[string]any)
	delete(all, without)
	raw, err := json.Marshal(all)
	if err != nil {
		d.r.refuse(d.root, CodeWrongType, "the document has no form in JSON: %v", err)
	}
	return raw
}

func (d *Document) value(part string, n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		all := map[string]any{}
		d.r.each(part, n, func(part string, key, value *yaml.Node) { all[key.Value] = d.value(part, value) })
		return all
	case yaml.SequenceNode:
		all := []any{}
		d.r.list(part, n, func(part string, n *yaml.Node) { all = append(all, d.value(part, n)) })
		return all
	}
	switch n.ShortTag() {
	case "!!str":
		return n.Value
	case "!!bool":
		return d.r.boolean(n)
	case "!!int":
		v, _ := d.r.integer(n)
		return v
	}
	d.r.refuse(n, CodeWrongType, "a text, a whole number, true or false is wanted here, not %s", kindOf(n))
	return nil
}

// Refuse adds a problem. The part is named by its keys and numbers: /steps/2/kind.
func (d *Document) Refuse(part string, code taskcatalog.Code, format string, args ...any) {
	d.found.add(d.r.where.of("%s", part), code, format, args...)
}

// Problems returns what was found, in the order of the lines.
func (d *Document) Problems() Problems { return d.found.sorted() }

// Quote makes a value of a file fit for a message.
func Quote(s string) string { return quote(s) }

// CheckFact returns why a rule or an operation cannot ask for a value of a fact; empty: it can.
func CheckFact(key, value string) string {
	known, ok := matchKeys[key]
	switch {
	case !ok:
		return fmt.Sprintf("%s is no fact to match on (%s)", quote(key), strings.Join(MatchKeys(), ", "))
	case !factValue.MatchString(value):
		return fmt.Sprintf("%s is no value of a fact", quote(value))
	case known != nil && !slices.Contains(known, value):
		return fmt.Sprintf("%s is never %s (%s)", key, quote(value), strings.Join(known, ", "))
	}
	return ""
}
