package adminapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	agentrecords "github.com/hostler/hostler/broker/agentlifecycle/records"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/presence"
	"github.com/hostler/hostler/broker/reconcile"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// The limits of the lists in the status, which fits one screen.
const (
	onScreen   = 20
	maxStopped = 5000 // runs that are looked at
	examples   = 3
)

// How long before its end an item is shown. Agents renew their certificates long before the last
// hours, so a certificate in its last hours means an agent that no longer renews.
const (
	certificateSoon = 6 * time.Hour
	enrolTokenSoon  = time.Hour
)

// addAttention adds the items that the person on call should see.
func (a *API) addAttention(
	ctx context.Context, out *api.Status, sites []string, nodes []broker.Node, releases []store.Package, fleet agentrecords.Fleet,
) error {
	if err := a.c.Unwritable(); err != nil {
		out.Alerts = append(out.Alerts, api.Alert{
			Code:    "store_not_written",
			Message: "the broker that answers cannot write its database: " + err.Error(),
		})
	}
	a.engineAway(out)
	if err := a.silent(ctx, out, sites); err != nil {
		return err
	}
	if err := a.heldBack(ctx, out, sites); err != nil {
		return err
	}
	if err := a.leftAlone(ctx, out, sites); err != nil {
		return err
	}
	if err := errors.Join(a.closedSites(ctx, out, sites), a.unprovisionable(ctx, out, sites)); err != nil {
		return err
	}
	if err := errors.Join(a.waitingReleases(ctx, out, sites), a.shortReservations(ctx, out), a.shippedDefinitions(ctx, out),
		a.overdueMaintenances(ctx, out, sites), a.replacementsDue(ctx, out, sites)); err != nil {
		return err
	}
	if err := a.failedReleases(ctx, out, sites); err != nil {
		return err
	}
	if err := a.eventsNotSent(ctx, out); err != nil {
		return err
	}
	stopped, err := a.c.DB.StoppedRuns(ctx, sites, maxStopped)
	if err != nil {
		return err
	}
	out.Runs = truncate(out, "runs", groupStopped(stopped))
	out.Quarantined = truncate(out, "quarantined", quarantined(nodes))
	wrong, err := a.c.DB.WrongDevices(ctx, sites, maxStopped)
	if err != nil {
		return err
	}
	var parts []api.StatusDevices
	for _, d := range wrong {
		parts = append(parts, api.StatusDevices{
			NodeID: d.NodeID, Hostname: d.Hostname, Site: d.Site, Missing: d.Missing,
			Unexpected: d.Unexpected, Since: d.Since,
		})
	}
	out.Devices = truncate(out, "devices", parts)
	drift, err := a.addDrifts(ctx, out, sites)
	if err != nil {
		return err
	}
	out.Drift = truncate(out, "drift", drift)
	sets, err := a.c.DB.ResolverSets(ctx)
	if err != nil {
		return err
	}
	left, err := a.c.DB.SecretsLeft(ctx, sites)
	if err != nil {
		return err
	}
	for _, l := range left[:min(len(left), onScreen)] {
		out.Alerts = append(out.Alerts, api.Alert{
			Code: "secrets_left", Since: l.Since,
			Message: "the secrets of node " + l.NodeID + " (" + l.Hostname +
				"), which is deleted, could not be removed; the broker tries again every few minutes (check the secret store)",
		})
	}
	out.Behind = truncate(out, "behind", groupOutdated(nodes, a.agentsLack(nodes, releases, fleet), sets))
	expiring, err := a.expiring(ctx, out.Now, sites, nodes)
	if err != nil {
		return err
	}
	out.Expiring = truncate(out, "expiring", expiring)
	return nil
}

// engineAway adds an alert if the policy engine permits nothing because it cannot be asked.
func (a *API) engineAway(out *api.Status) {
	if t, there := a.c.EngineTrouble(); there {
		out.Alerts = append(out.Alerts, api.Alert{
			Code: broker.PolicyEngineUnreachable, Since: t.Since,
			Message: t.Why + "; no operation begins (see operations: opa: in the config of the broker that answers)",
		})
	}
}

