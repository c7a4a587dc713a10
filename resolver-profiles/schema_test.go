package profiles

import (
	"bytes"
	"encoding/json"

	"github.com/invopop/jsonschema"
)

// schema returns the JSON Schema (2020-12) of one file of a set, for editors and pipelines. Parse
// checks the rules that a schema cannot express (references, reachability, the strings that a
// pattern permits).
func schema() []byte {
	r := jsonschema.Reflector{Anonymous: true, DoNotReference: true, ExpandedStruct: true}
	s := r.Reflect(&Set{})
	s.Title, s.Required = "Hostler resolver profiles", nil // a file may hold one of the two lists
	for pair := s.Properties.Oldest(); pair != nil; pair = pair.Next() {
		pair.Value.MinItems = nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, text, "", "  "); err != nil {
		panic(err)
	}
	pretty.WriteByte('\n')
	return pretty.Bytes()
}

// JSONSchema returns the schema for files, where a single value may replace a list.
func (Values) JSONSchema() *jsonschema.Schema {
	one := []*jsonschema.Schema{{Type: "string"}, {Type: "number"}}
	many := &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{AnyOf: one}}
	return &jsonschema.Schema{AnyOf: append(one, many)}
}

// JSONSchema is the schema of a file.
func (Capture) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "boolean"}, {Type: "integer", Minimum: "0", Maximum: "1048576"},
	}}
}
