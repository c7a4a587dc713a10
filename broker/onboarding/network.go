package onboarding

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// noRoCE reports whether the profile wants no RoCE addresses.
func (c *Chains) noRoCE(_ context.Context, r *run) (bool, error) {
	return !r.State.Policy.EnablePhase2RoCE, nil
}

// applyRoCE gives the RoCE interfaces their assigned addresses, with a single change per step. A
// failure is a warning, and the run goes on.
func (c *Chains) applyRoCE(ctx context.Context, r *run) error {
	s := &r.State
	rows, err := c.Records.RoCEAssignments(ctx, s.SiteID, s.Hostname)
	if err != nil {
		return storeFault(err)
	}
	if len(rows) == 0 {
		r.Note(nil, "no RoCE addresses are assigned to %s", s.Hostname)
		return nil
	}
	at, err := c.look(ctx, r)
	if err != nil {
		return err
	}
	if err := at.editable(); err != nil || at.marked() {
		return err
	}
	subnets, err := at.region.Subnets(ctx)
	if err != nil {
		return at.unseen(ctx, err)
	}
	var missing []string
	for _, row := range rows {
		i := slices.IndexFunc(at.Interfaces, func(i maas.Interface) bool { return i.Name == row.Interface })
		if i < 0 {
			missing = append(missing, row.Interface)
			continue
		}
		if err := at.address(ctx, at.Interfaces[i], row, subnets); err != nil {
			if _, failed := err.(*chain.Failure); failed { //nolint:errorlint // what the engine is told is wrapped by nobody
				s.warn("RoCE: " + err.Error())
			}
			return err
		}
	}
	s.RoCEAddresses = len(rows) - len(missing)
	if len(missing) > 0 {
		f := chain.Fail(mismatch, "machine %s has no interface %s, to which RoCE addresses are assigned", at.displayName(),
			strings.Join(missing, ", ")).
			With("roce_interface_missing", map[string]any{"missing": missing, "has": names(at.Interfaces)})
		s.warn("RoCE: " + f.Message)
		return f
	}
	r.Note(map[string]int{"addresses": len(rows)}, "%d RoCE addresses are set", len(rows))
	return nil
}

// address gives one interface its address; nil: the interface has it.
func (at *place) address(ctx context.Context, i maas.Interface, row broker.RoCEAssignment, subnets []maas.Subnet) error {
	p, err := netip.ParsePrefix(row.IPv4CIDR)
	if err != nil {
		return chain.Fail(inputError, "the RoCE address %q of %s is not valid", row.IPv4CIDR, row.Interface)
	}
	for _, l := range i.Links {
		if l.Mode == "static" && l.IPAddress == p.Addr().String() {
			return nil
		}
	}
	cidr := p.Masked().String()
	n := slices.IndexFunc(subnets, func(s maas.Subnet) bool { return s.CIDR == cidr })
	switch {
	case n >= 0:
		err = at.region.LinkSubnet(ctx, at.SystemID, i.ID, subnets[n].ID, p.Addr().String())
	case i.VLAN == nil:
		return chain.Fail(mismatch, "interface %s is in no VLAN (check its cable)", row.Interface).With("roce_interface_unplugged", nil)
	default:
		if err = at.region.CreateSubnet(ctx, cidr, i.VLAN.ID); maas.ClassOf(err) == maas.Invalid && err != nil {
			// Another run may have made the subnet since we looked.
			now, unread := at.region.Subnets(ctx)
			if unread != nil {
				return at.unseen(ctx, unread)
			}
			if slices.ContainsFunc(now, func(s maas.Subnet) bool { return s.CIDR == cidr }) {
				return chain.Again(next, "another client created subnet %s", cidr)
			}
		}
	}
	if err != nil {
		return at.changeFault(ctx, err)
	}
	return chain.Again(next, "%s gets %s", row.Interface, row.IPv4CIDR)
}

// editable refuses a machine whose links can no longer be changed.
func (at *place) editable() error {
	switch {
	case at.marked():
		return nil
	case at.Status != maas.Ready || !at.free():
		return at.refuseForeign("its links can be changed only in Ready")
	case at.Locked:
		return at.locked()
	}
	return nil
}

// ensurePXE ensures that the boot interface gets an address automatically when the machine is
// deployed.
func (c *Chains) ensurePXE(ctx context.Context, r *run) error {
	at, err := c.look(ctx, r)
	if err != nil {
		return err
	}
	if err := at.editable(); err != nil || at.marked() {
		return err
	}
	why, err := at.linkPXE(ctx)
	if err != nil || why == nil {
		return err
	}
	if !r.State.Policy.StrictPXEPreflight {
		r.State.warn(why.Message)
		r.Note(nil, "%s", why.Message)
		return nil
	}
	return why
}

// linkPXE looks at the boot interface and links it if necessary. why is a task for a person.
func (at *place) linkPXE(ctx context.Context) (why *chain.Failure, err error) {
	s := at.state
	name, vid := s.Policy.NodePXEIface, *s.Policy.PXEVLANVID
	n := slices.IndexFunc(at.Interfaces, func(i maas.Interface) bool { return i.Name == name })
	if n < 0 {
		return chain.Fail(mismatch, "machine %s has no interface %s to boot from", at.displayName(), name).
			With("pxe_interface_missing", map[string]any{"has": names(at.Interfaces)}), nil
	}
	i := at.Interfaces[n]
	switch {
	case i.VLAN == nil:
		return chain.Fail(mismatch, "interface %s of machine %s is in no VLAN (check its cable)", name,
			at.displayName()).With("pxe_interface_unplugged", nil), nil
	case i.VLAN.VID != vid:
		return chain.Fail(mismatch, "interface %s of machine %s is in VLAN %d instead of %d", name, at.displayName(), i.VLAN.VID, vid).
			With("pxe_interface_miswired", map[string]any{"vlan": i.VLAN.VID, "wanted": vid}), nil
	}
	for _, l := range i.Links {
		if (l.Mode == "auto" || l.Mode == "dhcp") && l.Subnet != nil {
			return nil, nil
		}
	}
	all, err := at.region.Subnets(ctx)
	if err != nil {
		return nil, at.unseen(ctx, err)
	}
	var in []maas.Subnet
	for _, sub := range all {
		if sub.VLAN != nil && sub.VLAN.ID == i.VLAN.ID {
			in = append(in, sub)
		}
	}
	if len(in) != 1 {
		return chain.Fail(capabilityMissing,
			"VLAN %d of interface %s has %d subnets in MAAS, and the run links an interface only if there is exactly one (link %s in MAAS)",
			vid, name, len(in), name).
			With("pxe_subnet_unclear", nil), nil
	}
	if err := at.region.LinkSubnet(ctx, at.SystemID, i.ID, in[0].ID, ""); err != nil {
		return nil, at.changeFault(ctx, err)
	}
	return nil, chain.Again(next, "%s is linked to %s", name, taskcatalog.Clean(in[0].CIDR, 64))
}
