package server

import (
	"context"
	"crypto/rand"
	"net"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/agentlifecycle"
	agentrecords "github.com/hostler/hostler/broker/agentlifecycle/records"
	"github.com/hostler/hostler/broker/allocation"
	allocationrecords "github.com/hostler/hostler/broker/allocation/records"
	"github.com/hostler/hostler/broker/artifactsource"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/cluster"
	"github.com/hostler/hostler/broker/cluster/k8s"
	"github.com/hostler/hostler/broker/cluster/ray"
	"github.com/hostler/hostler/broker/cluster/slurm"
	"github.com/hostler/hostler/broker/onboarding"
	onboardingrecords "github.com/hostler/hostler/broker/onboarding/records"
	"github.com/hostler/hostler/broker/opa"
	"github.com/hostler/hostler/broker/operation"
	operationrecords "github.com/hostler/hostler/broker/operation/records"
	"github.com/hostler/hostler/broker/registry"
	"github.com/hostler/hostler/broker/rollout"
	rolloutrecords "github.com/hostler/hostler/broker/rollout/records"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/signature"
	"github.com/hostler/hostler/broker/sshseed"
	"github.com/hostler/hostler/broker/turnover"
	turnoverrecords "github.com/hostler/hostler/broker/turnover/records"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// stepGrace is the time that a stage in flight gets when the broker stops.
const stepGrace = 4 * time.Second

// openRuns makes the engine of chains, and the chains for the engine.
func (s *Server) openRuns() error {
	onboarded := &onboardingrecords.Nodes{
		DB: s.db, Queue: s.queue, Secrets: s.secrets, Trust: s.trust, AgentURL: s.at.agents,
		Rand: rand.Reader,
	}
	s.onboarding = &onboarding.Chains{
		Regions: s.sites, Records: s.db, Nodes: onboarded,
		SSH: &sshseed.Seeder{Dial: (&net.Dialer{}).DialContext},
	}
	var err error
	redeploying := *s.onboarding
	redeploying.Nodes = turnoverrecords.ReimageNodes{Nodes: onboarded}
	turnovers := &turnover.Chains{Nodes: &turnoverrecords.Nodes{
		DB: s.db, Queue: s.queue, Signer: s.trust, Secrets: s.secrets, Now: s.c.Now,
		Version: s.c.Version,
	}, MAAS: &redeploying}
	starts := &turnoverrecords.Starts{DB: s.db}
	s.operations = &operationrecords.Records{DB: s.db, Queue: s.queue, Signer: s.trust, Signatures: s.judge(), Trace: s.traces.planning}
	if c := s.c.PolicyEngine; c != nil {
		if s.engine, err = opa.New(*c, s.c.Now); err != nil {
			return err
		}
		s.onClose(s.engine.Close)
		s.operations.Engine = s.engine
	}
	allocations := &allocation.Chains{Records: &allocationrecords.Records{
		DB: s.db, Queue: s.queue, Starts: starts, Operations: s.operations,
	}}
	s.agents = &agentrecords.Nodes{DB: s.db, Queue: s.queue, Trust: s.trust, Starts: starts}
	counted := &countedRuns{DB: s.db, operations: s.metrics.operations, traces: s.traces}
	s.operations.Ended = counted.ended
	s.runs, err = chain.New(counted, classes(), chain.Options{Poll: s.c.Often, Grace: stepGrace, Log: s.c.Log.Named("runs")},
		append(kinds(s.onboarding, turnovers, s.agents, allocations, &operation.Chains{Records: s.operations}), s.c.Kinds...)...)
	starts.Runs = s.runs
	return err
}

// kinds are all chains of a broker.
func kinds(
	l *onboarding.Chains, t *turnover.Chains, n *agentrecords.Nodes, a *allocation.Chains, o *operation.Chains,
) []chain.Kind {
	all := append([]chain.Kind{l.Onboarding(), l.Adoption()}, t.All()...)
	all = append(all, (&agentlifecycle.Chains{Nodes: n}).All()...)
	all = append(append(all, a.All()...), o.All()...)
	return append(all, (&rollout.Chains{Nodes: rolloutrecords.Nodes{Nodes: n}}).Rollout())
}

// clusterAdapters make the adapter of a cluster, by its backend.
var clusterAdapters = map[string]func(broker.Cluster, cluster.Access) cluster.Adapter{
	broker.ClusterRay:   ray.New,
	broker.ClusterSlurm: slurm.New,
	broker.ClusterK8s:   k8s.New,
}

// minter mints secrets for tasks: a pull token from its registry, a machine's token from its MAAS, or
// from the stored copy if MAAS does not answer, a credential of a source of artifacts, and what a cluster
// says.
func (s *Server) minter() *secrets.Minter {
	tokens := &onboardingrecords.MachineTokens{DB: s.db, Sites: s.sites}
	pulls := &registry.Pulls{Records: s.db, Secrets: s.secrets, Client: s.registries, Signed: s.signed}
	sources := &artifactsource.Mints{Records: s.db, Secrets: s.secrets, Signed: s.signed, Now: s.c.Now}
	clusters := &cluster.Steps{
		Records: s.db, Secrets: s.secrets, Signed: s.signed, Now: s.c.Now,
		Backends: clusterAdapters,
	}
	return &secrets.Minter{
		Keeper: s.secrets, Now: s.c.Now, PullToken: pulls.Of, MachineToken: tokens.Of, TerminalToken: s.terminalToken,
		StepPullToken: pulls.OfStep, SourceCredential: sources.Of, ClusterStep: clusters.Of,
	}
}

// judge judges the signatures of artifacts, which it reads from their registries.
func (s *Server) judge() *signature.Judge {
	return &signature.Judge{Now: s.c.Now, Open: func(ctx context.Context, repository string) (signature.Repository, error) {
		return (&registry.Pulls{Records: s.db, Secrets: s.secrets, Client: s.registries}).Open(ctx, repository)
	}}
}

// signed reads and verifies a task that this broker signed.
func (s *Server) signed(envelope []byte) (*taskcatalog.Task, error) {
	env, err := pki.ParseEnvelope(envelope)
	if err != nil {
		return nil, err
	}
	bundle, _ := s.trust.Bundle()
	return bundle.VerifyTask(env, s.c.Now())
}

// classes is the broker's table of failures in the engine's form.
func classes() chain.Classes {
	out := chain.Classes{}
	for _, h := range broker.FailureHandlings {
		ends := chain.FailedRetryable
		if h.Person {
			ends = chain.FailedManual
		}
		out[chain.Class(h.Class)] = chain.Handling{
			Retry: h.Retry, Rescue: h.Rescue, Ends: ends, NextAction: h.NextAction(),
			UndoAction: h.UndoAction(),
		}
	}
	return out
}
