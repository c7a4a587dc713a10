package secrets

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// plainField is the field in Vault for a value that is not a document.
const plainField = "value"

type fields = map[string]jsontext.Value

// document parses a value as a JSON object with text members only. Every other value is plain text,
// including an object with a number or with a duplicate member, because Vault would not return the
// same value.
func document(value []byte) (fields, bool) {
	if jsontext.Value(value).Kind() != '{' {
		return nil, false
	}
	var doc fields
	if json.Unmarshal(value, &doc) != nil || len(doc) == 0 {
		return nil, false
	}
	for _, member := range doc {
		if member.Kind() != '"' {
			return nil, false
		}
	}
	return doc, true
}

// isPlain reports whether fields stand for plain text.
func isPlain(doc fields) bool {
	return len(doc) == 1 && doc[plainField].Kind() == '"'
}

// toFields returns the Vault fields of a value: the members of a document under the same names, or
// the text in the field "value".
func toFields(value []byte) (fields, error) {
	if doc, ok := document(value); ok {
		return doc, nil
	}
	text, err := json.Marshal(string(value))
	return fields{plainField: text}, err
}

// fromFields returns the value of fields, whoever wrote them. Members are ordered by name.
func fromFields(doc fields) ([]byte, error) {
	if isPlain(doc) {
		var text string
		err := json.Unmarshal(doc[plainField], &text)
		return []byte(text), err
	}
	return json.Marshal(doc, json.Deterministic(true))
}
