package adminapi

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler/hostler/taskcatalog"
)

// document is a JSON object laid over a T; fields that the object omits stay as they are in the T.
// So a create and a change work alike, and false differs from an omitted field.
type document[T any] struct{ raw json.RawMessage }

// UnmarshalJSON keeps the text.
func (d *document[T]) UnmarshalJSON(raw []byte) error {
	d.raw = append(d.raw[:0], raw...)
	return nil
}

// Schema is T's schema without required fields; the store checks which fields must be there.
func (document[T]) Schema(r huma.Registry) *huma.Schema {
	s := *huma.SchemaFromType(r, reflect.TypeFor[T]())
	s.Required = nil
	return &s
}

// over returns base with the document laid over it. The result shares nothing with base.
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
