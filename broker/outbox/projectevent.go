package outbox

import (
	"encoding/json"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
)

// ProjectIDsKey is the path of the secret from which the ids of projects' events are made.
const ProjectIDsKey = "broker/project-events-key"

// ProjectTypes are the types of events that a project may read.
var ProjectTypes = []string{
	store.ProvisioningRequestedEvent, store.ProvisioningActiveEvent, store.ProvisioningFailedEvent,
	store.ReleasingRequestedEvent, store.ReleasingCompletedEvent, store.ReleaseFailedEvent,
}

// ProjectEvent returns an event as its project sees it. It copies field by field what the project
// may know, so that a field that an event gets later stays out.
func ProjectEvent(ids ProjectIDs, e store.OutboxEvent) (out api.ProjectEvent, err error) {
	var data api.ProjectEventData
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return out, err
	}
	if data.CertificateIDs == nil {
		data.CertificateIDs = []string{}
	}
	return api.ProjectEvent{
		SpecVersion: "1.0", ID: ids.Event(e.Position), Source: e.Source, Type: e.Type, Subject: "allocation/" + data.AllocationID,
		Time: e.At.UTC(), DataContentType: "application/json", Data: data,
	}, nil
}
