package api

import "time"

// Expiry lists everything with an end that the broker depends on.
type Expiry struct {
	Standing
	Items []ExpiryItem `json:"items" doc:"what ends first first; what never ends last"`
}

// ExpiryItem is one thing that ends.
type ExpiryItem struct {
	What    string    `json:"what" doc:"such as root certificate, task key, operator token, Vault login"`
	Name    string    `json:"name,omitempty" doc:"id of a key or certificate, name of a token"`
	At      time.Time `json:"at,omitzero" doc:"not there: it has no end as far as is known"`
	Near    bool      `json:"near" doc:"it is time to renew it, or too late"`
	Renew   string    `json:"renew" doc:"how"`
	Trouble string    `json:"trouble,omitempty" doc:"why its end is not known"`
}
