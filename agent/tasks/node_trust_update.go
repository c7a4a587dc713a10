package tasks

import (
	"context"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// trustUpdate hands the bundle to the keeper of the bundle in force. The task's signature does not
// count: the bundle's own signature decides.
func trustUpdate(_ context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	var report taskcatalog.Report
	p := r.Params.(*taskcatalog.TrustUpdateParams)
	if p.Bundle == "" {
		return nil, report, taskcatalog.Errorf(taskcatalog.CodeBadParams, "cannot update trust: the task carries no bundle")
	}
	version, changed, err := r.Host.Trust(p.Bundle)
	if err != nil {
		return nil, report, err
	}
	return &taskcatalog.TrustUpdateResult{Version: version, Changed: changed}, report, nil
}
