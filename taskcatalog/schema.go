package taskcatalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Schema is a JSON Schema (2020-12) generated from a Go type and compiled once.
type Schema struct {
	text     json.RawMessage
	compiled *validator.Schema
}

// Text returns the schema as JSON.
func (s *Schema) Text() json.RawMessage { return s.text }

// Check validates a document that DecodeStrict has accepted. The error names the place and the
// rule, never the value: params may hold values that must not appear in a log.
func (s *Schema) Check(raw []byte) error {
	doc, err := validator.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return Errorf(CodeMalformed, "not JSON")
	}
	err = s.compiled.Validate(doc)
	var ve *validator.ValidationError
	if !errors.As(err, &ve) {
		return err
	}
	for len(ve.Causes) > 0 {
		ve = ve.Causes[0]
	}
	at := "/" + strings.Join(ve.InstanceLocation, "/")
	rule := strings.Join(ve.ErrorKind.KeywordPath(), "/")
	if required, ok := ve.ErrorKind.(*kind.Required); ok { // names of the schema, not of the document
		return Errorf(CodeBadParams, "%s lacks %s (see hostler task describe)", Clean(at, 200), strings.Join(required.Missing, ", "))
	}
	return Errorf(CodeBadParams, "%s breaks the schema's %q (see hostler task describe)", Clean(at, 200), rule)
}

var schemas sync.Map // reflect.Type → *Schema

// ParamsSchema is the JSON Schema of the type's params.
func (t Type) ParamsSchema() *Schema { return schemaOf(t.params) }

// ResultSchema is the JSON Schema of the type's result.
func (t Type) ResultSchema() *Schema { return schemaOf(t.result) }

func schemaOf(t reflect.Type) *Schema {
	if s, ok := schemas.Load(t); ok {
		return s.(*Schema)
	}
	s, err := makeSchema(t)
	if err != nil {
		// The types are compiled in; the golden test makes every schema.
		panic(fmt.Sprintf("schema of %v: %v", t, err))
	}
	got, _ := schemas.LoadOrStore(t, s)
	return got.(*Schema)
}

func makeSchema(t reflect.Type) (*Schema, error) {
	r := jsonschema.Reflector{Anonymous: true, DoNotReference: true, ExpandedStruct: true}
	text, err := json.Marshal(r.ReflectFromType(t))
	if err != nil {
		return nil, err
	}
	doc, err := validator.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := validator.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("hostler:"+t.Name(), doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile("hostler:" + t.Name())
	if err != nil {
		return nil, err
	}
	return &Schema{text: text, compiled: compiled}, nil
}
