package render

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"golang.org/x/text/width"

	"github.com/hostler/hostler/taskcatalog"
)

// Bounds of shown text, in bytes.
const (
	MaxCell = 200  // of a cell in a list
	MaxLine = 1200 // of a value on a page of its own
)

// columns is how many columns of a terminal a clean text takes.
func columns(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me):
		case width.LookupRune(r).Kind() == width.EastAsianWide, width.LookupRune(r).Kind() == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}

// Cell makes untrusted text fit for a cell.
func Cell(s string) string { return taskcatalog.Clean(s, MaxCell) }

// Cut shortens text to a number of columns, with "…" in place of the rest.
func Cut(s string, most int) string {
	if columns(s) <= most {
		return s
	}
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n += columns(string(r)); n >= most {
			break
		}
		b.WriteRune(r)
	}
	return b.String() + "…"
}

// Time writes a moment in UTC, to the second; a zero time is empty.
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// Ago writes how long before now a moment was, or how long until it comes.
func Ago(t, now time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return ""
	case d < 0:
		return "in " + Span(-d)
	default:
		return Span(d) + " ago"
	}
}

// Span writes a length of time with its two largest units.
func Span(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return two(d, time.Minute, "m", time.Second, "s")
	case d < 24*time.Hour:
		return two(d, time.Hour, "h", time.Minute, "m")
	default:
		return two(d, 24*time.Hour, "d", time.Hour, "h")
	}
}

func two(d, big time.Duration, b string, small time.Duration, s string) string {
	if rest := d % big / small; rest > 0 {
		return fmt.Sprintf("%d%s%d%s", d/big, b, rest, s)
	}
	return fmt.Sprintf("%d%s", d/big, b)
}

// Bytes writes a size.
func Bytes(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// Short is the beginning of a digest, enough to tell two apart.
func Short(digest string) string {
	head, hex, ok := strings.Cut(digest, ":")
	if !ok || len(hex) <= 12 {
		return Cell(digest)
	}
	return Cell(head + ":" + hex[:12])
}

// YesNo writes a flag.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
