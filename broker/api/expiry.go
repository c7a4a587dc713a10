package api

import "time"

// Expiry lists everything with an end that the broker depends on.
type Expiry struct {
	Standing
	Items []ExpiryItem `json:"items" doc:"earliest end first; items that never end come last"`
	Next  string       `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// ExpiryItem is one thing that ends.
type ExpiryItem struct {
	What    string    `json:"what" doc:"kind of item, such as root certificate, task key, operator token, Vault login"`
	Name    string    `json:"name,omitempty" doc:"id of a key or certificate, name of a token"`
	At      time.Time `json:"at,omitzero" doc:"left out: no known end"`
	Near    bool      `json:"near" doc:"the item is due for renewal or has expired"`
	Renew   string    `json:"renew" doc:"how to renew the item"`
	Trouble string    `json:"trouble,omitempty" doc:"why the end of the item is unknown"`
}
