package api

import "time"

// ReconciliationStatus says of each site whether MAAS and the nodes agree.
type ReconciliationStatus struct {
	Sites []SiteReconciliation `json:"sites"`
}

// SiteReconciliation is the last look at a site and its results.
type SiteReconciliation struct {
	Site   string `json:"site"`
	SiteID string `json:"site_id"`
	Status string `json:"status" doc:"status of the site: active or disabled; a disabled site is not observed"`

	Nodes        int64 `json:"nodes" doc:"nodes that are bound to a machine"`
	OK           int64 `json:"ok" doc:"bound nodes for which MAAS and the broker agree"`
	Drifted      int64 `json:"drifted" doc:"bound nodes with an open drift"`
	InHand       int64 `json:"in_hand" doc:"other bound nodes that a run holds or that owe a turnover: observed, and not changed"`
	Unreconciled int64 `json:"unreconciled" doc:"bound nodes that were not judged yet"`
	Machines     int64 `json:"machines" doc:"machines in MAAS"`
	Unmanaged    int64 `json:"unmanaged" doc:"machines that belong to no node; the broker never changes them"`

	RequestedAt time.Time            `json:"requested_at,omitzero" doc:"when a reconciliation was last requested"`
	LookedAt    time.Time            `json:"looked_at,omitzero"`
	CompleteAt  time.Time            `json:"complete_at,omitzero" doc:"when the last complete reconciliation ended"`
	Trouble     string               `json:"trouble,omitempty" doc:"why the last reconciliation is incomplete"`
	Stops       []ReconciliationStop `json:"stops,omitempty" doc:"why the broker acts on no drift, or on no drift of one kind"`
}

// ReconciliationStop says why reconciliation does nothing until a person has looked.
type ReconciliationStop struct {
	Code  string    `json:"code"`
	Text  string    `json:"text"`
	Since time.Time `json:"since"`
}

// Drift is a node that differs from its machine in MAAS.
type Drift struct {
	NodeID       string `json:"node_id"`
	Hostname     string `json:"hostname"`
	Site         string `json:"site"`
	SiteID       string `json:"site_id"`
	MAASSystemID string `json:"maas_system_id"`
	NodeStatus   string `json:"node_status"`

	Rule      string       `json:"rule"`
	Severity  string       `json:"severity" enum:"critical,high,medium,low"`
	Alert     string       `json:"alert" enum:"critical,warn,info,debug"`
	Text      string       `json:"text"`
	Action    string       `json:"action" enum:"tell,quarantine,readdress,reseed,decommission" doc:"action in mode act"`
	Mode      string       `json:"mode" enum:"observe,act,off" doc:"present mode of the rule at this site"`
	Details   DriftDetails `json:"details"`
	FirstSeen time.Time    `json:"first_seen"`
	ActsAfter time.Time    `json:"acts_after,omitzero" doc:"the broker acts no earlier than this; until then an operator can resolve the drift"`
	ActedAt   time.Time    `json:"acted_at,omitzero" doc:"when the broker last acted"`
	Acts      int64        `json:"acts" doc:"how often the broker acted"`
	Work      string       `json:"work,omitempty" doc:"the task or run that was started last, or why none could be started"`

	LastMAASStatus     string    `json:"last_maas_status"`
	LastMAASPowerState string    `json:"last_maas_power_state,omitempty"`
	LastMAASIPs        []string  `json:"last_maas_ips"`
	Host               string    `json:"host,omitempty" doc:"the node's address"`
	LastReconciledAt   time.Time `json:"last_reconciled_at,omitzero"`

	Open       bool      `json:"drift_detected"`
	ResolvedAt time.Time `json:"drift_resolved_at,omitzero"`
	ResolvedBy string    `json:"resolved_by,omitempty"`
	Resolution string    `json:"resolution,omitempty"`
}

