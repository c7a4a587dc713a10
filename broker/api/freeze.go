package api

import "time"

// HeaderFrozen names the frozen sites, joined by commas; * means all sites. Every answer to a GET
// carries the header while the token may see at least one frozen site.
const HeaderFrozen = "Hostler-Frozen"

// Hold says that no stage begins at a site.
type Hold struct {
	Site   string    `json:"site" doc:"empty: all sites"`
	Kind   string    `json:"kind" enum:"freeze,unreachable,restored" doc:"freeze: placed by an operator, also holds back destructive tasks; unreachable: MAAS or its secrets do not answer; restored: the database came from a backup, and only probes are handed out"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
}

// Standing stands at the top of every list and names the freezes in force.
type Standing struct {
	Frozen []Hold `json:"frozen,omitempty" doc:"freezes in force"`
}

// Tell sets the freezes in force.
func (s *Standing) Tell(frozen []Hold) { s.Frozen = frozen }

// FreezePut asks for a freeze.
type FreezePut struct {
	Site   string `json:"site,omitempty" maxLength:"63" doc:"empty: all sites"`
	Reason string `json:"reason" minLength:"1" maxLength:"500"`
}

// UnfreezePut asks for the end of freezes.
type UnfreezePut struct {
	FreezePut
	Force bool `json:"force,omitzero" doc:"also lift freezes that other operators placed; platform_admin only"`
}

// FreezeResult is the freeze that this request placed, or the first freeze that the request lifted,
// with the freezes that stand at the site afterwards.
type FreezeResult struct {
	Hold
	Changed  bool   `json:"changed" doc:"false: nothing changed"`
	Lifted   []Hold `json:"lifted,omitempty" doc:"freezes that an unfreeze lifted, oldest first"`
	Standing []Hold `json:"standing,omitempty" doc:"freezes in force at exactly this site, or at all sites, oldest first"`
	UnderWay
}

// FreezeStatus lists everything that keeps work from beginning.
type FreezeStatus struct {
	Holds []Hold `json:"holds" doc:"freezes first, then unreachable sites"`
	UnderWay
}

// UnderWay counts the work that a freeze lets finish.
type UnderWay struct {
	DestructiveTasks int64 `json:"destructive_tasks_under_way" doc:"destructive tasks that were handed out to nodes"`
	Stages           int64 `json:"stages_under_way"`
}
