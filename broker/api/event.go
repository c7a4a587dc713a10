package api

import (
	"encoding/json"
	"time"
)

// EventStream is the content type of GET /events: server-sent events. The id of each is the id of
// its Event, and the data is the Event on one line. An id without data says how far the stream has
// come.
const EventStream = "text/event-stream"

// HeaderLastEventID names the event after which a stream continues, as browsers send it.
const HeaderLastEventID = "Last-Event-ID"

// Event is a CloudEvent (1.0, JSON) about something that happened. Ids are numbers without gaps, in
// stream order.
type Event struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type" doc:"type of the event, such as node.status.changed"`
	Subject         string          `json:"subject,omitempty" doc:"node/ID, run/ID, site/NAME and others"`
	Time            time.Time       `json:"time"`
	DataContentType string          `json:"datacontenttype,omitempty"`
	Site            string          `json:"site,omitempty" doc:"name of the site; *: all sites"`
	CorrelationID   string          `json:"correlationid,omitempty"`
	Data            json.RawMessage `json:"data,omitempty"`
}
