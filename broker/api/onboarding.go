package api

import "time"

// OnboardingMachine is one machine that an operator names for an onboarding.
type OnboardingMachine struct {
	Hostname string `json:"hostname" minLength:"1" maxLength:"253"`
	IPMIIP   string `json:"ipmi_ip" minLength:"1" maxLength:"64" doc:"address of the machine's BMC"`
	PXEMAC   string `json:"pxe_mac,omitempty" maxLength:"17" doc:"MAC address of the boot interface, if known"`
	Place
}

// OnboardingStart asks the broker to bring one machine from its BMC to an active node.
type OnboardingStart struct {
	SiteID    string `json:"site_id" minLength:"1" maxLength:"63" doc:"the site's id or name"`
	ProfileID string `json:"profile_id,omitempty" maxLength:"63" doc:"the profile's id or name; default: the site's default profile"`
	SKUID     string `json:"sku_id" minLength:"1" maxLength:"63"`
	OnboardingMachine
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// OnboardingBatch asks for many machines of one kind.
type OnboardingBatch struct {
	SiteID    string              `json:"site_id" minLength:"1" maxLength:"63" doc:"the site's id or name"`
	ProfileID string              `json:"profile_id,omitempty" maxLength:"63" doc:"the profile's id or name; default: the site's default profile"`
	SKUID     string              `json:"sku_id" minLength:"1" maxLength:"63"`
	Nodes     []OnboardingMachine `json:"nodes" minItems:"1" maxItems:"1000"`
	Reason    string              `json:"reason,omitempty" maxLength:"500"`
}

// OnboardingBatchStarted names the runs of a new batch. Either all runs begin or none does.
type OnboardingBatchStarted struct {
	BatchID     string               `json:"batch_id"`
	Onboardings []OnboardingBatchRun `json:"onboardings"`
}

// OnboardingBatchRun is one run of a batch.
type OnboardingBatchRun struct {
	Hostname     string  `json:"hostname"`
	OnboardingID string  `json:"onboarding_id"`
	NodeID       *string `json:"node_id" doc:"null before the node is created"`
}

// Onboarding is a run that brings a machine to an active node.
type Onboarding struct {
	OnboardingID string  `json:"id"`
	Kind         string  `json:"kind" doc:"node.onboarding; node.adoption for a machine that was deployed already"`
	BatchID      *string `json:"batch_id"`
	NodeID       *string `json:"node_id" doc:"null before the node is created"`
	SiteID       string  `json:"site_id"`
	Site         string  `json:"site" doc:"name of the site"`
	ProfileID    string  `json:"profile_id"`
	Profile      string  `json:"profile" doc:"name of the profile"`
	SKUID        string  `json:"sku_id"`
	Hostname     string  `json:"hostname"`
	IPMIIP       string  `json:"ipmi_ip"`
	PXEMAC       *string `json:"pxe_mac"`
	MAASSystemID *string `json:"maas_system_id"`
	RequestedBy  string  `json:"requested_by"`

	RunState

	LastObserved ObservedMachine `json:"last_observed"`
	BundleDigest string          `json:"bundle_digest,omitempty" doc:"digest of the machine's deployed user-data, without its token"`
	Deploys      int             `json:"deploys" doc:"number of deployments requested from MAAS"`
	Warnings     []string        `json:"warnings,omitempty"`

	RunTimes
}

// ObservedMachine is the machine as MAAS last reported it.
type ObservedMachine struct {
	MAASStatus  string    `json:"maas_status,omitempty"`
	PowerState  string    `json:"power_state,omitempty"`
	IPAddresses []string  `json:"ip_addresses,omitempty"`
	Owner       string    `json:"owner,omitempty"`
	LastSync    time.Time `json:"last_sync,omitzero"`
	ObservedAt  time.Time `json:"observed_at,omitzero"`
}

// OnboardingDetail is a run with its stages and its history.
type OnboardingDetail struct {
	Onboarding
	Stages []RunStage `json:"stages" doc:"the stages in order, each detour after the stage that it rescues"`
	Events []RunEvent `json:"events" doc:"the newest 500 events, oldest first"`
}

// OnboardingPlan says what runs would do. A plan begins nothing.
type OnboardingPlan struct {
	Site            string              `json:"site"`
	Profile         string              `json:"profile"`
	SKUID           string              `json:"sku_id"`
	Nodes           []OnboardingMachine `json:"nodes"`
	Machines        []AdoptedMachine    `json:"machines,omitempty" doc:"machines of an adoption"`
	Refused         []RefusedMachine    `json:"refused,omitempty" doc:"machines that an adoption would refuse, given their present state in MAAS"`
	Parallel        int                 `json:"parallel" doc:"how many runs of the batch proceed at a time, counted with other batches at the site"`
	Stages          []PlannedStage      `json:"stages"`
	ExpectedSeconds int64               `json:"expected_seconds" doc:"expected duration for one machine, without detours"`
}

// RefusedMachine is a machine that a run would refuse, and why.
type RefusedMachine struct {
	SystemID string `json:"system_id"`
	Code     string `json:"code"`
	Detail   string `json:"detail"`
}

// OnboardingList is one page of runs, in the order of their start.
type OnboardingList struct {
	Standing
	Batch *BatchState  `json:"batch,omitempty" doc:"only if batch_id is given"`
	Items []Onboarding `json:"items"`
	Next  string       `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// OnboardingBatchRetried is the result of a batch's retry.
type OnboardingBatchRetried struct {
	BatchID   string              `json:"batch_id"`
	Continued bool                `json:"continued" doc:"the batch had stopped, and starts runs again"`
	Retried   []Onboarding        `json:"retried" doc:"failed runs that are retried; other runs do not change"`
	Refused   []OnboardingRefusal `json:"refused,omitempty"`
}

// OnboardingRefusal says why the retry left one run of a batch as it is.
type OnboardingRefusal struct {
	OnboardingID string `json:"onboarding_id"`
	Code         string `json:"code"`
	Detail       string `json:"detail"`
}
