package maas

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// MachineToken is a machine's own token as MAAS has it now; false: MAAS has not made
// one, or the machine is not deployed, or no longer for that run.
func (s *Sites) MachineToken(ctx context.Context, site broker.Site, runID string, c Claim) (taskcatalog.MAASMachineToken, bool, error) {
	region, err := s.Region(ctx, site)
	if err != nil {
		return taskcatalog.MAASMachineToken{}, false, err
	}
	m, err := region.Machine(ctx, c.SystemID)
	if err != nil || m.Status != Deployed || !c.on(m, runID) {
		return taskcatalog.MAASMachineToken{}, false, err
	}
	t, has, err := region.token(ctx, m)
	return t.MAASMachineToken, has, err
}
