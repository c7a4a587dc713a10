package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// readParams reads a JSON object from a file, or from stdin.
func (a *app) readParams(path string) (map[string]json.RawMessage, error) {
	raw, err := a.readBounded(path)
	if err != nil {
		return nil, err
	}
	params := map[string]json.RawMessage{}
	if err := taskcatalog.DecodeStrict(raw, &params); err != nil {
		return nil, broker.Errorf(broker.Invalid, "bad_params", "cannot use %s as params, it must be one JSON object: %v", path, err)
	}
	return params, nil
}

// setParams adds key=value pairs, converted by the schema. A list takes one element from each pair
// of its name, or a whole JSON list. For other types the last of several pairs wins.
func (s *schema) setParams(params map[string]json.RawMessage, pairs []string) error {
	lists := map[string][]json.RawMessage{}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return usage("cannot read the param %q (it is written key=value)", pair)
		}
		prop := s.Properties[key]
		if prop == nil {
			known := "it takes none"
			if len(s.Properties) > 0 {
				known = "it takes " + strings.Join(s.names(), ", ")
			}
			return broker.Errorf(broker.Invalid, "bad_params", "this type of task has no param %q (%s)", key, known)
		}
		if prop.Type == "array" && !strings.HasPrefix(value, "[") {
			element := &schema{Type: "string"}
			if prop.Items != nil {
				element = prop.Items
			}
			raw, err := element.convert(key, value)
			if err != nil {
				return err
			}
			lists[key] = append(lists[key], raw)
			continue
		}
		raw, err := prop.convert(key, value)
		if err != nil {
			return err
		}
		params[key] = raw
	}
	for key, elements := range lists {
		raw, err := json.Marshal(elements)
		if err != nil {
			return err
		}
		params[key] = raw
	}
	return nil
}

// convert reads one value as the schema's type. The message does not repeat the value.
func (s *schema) convert(key, value string) (json.RawMessage, error) {
	if len(s.Enum) > 0 && s.Type == "string" && !slices.ContainsFunc(s.Enum, func(e any) bool { return fmt.Sprint(e) == value }) {
		return nil, broker.Errorf(broker.Invalid, "bad_params", "the param %s must be %s", key, s.limits())
	}
	switch s.Type {
	case "integer":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, wrongType(key, "a whole number")
		}
		return json.RawMessage(strconv.FormatInt(n, 10)), nil
	case "number":
		if _, err := strconv.ParseFloat(value, 64); err != nil || !json.Valid([]byte(value)) {
			return nil, wrongType(key, "a number")
		}
		return json.RawMessage(value), nil
	case "boolean":
		if value != "true" && value != "false" {
			return nil, wrongType(key, "true or false")
		}
		return json.RawMessage(value), nil
	case "array", "object", "":
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(value)); err != nil {
			return nil, wrongType(key, "JSON (quote it for the shell)")
		}
		return compact.Bytes(), nil
	default:
		return json.Marshal(value)
	}
}

func wrongType(key, want string) error {
	return broker.Errorf(broker.Invalid, "bad_params", "the param %s must be %s", key, want)
}

// exampleFlags writes an example object as -p flags, or as --params if a value is not a plain
// value.
func exampleFlags(raw json.RawMessage) string {
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&object) != nil {
		return ""
	}
	keys := []string{}
	for k := range object {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, k := range keys {
		values, isList := object[k].([]any)
		if !isList {
			values = []any{object[k]}
		}
		for _, v := range values {
			b.WriteString(" -p " + k + "=" + shellWord(fmt.Sprint(v)))
		}
	}
	return b.String()
}

// shellWord quotes a value that a shell would split or expand.
func shellWord(s string) string {
	if strings.ContainsAny(s, " \t\n'\"$`\\*?[]{}()<>|&;#~!") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}
