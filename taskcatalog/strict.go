package taskcatalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is the greatest nesting depth of JSON from outside.
const MaxDepth = 64

// DecodeStrict decodes one JSON value into v. Unknown, duplicate and
// wrong-case keys, invalid UTF-8, a NUL in a key or string, data after the value
// and nesting deeper than MaxDepth are refused with the code malformed. The
// caller bounds the size of raw.
func DecodeStrict(raw []byte, v any) error {
	if err := checkTokens(raw); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v, json.RejectUnknownMembers(true)); err != nil {
		return Errorf(CodeMalformed, "%s", Clean(plainJSONError(err), 300))
	}
	return nil
}

// DecodeLoose decodes one JSON value that another version of the same program has written, and
// ignores unknown keys. DecodeLoose is for a program's own files; input from others is decoded
// strictly.
func DecodeLoose(raw []byte, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return Errorf(CodeMalformed, "%s", Clean(plainJSONError(err), 300))
	}
	return nil
}

// Encode writes v as JSON with sorted map keys and empty lists as [], so that the output satisfies
// the other side's schema.
func Encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true))
}

// checkTokens reads all tokens before anything is decoded, so that deep nesting costs neither stack
// nor memory. A NUL is refused because PostgreSQL cannot store a NUL in a text, and no name or text
// of Hostler contains one.
func checkTokens(raw []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	for {
		token, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return Errorf(CodeMalformed, "%s", Clean(plainJSONError(err), 300))
		case d.StackDepth() > MaxDepth:
			return Errorf(CodeMalformed, "nested deeper than %d", MaxDepth)
		case token.Kind() == '"' && strings.IndexByte(token.String(), 0) >= 0:
			return Errorf(CodeMalformed, "at %q: a string with a NUL in it", Clean(string(d.StackPointer()), 200))
		}
	}
}

// plainJSONError describes the place and the fault without Go types. The sender of the document
// does not know Go types.
func plainJSONError(err error) string {
	var sem *json.SemanticError
	if errors.As(err, &sem) {
		what := "does not fit"
		if sem.Err != nil {
			what = sem.Err.Error()
		} else if sem.JSONKind != 0 {
			what = fmt.Sprintf("a JSON %s does not fit", sem.JSONKind)
		}
		return fmt.Sprintf("at %q: %s", string(sem.JSONPointer), what)
	}
	var syn *jsontext.SyntacticError
	if errors.As(err, &syn) {
		return fmt.Sprintf("at %q, byte %d: %v", string(syn.JSONPointer), syn.ByteOffset, syn.Err)
	}
	return err.Error()
}
