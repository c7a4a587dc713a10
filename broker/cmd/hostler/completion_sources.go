package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// sources are the completions that ask the broker, by the name of an argument or flag; with the noun
// in front where they differ by noun.
var sources = map[string]source{
	"NODE":               nodeCandidates,
	"--node":             nodeCandidates,
	"--nodes":            selectorCandidates,
	"SITE":               siteCandidates,
	"--site":             siteCandidates,
	"PROFILE":            profileCandidates,
	"OVERRIDE":           overrideCandidates,
	"SKU":                skuCandidates,
	"--sku":              skuCandidates,
	"TASK":               taskCandidates,
	"VERSION":            releaseCandidates,
	"--release":          releaseCandidates,
	"REGISTRY":           registryCandidates,
	"SOURCE-CREDENTIAL":  sourceCandidates,
	"ARTIFACT-SIGNER":    signerCandidates,
	"CLUSTER":            clusterCandidates,
	"device SERIAL":      deviceCandidates,
	"certificate SERIAL": serialCandidates,
	"token NAME":         tokenCandidates,
	"ORG":                orgCandidates,
	"--org":              orgCandidates,
	"PROJECT":            projectCandidates,
	"--project":          projectCandidates,
	"certificate ID":     certificateCandidates,
	"allocation ID":      allocationCandidates,
	"reservation ID":     reservationCandidates,
	"maintenance ID":     maintenanceCandidates,

	"operation-definition ID": operationDefinitionCandidates,
	"operation ID":            operationCandidates,

	"onboarding ID":      runCandidates(onboardings),
	"decommission ID":    runCandidates(decommissions),
	"agent-lifecycle ID": runCandidates(agentRuns),
	"run ID":             anyRunCandidates,
	"rollout ID":         rolloutCandidates,
	"terminal ID":        terminalCandidates,
	"recording ID":       recordingCandidates,
	"roce ID":            roceCandidates,
	"trust ID":           releaseKeyCandidates,
}

// nodeCandidates offers hostnames, with the site in front where two sites have the same. Ids are
// offered as well if the word begins as an id does. A source reads all pages, since a word that is
// unique on one page may not be unique, and offers nothing where there are too many rows to read. Of
// runs and sessions only those that have not ended are offered.
func nodeCandidates(ctx context.Context, remote *client.Client, _ []string, word string) ([]candidate, error) {
	f := client.NodeFilter{Limit: completionRead + 1}
	if site, _, qualified := strings.Cut(word, "/"); qualified {
		f.Site = site
	}
	l, err := remote.Nodes(ctx, f)
	if err != nil || len(l.Items) > completionRead {
		return nil, err
	}
	times := map[string]int{}
	for _, n := range l.Items {
		times[n.Hostname]++
	}
	var out []candidate
	for _, n := range l.Items {
		about := strings.TrimPrefix(n.Site+", "+n.Status, ", ")
		switch qualified := n.Site + "/" + n.Hostname; {
		case f.Site != "", times[n.Hostname] > 1 && n.Site != "":
			out = append(out, candidate{qualified, about})
		default:
			out = append(out, candidate{n.Hostname, about})
		}
		if strings.HasPrefix(word, "n-") {
			out = append(out, candidate{n.ID, n.Hostname + ", " + about})
		}
	}
	return out, nil
}

// selectorCandidates offers all nodes, or one of them.
func selectorCandidates(ctx context.Context, remote *client.Client, before []string, word string) ([]candidate, error) {
	out, err := nodeCandidates(ctx, remote, before, word)
	return append([]candidate{{"all", "every node"}}, out...), err // first, because a node may have the name all
}

func siteCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	l, err := remote.Sites(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range l.Items {
		out = append(out, candidate{s.Name, siteState(s)})
	}
	return out, nil
}

func profileCandidates(ctx context.Context, remote *client.Client, before []string, _ string) (out []candidate, err error) {
	l, err := remote.SiteProfiles(ctx, before[0])
	if err != nil {
		return nil, err
	}
	for _, p := range l.Items {
		out = append(out, candidate{p.Name, p.Status})
	}
	return out, nil
}

func overrideCandidates(ctx context.Context, remote *client.Client, before []string, _ string) (out []candidate, err error) {
	l, err := remote.PowerOverrides(ctx, before[0])
	if err != nil {
		return nil, err
	}
	for _, o := range l.Items {
		out = append(out, candidate{o.ID, o.SelectorType + " " + o.SelectorValue + ", " + o.Status})
	}
	return out, nil
}

func roceCandidates(ctx context.Context, remote *client.Client, before []string, _ string) (out []candidate, err error) {
	l, err := remote.RoCE(ctx, before[0], "")
	if err != nil {
		return nil, err
	}
	for _, r := range l.Items {
		out = append(out, candidate{r.ID, r.Hostname})
	}
	return out, nil
}

func skuCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	l, err := remote.SKUs(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range l.Items {
		out = append(out, candidate{s.ID, s.Description})
	}
	return out, nil
}

func taskCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	l, err := remote.Tasks(ctx, client.TaskFilter{Limit: completionRead + 1})
	if err != nil || len(l.Items) > completionRead {
		return nil, err
	}
	for _, t := range l.Items {
		out = append(out, candidate{t.ID, t.Hostname + ", " + t.Type + ", " + t.Status})
	}
	return out, nil
}

// runCandidates offers the runs of a noun that have not ended.
func runCandidates[R any](k runs[R]) source {
	return func(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
		l, err := k.list(ctx, remote, client.RunFilter{Status: "live"})
		if err != nil {
			return nil, err
		}
		for _, r := range l.runs {
			look := k.look(r)
			out = append(out, candidate{look.id, look.hostname + ", " + look.status + " at " + look.stage})
		}
		return out, nil
	}
}

