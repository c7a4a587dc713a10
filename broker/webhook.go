package broker

import "time"

// WebhookPrefix begins the ids of webhooks.
const WebhookPrefix = "whk-"

// WebhookState says in one word whether a webhook works.
type WebhookState string

// The states of a webhook.
const (
	WebhookActive   WebhookState = "active"
	WebhookFailing  WebhookState = "failing"  // the last try failed, and the next try has its time
	WebhookDisabled WebhookState = "disabled" // no further try, until somebody enables the webhook
)

// WebhookStates are all states.
var WebhookStates = []WebhookState{WebhookActive, WebhookFailing, WebhookDisabled}

// Webhook is an endpoint of a project, to which the broker sends the project's events.
type Webhook struct {
	ID, ProjectID string
	URL           string
	CreatedBy     string
	CreatedAt     time.Time
	SecretAt      time.Time // when the signing secret was made

	Position     int64     // the last event that the endpoint has
	DeliveredAt  time.Time // of the last event that the endpoint took
	Attempts     int       // failed tries of the event after Position
	FailingSince time.Time // of the first of them
	NextTryAt    time.Time
	Code         string // why the last try failed; empty: it did not
	Trouble      string // for people
	DisabledAt   time.Time
	MissedAt     time.Time // when events were found deleted that the endpoint may lack
}

// State returns the state.
func (w Webhook) State() WebhookState {
	switch {
	case !w.DisabledAt.IsZero():
		return WebhookDisabled
	case w.Code != "":
		return WebhookFailing
	}
	return WebhookActive
}
