package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// The policy of turnovers and onboardings is a profile of a site. A change leaves the fields that
// it does not name as they are.
func ExampleClient_UpdateSiteProfile() {
	profile, err := connect().UpdateSiteProfile(context.Background(), "dc1", "default", client.Document{
		"turnover_environment": "fresh_os", "batch_max_parallel": 4, "reason": "audit of 2026",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(profile.Name, profile.TurnoverEnvironment, profile.BatchMaxParallel)
	// Output: default fresh_os 4
}

// The clean policy lists what a site knows and accepts in addition to a node's baseline.
func ExampleClient_SetCleanPolicy() {
	ctx, c := context.Background(), connect()
	policy, err := c.CleanPolicy(ctx, "dc1")
	if err != nil {
		log.Fatal(err)
	}
	policy.Policy.KnownPorts = append(policy.Policy.KnownPorts, "tcp/9100")
	policy, err = c.SetCleanPolicy(ctx, api.CleanPolicyPut{Site: "dc1", Policy: policy.Policy, Reason: "node_exporter"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(policy.Site, policy.Policy.KnownPorts, policy.UpdatedBy)
	// Output: dc1 [tcp/9100] admin
}

// The terminal policy says what a session may do.
func ExampleClient_SetTerminalPolicy() {
	ctx, c := context.Background(), connect()
	policy, err := c.TerminalPolicy(ctx, "dc1")
	if err != nil {
		log.Fatal(err)
	}
	policy.Policy.MaxSeconds = 3600
	policy, err = c.SetTerminalPolicy(ctx, api.TerminalPolicyPut{Site: "dc1", Policy: policy.Policy, Reason: "shorter sessions"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(policy.Site, policy.Policy.MaxSeconds)
	// Output: dc1 3600
}

// The reconcile policy says, rule by rule, whether a difference between MAAS and a node is only
// reported.
func ExampleClient_SetReconcilePolicy() {
	ctx, c := context.Background(), connect()
	share := 10
	policy, err := c.SetReconcilePolicy(ctx, "dc1", api.SiteReconcilePolicyPut{MaxSharePercent: &share, Reason: "careful"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(policy.Site, policy.MaxSharePercent, len(policy.Rules) > 0)
	// Output: dc1 10 true
}

// The policy of operations has three levels, none of which widens another. The effective policy names, for each
// key, the level that decided it.
func ExampleClient_SetOperationPolicy() {
	ctx, c := context.Background(), connect()
	must(c.CreateOrganisation(ctx, api.OrganisationCreate{Name: "policied"}))
	must(c.CreateProject(ctx, "policied", api.ProjectCreate{Name: "lab"}))
	no, hour := false, int64(3600)
	must(c.SetOperationPolicy(ctx, client.OperationLevel{}, "slurm.node.bootstrap", api.OperationPolicyPut{
		Policy: api.OperationOverlay{Enabled: &no}, Reason: "not tested yet",
	}))
	must(c.SetOperationPolicy(ctx, client.OperationLevel{Project: "policied/lab"}, "slurm.node.bootstrap", api.OperationPolicyPut{
		Policy: api.OperationOverlay{TimeoutSeconds: &hour},
	}))
	e, err := c.EffectiveOperationPolicy(ctx, "policied/lab", "slurm.node.bootstrap")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(*e.Policy.Enabled, e.DecidedBy["enabled"].Level, *e.Policy.TimeoutSeconds, e.DecidedBy["timeout_seconds"].Level)
	// Output: false global 3600 project
}
