package taskcatalog

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestDecodeStrictRefusesWhatIsAmbiguous(t *testing.T) {
	type doc struct {
		A int            `json:"a"`
		M map[string]int `json:"m"`
		S string         `json:"s"`
		X any            `json:"x"`
	}
	for name, raw := range map[string]string{
		"unknown key":             `{"b":1}`,
		"key twice":               `{"a":1,"a":2}`,
		"key twice by escape":     `{"a":1,"\u0061":2}`,
		"key twice in a map":      `{"m":{"k":1,"k":2}}`,
		"wrong case":              `{"A":1}`,
		"data after the value":    `{} x`,
		"a second value":          `{}{}`,
		"bad UTF-8 in a text":     "{\"s\":\"\xff\"}",
		"bad UTF-8 in a key":      "{\"m\":{\"\xff\":1}}",
		"half a surrogate pair":   `{"s":"\ud800"}`,
		"a NUL in a text":         `{"s":"a\u0000"}`,
		"a NUL in a key":          `{"m":{"\u0000":1}}`,
		"a NUL deep inside":       `{"x":[{"y":"\u0000"}]}`,
		"a comment":               `{/* */}`,
		"a trailing comma":        `{"a":1,}`,
		"an overflow":             `{"a":1e99}`,
		"not a number":            `{"a":NaN}`,
		"single quotes":           `{'a':1}`,
		"nothing":                 ``,
		"cut off":                 `{"a":1`,
		"one level too deep":      `{"x":` + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + `}`,
		"ten million levels deep": strings.Repeat("[", 10_000_000),
		"a BOM":                   "\ufeff{}",
	} {
		var v doc
		err := DecodeStrict([]byte(raw), &v)
		if CodeOf(err, "") != CodeMalformed {
			t.Errorf("%s: %+v, %v", name, v, err)
		} else if len(err.Error()) > 300 || strings.Contains(err.Error(), "taskcatalog") {
			t.Errorf("%s: the message is %q", name, err)
		}
	}
	var v doc
	deepest := `{"x":` + strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1) + `}`
	if err := DecodeStrict([]byte(deepest), &v); err != nil {
		t.Errorf("%d levels are allowed: %v", MaxDepth, err)
	}
}

// FuzzDecodeStrict checks that every accepted document means the same to other JSON readers.
func FuzzDecodeStrict(f *testing.F) {
	for _, c := range All() {
		f.Add([]byte(c.Example))
	}
	f.Add([]byte(`{"task_id":"t-1","node_id":"n-1","node_epoch":1,"type":"node.drain","version":1,"params":{"a":[1,2,{"b":null}]},"nonce":"n","issued_at":"2026-01-01T00:00:00Z","not_after":"2026-01-01T00:10:00Z","correlation_id":"c"}`))
	f.Add([]byte(`{"params":{"a":1,"a":2}}`))
	f.Add([]byte("{\"type\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var task Task
		if DecodeStrict(raw, &task) != nil {
			return
		}
		var other Task
		if err := json.Unmarshal(raw, &other); err != nil {
			t.Fatalf("only we take it: %v", err)
		}
		if !task.IssuedAt.Equal(other.IssuedAt) || !task.NotAfter.Equal(other.NotAfter) {
			t.Fatalf("%+v is another time than %+v", task, other)
		}
		task.IssuedAt, task.NotAfter = other.IssuedAt, other.NotAfter
		task.Params, other.Params = nil, nil // raw text: spaces around it may differ
		if !reflect.DeepEqual(task, other) {
			t.Fatalf("%+v is read as %+v by others", task, other)
		}
	})
}

func FuzzParams(f *testing.F) {
	for i, c := range All() {
		f.Add(i, []byte(c.Example))
		f.Add(i, []byte(`{}`))
	}
	f.Add(1, []byte(`{"scope":"local","scratch":["/share*"],"baseline":{"taken_at":"2026-01-01T00:00:00Z","users":[],"groups":[]}}`))
	f.Fuzz(func(t *testing.T, i int, raw []byte) {
		c := All()[uint(i)%uint(len(All()))]
		v, err := c.DecodeParams(raw)
		if err != nil {
			if CodeOf(err, "") != CodeBadParams {
				t.Fatalf("no code: %v", err)
			}
			return
		}
		again, err := Encode(v)
		if err != nil {
			t.Fatalf("cannot encode what was taken: %v", err)
		}
		if _, err := c.DecodeParams(again); err != nil {
			t.Fatalf("%s becomes %s, which is refused: %v", raw, again, err)
		}
	})
}
