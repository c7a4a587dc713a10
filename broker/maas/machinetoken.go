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
	return region.token(ctx, systemID)
}
