package api

import "time"

// TurnoverFigures say how much time turnovers cost between two times, computed from the records.
type TurnoverFigures struct {
	From      time.Time       `json:"from"`
	To        time.Time       `json:"to"`
	Sites     []SiteFigures   `json:"sites" doc:"the one first that lost most"`
	Stages    []StageFigures  `json:"stages" doc:"in the order of the modes"`
	Slow      int64           `json:"slow" doc:"turnovers in the slowest tenth"`
	Slowest   []SlowestFigure `json:"slowest" doc:"what the slowest tenth was spent on most, by cause"`
	Truncated bool            `json:"truncated,omitzero" doc:"there were more turnovers than are read: these are the last 10,000"`
}

// SiteFigures say how much time turnovers cost one site. A node counts as out from the time when it
// owes a turnover until it is in service again.
type SiteFigures struct {
	Site          string  `json:"site" doc:"empty: nodes without one"`
	Turnovers     int64   `json:"turnovers" doc:"that went on in the time"`
	Open          int64   `json:"open" doc:"that still do"`
	NodeHoursLost float64 `json:"node_hours_lost" doc:"of the time"`
	GPUHoursLost  float64 `json:"gpu_hours_lost" doc:"GPUs that the nodes shall have, times the hours that they were out"`
	MedianMinutes float64 `json:"median_minutes" doc:"of a whole turnover, up to now where it goes on"`
	MostMinutes   float64 `json:"most_minutes"`
}

// StageFigures is how long a stage took in the turnovers of one mode.
type StageFigures struct {
	Mode           string  `json:"mode"`
	Stage          string  `json:"stage"`
	Turnovers      int64   `json:"turnovers"`
	Attempts       int64   `json:"attempts"`
	Failed         int64   `json:"failed" doc:"attempts"`
	MeanMinutes    float64 `json:"mean_minutes" doc:"of a turnover, all its attempts together"`
	LongestMinutes float64 `json:"longest_minutes" doc:"of an attempt"`
}

// SlowestFigure is one cause of slow turnovers: the stage at which turnovers of the slowest tenth
// spent the longest time, and the class of the last failure at that stage.
type SlowestFigure struct {
	Stage        string  `json:"stage" doc:"or no_run: they were owed a turnover, and none was under way"`
	FailureClass string  `json:"failure_class,omitempty" doc:"none: nothing failed there, it was just slow"`
	Turnovers    int64   `json:"turnovers"`
	Hours        float64 `json:"hours" doc:"at that stage"`
}
