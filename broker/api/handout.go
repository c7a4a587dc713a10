package api

import "time"

// Handout says whether a node may be handed to a tenant now, and why not. The same check refuses
// allocation.provision_user.
type Handout struct {
	MayBeHandedOut bool              `json:"may_be_handed_out"`
	Reasons        []HandoutReason   `json:"reasons" doc:"all that speak against it"`
	Certificate    *HandoutCertified `json:"certificate,omitempty" doc:"the newest clean certificate; none of a node that was never turned over"`
}

// HandoutReason is one reason why a node may not be handed out.
type HandoutReason struct {
	Code       string `json:"code" doc:"node_status, node_silent, turnover_owed, node_in_run, frozen, allocation_live, turnover_missing, certificate_falls_short, device_missing or device_unexpected"`
	Message    string `json:"message"`
	NextAction string `json:"next_action"`
}

// HandoutCertified is the newest clean certificate of a node.
type HandoutCertified struct {
	CertificateID string    `json:"certificate_id"`
	MeetsPolicy   bool      `json:"meets_policy"`
	Shortfalls    []string  `json:"shortfalls,omitempty" doc:"codes"`
	IssuedAt      time.Time `json:"issued_at"`
	ValidUntil    time.Time `json:"valid_until" doc:"past it the certificate is stale, which refuses nobody"`
}
