package adminapi

import (
	"bytes"
	"io"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hostler/hostler/taskcatalog"
)

// jsonFormat reads bodies as strictly as everything else from outside is read,
// and writes what no page can mistake for markup. What a node reported may be
// in it: it must come out whatever it is.
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
