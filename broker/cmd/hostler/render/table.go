package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// Column is a column of a table: its heading, and what becomes of the column in a terminal that is
// too narrow for the table.
type Column struct {
	head string
	rank rank
	id   idKind
}

// rank orders the columns by how late they are left out of a table.
type rank int

const (
	rankAside rank = iota
	rankMore
	rankMain
	rankKeep
)

type idKind int

const (
	notID     idKind = iota
	wholeID          // is never broken over lines, because people copy it
	prefixID         // may be shortened to a unique beginning, which commands accept
	minPrefix = 8    // columns of a shortened id
)

// ID is a column of ids that commands accept only whole. It is never left out.
func ID(head string) Column { return Column{head, rankKeep, wholeID} }

// NodeID is a column of node ids. Commands accept a unique beginning of a node id, so that the
// column is shortened where the table is too wide. It is never left out.
func NodeID(head string) Column { return Column{head, rankKeep, prefixID} }

// Keep is a column that is never left out: names, statuses, reasons, and whatever holds a node or a
// run back.
func Keep(head string) Column { return Column{head, rankKeep, notID} }

// Kept are columns that are never left out.
func Kept(heads ...string) []Column {
	list := make([]Column, len(heads))
	for i, h := range heads {
		list[i] = Keep(h)
	}
	return list
}

// Main is a column that is left out after all columns of More and Aside.
func Main(head string) Column { return Column{head, rankMain, notID} }

// More is a column that is left out after all columns of Aside.
func More(head string) Column { return Column{head, rankMore, notID} }

// Aside is a column that is left out first.
func Aside(head string) Column { return Column{head, rankAside, notID} }

const (
	gap         = 2  // columns between two cells
	minText     = 24 // columns that the text in a last column gets at least
	minSqueezed = 12 // columns below which no text is squeezed
)

// Table writes rows below a heading. All cells are untrusted. The last column may be long; the
// others are bounded. Without rows Table writes nothing.
//
// On a page with a width, a table that is too wide is made to fit: ids that commands accept
// shortened are shortened, columns are left out by their rank, and long text is broken over several
// lines. A line below the table says what is missing.
func (p *Page) Table(heads []Column, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	cells := make([][]string, len(rows))
	for n, row := range rows {
		if len(row) != len(heads) {
			panic(fmt.Sprintf("row %d of the table that begins with %s has %d cells for %d columns: add a cell for each column", n,
				heads[0].head, len(row), len(heads)))
		}
		cells[n] = make([]string, len(row))
		for i := range row {
			most := MaxCell
			if i == len(heads)-1 {
				most = MaxLine
			}
			if cells[n][i] = taskcatalog.Clean(row[i], most); cells[n][i] == "" {
				cells[n][i] = "-"
			}
		}
	}
	t := &table{heads: slices.Clone(heads), rows: cells}
	t.measure()
	note := ""
	if p.width > 0 {
		note = t.fit(p.width)
	}
	names := make([]string, len(t.heads))
	for i, h := range t.heads {
		names[i] = h.head
	}
	p.row(names, t.wide, func(_ int, s string) string { return p.style(bold, s) })
	for _, row := range t.rows {
		for _, line := range t.lines(row) {
			p.row(line, t.wide, func(i int, s string) string {
				if s != row[i] { // a part of a text is no verdict
					return s
				}
				return p.paint(s)
			})
		}
	}
	if note != "" {
		p.put(note)
	}
}

// row writes one line of a table. The blanks after its last text are left out.
func (p *Page) row(cells []string, wide []int, style func(column int, s string) string) {
	var b strings.Builder
	blanks := 0
	for i, c := range cells {
		if c != "" {
			b.WriteString(strings.Repeat(" ", blanks) + style(i, c))
			blanks = 0
		}
		blanks += wide[i] - columns(c) + gap
	}
	p.put(b.String())
}

// table is a table on its way to the page.
type table struct {
	heads []Column
	rows  [][]string
	wide  []int // the width of each column
}

func (t *table) measure() {
	t.wide = make([]int, len(t.heads))
	for i, h := range t.heads {
		t.wide[i] = columns(h.head)
		for _, row := range t.rows {
			t.wide[i] = max(t.wide[i], columns(row[i]))
		}
	}
}

