package api

import "time"

// TurnoverFigures say how much time turnovers cost between two times, computed from the records.
type TurnoverFigures struct {
	From      time.Time       `json:"from"`
	To        time.Time       `json:"to"`
	Sites     []SiteFigures   `json:"sites" doc:"sites by hours lost, most first"`
	Stages    []StageFigures  `json:"stages" doc:"stages in the order of the modes"`
	Slow      int64           `json:"slow" doc:"number of turnovers in the slowest tenth"`
	Slowest   []SlowestFigure `json:"slowest" doc:"causes that took the slowest tenth the most time"`
	Truncated bool            `json:"truncated,omitzero" doc:"only the last 10,000 turnovers are counted"`
}

// SiteFigures say how much time turnovers cost one site. A node counts as out from the time when it
// owes a turnover until it is in service again.
type SiteFigures struct {
	Site          string  `json:"site" doc:"empty: nodes without a site"`
	Turnovers     int64   `json:"turnovers" doc:"turnovers that were under way in the period"`
	Open          int64   `json:"open" doc:"turnovers that are still under way"`
	NodeHoursLost float64 `json:"node_hours_lost" doc:"hours in the period in which nodes were out of use"`
	GPUHoursLost  float64 `json:"gpu_hours_lost" doc:"these hours times the GPUs that each node should have"`
	MedianMinutes float64 `json:"median_minutes" doc:"median duration of a turnover; an open turnover counts up to now"`
	MostMinutes   float64 `json:"most_minutes"`
}

// StageFigures is how long a stage took in the turnovers of one mode.
type StageFigures struct {
	Mode           string  `json:"mode"`
	Stage          string  `json:"stage"`
	Turnovers      int64   `json:"turnovers"`
	Attempts       int64   `json:"attempts"`
	Failed         int64   `json:"failed" doc:"failed attempts"`
	MeanMinutes    float64 `json:"mean_minutes" doc:"mean over turnovers, all attempts of a turnover added up"`
	LongestMinutes float64 `json:"longest_minutes" doc:"longest single attempt"`
}

// SlowestFigure is one cause of slow turnovers: the stage at which turnovers of the slowest tenth
// spent the longest time, and the class of the last failure at that stage.
type SlowestFigure struct {
	Stage        string  `json:"stage" doc:"a stage, or no_run: a turnover was owed and no run was under way"`
	FailureClass string  `json:"failure_class,omitempty" doc:"none: the stage was slow without a failure"`
	Turnovers    int64   `json:"turnovers"`
	Hours        float64 `json:"hours" doc:"hours spent at the stage"`
}
