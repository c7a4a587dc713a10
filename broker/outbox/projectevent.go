package outbox

import (
	"encoding/json"
	"strings"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/operation"
	"github.com/hostler/hostler/broker/store"
)

// ProjectIDsKey is the path of the secret from which the ids of projects' events are made.
const ProjectIDsKey = "broker/project-events-key"

// ProjectTypes are the types of events that a project may read.
var ProjectTypes = []string{
	store.ProvisioningRequestedEvent, store.ProvisioningActiveEvent, store.ProvisioningFailedEvent,
	store.ReleasingRequestedEvent, store.ReleasingCompletedEvent, store.ReleaseFailedEvent,
	store.TenantMaintenancePlannedEvent, store.TenantMaintenanceSoonEvent, store.TenantMaintenanceOpenedEvent,
	store.TenantMaintenanceClosedEvent, store.TenantMaintenanceCancelledEvent,
	store.OperationRequestedEvent, operation.ProgressEvent, store.OperationCompletedEvent, store.OperationFailedEvent,
	store.OperationCanceledEvent,
}

// ProjectEvent returns an event as its project sees it. It copies field by field what the project
// may know, so that a field that an event gets later stays out. The source is the broker, whichever part
// of it wrote the event.
func ProjectEvent(ids ProjectIDs, e store.OutboxEvent) (out api.ProjectEvent, err error) {
	out = api.ProjectEvent{
		SpecVersion: "1.0", ID: ids.Event(e.Position), Source: "hostler/broker", Type: e.Type, Time: e.At.UTC(),
		DataContentType: "application/json",
	}
	switch {
	case e.Type == operation.ProgressEvent:
		var data api.ProjectOperationProgress
		data, err = OperationProgress(e.Data)
		out.Subject, out.Data = "operation/"+data.OperationID, data
	case strings.HasPrefix(e.Type, "operation."):
		out.Subject, out.Data, err = projectOperation(e.Data)
	case strings.HasPrefix(e.Type, "provisioning.maintenance."):
		out.Subject, out.Data, err = projectMaintenance(e.Data)
	default:
		out.Subject, out.Data, err = projectAllocation(e.Data)
	}
	return out, err
}

func projectAllocation(raw json.RawMessage) (subject string, data api.ProjectEventData, err error) {
	if err := json.Unmarshal(raw, &data); err != nil {
		return "", data, err
	}
	if data.CertificateIDs == nil {
		data.CertificateIDs = []string{}
	}
	return "allocation/" + data.AllocationID, data, nil
}

func projectMaintenance(raw json.RawMessage) (subject string, data api.ProjectMaintenanceData, err error) {
	err = json.Unmarshal(raw, &data)
	return "allocation/" + data.AllocationID, data, err
}

func projectOperation(raw json.RawMessage) (subject string, data api.ProjectOperationData, err error) {
	err = json.Unmarshal(raw, &data)
	return "operation/" + data.OperationID, data, err
}

// OperationProgress is the data of an event about a step of an operation. It names no node.
func OperationProgress(raw json.RawMessage) (data api.ProjectOperationProgress, err error) {
	err = json.Unmarshal(raw, &data)
	return data, err
}
