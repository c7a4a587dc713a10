package maassim

import "slices"

// Status is a machine's status, numbered as in MAAS.
type Status int

// MAAS's statuses, in MAAS's order.
const (
	New Status = iota
	Commissioning
	FailedCommissioning
	Missing
	Ready
	Reserved
	Deployed
	Retired
	Broken
	Deploying
	Allocated
	FailedDeployment
	Releasing
	ReleasingFailed
	DiskErasing
	FailedDiskErasing
	RescueMode
	EnteringRescueMode
	FailedEnteringRescueMode
	ExitingRescueMode
	FailedExitingRescueMode
	Testing
	FailedTesting
)

// statuses describes each status: the name in a machine's body, the word that filters a list, and
// the next statuses that MAAS's model permits.
var statuses = []struct {
	name, filter string
	next         []Status
}{
	New:                      {"New", "new", []Status{1, 21, 3, 4, 7, 8, 17}},
	Commissioning:            {"Commissioning", "commissioning", []Status{2, 4, 7, 3, 0, 8, 21}},
	FailedCommissioning:      {"Failed commissioning", "failed_commissioning", []Status{1, 3, 7, 8, 17, 21}},
	Missing:                  {"Missing", "missing", []Status{0, 4, 10, 1, 8, 17, 21}},
	Ready:                    {"Ready", "ready", []Status{17, 1, 10, 5, 7, 3, 8, 21}},
	Reserved:                 {"Reserved", "reserved", []Status{4, 10, 7, 3, 8, 14, 12, 17, 21}},
	Deployed:                 {"Deployed", "deployed", []Status{10, 3, 8, 4, 14, 12, 17, 21}},
	Retired:                  {"Retired", "retired", []Status{0, 4, 3, 8, 17, 21}},
	Broken:                   {"Broken", "broken", []Status{1, 4, 14, 12, 17, 21, 6}},
	Deploying:                {"Deploying", "deploying", []Status{10, 3, 8, 11, 6, 4, 14, 12}},
	Allocated:                {"Allocated", "allocated", []Status{4, 7, 3, 8, 9, 14, 12, 17, 21}},
	FailedDeployment:         {"Failed deployment", "failed_deployment", []Status{10, 3, 8, 4, 14, 12, 17, 21}},
	Releasing:                {"Releasing", "releasing", []Status{0, 10, 5, 6, 4, 8, 3, 11, 15, 13}},
	ReleasingFailed:          {"Releasing failed", "failed_releasing", []Status{12, 14, 4, 8, 21}},
	DiskErasing:              {"Disk erasing", "disk_erasing", []Status{8, 14, 15, 4, 12}},
	FailedDiskErasing:        {"Failed disk erasing", "failed_disk_erasing", []Status{14, 12, 8, 10, 4, 17, 21}},
	RescueMode:               {"Rescue mode", "rescue_mode", []Status{8, 19, 21}},
	EnteringRescueMode:       {"Entering rescue mode", "entering_rescue_mode", []Status{4, 8, 6, 16, 18, 19}},
	FailedEnteringRescueMode: {"Failed to enter rescue mode", "failed_entering_rescue_mode", []Status{8, 17, 19, 21}},
	ExitingRescueMode: {
		"Exiting rescue mode", "exiting_rescue_mode",
		[]Status{0, 8, 2, 4, 5, 10, 11, 6, 3, 7, 13, 15, 16, 18, 20, 22},
	},
	FailedExitingRescueMode: {"Failed to exit rescue mode", "failed_exiting_rescue_mode", []Status{8, 19, 21}},
	Testing:                 {"Testing", "testing", []Status{8, 0, 4, 5, 10, 6, 1, 11, 3, 7, 13, 15, 18, 20, 22}},
	FailedTesting:           {"Failed testing", "failed_testing", []Status{1, 8, 3, 17, 21, 4, 6}},
}

// String returns the status_name of a machine's body.
func (s Status) String() string {
	if s < 0 || int(s) >= len(statuses) {
		return "Unknown"
	}
	return statuses[s].name
}

// to reports whether the model permits the transition from s to next. s to s is always permitted.
func (s Status) to(next Status) bool {
	return s == next || slices.Contains(statuses[s].next, next)
}

// in reports whether s is among the given statuses.
func (s Status) in(any ...Status) bool { return slices.Contains(any, s) }