// silent adds alerts for sites that have fallen silent, and for silent nodes that are still active.
// The alerts are based on contacts, not on node status: when many nodes fall silent at once none is
// marked offline, and without a leading broker nobody judges.
func (a *API) silent(ctx context.Context, out *api.Status, sites []string) error {
	contacts, err := a.c.DB.Contacts(ctx, sites)
	if err != nil {
		return err
	}
	for _, c := range contacts {
		still := ""
		if c.Active > 0 {
			still = fmt.Sprintf("; %d of them are still active, and are not handed out", c.Active)
		}
		switch where := cmp.Or(c.Site, "none"); {
		case c.Silent():
			out.Alerts = append(out.Alerts, api.Alert{
				Code: presence.SiteSilent, Since: c.LastContact,
				Message: fmt.Sprintf("site %s: none of its %d nodes has made contact for %v%s (check the site's power, and the network between site and broker)", where, c.Nodes, broker.SilentAfter, still),
			})
		case c.Active > 0:
			out.Alerts = append(out.Alerts, api.Alert{
				Code:    "nodes_silent",
				Message: fmt.Sprintf("site %s: %d of its %d nodes have not made contact for %v%s (check the network between site and broker)", where, c.Active+c.Offline, c.Nodes, broker.SilentAfter, still),
			})
		}
	}
	return nil
}

// heldBack adds alerts for work that guards have stopped. Stopped reconciliation is reported with
// the drift.
func (a *API) heldBack(ctx context.Context, out *api.Status, sites []string) error {
	held, err := a.c.DB.HeldBack(ctx, sites)
	for _, h := range held[:min(len(held), onScreen)] {
		alert := api.Alert{
			Code: "batch_stopped", Since: h.Since,
			Message: fmt.Sprintf("batch %s starts no more runs, and %d runs wait: %s (repair the cause, then %s)", h.Name, h.Left,
				taskcatalog.Clean(h.Why, 300), broker.RunKindOf(h.Kind).Command("retry --batch "+h.Name)),
		}
		if h.What == store.HeldProfiles {
			alert.Code, alert.Message = "profiles_stopped",
				fmt.Sprintf("resolver profiles for %s are sent to no further node, and %d nodes lack them: %s (repair the cause, then push a set again: hostler resolver push)", h.Name, h.Left, taskcatalog.Clean(h.Why, 300))
		}
		out.Alerts = append(out.Alerts, alert)
	}
	return err
}

// truncate keeps the entries that fit on the screen and records how many do not.
func truncate[T any](out *api.Status, list string, all []T) []T {
	if len(all) <= onScreen {
		return all
	}
	out.Omitted[list] = int64(len(all) - onScreen)
	return all[:onScreen]
}

// groupStopped groups runs by kind, failure class and next action, the largest group first.
func groupStopped(stopped []store.StoppedRun) []api.StoppedRuns {
	type reason struct{ kind, class, next string }
	at := map[reason]int{}
	var groups []api.StoppedRuns
	for _, r := range stopped {
		why := reason{r.Kind, r.Class, r.NextAction}
		i, known := at[why]
		if !known {
			i, at[why] = len(groups), len(groups)
			groups = append(groups, api.StoppedRuns{Kind: r.Kind, FailureClass: r.Class, NextAction: r.NextAction, Since: r.UpdatedAt})
		}
		groups[i].Runs++
		groups[i].Examples = example(groups[i].Examples, r.ID)
	}
	slices.SortStableFunc(groups, func(a, b api.StoppedRuns) int { return cmp.Compare(b.Runs, a.Runs) })
	return groups
}

// addDrifts lists open drifts, the worst first, and adds alerts for stopped reconciliation.
func (a *API) addDrifts(ctx context.Context, out *api.Status, sites []string) (all []api.StatusDrift, err error) {
	rows, _, err := a.c.DB.Drifts(ctx, store.DriftFilter{Sites: sites, Limit: maxStopped})
	if err != nil {
		return nil, err
	}
	for _, d := range rows {
		all = append(all, api.StatusDrift{
			NodeID: d.NodeID, Hostname: d.Hostname, Site: d.Site, Rule: d.Rule, Severity: d.Severity, MAASStatus: d.Status,
			NodeStatus: string(d.NodeStatus), FirstSeen: d.FirstSeen,
		})
	}
	worst := []string{string(reconcile.Critical), string(reconcile.High), string(reconcile.Medium), string(reconcile.Low)}
	slices.SortStableFunc(all, func(a, b api.StatusDrift) int {
		return cmp.Or(cmp.Compare(slices.Index(worst, a.Severity), slices.Index(worst, b.Severity)), a.FirstSeen.Compare(b.FirstSeen))
	})
	looks, err := a.c.DB.ReconcileLooks(ctx, sites)
	for _, l := range looks {
		for _, s := range l.Stops {
			out.Alerts = append(out.Alerts, api.Alert{Code: s.Code, Since: s.Since, Message: "site " + l.Site + ": " + s.Text})
		}
	}
	return all, err
}