// anyRunCandidates offers the runs of all kinds that have not ended.
func anyRunCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	l, err := remote.Runs(ctx, client.AnyRunFilter{RunFilter: client.RunFilter{Status: "live"}})
	if err != nil {
		return nil, err
	}
	for _, r := range l.Items {
		out = append(out, candidate{r.RunID, r.Subject + ", " + r.Kind + ", " + r.Status})
	}
	return out, nil
}

func rolloutCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	l, err := remote.Rollouts(ctx, client.RunFilter{Status: "live"})
	if err != nil {
		return nil, err
	}
	for _, r := range l.Items {
		out = append(out, candidate{r.RolloutID, r.Release + ", " + r.Status})
	}
	return out, nil
}

func releaseCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	l, err := remote.AgentReleases(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range l.Items {
		out = append(out, candidate{r.Version, r.Kind + ", " + r.Arch})
	}
	return out, nil
}

func registryCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	l, err := remote.RegistryCredentials(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range l.Items {
		out = append(out, candidate{r.Registry, r.Username})
	}
	return out, nil
}

func sourceCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	l, err := remote.SourceCredentials(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range l.Items {
		out = append(out, candidate{s.Name, s.Source})
	}
	return out, nil
}

func signerCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	l, err := remote.ArtifactSigners(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range l.Items {
		out = append(out, candidate{s.Name, s.Source})
	}
	return out, nil
}

// tokenCandidates offers the tokens that can be revoked.
func tokenCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	l, err := remote.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range l.Items {
		if t.RevokedAt.IsZero() {
			out = append(out, candidate{t.Name, t.Role + ", " + tokenPlace(t)})
		}
	}
	return out, nil
}

func orgCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	all, err := remote.Organisations(ctx, false)
	for _, o := range all {
		out = append(out, candidate{o.Name, o.ID})
	}
	return out, err
}

// projectCandidates offers names, and the ids of projects whose name several organisations have.
func projectCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	all, err := remote.Projects(ctx, "", false)
	times := map[string]int{}
	for _, p := range all {
		times[p.Name]++
	}
	for _, p := range all {
		if times[p.Name] == 1 {
			out = append(out, candidate{p.Name, p.ID})
		} else {
			out = append(out, candidate{p.ID, p.Name + " of " + p.OrganisationID})
		}
	}
	return out, err
}

// allocationCandidates offers the allocations that the token sees without --project and that have not
// ended.
func allocationCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	project, err := ownProject(ctx, remote, "")
	if err != nil {
		return nil, err
	}
	live := client.AllocationFilter{Status: "requested,provisioning,active,releasing,release_failed"}
	offer := func(v api.Allocation) { out = append(out, candidate{v.ID, v.Status + ", " + v.SKU + " at " + v.Site}) }
	if project == "" {
		l, err := remote.PlatformAllocations(ctx, "", live)
		if err != nil {
			return nil, err
		}
		for _, v := range l.Items {
			offer(v.Allocation)
		}
		return out, nil
	}
	l, err := remote.Allocations(ctx, project, live)
	if err != nil {
		return nil, err
	}
	for _, v := range l.Items {
		offer(v)
	}
	return out, nil
}

func reservationCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	all, err := remote.Reservations(ctx, "", client.ReservationFilter{})
	if err != nil {
		return nil, err
	}
	for _, v := range all.Items {
		out = append(out, candidate{v.ID, v.Status + ", " + strconv.Itoa(v.Nodes) + " of " + v.SKU + " for " + v.ProjectID})
	}
	return out, nil
}

func deviceCandidates(ctx context.Context, remote *client.Client, before []string, _ string) (out []candidate, err error) {
	l, err := remote.Devices(ctx, before[0])
	if err != nil {
		return nil, err
	}
	for _, d := range l.Items {
		out = append(out, candidate{d.ID, d.Kind + ", " + d.State})
	}
	return out, nil
}

func serialCandidates(ctx context.Context, remote *client.Client, before []string, _ string) (out []candidate, err error) {
	l, err := remote.NodeCertificates(ctx, before[0])
	if err != nil {
		return nil, err
	}
	for _, c := range l.Items {
		out = append(out, candidate{c.Serial, c.State})
	}
	return out, nil
}

func certificateCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	l, err := remote.CleanCertificates(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, c := range l.Items {
		out = append(out, candidate{c.CertificateID, c.NodeID + ", " + c.Mode})
	}
	return out, nil
}

func terminalCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	project, err := ownProject(ctx, remote, "")
	if err != nil {
		return nil, err
	}
	_, all, err := terminalRoutes{remote, project}.list(ctx, client.TerminalFilter{Status: "live"}, "")
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		at := " on " + t.Hostname
		if project != "" {
			at = " of " + t.AllocationID
		}
		out = append(out, candidate{t.ID, t.Username + at + ", " + t.Status})
	}
	return out, nil
}

func recordingCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	l, err := remote.Recordings(ctx, client.RecordingFilter{Limit: completionRead + 1})
	if err != nil || len(l.Items) > completionRead {
		return nil, err
	}
	for _, r := range l.Items {
		out = append(out, candidate{r.SessionID, r.Username + " on " + r.Hostname})
	}
	return out, nil
}

// releaseKeyCandidates offers the keys that sign releases.
func releaseKeyCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	t, err := remote.Trust(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range t.Keys {
		if k.Use == "release" {
			out = append(out, candidate{k.ID, ""})
		}
	}
	return out, nil
}