// width is how wide the table is. The text in its last column can be broken over lines, so that only
// minText columns of it count.
func (t *table) width() int {
	n := gap * (len(t.wide) - 1)
	for i, w := range t.wide {
		if i == len(t.wide)-1 && t.heads[i].id == notID {
			w = min(w, max(minText, columns(t.heads[i].head)))
		}
		n += w
	}
	return n
}

// fit makes the table as narrow as width columns, and returns what to tell the reader about it.
func (t *table) fit(width int) (note string) {
	var said, dropped []string
	if t.width() > width && t.shorten() {
		said = append(said, "ids shortened")
	}
	for t.width() > width {
		i := t.expendable()
		if i < 0 {
			break
		}
		dropped = append(dropped, t.heads[i].head)
		t.drop(i)
	}
	t.squeeze(width)
	switch n := len(dropped); {
	case n == 1:
		said = append(said, "1 column left out ("+dropped[0]+")")
	case n > 1:
		said = append(said, strconv.Itoa(n)+" columns left out ("+strings.Join(dropped, ", ")+")")
	}
	if len(said) == 0 {
		return ""
	}
	return strings.Join(said, ", ") + ": use -o wide"
}

// expendable is the column to leave out next: of the lowest rank, the one furthest to the right; -1
// if all others are kept.
func (t *table) expendable() int {
	found := -1
	for i, h := range t.heads {
		if h.rank < rankKeep && (found < 0 || h.rank <= t.heads[found].rank) {
			found = i
		}
	}
	return found
}

func (t *table) drop(i int) {
	t.heads, t.wide = slices.Delete(t.heads, i, i+1), slices.Delete(t.wide, i, i+1)
	for n := range t.rows {
		t.rows[n] = slices.Delete(t.rows[n], i, i+1)
	}
}

// shorten shortens the ids that may be shortened to beginnings that differ from one another.
func (t *table) shorten() (shortened bool) {
	for i, h := range t.heads {
		if h.id != prefixID {
			continue
		}
		most := t.prefix(i)
		for _, row := range t.rows {
			if len(row[i]) > most && columns(row[i]) == len(row[i]) {
				row[i], shortened = row[i][:most], true
			}
		}
	}
	t.measure()
	return shortened
}

// prefix is how many characters tell the ids of a column apart.
func (t *table) prefix(i int) int {
	ids := make([]string, len(t.rows))
	for n, row := range t.rows {
		ids[n] = row[i]
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	most := minPrefix
	for n := 1; n < len(ids); n++ {
		same := 0
		for same < len(ids[n]) && same < len(ids[n-1]) && ids[n][same] == ids[n-1][same] {
			same++
		}
		most = max(most, same+1)
	}
	return most
}

// squeeze takes columns from the widest texts until the table fits, or no text can give more. Its
// cells are broken over lines there.
func (t *table) squeeze(width int) {
	for total := t.total(); total > width; total = t.total() {
		widest := -1
		for i, h := range t.heads {
			if h.id == notID && t.wide[i] > max(minSqueezed, columns(h.head)) && (widest < 0 || t.wide[i] >= t.wide[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		t.wide[widest]--
	}
}

func (t *table) total() int {
	n := gap * (len(t.wide) - 1)
	for _, w := range t.wide {
		n += w
	}
	return n
}

// lines is a row as one or more lines of cells.
func (t *table) lines(row []string) [][]string {
	var lines [][]string
	for i, cell := range row {
		for n, part := range wrapWords(cell, t.wide[i]) {
			if n == len(lines) {
				lines = append(lines, make([]string, len(row)))
			}
			lines[n][i] = part
		}
	}
	return lines
}

// wrapWords breaks a text into parts of at most wide columns: at spaces, and within a word that is
// wider than that.
func wrapWords(s string, wide int) []string {
	if columns(s) <= wide {
		return []string{s}
	}
	var parts []string
	line := ""
	for word := range strings.SplitSeq(s, " ") {
		if line != "" && columns(line)+1+columns(word) <= wide {
			line += " " + word
			continue
		}
		if line != "" {
			parts = append(parts, line)
		}
		for line = word; columns(line) > wide; {
			head, rest := split(line, wide)
			parts, line = append(parts, head), rest
		}
	}
	if line != "" {
		parts = append(parts, line)
	}
	return parts
}

// split is the beginning of a word that takes at most wide columns, and the rest.
func split(word string, wide int) (head, rest string) {
	taken := 0
	for i, r := range word {
		if taken += columns(string(r)); taken > wide && i > 0 {
			return word[:i], word[i:]
		}
	}
	return word, ""
}
