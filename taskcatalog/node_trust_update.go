package taskcatalog

import "time"

var nodeTrustUpdate = define[TrustUpdateParams, TrustUpdateResult](Type{
	Name: "node.trust_update", Version: 1,
	Summary: "deliver a new trust bundle, signed by the trust key in force",
	Class:   ClassMutating, Lane: LaneConcurrent, Deadline: time.Minute,
	BrokerFills: []string{"bundle"},
	Example:     `{}`,
})

// TrustUpdateParams carries the bundle's envelope. The task's own signature establishes no trust:
// the node accepts the bundle only if the trust key in force signed the bundle.
type TrustUpdateParams struct {
	Bundle string `json:"bundle,omitempty" jsonschema:"maxLength=262144"` // the DSSE envelope as JSON text
}

// TrustUpdateResult reports the bundle in force after the task.
type TrustUpdateResult struct {
	Version int64 `json:"version"`
	Changed bool  `json:"changed"`
}
