package render

import (
	"bytes"
	"io"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// Page collects text for a person.
type Page struct {
	buf   bytes.Buffer
	color bool
	width int // of the terminal, in columns; 0: tables are written whole
}

// NewPage makes an empty page. Its tables fit a terminal of width columns; at width 0 they are
// written whole.
func NewPage(color bool, width int) *Page { return &Page{color: color, width: width} }

// WriteTo writes the page in one piece.
func (p *Page) WriteTo(w io.Writer) (int64, error) { return p.buf.WriteTo(w) }

// Line writes one line of untrusted text.
func (p *Page) Line(s string) { p.put(taskcatalog.Clean(s, MaxLine)) }

// Blank writes an empty line, unless the page is empty.
func (p *Page) Blank() {
	if p.buf.Len() > 0 {
		p.put("")
	}
}

// Title writes an empty line and a heading.
func (p *Page) Title(s string) {
	p.Blank()
	p.put(p.style(bold, taskcatalog.Clean(s, MaxCell)))
}

// Fields writes name, value pairs, the values below one another. A pair with
// an empty value is left out.
func (p *Page) Fields(pairs ...string) {
	wide := 0
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			wide = max(wide, columns(pairs[i]))
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if value := pairs[i+1]; value != "" {
			name := taskcatalog.Clean(pairs[i], MaxCell)
			p.put(name + strings.Repeat(" ", max(wide-columns(name), 0)+2) + p.paint(taskcatalog.Clean(value, MaxLine)))
		}
	}
}

// put writes a line that is already clean.
func (p *Page) put(s string) { p.buf.WriteString(s + "\n") }

const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// tones colours the words that a person looks for. A cell is coloured only if it consists of such a
// word.
var tones = map[string]string{
	"active": green, "succeeded": green, "clean": green, "ok": green,
	"offline": yellow, "draining": yellow, "enrolling": yellow, "dispatched": yellow, "inconclusive": yellow, "warn": yellow,
	"quarantined": red, "failed": red, "expired": red, "not_clean": red, "fail": red, "refused": red, "interrupted": red,
}

func (p *Page) paint(s string) string {
	if tone, ok := tones[s]; ok {
		return p.style(tone, s)
	}
	return s
}

func (p *Page) style(tone, s string) string {
	if !p.color || s == "" {
		return s
	}
	return "\x1b[" + tone + "m" + s + "\x1b[0m"
}
