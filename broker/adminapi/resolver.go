package adminapi

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

type resolverPushInput struct{ Body api.ResolverPush }

// pushResolverSet checks a whole set before storing it: a profile that no node would accept is
// refused here.
func (a *API) pushResolverSet(ctx context.Context, in *resolverPushInput) (*api.ResolverSet, error) {
	set, problems := profiles.Decode(in.Body.Profiles)
	if len(problems) > 0 {
		return nil, broker.Errorf(broker.Invalid, "resolver_profiles_invalid",
			"cannot store resolver profiles %s: %s (hostler resolver validate shows all problems)", in.Body.Version, problems.Error())
	}
	raw, err := set.Encode()
	if err != nil {
		return nil, err
	}
	s := store.ResolverSet{Digest: set.Digest(), Version: in.Body.Version, Profiles: raw}
	had, err := a.c.DB.PushResolverSet(ctx, callerOf(ctx).actor(), s)
	if err != nil {
		return nil, err
	}
	if s, err = a.c.DB.ResolverSet(ctx, s.Digest); err != nil {
		return nil, err
	}
	out := resolverSetResource(s)
	out.Had = had
	return &out, nil
}

func resolverSetResource(s store.ResolverSet) api.ResolverSet {
	return api.ResolverSet{Version: s.Version, Digest: s.Digest, PushedBy: s.PushedBy, PushedAt: s.PushedAt}
}

func (a *API) listResolverSets(ctx context.Context, in *PageInput) (*api.ResolverSetList, error) {
	all, err := a.c.DB.ResolverSets(ctx)
	if err != nil {
		return nil, err
	}
	out := &api.ResolverSetList{Items: []api.ResolverSet{}}
	for _, s := range all {
		out.Items = append(out.Items, resolverSetResource(s))
	}
	return out, cut(*in, &out.Items, &out.Next, func(s api.ResolverSet) string { return s.Digest })
}

type resolverWantInput struct{ Body api.ResolverWantPut }

// wantResolverSet assigns a profile set to the nodes of a selector.
func (a *API) wantResolverSet(ctx context.Context, in *resolverWantInput) (*api.ResolverWant, error) {
	selector, err := a.selector(ctx, in.Body.Selector)
	if err != nil {
		return nil, err
	}
	return a.wantResolver(ctx, selector, in.Body.Version, in.Body.Reason)
}

func (a *API) wantResolver(ctx context.Context, selector broker.Selector, version, reason string) (*api.ResolverWant, error) {
	w, _, err := a.c.DB.WantResolver(ctx, callerOf(ctx).actor(), selector, version, reason)
	if err != nil {
		return nil, err
	}
	out, err := a.wantResource(ctx, w)
	return &out, err
}

// selector parses a selector and turns its node references into ids.
func (a *API) selector(ctx context.Context, text string) (broker.Selector, error) {
	s, err := broker.ParseSelector(text)
	if err != nil {
		return s, err
	}
	if strings.Contains(","+s.String(), ",status=") {
		return s, broker.Errorf(broker.Invalid, "selector_invalid",
			"cannot use the selector %q: a node's status changes (select by facts and labels)", taskcatalog.Clean(text, 200))
	}
	return a.namedNodes(ctx, s)
}

// namedNodes turns the node references of a selector into ids.
func (a *API) namedNodes(ctx context.Context, s broker.Selector) (broker.Selector, error) {
	if s.Refs() == nil {
		return s, nil
	}
	ids := []string{}
	for _, ref := range s.Refs() {
		n, err := a.node(ctx, ref)
		if err != nil {
			return s, err
		}
		ids = append(ids, n.ID)
	}
	return broker.ParseSelector(strings.Join(ids, ","))
}

func (a *API) wantResource(ctx context.Context, w store.ResolverWant) (api.ResolverWant, error) {
	out := api.ResolverWant{
		Selector: w.Selector, Version: w.Version, Digest: w.Digest, WantedBy: w.WantedBy, WantedAt: w.WantedAt, StoppedAt: w.StoppedAt,
		StopReason: w.StopReason,
	}
	nodes, confirmed, err := a.c.DB.CountResolver(ctx, w.ID)
	out.Nodes, out.Confirmed = nodes, confirmed
	return out, err
}

func (a *API) listResolverWants(ctx context.Context, in *PageInput) (*api.ResolverWantList, error) {
	wants, err := a.c.DB.ResolverWants(ctx)
	if err != nil {
		return nil, err
	}
	out := &api.ResolverWantList{Items: []api.ResolverWant{}}
	for _, w := range wants {
		item, err := a.wantResource(ctx, w)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, item)
	}
	return out, cut(*in, &out.Items, &out.Next, func(w api.ResolverWant) string { return strconv.FormatInt(w.WantedAt.UnixMicro(), 10) })
}

