package api

import "time"

// WebhookContentType is the content type of what an endpoint gets: a ProjectEvent, or a WebhookTest.
const WebhookContentType = "application/cloudevents+json"

// Webhook is an endpoint of a project, which gets the events of the project's feed as signed POSTs.
type Webhook struct {
	ID              string     `json:"id"`
	ProjectID       string     `json:"project_id"`
	URL             string     `json:"url"`
	State           string     `json:"state" doc:"active: it works; failing: the last try failed, and there is a next; disabled: nothing is sent until it is enabled"`
	CreatedBy       string     `json:"created_by"`
	CreatedAt       time.Time  `json:"created_at"`
	SecretCreatedAt time.Time  `json:"secret_created_at" doc:"when the signing secret was made"`
	DeliveredAt     *time.Time `json:"delivered_at" doc:"when the endpoint last took an event; null: never"`
	Attempts        int        `json:"attempts" doc:"failed tries of the event that is next"`
	FailingSince    *time.Time `json:"failing_since" doc:"the first of these tries; null: none failed"`
	NextTryAt       *time.Time `json:"next_try_at" doc:"of a failing webhook; else null"`
	Code            string     `json:"code" doc:"why the last try failed; empty: it did not"`
	Message         string     `json:"message" doc:"the same, for people"`
	DisabledAt      *time.Time `json:"disabled_at" doc:"null: not disabled"`
	MissedAt        *time.Time `json:"missed_at" doc:"when events were found deleted that the endpoint may lack: read the allocations again; null: never"`
}

// WebhookList is one page of webhooks.
type WebhookList struct {
	Items []Webhook `json:"items"`
	Next  string    `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// WebhookCreate asks for a webhook.
type WebhookCreate struct {
	URL    string `json:"url" minLength:"1" maxLength:"500" doc:"https://HOST[:PORT]/PATH, without user, query and fragment"`
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// WebhookSecret is a webhook with its new signing secret, which is shown once.
type WebhookSecret struct {
	Webhook Webhook `json:"webhook"`
	Secret  string  `json:"secret" doc:"whsec_ and the key in base64, as Standard Webhooks has it"`
}

// WebhookTried is the outcome of a test.
type WebhookTried struct {
	WebhookID string  `json:"webhook_id"`
	EventID   string  `json:"event_id" doc:"the webhook-id of the request"`
	Delivered bool    `json:"delivered"`
	Code      string  `json:"code" doc:"why it was not delivered; empty: it was"`
	Message   string  `json:"message" doc:"the same, for people"`
	Seconds   float64 `json:"seconds"`
}

// WebhookTest is the event of a test, as the endpoint gets it.
type WebhookTest struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type" doc:"webhook.test"`
	Subject         string          `json:"subject" doc:"webhook/ID"`
	Time            time.Time       `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	Data            WebhookTestData `json:"data"`
}

// WebhookTestData is the data of a WebhookTest.
type WebhookTestData struct {
	WebhookID string `json:"webhook_id"`
	ProjectID string `json:"project_id"`
}
