package adminapi

import (
	"bytes"
	"io"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hostler/hostler/taskcatalog"
)

// jsonFormat reads bodies as strictly as all other input, and writes output that no page can
// mistake for markup. The output may hold text that a node reported, so it must encode any text.
var jsonFormat = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		var body bytes.Buffer
		if err := encode(&body, v); err != nil {
			return err
		}
		body.WriteByte('\n')
		_, err := w.Write(body.Bytes())
		return err
	},
	Unmarshal: taskcatalog.DecodeStrict,
}

func encode(w io.Writer, v any) error {
	return json.MarshalWrite(w, v, json.Deterministic(true),
		jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}