func (a *API) showResolver(ctx context.Context, in *NodeInput) (*api.NodeResolver, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	return a.nodeResolver(ctx, n)
}

func (a *API) nodeResolver(ctx context.Context, n broker.Node) (*api.NodeResolver, error) {
	out := &api.NodeResolver{NodeID: n.ID, Hostname: n.Hostname, Confirmed: n.ResolverWanted == "" || n.ResolverWanted == n.ResolverDigest}
	for to, digest := range map[*string]string{
		&out.Wanted: n.ResolverWanted, &out.InForce: n.ResolverDigest,
		&out.Before: n.ResolverBefore,
	} {
		var err error
		if *to, err = a.versionOf(ctx, digest); err != nil {
			return nil, err
		}
	}
	wants, err := a.c.DB.ResolverWants(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(wants, func(w store.ResolverWant) bool { return w.ID == n.ResolverWant }); i >= 0 {
		w, err := a.wantResource(ctx, wants[i])
		if err != nil {
			return nil, err
		}
		out.Want = &w
	}
	return out, nil
}

// versionOf is the version name of a set, or the digest if the broker does not know the set.
func (a *API) versionOf(ctx context.Context, digest string) (string, error) {
	if digest == "" {
		return "", nil
	}
	s, err := a.c.DB.ResolverSet(ctx, digest)
	if err != nil && broker.AsError(err).Kind == broker.NotFound {
		return digest, nil
	}
	return s.Version, err
}

type resolverRollbackInput struct {
	NodeInput
	Body api.ResolverRollback
}

// rollBackResolver is an assignment for one node, with precedence over all earlier assignments.
func (a *API) rollBackResolver(ctx context.Context, in *resolverRollbackInput) (*api.NodeResolver, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	to := in.Body.To
	if to == "" {
		if to = n.ResolverBefore; to == "" {
			return nil, broker.Errorf(broker.Refused, "resolver_nothing_before",
				"cannot roll node %s back: the node had no other resolver profiles before (name a version with --to)", n.ID)
		}
	}
	selector, err := broker.ParseSelector(n.ID)
	if err != nil {
		return nil, err
	}
	if _, err := a.wantResolver(ctx, selector, to, in.Body.Reason); err != nil {
		return nil, err
	}
	if n, err = a.c.DB.Node(ctx, n.ID); err != nil {
		return nil, err
	}
	return a.nodeResolver(ctx, n)
}

type explainInput struct {
	NodeInput
	Step string `query:"step" maxLength:"64" doc:"a step kind such as gpu.scrub.overwrite"`
}

// explainResolver resolves a step as the node would: with the node's set in force and its reported
// facts.
func (a *API) explainResolver(ctx context.Context, in *explainInput) (*api.ResolverExplanation, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	if !profiles.KnownStep(in.Step) {
		return nil, broker.Errorf(broker.NotFound, "unknown_step", "there is no step kind %q (%s)", taskcatalog.Clean(in.Step, 64),
			strings.Join(profiles.Steps(), ", "))
	}
	set := profiles.Minimal()
	if n.ResolverDigest != "" && n.ResolverDigest != set.Digest() {
		kept, err := a.c.DB.ResolverSet(ctx, n.ResolverDigest)
		if err != nil {
			return nil, err
		}
		var problems profiles.Problems
		if set, problems = profiles.Decode(kept.Profiles); len(problems) > 0 {
			return nil, broker.Errorf(broker.Internal, "resolver_profiles_invalid", "cannot read resolver profiles %s: %s", kept.Version,
				problems.Error())
		}
		set.Version = kept.Version
	}
	e := set.Explain(n.Capabilities, in.Step)
	out := &api.ResolverExplanation{
		NodeID: n.ID, Hostname: n.Hostname, Step: e.Step, Version: e.Version, Digest: e.Digest, Rule: e.Rule, Profile: e.Profile,
		Argv: e.Argv, Code: e.Code,
	}
	for _, r := range e.Rules {
		rule := api.ResolverRule{Name: r.Name, At: r.At, Matched: r.Matched, Won: r.Won}
		for _, c := range r.Conditions {
			rule.Conditions = append(rule.Conditions, api.ResolverCondition{Key: c.Key, Want: c.Want, Have: c.Have, Holds: c.Holds})
		}
		out.Rules = append(out.Rules, rule)
	}
	return out, nil
}