// DriftDetails is the observation with which a drift began.
type DriftDetails struct {
	MAASStatus  string    `json:"maas_status"`
	Expected    string    `json:"expected"`
	NodeStatus  string    `json:"node_status"`
	PowerState  string    `json:"power_state,omitempty"`
	IPAddresses []string  `json:"ip_addresses,omitempty"`
	Host        string    `json:"host,omitempty" doc:"the node's address"`
	Address     string    `json:"address,omitempty" doc:"the machine's address"`
	Mark        string    `json:"mark,omitempty" doc:"id of the node in the machine's mark"`
	HeardAt     time.Time `json:"agent_heard_at,omitzero" doc:"when the node's agent last made contact"`
}

// DriftList is a page of drifts, in the order of nodes.
type DriftList struct {
	Standing
	Items []Drift `json:"items"`
	Next  string  `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// ReconciliationRun is a look at a site that an operator asked for.
type ReconciliationRun struct {
	SiteReconciliation
	Looked bool           `json:"looked" doc:"false: the reconciliation has not ended yet, and continues"`
	Plan   []PlannedDrift `json:"plan,omitempty" doc:"with plan=true: what the broker would do if the next observation agrees"`
}

// PlannedDrift is a drift that a look would record or act upon.
type PlannedDrift struct {
	NodeID     string    `json:"node_id"`
	Hostname   string    `json:"hostname"`
	NodeStatus string    `json:"node_status"`
	MAASStatus string    `json:"maas_status"`
	Rule       string    `json:"rule"`
	Severity   string    `json:"severity"`
	Action     string    `json:"action"`
	Mode       string    `json:"mode"`
	Text       string    `json:"text"`
	Acts       bool      `json:"acts" doc:"the rule would act"`
	ActsAfter  time.Time `json:"acts_after,omitzero"`
	StoppedBy  string    `json:"stopped_by,omitempty" doc:"why the rule would not act after all"`
}

// SiteReconcilePolicy says, rule by rule, how a site wants drift handled.
type SiteReconcilePolicy struct {
	Site                string          `json:"site"`
	Rules               []ReconcileRule `json:"rules"`
	MaxSharePercent     int             `json:"max_share_percent" doc:"largest share of the site's nodes that may change in one way at once; above it none changes"`
	AtLeast             int             `json:"at_least" doc:"the share applies from this number of nodes on"`
	ConfirmSeconds      int             `json:"confirm_seconds" doc:"least time between two observations before the broker records or acts"`
	RetiredGraceSeconds int             `json:"retired_grace_seconds" doc:"time before the machine of a retired node is released"`
	DecommissionsAtOnce int             `json:"decommissions_at_once"`
}

// ReconcileRule is a row of the rule table, with its mode at a site.
type ReconcileRule struct {
	Rule     string   `json:"rule"`
	MAAS     string   `json:"maas"`
	Nodes    []string `json:"node_statuses" doc:"empty: the machine belongs to no node"`
	Severity string   `json:"severity,omitempty"`
	Action   string   `json:"action"`
	Alert    string   `json:"alert"`
	Text     string   `json:"text"`
	Mode     string   `json:"mode"`
	Default  string   `json:"default"`
}

// SiteReconcilePolicyPut changes a site's policy; omitted fields stay as they are.
type SiteReconcilePolicyPut struct {
	Modes               map[string]string `json:"modes,omitempty" doc:"mode by rule: observe, act or off"`
	MaxSharePercent     *int              `json:"max_share_percent,omitempty" minimum:"1" maximum:"100"`
	AtLeast             *int              `json:"at_least,omitempty" minimum:"1" maximum:"10000"`
	ConfirmSeconds      *int              `json:"confirm_seconds,omitempty" minimum:"10" maximum:"3600"`
	RetiredGraceSeconds *int              `json:"retired_grace_seconds,omitempty" minimum:"3600" maximum:"31536000"`
	DecommissionsAtOnce *int              `json:"decommissions_at_once,omitempty" minimum:"1" maximum:"100"`
	Reason              string            `json:"reason" minLength:"1" maxLength:"500"`
}
