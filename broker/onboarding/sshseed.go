package onboarding

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/sshseed"
	"github.com/hostler/hostler/taskcatalog/hwsync"
)

// Seeder reaches deployed machines over SSH. *sshseed.Seeder implements it.
type Seeder interface {
	HostKey(ctx context.Context, h sshseed.Host) (key string, at netip.Addr, err error)
	Seed(ctx context.Context, h sshseed.Host, files hwsync.Files) (at netip.Addr, err error)
}

// SSHSeed is a run's knowledge of its machine as an SSH server. An SSHSeed applies to a single
// deployment: another deployment makes other host keys.
type SSHSeed struct {
	HostKey  string    `json:"host_key,omitempty"` // recorded at the first use; the run talks to no other key
	SeededAt time.Time `json:"seeded_at,omitzero"`
	Trouble  string    `json:"trouble,omitempty"` // code of the latest fault; empty: none
}

// mostAddresses limits how many addresses a step tries.
const mostAddresses = 4

// seedBySSH seeds hardware sync of a machine without an enrolled agent. The host key is recorded in
// a step of its own, and so is saved before anything is sent. After the seed, the machine has one
// and a half intervals to report its hardware.
func (c *Chains) seedBySSH(ctx context.Context, at *place, token maas.MachineToken) error {
	s := at.state
	if !s.SSH.SeededAt.IsZero() && at.run.Now.Sub(s.SSH.SeededAt) < at.interval()*3/2 {
		return nil
	}
	key, err := maas.DeployKey(ctx, c.Regions.Secrets, at.site)
	switch {
	case err != nil && broker.AsError(err).Kind == broker.Unavailable:
		return storeFault(err)
	case err != nil:
		return chain.Fail(capabilityMissing, "%w", err).With(broker.AsError(err).Code, nil)
	}
	if err := at.look(ctx); err != nil {
		return err
	}
	if err := at.deployed(); err != nil {
		return err
	}
	host := sshseed.Host{Addresses: at.sshAddresses(), User: at.site.DeployUser, Key: key, HostKey: s.SSH.HostKey, SystemID: s.SystemID}
	if s.SSH.HostKey == "" {
		noted, where, err := c.SSH.HostKey(ctx, host)
		if err != nil {
			return at.sshFault(err)
		}
		s.SSH = SSHSeed{HostKey: noted}
		s.warn(fmt.Sprintf("machine %s answers SSH at %s with host key %s, which was trusted on first use", at.displayName(), where,
			sshseed.Fingerprint(noted)))
		return chain.Again(next, "the SSH host key of machine %s is recorded", at.displayName())
	}
	files, err := hwsync.Render(token.MAASMachineToken, hwsync.Minutes(at.interval()))
	if err != nil {
		return chain.Fail(syncFailure, "cannot seed hardware sync of machine %s: %w", at.displayName(), err).With("failed_hw_sync_seed",
			nil)
	}
	defer files.Clear()
	where, err := c.SSH.Seed(ctx, host, files)
	if err != nil {
		return at.sshFault(err)
	}
	s.SSH.SeededAt, s.SSH.Trouble = at.run.Now, ""
	s.warn(fmt.Sprintf("hardware sync of machine %s was seeded over SSH at %s", at.displayName(), where))
	return nil
}

// sshFault handles an SSH fault: the step is retried for as long as the stage has time, unless the
// machine may be another one.
func (at *place) sshFault(err error) error {
	e := broker.AsError(err)
	if e.Code == sshseed.HostKeyChanged {
		return chain.Fail(ambiguity,
			"cannot seed hardware sync of machine %s: %s (find out who changed the key; restart-clean deploys the machine again)",
			at.displayName(), e.Message).
			With(sshseed.HostKeyChanged, map[string]string{"system_id": at.SystemID, "noted": sshseed.Fingerprint(at.state.SSH.HostKey)})
	}
	if e.Code == sshseed.OtherMachine {
		at.state.SSH = SSHSeed{} // the recorded host key is not this machine's
		return chain.Fail(ambiguity,
			"cannot seed hardware sync of machine %s: %s (find out which machine has that address, and correct MAAS's record)",
			at.displayName(), e.Message).
			With(sshseed.OtherMachine, map[string]string{"system_id": at.SystemID})
	}
	at.state.SSH.Trouble = e.Code
	return chain.Again(settle, "machine %s does not report its hardware, and its agent has not made contact: %s", at.displayName(),
		e.Message)
}

// sshAddresses returns the machine's addresses as MAAS reports them: the addresses of the site's
// interface for SSH first, then all others.
func (at *place) sshAddresses() []netip.Addr {
	out := maas.Unicast(at.Addresses(at.site.DeploySSHIface))
	return out[:min(len(out), mostAddresses)]
}
