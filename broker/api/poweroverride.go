package api

import "time"

// PowerOverridePut gives one machine power credentials that differ from its site's. If an override
// with this selector exists, its credentials are replaced.
type PowerOverridePut struct {
	SelectorType  string `json:"selector_type" enum:"pxe_mac,ipmi_ip,hostname" doc:"if several overrides match a machine, the first of these three types wins"`
	SelectorValue string `json:"selector_value" minLength:"1" maxLength:"253"`
	PowerUser     string `json:"power_user" minLength:"1" maxLength:"256"`
	PowerPassword string `json:"power_password" minLength:"1" maxLength:"256"`
	Reason        string `json:"reason,omitempty" maxLength:"500"`
}

// PowerOverrideChange enables or disables an override.
type PowerOverrideChange struct {
	Status string `json:"status" enum:"active,disabled"`
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// PowerOverride is an exception from a site's power credentials.
type PowerOverride struct {
	ID            string    `json:"id"`
	SiteID        string    `json:"site_id"`
	SelectorType  string    `json:"selector_type"`
	SelectorValue string    `json:"selector_value"`
	VaultPath     string    `json:"vault_path"`
	Status        string    `json:"status"`
	LastUsedAt    time.Time `json:"last_used_at,omitzero" doc:"left out: never used"`
	Unused        bool      `json:"unused" doc:"not used in the last 90 days; consider removing it"`
	CreatedAt     time.Time `json:"created_at"`
	UpdatedAt     time.Time `json:"updated_at"`
}

// PowerOverrideList lists a site's overrides, the strongest selectors first.
type PowerOverrideList struct {
	Standing
	Items []PowerOverride `json:"items"`
	Next  string          `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
