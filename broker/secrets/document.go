package secrets

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// plainField holds a value in Vault that is no JSON object.
const plainField = "value"

type fields = map[string]jsontext.Value

// document reads a value that is a JSON object with members, each of them text.
// Anything else is plain text, an object with a number or one that names a
// member twice too: Vault would not give back the same.
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

// isPlain reports that fields stand for plain text.
func isPlain(doc fields) bool {
	return len(doc) == 1 && doc[plainField].Kind() == '"'
}

// toFields is what Vault holds for a value: the members of a document as fields
// of the same names, or the text in the field "value".
func toFields(value []byte) (fields, error) {
	if doc, ok := document(value); ok {
		return doc, nil
	}
	text, err := json.Marshal(string(value))
	return fields{plainField: text}, err
}

// fromFields is the value that fields stand for, whoever wrote them. Members are
// in the order of their names.
func fromFields(doc fields) ([]byte, error) {
	if isPlain(doc) {
		var text string
		err := json.Unmarshal(doc[plainField], &text)
		return []byte(text), err
	}
	return json.Marshal(doc, json.Deterministic(true))
}
