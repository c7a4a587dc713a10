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
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Schema is a JSON Schema (2020-12) generated from a Go type and compiled once.
type Schema struct {
	text     json.RawMessage
	compiled *validator.Schema
}

// Text returns the schema as JSON.
func (s *Schema) Text() json.RawMessage { return s.text }

// Check validates params that DecodeStrict has accepted. The error names the place and the
// rule, never the value: params may hold values that must not appear in a log.
func (s *Schema) Check(raw []byte) error { return s.CheckFor(raw, "hostler task describe") }

// CheckFor is Check for a document whose schema another command shows.
func (s *Schema) CheckFor(raw []byte, command string) error {
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
		return Errorf(CodeBadParams, "%s lacks %s (see %s)", Clean(at, 200), strings.Join(required.Missing, ", "), command)
	}
	return Errorf(CodeBadParams, "%s breaks the schema's %q (see %s)", Clean(at, 200), rule, command)
}

// Fault is one place of a document that breaks a schema.
type Fault struct {
	At      string // /steps/2/kind
	Keyword string // of the schema: required, type, pattern
	Message string
}

// Faults returns every place of a document that breaks the schema, in no order. The document is the
// author's own: messages may quote it.
func (s *Schema) Faults(raw []byte) ([]Fault, error) {
	doc, err := validator.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, Errorf(CodeMalformed, "not JSON")
	}
	err = s.compiled.Validate(doc)
	ve, broken := errors.AsType[*validator.ValidationError](err)
	if !broken {
		return nil, err
	}
	return leaves(ve, nil), nil
}

func leaves(ve *validator.ValidationError, all []Fault) []Fault {
	for _, cause := range ve.Causes {
		all = leaves(cause, all)
	}
	if len(ve.Causes) > 0 {
		return all
	}
	at := ""
	for _, part := range ve.InstanceLocation {
		at += "/" + part
	}
	path := ve.ErrorKind.KeywordPath()
	keyword := ""
	if len(path) > 0 {
		keyword = path[len(path)-1]
	}
	return append(all, Fault{At: at, Keyword: keyword, Message: ve.ErrorKind.LocalizedString(english)})
}

var english = message.NewPrinter(language.English)

// SchemaFor returns the JSON Schema of a Go type.
func SchemaFor[T any]() *Schema { return schemaOf(reflect.TypeFor[T]()) }

// CompileSchema compiles a JSON Schema that is data. It may refer to nothing outside itself.
func CompileSchema(text json.RawMessage) (*Schema, error) { return compileSchema("inputs", text) }

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
	return compileSchema(t.Name(), text)
}

func compileSchema(name string, text json.RawMessage) (*Schema, error) {
	doc, err := validator.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := validator.NewCompiler()
	c.UseLoader(validator.SchemeURLLoader{}) // nothing outside the text is read
	c.AssertFormat()
	if err := c.AddResource("hostler:"+name, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile("hostler:" + name)
	if err != nil {
		return nil, err
	}
	return &Schema{text: text, compiled: compiled}, nil
}
