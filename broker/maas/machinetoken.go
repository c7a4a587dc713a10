package maas

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// MachineToken is a machine's own token as MAAS has it now; false: MAAS has not made
// one, or the machine is not deployed.
func (s *Sites) MachineToken(ctx context.Context, site broker.Site, systemID string) (taskcatalog.MAASMachineToken, bool, error) {
	region, err := s.Region(ctx, site)
	if err != nil {
		return taskcatalog.MAASMachineToken{}, false, err
	}
	m, err := region.Machine(ctx, systemID)
	if err != nil {
		return taskcatalog.MAASMachineToken{}, false, err
	}
	t, has, err := region.token(ctx, m)
	return t.MAASMachineToken, has, err
}
