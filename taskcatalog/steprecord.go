package taskcatalog

// StepStatus says how one attempt of a step ended.
type StepStatus string

// The statuses of a step. Skipped: there was nothing to do on this hardware.
const (
	StepSucceeded StepStatus = "succeeded"
	StepFailed    StepStatus = "failed"
	StepSkipped   StepStatus = "skipped"
	StepCanceled  StepStatus = "canceled"
)

// StepRecord is one attempt of one step (architecture, chapter 5).
type StepRecord struct {
	StepKind        string     `json:"step_kind"`
	ResolvedProfile string     `json:"resolved_profile,omitempty"` // a command profile's id, or builtin:NAME
	HardwareMatch   string     `json:"hardware_match,omitempty"`   // the rule that won
	AttemptNumber   int        `json:"attempt_number"`
	Status          StepStatus `json:"status"`
	ErrorCode       Code       `json:"error_code,omitempty"`
	DurationMS      int64      `json:"duration_ms"`
}
