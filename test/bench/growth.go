package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
)

// curve is a figure measured for a hundred, a thousand and ten thousand.
type curve struct {
	title     string
	benchmark string // with the count, of hallPkg
	unit      string
	shown     string // the unit, for people
	of        string // the counted things
	aim       float64
}

var (
	sizes  = []int{100, 1000, 10000}
	curves = []curve{
		{"Resident memory of each", "ConnectedAgents/agents=%d", "rss-kB/agent", "KB", "agents", 45},
		{"The broker's processor, idle", "ConnectedAgents/agents=%d", "core-%", "% of a core", "agents", 5},
		{"Back after a restart", "ConnectedAgents/agents=%d", "restart-s", "s", "agents", 60},
		{"Onboardings, ended a second", "Onboardings/runs=%d", "onboardings/s", "onboardings/s", "onboardings at once", 0},
	}
)

// printGrowth prints the plotted figures as a table for docs/explanation/performance.md.
func (r *report) printGrowth(out io.Writer) error {
	text := "\n| of |"
	rule := "| --- |"
	for _, c := range curves {
		text, rule = text+fmt.Sprintf(" %s, %s |", c.title, c.shown), rule+" --- |"
	}
	text += "\n" + rule + "\n"
	for _, n := range sizes {
		text += "| " + grouped(n) + " |"
		for _, c := range curves {
			cell := "not run"
			if v, ok := r.figure(hallPkg, fmt.Sprintf(c.benchmark, n), c.unit); ok {
				cell = number(v)
			}
			text += " " + cell + " |"
		}
		text += "\n"
	}
	_, err := io.WriteString(out, text)
	return err
}

// grouped writes 10000 as 10,000.
func grouped(n int) string {
	s := strconv.Itoa(n)
	if len(s) > 3 {
		s = s[:len(s)-3] + "," + s[len(s)-3:]
	}
	return s
}

// The coordinates of a panel of the plot and of its axes.
const (
	width, height           = 420, 260
	left, right, top, floor = 60, 400, 40, 205
)

type (
	panel struct {
		Title, Unit, Of       string
		X, Y                  int // of the panel itself
		Points                []point
		Across, Up            []mark
		Line                  string // through the points
		Aim                   *mark
		Left, Right, Top, End int
		Middle                int
	}
	point struct {
		X, Y float64
		Text string
	}
	mark struct {
		At   float64
		Text string
	}
)

//go:embed plot.svg.tmpl
var plotText string

var plotTemplate = template.Must(template.New("plot").Parse(plotText))

// plot draws the curves: the measured points, joined by lines.
func (r *report) plot() ([]byte, error) {
	var all struct {
		Width, Height int
		Where         string
		Panels        []panel
	}
	all.Width, all.Height, all.Where = 2*width, (len(curves)+1)/2*height+30, r.where()
	for i, c := range curves {
		p := r.panel(c)
		p.X, p.Y = i%2*width, i/2*height
		all.Panels = append(all.Panels, p)
	}
	var out bytes.Buffer
	err := plotTemplate.Execute(&out, all)
	return out.Bytes(), err
}

func (r *report) panel(c curve) panel {
	p := panel{Title: c.title, Unit: c.shown, Of: c.of, Left: left, Right: right, Top: top, End: floor, Middle: (left + right) / 2}
	most := c.aim
	for _, n := range sizes {
		p.Across = append(p.Across, mark{across(n), grouped(n)})
		if v, ok := r.figure(hallPkg, fmt.Sprintf(c.benchmark, n), c.unit); ok {
			most = max(most, v)
		}
	}
	step := tick(most)
	steps := max(1, math.Ceil(most/step))
	up := func(v float64) float64 { return floor - max(v, 0)/(steps*step)*(floor-top) }
	for i := range int(steps) + 1 {
		p.Up = append(p.Up, mark{up(float64(i) * step), number(float64(i) * step)})
	}
	for _, n := range sizes {
		if v, ok := r.figure(hallPkg, fmt.Sprintf(c.benchmark, n), c.unit); ok {
			at := point{across(n), up(v), fmt.Sprintf("%s %s: %s %s", grouped(n), c.of, number(v), c.shown)}
			p.Points = append(p.Points, at)
			p.Line += fmt.Sprintf("%.1f,%.1f ", at.X, at.Y)
		}
	}
	if c.aim > 0 {
		p.Aim = &mark{up(c.aim), "aim: " + number(c.aim)}
	}
	return p
}

// across returns the position of a count on a logarithmic axis.
func across(n int) float64 {
	first, last := math.Log10(float64(sizes[0])), math.Log10(float64(sizes[len(sizes)-1]))
	const margin = 25
	return left + margin + (math.Log10(float64(n))-first)/(last-first)*(right-left-2*margin)
}

// tick returns a round number such that about five ticks reach v.
func tick(v float64) float64 {
	if v <= 0 {
		return 1
	}
	ten := math.Pow(10, math.Floor(math.Log10(v/5)))
	for _, of := range []float64{1, 2, 5} {
		if v/(of*ten) <= 5 {
			return of * ten
		}
	}
	return 10 * ten
}
