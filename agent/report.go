package agent

import (
	"context"
	"maps"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/firstboot"
	"github.com/hostler/hostler/agent/identity"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// gatherTimeout limits the gathering of facts; after it the agent goes on without new facts.
const gatherTimeout = 30 * time.Second

// nodeReport is the node's report about itself, with the report's digest.
type nodeReport struct {
	report identity.Report
	digest string
}

// setReport puts a report in force: the next request carries its digest, and a broker that knows
// another digest asks for the full report.
func (a *Agent) setReport(r identity.Report) {
	// Without an assigned profile set the compiled-in set is in force. Its digest is not reported,
	// because no operator assigns it.
	if set := a.host.Profiles.InForce(); set.Digest() != profiles.Minimal().Digest() {
		capabilities := maps.Clone(r.Capabilities)
		if capabilities == nil {
			capabilities = map[string]string{}
		}
		capabilities[taskcatalog.CapabilityResolverDigest] = set.Digest()
		r.Capabilities = capabilities
	}
	a.nodeReport.Store(&nodeReport{r, wire.ReportDigest(r.TaskTypes, r.Capabilities, r.Facts, r.Agent)})
}

// updateReport reports the node with the facts f, or with the last known facts if f is nil.
func (a *Agent) updateReport(f *taskcatalog.Facts) {
	a.reportMu.Lock()
	defer a.reportMu.Unlock()
	if f == nil {
		f = a.nodeReport.Load().report.Facts
	}
	a.setReport(a.report(f))
}

// gatherFacts gathers the facts. While a tenant is on the node the GPUs are not queried: the facts
// seen before stand.
func (a *Agent) gatherFacts(ctx context.Context) {
	// The profiles may have changed, whether or not gathering facts succeeds.
	a.updateReport(nil)
	if a.Facts == nil {
		return
	}
	tenants, err := a.allocations()
	if err != nil || len(tenants) > 0 {
		if f, ok, err := a.ledger.Facts(); err != nil {
			a.Log.Warn("cannot read the recorded facts of this machine", zap.Error(err))
		} else if ok {
			a.updateReport(&f)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, gatherTimeout)
	defer cancel()
	begun := a.Now()
	f, err := a.Facts(ctx)
	if err != nil {
		a.Log.Warn("cannot gather the facts of this machine", zap.Error(err))
		return
	}
	a.updateReport(&f)
	a.Log.Info("gathered facts", zap.String("vendor", f.Keys["gpu.vendor"]), zap.Int("gpus", len(f.GPUs)),
		zap.Duration("took", a.Now().Sub(begun)))
	if err := a.ledger.SetFacts(f); err != nil {
		a.Log.Warn("cannot record the facts of this machine", zap.Error(err))
	}
}

// report is the node's report about itself at enrolment and renewal. Facts override the
// capabilities from the config file.
func (c *Config) report(facts *taskcatalog.Facts) identity.Report {
	capabilities := map[string]string{}
	maps.Copy(capabilities, c.Capabilities)
	if facts != nil {
		maps.Copy(capabilities, facts.Keys)
	}
	layers, _ := firstboot.Layers(c.Machine)
	maps.Copy(capabilities, layers)
	delete(capabilities, taskcatalog.CapabilityOperationForm) // the agent's own word alone
	if _, runs := c.Handlers("operation.run", 1); runs {
		capabilities[taskcatalog.CapabilityOperationForm] = strconv.Itoa(taskcatalog.OperationForm)
	}
	if len(capabilities) == 0 {
		capabilities = nil
	}
	return identity.Report{
		AgentVersion: c.Version, TaskTypes: c.types(), Capabilities: capabilities, Facts: facts, Agent: c.build(),
		Hostname: c.Hostname,
	}
}

// types returns the task types that have a handler here, as name@version.
func (c *Config) types() []string {
	var ids []string
	for _, typ := range taskcatalog.All() {
		if _, ok := c.Handlers(typ.Name, typ.Version); ok {
			ids = append(ids, typ.ID())
		}
	}
	return ids
}
