package validate

import (
	"testing"

	"github.com/hostler/hostler/agent/cleanup"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/users"
	"github.com/hostler/hostler/taskcatalog"
)

// letIn, putOut and sweep are the other tasks of a turnover.
func letIn(t *testing.T, h *host.Host, allocation, user string) *taskcatalog.ProvisionUserResult {
	t.Helper()
	p := taskcatalog.ProvisionUserParams{AllocationID: allocation, Username: user, SSHKeys: []string{hosttest.AliceKey}}
	result, _, err := users.Provision(t.Context(), &host.Run{Params: &p, Host: h})
	hosttest.OK(t, err)
	return result.(*taskcatalog.ProvisionUserResult)
}

func putOut(t *testing.T, h *host.Host, allocation, user string) (taskcatalog.Report, error) {
	t.Helper()
	p := taskcatalog.RevokeUserParams{AllocationID: allocation, Username: user, GraceSeconds: 1}
	_, report, err := users.Revoke(t.Context(), &host.Run{Params: &p, Host: h})
	return report, err
}

func sweep(t *testing.T, h *host.Host, base *taskcatalog.Baseline) (taskcatalog.Report, error) {
	t.Helper()
	p := taskcatalog.StorageCleanupParams{Scope: "local", Baseline: base}
	_, report, err := cleanup.Clean(t.Context(), &host.Run{Params: &p, Host: h})
	return report, err
}
