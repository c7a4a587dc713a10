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
	Status string `json:"status" doc:"of the site: active or disabled; one that is disabled is not looked at"`

	Nodes        int64 `json:"nodes" doc:"nodes that are bound to a machine"`
	OK           int64 `json:"ok" doc:"of them, those that MAAS and the broker agree on"`
	Drifted      int64 `json:"drifted" doc:"of them, those with an open drift"`
	InHand       int64 `json:"in_hand" doc:"of the others, those that a run has or that owe a turnover: they are observed, and left alone"`
	Unreconciled int64 `json:"unreconciled" doc:"of them, those that have not been judged"`
	Machines     int64 `json:"machines" doc:"machines that MAAS has"`
	Unmanaged    int64 `json:"unmanaged" doc:"of them, those that are no node's: nothing is ever done about one"`

	RequestedAt time.Time            `json:"requested_at,omitzero" doc:"when somebody last asked for a look"`
	LookedAt    time.Time            `json:"looked_at,omitzero"`
	CompleteAt  time.Time            `json:"complete_at,omitzero" doc:"when all of it was last read: every node was reconciled then"`
	Trouble     string               `json:"trouble,omitempty" doc:"why the last look is not complete"`
	Stops       []ReconciliationStop `json:"stops,omitempty" doc:"why nothing, or nothing of one kind, is done"`
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
	Action    string       `json:"action" enum:"tell,quarantine,readdress,reseed,decommission" doc:"what is done about it in mode act"`
	Mode      string       `json:"mode" enum:"observe,act,off" doc:"of the rule at this site, now"`
	Details   DriftDetails `json:"details"`
	FirstSeen time.Time    `json:"first_seen"`
	ActsAfter time.Time    `json:"acts_after,omitzero" doc:"nothing is done before; until then it can be resolved"`
	ActedAt   time.Time    `json:"acted_at,omitzero" doc:"the last time"`
	Acts      int64        `json:"acts" doc:"how often something was done"`
	Work      string       `json:"work,omitempty" doc:"the task or run that was started last, or why none could be"`

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
	Address     string    `json:"address,omitempty" doc:"the machine's"`
	Mark        string    `json:"mark,omitempty" doc:"which node the machine is marked for"`
	HeardAt     time.Time `json:"agent_heard_at,omitzero" doc:"when the node's agent was last heard"`
}

// DriftList is a page of drifts, in the order of nodes.
type DriftList struct {
	Standing
	Items      []Drift `json:"items"`
	NextCursor string  `json:"next_cursor,omitempty"`
}

// ReconciliationRun is a look at a site that an operator asked for.
type ReconciliationRun struct {
	SiteReconciliation
	Looked bool           `json:"looked" doc:"false: the look has not ended yet, and goes on"`
	Plan   []PlannedDrift `json:"plan,omitempty" doc:"of plan=true: what the look would lead to if the next one said the same"`
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
	Acts       bool      `json:"acts" doc:"something would be done"`
	ActsAfter  time.Time `json:"acts_after,omitzero"`
	StoppedBy  string    `json:"stopped_by,omitempty" doc:"why nothing would be, all the same"`
}

// SiteReconcilePolicy says, rule by rule, how a site wants drift handled.
type SiteReconcilePolicy struct {
	Site                string          `json:"site"`
	Rules               []ReconcileRule `json:"rules"`
	MaxSharePercent     int             `json:"max_share_percent" doc:"of the site's nodes: when more would change in one way at once, none does"`
	AtLeast             int             `json:"at_least" doc:"nodes, for that share to matter"`
	ConfirmSeconds      int             `json:"confirm_seconds" doc:"at least this lies between the two observations before anything is written or done"`
	RetiredGraceSeconds int             `json:"retired_grace_seconds" doc:"before the machine of a retired node is given back"`
	DecommissionsAtOnce int             `json:"decommissions_at_once"`
}

// ReconcileRule is a row of the rule table, with its mode at a site.
type ReconcileRule struct {
	Rule     string   `json:"rule"`
	MAAS     string   `json:"maas"`
	Nodes    []string `json:"node_statuses" doc:"empty: the machine is no node's"`
	Severity string   `json:"severity,omitempty"`
	Action   string   `json:"action"`
	Alert    string   `json:"alert"`
	Text     string   `json:"text"`
	Mode     string   `json:"mode"`
	Default  string   `json:"default"`
}

// SiteReconcilePolicyPut changes a site's policy; omitted fields stay as they are.
type SiteReconcilePolicyPut struct {
	Modes               map[string]string `json:"modes,omitempty" doc:"by rule: observe, act or off"`
	MaxSharePercent     *int              `json:"max_share_percent,omitempty" minimum:"1" maximum:"100"`
	AtLeast             *int              `json:"at_least,omitempty" minimum:"1" maximum:"10000"`
	ConfirmSeconds      *int              `json:"confirm_seconds,omitempty" minimum:"10" maximum:"3600"`
	RetiredGraceSeconds *int              `json:"retired_grace_seconds,omitempty" minimum:"3600" maximum:"31536000"`
	DecommissionsAtOnce *int              `json:"decommissions_at_once,omitempty" minimum:"1" maximum:"100"`
	Reason              string            `json:"reason" minLength:"1" maxLength:"500"`
}
