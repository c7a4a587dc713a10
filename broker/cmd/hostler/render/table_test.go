package render

import (
	"bytes"
	"strings"
	"testing"
)

// fleet is a table with a column of each kind.
func fleet(width int, because string) []string {
	p := NewPage(false, width)
	p.Table(
		[]Column{NodeID("ID"), Keep("HOSTNAME"), Main("SITE"), Keep("STATUS"), Aside("AGENT"), More("CONTACT"), Keep("BECAUSE")},
		[][]string{
			{"n-aaaaaaaaaaaaaaaa", "gpu-07", "dc1", "quarantined", "2.0.0", "3m ago", because},
			{"n-aaaaaaaaabbbbbbb", "gpu-08", "dc1", "active", "2.0.0", "3m ago", ""},
		})
	var out bytes.Buffer
	_, _ = p.WriteTo(&out)
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestARowWithoutACellForEachColumnIsTheProgrammersFault(t *testing.T) {
	for _, row := range [][]string{{"n-1"}, {"n-1", "gpu-07", "dc1"}} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, "for 2 columns") || !strings.Contains(said, "begins with ID") {
					t.Errorf("%d cells: %q", len(row), said)
				}
			}()
			NewPage(false, 0).Table([]Column{NodeID("ID"), Keep("HOSTNAME")}, [][]string{row})
		}()
	}
}

func TestATableGivesUpColumnsByTheirRank(t *testing.T) {
	for _, c := range []struct {
		width int
		heads string
		note  string // "": no line below the table
	}{
		{0, "ID HOSTNAME SITE STATUS AGENT CONTACT BECAUSE", ""},
		{72, "ID HOSTNAME SITE STATUS AGENT CONTACT BECAUSE", ""},
		{70, "ID HOSTNAME SITE STATUS AGENT CONTACT BECAUSE", "ids shortened: use -o wide"},
		{65, "ID HOSTNAME SITE STATUS CONTACT BECAUSE", "ids shortened, 1 column left out (AGENT): use -o wide"},
		{58, "ID HOSTNAME SITE STATUS BECAUSE", "ids shortened, 2 columns left out (AGENT, CONTACT): use -o wide"},
		{49, "ID HOSTNAME STATUS BECAUSE", "ids shortened, 3 columns left out (AGENT, CONTACT, SITE): use -o wide"},
		{20, "ID HOSTNAME STATUS BECAUSE", "ids shortened, 3 columns left out (AGENT, CONTACT, SITE): use -o wide"},
	} {
		lines := fleet(c.width, "accused")
		if got := strings.Join(strings.Fields(lines[0]), " "); got != c.heads {
			t.Errorf("width %d: columns %s, want %s", c.width, got, c.heads)
		}
		note := ""
		if last := lines[len(lines)-1]; strings.HasSuffix(last, "-o wide") {
			note = last
		}
		if note != c.note {
			t.Errorf("width %d: note %q, want %q", c.width, note, c.note)
		}
	}
}

// A shortened id is unique in its table, and is the beginning of the whole id.
func TestAShortenedIDTellsTheNodesApart(t *testing.T) {
	lines := fleet(60, "accused")
	one, two := strings.Fields(lines[1])[0], strings.Fields(lines[2])[0]
	if one != "n-aaaaaaaaaa" || two != "n-aaaaaaaaab" {
		t.Errorf("got %s and %s", one, two)
	}
}

// Long text is broken over lines of its column: nothing of it is lost, and no line is wider than the
// terminal.
func TestTextOfAKeptColumnIsBrokenAndNotCut(t *testing.T) {
	because := "the node reported " + strings.Repeat("x", 70) + " and nobody knows why it did so"
	for width := 49; width < 150; width++ {
		lines := fleet(width, because)
		var all strings.Builder
		for _, line := range lines {
			if strings.HasSuffix(line, "-o wide") {
				continue
			}
			if columns(line) > width {
				t.Errorf("width %d: %q has %d columns", width, line, columns(line))
			}
			if strings.HasSuffix(line, " ") {
				t.Errorf("width %d: %q ends with a blank", width, line)
			}
			all.WriteString(strings.ReplaceAll(line, " ", ""))
		}
		for _, part := range []string{"thenodereported", "nobody", "quarantined"} {
			if !strings.Contains(all.String(), part) {
				t.Errorf("width %d: %s is lost:\n%s", width, part, strings.Join(lines, "\n"))
			}
		}
		if n := strings.Count(all.String(), "x"); n != 70 {
			t.Errorf("width %d: %d of 70 letters", width, n)
		}
	}
}

// A line of a broken text is no verdict, also if it consists of the word of one.
func TestAPartOfATextIsNotColouredAsAVerdict(t *testing.T) {
	for width := 1; width < 120; width++ {
		p := NewPage(true, width)
		p.Table([]Column{Keep("HOSTNAME"), Keep("SAYS"), Keep("BECAUSE")}, [][]string{
			{"gpu-07", "the wipe was not ok and failed", "the disk is not clean and the agent is not active"},
			{"gpu-08", "failed", "clean"},
		})
		var out bytes.Buffer
		_, _ = p.WriteTo(&out)
		broken, whole, _ := strings.Cut(out.String(), "gpu-08")
		for _, tone := range []string{red, green, yellow} {
			if strings.Contains(broken, "\x1b["+tone+"m") {
				t.Errorf("width %d: a part is coloured:\n%s", width, broken)
			}
		}
		for _, word := range []string{p.style(red, "failed"), p.style(green, "clean")} {
			if !strings.Contains(whole, word) {
				t.Errorf("width %d: %q is missing in %q", width, word, whole)
			}
		}
	}
}

func TestHostileTextFitsATerminal(t *testing.T) {
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			for _, line := range fleet(50, text) {
				visible(t, line)
				if columns(line) > 50 && !strings.HasSuffix(line, "-o wide") {
					t.Errorf("%q has %d columns", line, columns(line))
				}
			}
		})
	}
}
