package api

import "time"

// Capacity is how many nodes and GPUs there are by site and SKU, and what they are used for.
type Capacity struct {
	From time.Time     `json:"from" doc:"start of the period of the turnovers' figures"`
	To   time.Time     `json:"to"`
	By   string        `json:"by,omitempty" doc:"part of the places by which the rows are counted, too"`
	Rows []CapacityRow `json:"rows" doc:"by site and SKU"`
}

// CapacityRow is what a site has of a SKU.
type CapacityRow struct {
	Site                  string         `json:"site" doc:"empty: nodes without a site"`
	SKU                   string         `json:"sku" doc:"empty: nodes without a SKU"`
	Place                 string         `json:"place,omitempty" doc:"word of the place, if the rows are counted by places; left out: not known. Such rows have neither reservations, whose nodes count as available, nor turnovers"`
	GPUs                  CapacityCounts `json:"gpus" doc:"number of GPUs by the SKU; 0 without a SKU"`
	Nodes                 CapacityCounts `json:"nodes"`
	Turnovers             int64          `json:"turnovers" doc:"turnovers that ended in the period"`
	TurnoverMedianMinutes float64        `json:"turnover_median_minutes" doc:"median time for which these turnovers kept a node out of use"`
	TurnoverP95Minutes    float64        `json:"turnover_p95_minutes" doc:"95th percentile of this time"`
}

// CapacityCounts counts by availability.
type CapacityCounts struct {
	Delivered    int64 `json:"delivered" doc:"all that are on record and not deleted"`
	Healthy      int64 `json:"healthy" doc:"available, reserved, allocated without a fault, in turnover or in maintenance"`
	Available    int64 `json:"available" doc:"for any project"`
	Reserved     int64 `json:"reserved" doc:"free, and kept for a project's reservation that is in force"`
	Allocated    int64 `json:"allocated"`
	InTurnover   int64 `json:"in_turnover"`
	Maintenance  int64 `json:"maintenance"`
	Held         int64 `json:"held"`
	OutOfService int64 `json:"out_of_service"`
	Unknown      int64 `json:"unknown" doc:"not judged yet, or for too long"`
}
