package api

import "time"

// Handout says whether a node may be handed to a tenant now, and why not. The same check refuses
// allocation.provision_user.
type Handout struct {
	MayBeHandedOut bool              `json:"may_be_handed_out"`
	Reasons        []HandoutReason   `json:"reasons" doc:"all reasons why the node may not be handed out"`
	Certificate    *HandoutCertified `json:"certificate,omitempty" doc:"the newest clean certificate; left out for a node without a turnover"`
}

// HandoutReason is one reason why a node may not be handed out.
type HandoutReason struct {
	Code       string `json:"code" doc:"node_status, node_silent, turnover_owed, node_in_run, frozen, site_disabled, maintenance, allocation_live, turnover_missing, certificate_falls_short, certificate_expired, certificate_below_policy, certificate_not_judged, provisioning_failing, device_missing or device_unexpected"`
	Message    string `json:"message"`
	NextAction string `json:"next_action"`
}

// HandoutCertified is the newest clean certificate of a node.
type HandoutCertified struct {
	CertificateID string    `json:"certificate_id"`
	MeetsPolicy   bool      `json:"meets_policy" doc:"the certificate met the policy when it was issued; certificate_below_policy among the reasons says that the policy in force asks for more"`
	Shortfalls    []string  `json:"shortfalls,omitempty" doc:"codes of the policy's requirements that the certificate does not meet"`
	IssuedAt      time.Time `json:"issued_at"`
	ValidUntil    time.Time `json:"valid_until" doc:"the certificate is stale after this time; a stale certificate refuses a node that nobody has used since"`
}
