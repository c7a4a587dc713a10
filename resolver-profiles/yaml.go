package profiles

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/taskcatalog"
)

// maxDepth is how deep a file may nest; the format needs 6.
const maxDepth = 16

// maxKey is how long a key may be, in bytes.
const maxKey = 128

// reader converts the nodes of one file into values, and collects problems.
type reader struct {
	file  string
	found *Problems
	where places
}

func (r *reader) at(n *yaml.Node) place { return place{r.file, n.Line} }

func (r *reader) refuse(n *yaml.Node, code taskcatalog.Code, format string, args ...any) {
	r.found.add(r.at(n), code, format, args...)
}

// document returns the only document of a file, or nil.
func (r *reader) document(text []byte) *yaml.Node {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, next yaml.Node
	if err := decode(d, &doc); err != nil {
		if errors.Is(err, io.EOF) {
			r.found.add(place{r.file, 1}, CodeMissingKey, "the file is empty")
			return nil
		}
		r.found.add(place{r.file, lineOf(err)}, CodeNotYAML, "%v", err)
		return nil
	}
	if err := decode(d, &next); !errors.Is(err, io.EOF) {
		r.found.add(place{r.file, max(next.Line, 1)}, CodeNotPlain, "the file has more than one document")
		return nil
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || !r.plain(doc.Content[0], 1) {
		return nil
	}
	return doc.Content[0]
}

// decode wraps Decode, because the library panics on some inputs.
func decode(d *yaml.Decoder, into *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("the YAML parser gave up")
		}
	}()
	return d.Decode(into)
}

func lineOf(err error) int {
	if p, ok := errors.AsType[*yaml.ParserError](err); ok && p.Line > 0 {
		return p.Line
	}
	return 1
}

// plain refuses YAML beyond a plain tree: one such node leaves the file unread.
func (r *reader) plain(n *yaml.Node, depth int) bool {
	switch {
	case depth > maxDepth:
		r.refuse(n, CodeTooDeep, "it is nested deeper than %d", maxDepth)
		return false
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.refuse(n, CodeNotPlain, "anchors and aliases are not taken (write it out)")
		return false
	case n.Style&yaml.TaggedStyle != 0:
		r.refuse(n, CodeNotPlain, "tags such as %s are not taken", quote(n.Tag))
		return false
	}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && len(c.Value) > maxKey { // the place of each value has all keys above it
			r.refuse(c, CodeTooLarge, "a key has at most %d bytes", maxKey)
			return false
		}
		if !r.plain(c, depth+1) {
			return false
		}
	}
	return true
}

// field is one key of a mapping: its reader, and whether it is required.
type field struct {
	read     func(part string, n *yaml.Node)
	required bool
}

// mapping reads a mapping with exactly these keys.
func (r *reader) mapping(part string, n *yaml.Node, fields map[string]field) {
	seen := r.each(part, n, func(part string, key, value *yaml.Node) {
		f, ok := fields[key.Value]
		if !ok {
			r.refuse(key, CodeUnknownKey, "%s is no key here", quote(key.Value))
			return
		}
		f.read(part, value)
	})
	if seen == nil {
		return
	}
	for name, f := range fields {
		if f.required && !seen[name] {
			r.refuse(n, CodeMissingKey, "%s is missing", name)
		}
	}
}

// each walks a mapping with unique text keys.
func (r *reader) each(part string, n *yaml.Node, do func(part string, key, value *yaml.Node)) map[string]bool {
	r.where[part] = r.at(n)
	if n.Kind != yaml.MappingNode {
		r.refuse(n, CodeWrongType, "a mapping is wanted here, not %s", kindOf(n))
		return nil
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			r.refuse(key, CodeWrongType, "a key is a text, not %s", kindOf(key))
			continue
		}
		if seen[key.Value] {
			r.refuse(key, CodeDuplicateKey, "%s is there twice", quote(key.Value))
			continue
		}
		seen[key.Value] = true
		inner := part + "/" + key.Value
		r.where[inner] = r.at(key)
		do(inner, key, value)
	}
	return seen
}

// list walks a sequence.
func (r *reader) list(part string, n *yaml.Node, do func(part string, n *yaml.Node)) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.refuse(n, CodeWrongType, "a list is wanted here, not %s", kindOf(n))
		return
	}
	for i, c := range n.Content {
		inner := part + "/" + strconv.Itoa(i)
		r.where[inner] = r.at(c)
		do(inner, c)
	}
}

// text reads a text. A number counts as text only if numeric is set.
func (r *reader) text(n *yaml.Node, numeric bool) (string, bool) {
	if n.Kind == yaml.ScalarNode {
		switch tag := n.ShortTag(); {
		case tag == "!!str", numeric && (tag == "!!int" || tag == "!!float"):
			return n.Value, true
		}
	}
	r.refuse(n, CodeWrongType, "a text is wanted here, not %s (put it in quotes)", kindOf(n))
	return "", false
}

func (r *reader) integer(n *yaml.Node) (int64, bool) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int" {
		if v, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			return v, true
		}
	}
	r.refuse(n, CodeWrongType, "a whole number in decimal is wanted here, not %s", kindOf(n))
	return 0, false
}

func (r *reader) boolean(n *yaml.Node) bool {
	var v bool
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Decode(&v) != nil {
		r.refuse(n, CodeWrongType, "true or false is wanted here, not %s", kindOf(n))
	}
	return v
}

// kindOf describes a node for the author of the file.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool":
		return "true or false"
	}
	return quote(n.Value)
}
