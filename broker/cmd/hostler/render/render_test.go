package render

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// hostile are texts that a tenant with root could make a node report.
var hostile = map[string]string{
	"escape sequence": "sshd\x1b[2J\x1b[31mroot\x1b]0;owned\x07",
	"bidi":            "abc\u202Egnp.exe\u2066x\u2069",
	"C1 controls":     "x\u009b31my\u0085z",
	"line breaks":     "one\ntwo\r\nthree\u2028four\u2029five\v\f\t",
	"zero width":      "a\u200bb\ufeffc\u00add",
	"private use":     "\ue000\U000F0000",
	"tags":            "\U000E0041\U000E0042",
	"invalid UTF-8":   "a\xff\xfeb\xc3",
	"NUL":             "a\x00b",
	"markup":          "<script>alert(1)</script> & \"'`",
	"yaml":            "- a: &x *x !!python/object:os.system {} # c",
	"yaml words":      "yes",
	"a number":        "1e3",
	"wide":            "日本語テスト",
	"combining":       "e\u0301\u0301\u0301\u0301",
	"very long":       strings.Repeat("A\x1b", 100<<10),
}

func visible(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && r != unicode.ReplacementChar && hidden(r) {
			t.Fatalf("%U came through", r)
		}
	}
}

func TestHostileTextStaysInItsCell(t *testing.T) {
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			p := NewPage(false, 0)
			p.Table(Kept("A", "B", "C"), [][]string{{"1", text, text}, {"2", "short", "end"}})
			var out bytes.Buffer
			if _, err := p.WriteTo(&out); err != nil {
				t.Fatal(err)
			}
			visible(t, out.String())
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if len(lines) != 3 {
				t.Fatalf("%d lines, want 3:\n%.500s", len(lines), out.String())
			}
			if out.Len() > 6*MaxLine {
				t.Errorf("the table is %d bytes", out.Len())
			}
			// The third column begins at the same place in each line.
			last := columns(lines[0][:strings.LastIndex(lines[0], "C")])
			if got := columns(lines[2][:strings.LastIndex(lines[2], "end")]); got != last {
				t.Errorf("the third column begins at %d and at %d", last, got)
			}
		})
	}
}

func TestHostileTextStaysInItsField(t *testing.T) {
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			p := NewPage(true, 0)
			p.Fields("name", text, "other", "value")
			p.Line(text)
			var out bytes.Buffer
			_, _ = p.WriteTo(&out)
			visible(t, out.String())
			if n := strings.Count(out.String(), "\n"); n != 3 {
				t.Errorf("%d lines, want 3", n)
			}
		})
	}
}

func TestDocumentsLoseNothingAndHideNothing(t *testing.T) {
	for name, text := range hostile {
		if name == "invalid UTF-8" {
			continue // no JSON can carry it; see the test below
		}
		t.Run(name, func(t *testing.T) {
			in := map[string]any{"text": text, text: "key", "list": []any{text, true, nil, 1.5}, "empty": []any{}, "none": map[string]any{}}
			var asJSON, asYAML bytes.Buffer
			if err := JSON(&asJSON, in); err != nil {
				t.Fatal(err)
			}
			if err := YAML(&asYAML, in); err != nil {
				t.Fatal(err)
			}
			visible(t, asJSON.String())
			visible(t, asYAML.String())
			var fromJSON, fromYAML map[string]any
			if err := json.Unmarshal(asJSON.Bytes(), &fromJSON); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(asYAML.Bytes(), &fromYAML); err != nil {
				t.Fatalf("%v\n%.500s", err, asYAML.String())
			}
			for format, got := range map[string]map[string]any{"JSON": fromJSON, "YAML": fromYAML} {
				if got["text"] != text || got[text] != "key" || got["list"].([]any)[0] != text || len(got["empty"].([]any)) != 0 {
					t.Errorf("%s lost something: %.200q", format, got["text"])
				}
			}
		})
	}
}

func TestBytesThatAreNoUTF8AreReplaced(t *testing.T) {
	for _, write := range []func(io.Writer, any) error{JSON, YAML} {
		var out bytes.Buffer
		if err := write(&out, map[string]any{"text": hostile["invalid UTF-8"], "raw": json.RawMessage("{\"a\":\"\xff\",\"a\":1}")}); err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(out.Bytes()) {
			t.Errorf("it came through: %q", out.String())
		}
	}
}

func TestYAMLKeepsOrderAndNumbers(t *testing.T) {
	in := struct {
		B  int64     `json:"b"`
		A  float64   `json:"a"`
		S  string    `json:"s"`
		T  time.Time `json:"t"`
		Ok bool      `json:"ok"`
		L  []string  `json:"l"`
	}{B: 1 << 60, A: 1.5, S: "123", T: time.Unix(0, 0).UTC()}
	var out bytes.Buffer
	if err := YAML(&out, in); err != nil {
		t.Fatal(err)
	}
	want := "b: 1152921504606846976\na: 1.5\ns: \"123\"\nt: \"1970-01-01T00:00:00Z\"\nok: false\nl: []\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestColourColoursWholeWordsOnly(t *testing.T) {
	p := NewPage(true, 0)
	p.Table(Kept("STATUS", "X"), [][]string{{"active", "inactive active"}})
	var out bytes.Buffer
	_, _ = p.WriteTo(&out)
	if got := out.String(); strings.Count(got, "\x1b["+green+"m") != 1 {
		t.Errorf("got %q", got)
	}
}

func TestSpansShowTwoUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", time.Minute: "1m", 90 * time.Second: "1m30s", 3 * time.Hour: "3h",
		25*time.Hour + 3*time.Minute: "1d1h", 48 * time.Hour: "2d", 1499 * time.Millisecond: "1s",
	} {
		if got := Span(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		}
	}
	now := time.Unix(1000, 0)
	if got := Ago(now.Add(time.Hour), now); got != "in 1h" {
		t.Errorf("got %s", got)
	}
}
