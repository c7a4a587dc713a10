package outbox

import (
	"fmt"
	"strconv"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/hostler/hostler/broker/store"
)

// CloudEvent returns an event in its published form: the id is the position, and the extensions
// site and correlationid are left out if empty.
func CloudEvent(e store.OutboxEvent) (event.Event, error) {
	out := event.New(event.CloudEventsVersionV1)
	out.SetID(strconv.FormatInt(e.Position, 10))
	out.SetType(e.Type)
	out.SetSource(e.Source)
	out.SetSubject(e.Subject)
	out.SetTime(e.At)
	if e.Site != "" {
		out.SetExtension("site", e.Site)
	}
	if e.CorrelationID != "" {
		out.SetExtension("correlationid", e.CorrelationID)
	}
	if err := out.SetData(event.ApplicationJSON, e.Data); err != nil {
		return out, err
	}
	if err := out.Validate(); err != nil {
		return out, fmt.Errorf("event %d is not a valid cloud event: %w", e.Position, err)
	}
	return out, nil
}
