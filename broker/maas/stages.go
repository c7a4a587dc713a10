package maas

import (
	"context"

	"github.com/hostler/hostler/broker/chain"
)

type run = chain.Run[Onboarding]

func notBuilt(r *run) error { return chain.Fail(capabilityMissing, "stage %s is not built yet", r.Stage) }

func (l *Lifecycle) loadSiteConfig(_ context.Context, r *run) error        { return notBuilt(r) }
func (l *Lifecycle) resolvePower(_ context.Context, r *run) error          { return notBuilt(r) }
func (l *Lifecycle) createOrFind(_ context.Context, r *run) error          { return notBuilt(r) }
func (l *Lifecycle) commission(_ context.Context, r *run) error            { return notBuilt(r) }
func (l *Lifecycle) waitForReady(_ context.Context, r *run) error          { return notBuilt(r) }
func (l *Lifecycle) configureStorage(_ context.Context, r *run) error      { return notBuilt(r) }
func (l *Lifecycle) noRoCE(context.Context, *run) (bool, error)            { return false, nil }
func (l *Lifecycle) applyRoCE(_ context.Context, r *run) error             { return notBuilt(r) }
func (l *Lifecycle) ensurePXE(_ context.Context, r *run) error             { return notBuilt(r) }
func (l *Lifecycle) renderCloudInit(_ context.Context, r *run) error       { return notBuilt(r) }
func (l *Lifecycle) forgetNode(_ context.Context, r *run) error            { return notBuilt(r) }
func (l *Lifecycle) deployAccepted(context.Context, *run) (bool, error)    { return false, nil }
func (l *Lifecycle) deploy(_ context.Context, r *run) error                { return notBuilt(r) }
func (l *Lifecycle) release(_ context.Context, r *run) error               { return notBuilt(r) }
func (l *Lifecycle) waitForDeployed(_ context.Context, r *run) error       { return notBuilt(r) }
func (l *Lifecycle) classifyDeployFailure(_ context.Context, r *run) error { return notBuilt(r) }
func (l *Lifecycle) recoverForRedeploy(_ context.Context, r *run) error    { return notBuilt(r) }
func (l *Lifecycle) noSyncWanted(context.Context, *run) (bool, error)      { return false, nil }
func (l *Lifecycle) ensureSync(_ context.Context, r *run) error            { return notBuilt(r) }
func (l *Lifecycle) keepFromUse(_ context.Context, r *run) error           { return notBuilt(r) }
func (l *Lifecycle) waitForSync(_ context.Context, r *run) error           { return notBuilt(r) }
func (l *Lifecycle) waitForAgent(_ context.Context, r *run) error          { return notBuilt(r) }
