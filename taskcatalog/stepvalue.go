package taskcatalog

import (
	"encoding/json"
	"strconv"

	"github.com/invopop/jsonschema"
)

// StepValue is the value of an argument: a literal, or where the value comes from.
type StepValue struct {
	From    string               // inputs.NAME or steps.ID; empty: Literal or Table
	Literal any                  // string, int64, bool or []string; anything else fits no argument
	Table   map[string]StepValue // of an argument of type table
}

// JSONSchema permits any value: check says which one fits the argument.
func (StepValue) JSONSchema() *jsonschema.Schema { return jsonschema.TrueSchema }

// UnmarshalJSON reads a literal, {"from": "inputs.port"}, or a table of values.
func (v *StepValue) UnmarshalJSON(raw []byte) error {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil { // never through a float: a digest stands for the number
		v.Literal = n
		return nil
	}
	var literal any
	if err := DecodeStrict(raw, &literal); err != nil {
		return err
	}
	switch l := literal.(type) {
	case []any:
		texts := make([]string, len(l))
		for i, one := range l {
			s, ok := one.(string)
			if !ok {
				v.Literal = l // no argument takes such a list
				return nil
			}
			texts[i] = s
		}
		v.Literal = texts
		return nil
	case map[string]any:
		if from, ok := l["from"].(string); ok && len(l) == 1 {
			v.From = from
			return nil
		}
		return DecodeStrict(raw, &v.Table)
	}
	v.Literal = literal
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (v StepValue) MarshalJSON() ([]byte, error) {
	switch {
	case v.From != "":
		return json.Marshal(map[string]string{"from": v.From})
	case v.Table != nil:
		return Encode(v.Table)
	}
	return json.Marshal(v.Literal)
}
