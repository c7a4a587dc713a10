package readme

import (
	_ "embed"
	"flag"
	"fmt"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/test/manual"
)

var update = flag.Bool("update", false, "draw the README's picture anew")

//go:embed certificate.svg.tmpl
var drawing string

// picture is what the template draws: texts with their places.
type picture struct {
	Report  *certificate.Report
	Verdict string
	Fields  []field
	Rows    []row
	Signed  []field

	Table, Foot, Below, Height int // where the devices begin and end, and the edges of the card
}

type field struct {
	Name, Text string
	Y          int
}

type row struct {
	Cells []cell
	Head  bool
	Y     int
}

type cell struct {
	Text string
	X    int
}

// columns are where the columns of the devices begin.
var columns = []int{28, 72, 220, 415, 555, 640, 715}

func rowAt(y int, texts ...string) row {
	r := row{Y: y}
	for i, text := range texts {
		r.Cells = append(r.Cells, cell{text, columns[i]})
	}
	return r
}

const lineHeight = 21

// stacked gives fields their places, one below the other.
func stacked(y int, pairs ...string) (fields []field, below int) {
	for i := 0; i < len(pairs); i += 2 {
		fields = append(fields, field{pairs[i], pairs[i+1], y})
		y += lineHeight
	}
	return fields, y
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// picked reads what the picture shows from a verified certificate.
func picked(r *certificate.Report) picture {
	c := r.Clean
	p := picture{Report: r, Verdict: r.Sentence() + " (version " + c.Policy.Version + ")"}
	y := 0
	p.Fields, y = stacked(
		94,
		"node", c.Node.Hostname+", "+c.Node.SKU+", serial "+c.Node.Serial+", site "+c.Node.Site,
		"tenant before", c.Allocation.Tenant+", allocation "+c.Allocation.ID+map[bool]string{true: ", had root"}[c.Allocation.HadRoot],
		"turnover", c.Run.Mode+", "+day(c.Run.StartedAt)+" to "+day(c.FinishedAt),
		"examined from", c.Environment.Words(),
		"whole machine", fmt.Sprintf("%s, %d checks made, %d not made", c.Validation.Verdict, c.Validation.ChecksMade, len(c.Validation.ChecksNotMade)),
		"good until", day(c.ValidUntil),
	)
	p.Table = y - 6
	y += 14
	head := rowAt(y, "", "SERIAL OR UUID", "METHOD", "COVERED", "VERIFIED", "RESET", "VERDICT")
	head.Head = true
	p.Rows = []row{head}
	for _, d := range c.Devices {
		y += lineHeight
		row := rowAt(y, d.Kind, d.Name(), words(string(d.Method)), certificate.Covered(d.CoveredBytes, d.OfBytes), d.Verification, d.Reset, d.Outcome())
		p.Rows = append(p.Rows, row)
	}
	p.Foot = y + 14
	var parts []string
	for _, n := range c.NotCovered {
		parts = append(parts, words(n.Part))
	}
	proofs := 0
	for _, t := range c.Tasks {
		if t.Proof != nil {
			proofs++
		}
	}
	half := (len(parts) + 1) / 2
	p.Signed, y = stacked(
		y+2*lineHeight-4,
		"not covered", strings.Join(parts[:half], ", ")+",",
		"", strings.Join(parts[half:], ", "),
		"evidence", fmt.Sprintf("of %d tasks, signed by the node and contained in the file", proofs),
		"signed", "by statement key "+r.KeyID+", "+day(r.IssuedAt),
		"file", r.Digest,
	)
	p.Below = y - 4
	p.Height = p.Below + 2
	return p
}

func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// The picture of the README shows the certificate that the README verifies.
func TestThePictureShowsTheCertificate(t *testing.T) {
	const file, trust = "../../broker/certificate/testdata/clean.json", "../../broker/certificate/testdata/trust.json"
	keys, err := certificate.ReadTrust([]byte(read(t, trust)))
	if err != nil {
		t.Fatal(err)
	}
	asOf := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	r, err := certificate.Verify([]byte(read(t, file)), keys, asOf)
	if err != nil {
		t.Fatal(err)
	}
	var svg strings.Builder
	if err := template.Must(template.New("certificate").Parse(drawing)).Execute(&svg, picked(r)); err != nil {
		t.Fatal(err)
	}
	manual.Hold(t, "../../docs/certificate.svg", svg.String(), *update, "go test ./test/readme -run TestThePicture -update")
	if !strings.Contains(read(t, frontPage), "(docs/certificate.svg)") {
		t.Error("README.md does not show docs/certificate.svg")
	}
}
