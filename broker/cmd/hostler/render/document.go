package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"
)

// encode writes lists as [] and accepts any content of a node's result: bytes that are not UTF-8
// become U+FFFD.
func encode(v any) ([]byte, error) {
	return strict.Marshal(v, strict.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// JSON writes v as JSON, indented, with the field names of the API.
func JSON(w io.Writer, v any) error {
	raw, err := encode(v)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = io.WriteString(w, escape(out.String(), jsonEscape))
	return err
}

// JSONLine writes v as JSON on one line.
func JSONLine(w io.Writer, v any) error {
	raw, err := encode(v)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, escape(string(raw)+"\n", jsonEscape))
	return err
}

// YAML writes v as YAML, with the field names and the order of the JSON.
func YAML(w io.Writer, v any) error {
	raw, err := encode(v)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	node, err := yamlNode(d)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(node); err != nil {
		return err
	}
	if err := e.Close(); err != nil {
		return err
	}
	_, err = io.WriteString(w, escape(out.String(), yamlEscape))
	return err
}

// yamlNode reads one JSON value as a YAML node. It keeps the order of the
// keys and the spelling of numbers.
func yamlNode(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.MappingNode}
		if t == '[' {
			n.Kind = yaml.SequenceNode
		}
		for d.More() {
			child, err := yamlNode(d) // of an object: keys and values in turn
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle
		}
		_, err := d.Token() // the closing delimiter
		return n, err
	case string:
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: t}
		if strings.ContainsFunc(t, hidden) {
			n.Style = yaml.DoubleQuotedStyle // the only style with escapes
		}
		return n, nil
	case json.Number:
		return scalar("!!float", t.String()), nil
	case bool:
		return scalar("!!bool", fmt.Sprint(t)), nil
	default:
		return scalar("!!null", "null"), nil
	}
}

func scalar(tag, value string) *yaml.Node {
	if tag == "!!float" && !strings.ContainsAny(value, ".eE") {
		tag = "!!int"
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}

// hidden reports whether a terminal may act on a rune rather than show it.
func hidden(r rune) bool {
	return r == unicode.ReplacementChar || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co)
}

// escape replaces hidden runes in a document's strings. Outside strings neither encoder writes such
// a rune, apart from line feeds.
func escape(s string, as func(rune) string) string {
	var b strings.Builder
	for _, r := range s {
		if r != '\n' && r != unicode.ReplacementChar && hidden(r) {
			b.WriteString(as(r))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func jsonEscape(r rune) string {
	if hi, lo := utf16.EncodeRune(r); hi != unicode.ReplacementChar {
		return fmt.Sprintf(`\u%04x\u%04x`, hi, lo)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

func yamlEscape(r rune) string {
	if r > 0xffff {
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
