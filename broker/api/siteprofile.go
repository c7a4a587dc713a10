package api

import (
	"time"

	"github.com/hostler/hostler/broker"
)

// SitePolicy is a profile's policy for onboarding, reimage and decommission. The knobs are declared
// in package broker.
type SitePolicy broker.Policy

// SiteProfileConfig is an operator's configuration of a profile. For omitted fields a create takes
// the defaults, and a change keeps the present values.
type SiteProfileConfig struct {
	Name        string `json:"name" maxLength:"63" doc:"never changes"`
	Description string `json:"description,omitempty" maxLength:"500"`
	Status      string `json:"status" enum:"active,disabled" doc:"default active"`
	SitePolicy
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"for the audit log"`
}

// SiteProfile is a named policy of a site.
type SiteProfile struct {
	ID      string `json:"id"`
	SiteID  string `json:"site_id"`
	Default bool   `json:"default" doc:"what holds where a run names no profile"`
	SiteProfileConfig
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// SiteProfileList is every profile of a site, by name.
type SiteProfileList struct {
	Standing
	Items []SiteProfile `json:"items"`
	Next  string        `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
