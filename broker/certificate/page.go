package certificate

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"math/bits"
	"time"

	"github.com/dustin/go-humanize"
)

//go:embed pages/*.html
var pageFiles embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"time":     func(t time.Time) string { return stamp(t) },
	"bytes":    humanize.IBytes,
	"words":    plain,
	"covered":  Covered,
	"standard": func() string { return GradeStandard },
	"yes": func(b bool) string {
		if b {
			return "yes"
		}
		return "no"
	},
}).ParseFS(pageFiles, "pages/*.html"))

// Page writes a verified statement for people: one self-contained HTML document, printable and
// without scripts.
func Page(r *Report) ([]byte, error) {
	file := "clean.html"
	switch {
	case r.Receipt != nil:
		file = "receipt.html"
	case r.Attestation != nil:
		file = "attestation.html"
	}
	var out bytes.Buffer
	if err := pages.ExecuteTemplate(&out, file, r); err != nil {
		return nil, fmt.Errorf("cannot write the page of certificate %s: %w", r.Digest, err)
	}
	return out.Bytes(), nil
}

// Covered writes the covered share of a device in percent, rounded down.
func Covered(covered, of *uint64) string {
	switch {
	case covered == nil:
		return ""
	case of == nil || *of == 0:
		return humanize.IBytes(*covered)
	}
	high, low := bits.Mul64(*covered, 10000)
	if high >= *of {
		return humanize.IBytes(*covered) // more than the quotient can hold: no percentage makes sense
	}
	hundredths, _ := bits.Div64(high, low, *of)
	return fmt.Sprintf("%d.%02d%% of %s", hundredths/100, hundredths%100, humanize.IBytes(*of))
}
