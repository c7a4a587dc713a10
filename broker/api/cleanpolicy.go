package api

import (
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// CleanPolicy lists the things that a site knows and accepts in addition to the baseline.
type CleanPolicy struct {
	Site      string                  `json:"site,omitempty" doc:"empty: the policy of nodes without a site"`
	Policy    taskcatalog.CleanPolicy `json:"policy"`
	UpdatedAt time.Time               `json:"updated_at,omitzero"`
	UpdatedBy string                  `json:"updated_by,omitempty"`
}

// CleanPolicyPut replaces a site's policy.
type CleanPolicyPut struct {
	Site   string                  `json:"site,omitempty" maxLength:"63"`
	Policy taskcatalog.CleanPolicy `json:"policy"`
	Reason string                  `json:"reason,omitempty" maxLength:"500"`
}
