package api

import (
	"encoding/json"
	"time"
)

// EventStream is the content type of GET /events: server-sent events, the id of
// each that of its Event, the data the Event on one line. An id without data is
// how far the stream has come.
const EventStream = "text/event-stream"

// HeaderLastEventID says after which event a stream goes on, as browsers do.
const HeaderLastEventID = "Last-Event-ID"

// Event is a CloudEvent (1.0, JSON): something that happened. Ids are numbers
// without gaps, in the order in which a stream gives them.
type Event struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type" doc:"such as node.status.changed"`
	Subject         string          `json:"subject,omitempty" doc:"such as node/ID, run/ID, site/NAME"`
	Time            time.Time       `json:"time"`
	DataContentType string          `json:"datacontenttype,omitempty"`
	Site            string          `json:"site,omitempty" doc:"*: of all sites"`
	CorrelationID   string          `json:"correlationid,omitempty"`
	Data            json.RawMessage `json:"data,omitempty"`
}
