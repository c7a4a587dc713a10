package adminapi

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler/hostler/taskcatalog"
)

// document is a JSON object that is laid over a T: what it leaves out stays as it
// is there. So a create and a change are one thing, and false is not nothing.
type document[T any] struct{ raw json.RawMessage }

// UnmarshalJSON keeps the text.
func (d *document[T]) UnmarshalJSON(raw []byte) error {
	d.raw = append(d.raw[:0], raw...)
	return nil
}

// Schema is T's, with nothing required: what must be there is said by who keeps
// it.
func (document[T]) Schema(r huma.Registry) *huma.Schema {
	s := *huma.SchemaFromType(r, reflect.TypeFor[T]())
	s.Required = nil
	return &s
}

// over is base with the document laid over it. It shares nothing with base.
func (d document[T]) over(base T) (T, error) {
	var out T
	raw, err := taskcatalog.Encode(base)
	if err != nil {
		return out, err
	}
	if err := taskcatalog.DecodeStrict(raw, &out); err != nil {
		return out, err
	}
	err = taskcatalog.DecodeStrict(d.raw, &out)
	return out, err
}
