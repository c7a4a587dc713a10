package adminapi

import (
	"context"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/turnover"
	turnoverrecords "github.com/hostler/hostler/broker/turnover/records"
)

// The default and the longest period of figures.
const (
	usualFigures = 7 * 24 * time.Hour
	mostFigures  = 100 * 24 * time.Hour
)

type figuresInput struct {
	Site  string    `query:"site" maxLength:"63"`
	Since time.Time `query:"since" doc:"start of the period; default: seven days ago; at most a hundred days ago"`
}

// turnoverFigures returns the cost of turnovers, computed from the records.
func (a *API) turnoverFigures(ctx context.Context, in *figuresInput) (*api.TurnoverFigures, error) {
	sites, err := visibleSites(callerOf(ctx), in.Site)
	if err != nil {
		return nil, err
	}
	to := a.c.Now().UTC()
	from := to.Add(-usualFigures)
	if !in.Since.IsZero() {
		from = in.Since.UTC()
	}
	if !from.Before(to) || to.Sub(from) > mostFigures {
		return nil, broker.Errorf(broker.Invalid, "since_invalid",
			"cannot show figures since %s: the period begins at most a hundred days ago", from.Format(time.RFC3339))
	}
	f, err := turnoverrecords.FiguresOf(ctx, a.c.DB, sites, from, to)
	if err != nil {
		return nil, err
	}
	out := &api.TurnoverFigures{
		From: f.From, To: f.To, Sites: []api.SiteFigures{}, Stages: []api.StageFigures{}, Slow: int64(f.Slow),
		Slowest: []api.SlowestFigure{}, Truncated: f.Truncated,
	}
	for _, s := range f.Sites {
		out.Sites = append(out.Sites, api.SiteFigures{
			Site: s.Site, Turnovers: int64(s.Turnovers), Open: int64(s.Open), NodeHoursLost: s.NodeLost.Hours(),
			GPUHoursLost:  s.GPULost.Hours(),
			MedianMinutes: s.Median.Minutes(), MostMinutes: s.Most.Minutes(),
		})
	}
	for _, s := range f.Stages {
		out.Stages = append(out.Stages, api.StageFigures{
			Mode: strings.TrimPrefix(s.Kind, turnover.KindPrefix+"/"), Stage: s.Stage, Turnovers: s.Runs, Attempts: s.Attempts,
			Failed:      s.Failed,
			MeanMinutes: s.Total.Minutes() / float64(max(s.Runs, 1)), LongestMinutes: s.Longest.Minutes(),
		})
	}
	for _, c := range f.Slowest {
		out.Slowest = append(out.Slowest, api.SlowestFigure{
			Stage: c.Stage, FailureClass: c.Class, Turnovers: int64(c.Turnovers),
			Hours: c.Took.Hours(),
		})
	}
	return out, nil
}