func example(have []string, name string) []string {
	if len(have) < examples {
		have = append(have, name)
	}
	return have
}

func quarantined(nodes []broker.Node) (out []api.StatusNode) {
	for _, n := range nodes {
		if n.Status == broker.Quarantined {
			out = append(out, api.StatusNode{
				NodeID: n.ID, Hostname: n.Hostname, Site: n.Site, Reason: n.StatusReason,
				UpdatedAt: n.UpdatedAt,
			})
		}
	}
	return out
}

// agentsLack names, for each node with the wrong agent, the version that it should have: its
// channel's version, or without any signed release the newest package's.
func (a *API) agentsLack(nodes []broker.Node, packages []store.Package, fleet agentrecords.Fleet) map[string]string {
	lack := map[string]string{}
	for _, n := range nodes {
		switch _, s := fleet.Of(n, a.c.DB); {
		case s.Desired != "" && s.Desired != n.AgentVersion:
			lack[n.ID] = s.Desired
		case s.Desired == "" && len(packages) > 0 && !packages[0].OfVersion(n.AgentVersion):
			lack[n.ID] = packages[0].Version
		}
	}
	return lack
}

// groupOutdated groups nodes by present and desired version: of the agent, and of the resolver
// profiles. The largest group comes first.
func groupOutdated(nodes []broker.Node, shall map[string]string, sets []store.ResolverSet) []api.NodesBehind {
	version := map[string]string{"": "none"}
	for _, s := range sets {
		version[s.Digest] = s.Version
	}
	type lack struct{ what, has, wants string }
	at := map[lack]int{}
	var groups []api.NodesBehind
	add := func(n broker.Node, l lack) {
		i, known := at[l]
		if !known {
			i, at[l] = len(groups), len(groups)
			groups = append(groups, api.NodesBehind{What: l.what, Has: l.has, Wants: l.wants})
		}
		groups[i].Nodes++
		groups[i].Examples = example(groups[i].Examples, n.Hostname)
	}
	for _, n := range nodes {
		if n.Epoch == 0 || n.Status == broker.Removing {
			continue
		}
		if v := shall[n.ID]; v != "" {
			add(n, lack{"agent", n.AgentVersion, v})
		}
		if n.ResolverWanted != "" && n.ResolverWanted != n.ResolverDigest {
			add(n, lack{
				"resolver profiles", cmp.Or(version[n.ResolverDigest], n.ResolverDigest),
				cmp.Or(version[n.ResolverWanted], n.ResolverWanted),
			})
		}
	}
	slices.SortStableFunc(groups, func(a, b api.NodesBehind) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return groups
}

// expiring lists the items that expire soon or have expired, in order of time. Operators' tokens
// and keys belong to all sites, so a caller bound to sites, or a request for one site, does not see
// them.
func (a *API) expiring(ctx context.Context, now time.Time, sites []string, nodes []broker.Node) (out []api.Expiring, err error) {
	add := func(what, name, site string, at time.Time, soon time.Duration) {
		if !at.IsZero() && at.Before(now.Add(soon)) {
			out = append(out, api.Expiring{What: what, Name: name, Site: site, At: at, Expired: !at.After(now)})
		}
	}
	for _, n := range nodes {
		add("node certificate", n.Hostname, n.Site, n.CertNotAfter, certificateSoon)
	}
	open, err := a.c.DB.TokensExpiring(ctx, sites, now.Add(enrolTokenSoon), maxStopped)
	if err != nil {
		return nil, err
	}
	for _, k := range open {
		add("enrolment token", k.Hostname, k.Site, k.ExpiresAt, enrolTokenSoon)
	}
	if sites == nil {
		here := a.c.Expiry
		here.Login = nil // the page does not wait for a Vault
		items, err := here.Items(ctx)
		if err != nil {
			return nil, err
		}
		for _, i := range items {
			add(i.What, i.Name, "", i.At, i.Soon)
		}
	}
	slices.SortStableFunc(out, func(a, b api.Expiring) int { return a.At.Compare(b.At) })
	return out, nil
}
