package adminapi

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// overlay is a JSON object laid over a T; fields that the object omits stay as they are in the T.
// So a create and a change work alike, and false differs from an omitted field.
type overlay[T any] struct{ raw json.RawMessage }

// UnmarshalJSON keeps the text.
func (d *overlay[T]) UnmarshalJSON(raw []byte) error {
	d.raw = append(d.raw[:0], raw...)
	return nil
}

// Schema is T's schema without required fields; the store checks which fields must be there.
func (overlay[T]) Schema(r huma.Registry) *huma.Schema {
	s := *huma.SchemaFromType(r, reflect.TypeFor[T]())
	s.Required = nil
	for _, p := range s.Properties {
		p.Default = nil // a client that fills in defaults would reset what a change leaves out
	}
	return &s
}

// over returns base with the document laid over it. The result shares nothing with base.
func (d overlay[T]) over(base T) (T, error) {
	var out T
	raw, err := taskcatalog.Encode(base)
	if err != nil {
		return out, err
	}
	if err := taskcatalog.DecodeStrict(raw, &out); err != nil {
		return out, err
	}
	if err := d.withoutNull(); err != nil {
		return out, err
	}
	err = taskcatalog.DecodeStrict(d.raw, &out)
	return out, err
}

// withoutNull refuses a null for a field that cannot be without a value: a decoder makes it the zero
// value, which can mean never, no retries, or a profile from before a rule.
func (d overlay[T]) withoutNull() error {
	var members map[string]json.RawMessage
	if json.Unmarshal(d.raw, &members) != nil {
		return nil // DecodeStrict reports the fault
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if string(members[name]) == "null" && f.Type.Kind() != reflect.Pointer {
			return broker.Errorf(broker.Invalid, "invalid_request", "%s is null (leave it out to keep its value)", name)
		}
	}
	return nil
}
