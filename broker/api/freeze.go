package api

import "time"

// HeaderFrozen names the sites that are frozen, joined by commas, * being all of
// them, in every answer to a GET while there are any that the token may see.
const HeaderFrozen = "Hostler-Frozen"

// Hold says that no stage begins at a site.
type Hold struct {
	Site   string    `json:"site" doc:"empty: all sites"`
	Kind   string    `json:"kind" enum:"freeze,unreachable,restored" doc:"freeze: an operator's, no destructive task is handed out either; unreachable: MAAS or its secrets do not answer; restored: the database was restored from a backup, and nothing but probes is handed out"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
}

// Standing stands on top of every list.
type Standing struct {
	Frozen []Hold `json:"frozen,omitempty" doc:"freezes that stand"`
}

// Tell sets what stands.
func (s *Standing) Tell(frozen []Hold) { s.Frozen = frozen }

// FreezePut asks for a freeze.
type FreezePut struct {
	Site   string `json:"site,omitempty" maxLength:"63" doc:"empty: all sites"`
	Reason string `json:"reason" minLength:"1" maxLength:"500"`
}

// UnfreezePut asks for the end of freezes.
type UnfreezePut struct {
	FreezePut
	Force bool `json:"force,omitzero" doc:"also what others placed: for platform admins"`
}

// FreezeResult is what this request placed, or lifted first, and what stands at
// that site after it.
type FreezeResult struct {
	Hold
	Changed  bool   `json:"changed" doc:"false: it was so already"`
	Lifted   []Hold `json:"lifted,omitempty" doc:"of an unfreeze; the oldest first"`
	Standing []Hold `json:"standing,omitempty" doc:"freezes of exactly this site, or of all, that stand now; the oldest first"`
	UnderWay
}

// FreezeStatus is what keeps work from beginning.
type FreezeStatus struct {
	Holds []Hold `json:"holds" doc:"freezes first"`
	UnderWay
}

// UnderWay is what a freeze lets finish.
type UnderWay struct {
	DestructiveTasks int64 `json:"destructive_tasks_under_way" doc:"nodes have them"`
	Stages           int64 `json:"stages_under_way"`
}
