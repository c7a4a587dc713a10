package onboarding

import (
	"context"
	"strings"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// Values of Onboarding.DeployFailure: why a deployment failed.
const (
	datasourceLike = "datasource_like"
	genericFailure = "generic"
)

// classifyDeployFailure decides whether the deployment is worth another try: the image was
// installed, and the installed system then did not reach MAAS. Any other failure, and an unclear
// one, is left to a person.
func (c *Chains) classifyDeployFailure(ctx context.Context, r *run) error {
	s := &r.State
	at, err := c.look(ctx, r)
	if err != nil {
		return err
	}
	if !at.marked() {
		return at.refuseForeign("the machine no longer belongs to this run")
	}
	if at.Status == maas.Deployed { // late, but deployed
		s.DeployFailure = ""
		return chain.Fail(deployFailure, "machine %s is Deployed after all (resume)", at.displayName()).With("deployed_late", nil)
	}
	events, err := at.region.Events(ctx, at.SystemID)
	if err != nil {
		return at.unseen(ctx, err)
	}
	class, said := judgeDeployment(events)
	s.DeployFailure = class
	details := map[string]any{"failure": class, "maas_events": said, "deploys": s.Deploys}
	switch q := s.Policy; {
	case class != datasourceLike:
		code := "failed_deploy"
		if r.Failure != nil && r.Failure.Code == "failed_deploy_timeout" {
			code = r.Failure.Code
		}
		return chain.Fail(deployFailure, "%s", why(r.Failure)).With(code, details)
	case !q.EnableDeployRetryOnDatasourceFailure || s.DeployRetries >= q.MaxDeployRetryAttempts:
		return chain.Fail(deployFailure, "%s; the deployment was retried %d times, as often as the profile allows", why(r.Failure),
			s.DeployRetries).With("failed_deploy_datasource", details)
	}
	r.Note(details, "installed, and the machine never fetched its data from MAAS: the run tries again")
	return nil
}

func why(f *chain.Failure) string {
	if f == nil {
		return "the deployment failed"
	}
	return f.Message
}

// judgeDeployment reads MAAS's events of the last deployment, newest first. MAAS gives no other
// sign of the cause than these texts.
func judgeDeployment(events []maas.Event) (class string, said []string) {
	class = genericFailure
	for _, e := range events {
		if e.Type == "Deploying" {
			break
		}
		text := strings.ToLower(e.Type + " " + e.Description)
		for _, sign := range []string{"datasource", "data source", "cloud-init", "cloudinit"} {
			if strings.Contains(text, sign) && !strings.Contains(text, "curtin command") {
				class = datasourceLike
			}
		}
		if e.Type == "Installation complete" {
			class = datasourceLike
		}
		if len(said) < 10 {
			said = append(said, taskcatalog.Clean(e.Type+": "+e.Description, 200))
		}
	}
	return class, said
}

// recoverForRedeploy brings the machine back to Ready, so that it can be deployed once more.
func (c *Chains) recoverForRedeploy(ctx context.Context, r *run) error {
	at, err := c.look(ctx, r)
	if err != nil {
		return err
	}
	s := &r.State
	switch {
	case at.unsure():
		return at.outcomeUnknown()
	case at.Status == maas.Ready && at.free():
		s.Claim = nil
		s.DeployRetries++
		r.Note(nil, "machine %s is Ready again", at.displayName())
		return nil
	case at.Status == maas.New && at.free():
		return chain.Fail(deployFailure,
			"machine %s is New instead of Ready since this run released it: MAAS does not count it as commissioned",
			at.displayName()).With("machine_not_commissioned", nil).
			Next("restart-clean, which commissions the machine in MAAS")
	case !at.marked():
		return at.refuseForeign("the machine no longer belongs to this run")
	}
	if err := c.releaseClaim(ctx, at); err != nil {
		return err
	}
	return chain.Again(soon, "machine is %s", taskcatalog.Clean(at.StatusName, 64))
}
