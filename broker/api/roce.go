package api

import "time"

// RoCEPut is a list of addresses that is stored as a whole or not at all. An interface with an
// address gets the address of the list; interfaces that the list does not name keep theirs.
type RoCEPut struct {
	Items  []RoCEItem `json:"items" minItems:"1" maxItems:"4096"`
	Reason string     `json:"reason,omitempty" maxLength:"500"`
}

// RoCEItem is the address of one interface of a host.
type RoCEItem struct {
	Hostname  string `json:"hostname" maxLength:"253"`
	Interface string `json:"interface" maxLength:"15"`
	IPv4CIDR  string `json:"ipv4_cidr" maxLength:"32" doc:"such as 172.30.9.61/31"`
}

// RoCEResult counts what a list changed.
type RoCEResult struct {
	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"`
}

// RoCEAssignment is one stored assignment.
type RoCEAssignment struct {
	ID     string `json:"id"`
	SiteID string `json:"site_id"`
	RoCEItem
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// RoCEList lists a site's assignments, by host and interface.
type RoCEList struct {
	Standing
	Items []RoCEAssignment `json:"items"`
	Next  string           `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
