package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func allocationCommand(a *app) *cobra.Command {
	return noun("allocation", "nodes that projects ask for and hold", "  hostler allocation list --project acme/lab",
		allocationCreateCommand(a), allocationListCommand(a), allocationShowCommand(a), allocationTimelineCommand(a),
		allocationCertificateCommand(a), allocationWatchCommand(a), allocationReleaseCommand(a), allocationForceReleaseCommand(a),
		allocationExplainCommand(a), allocationSSHCommand(a))
}

func allocationProjectFlag(c *cobra.Command, project *string) {
	c.Flags().StringVar(project, "project", "",
		"`PROJECT` of the allocation: an id, a name, or ORGANISATION/NAME; default: the project of the token")
}

// ownProject is the project whose allocations a command is about. Empty: the token is one of the
// platform, and no project is named.
func ownProject(ctx context.Context, remote *client.Client, project string) (string, error) {
	if project != "" {
		return project, nil
	}
	me, err := remote.Whoami(ctx)
	if err == nil && me.ProjectID == "" && me.OrganisationID != "" {
		return "", usage("no project is named, and the token is one of a whole organisation (use --project PROJECT)")
	}
	if err != nil {
		return "", err
	}
	return me.ProjectID, nil
}

// connectTo makes a client, and finds the project of an allocation: the one that is named, that of the
// token, or for a token of the platform that of the allocation.
func (a *app) connectTo(ctx context.Context, project, id string) (*client.Client, string, error) {
	remote, err := a.connect()
	if err != nil {
		return nil, "", err
	}
	if project, err = ownProject(ctx, remote, project); err != nil || project != "" {
		return remote, project, err
	}
	v, err := remote.PlatformAllocation(ctx, id)
	if err != nil {
		return nil, "", err
	}
	return remote, v.ProjectID, nil
}

// seenAllocation is an allocation as the caller may see it.
type seenAllocation struct {
	api.Allocation
	nodeIDs []string // of the platform's view
	waits   string   // of the platform's view
	answer  any      // as the API gave it
}

func tenantsAllocation(v *api.Allocation) *seenAllocation { return &seenAllocation{*v, nil, "", v} }

func platformsAllocation(v *api.PlatformAllocation) *seenAllocation {
	return &seenAllocation{v.Allocation, v.NodeIDs, v.Waiting, v}
}

// allocationOf looks at an allocation of a project; without a project, as the platform.
func allocationOf(ctx context.Context, remote *client.Client, project, id string) (*seenAllocation, error) {
	if project == "" {
		v, err := remote.PlatformAllocation(ctx, id)
		if err != nil {
			return nil, err
		}
		return platformsAllocation(v), nil
	}
	v, err := remote.Allocation(ctx, project, id)
	if err != nil {
		return nil, err
	}
	return tenantsAllocation(v), nil
}

func allocationStatusNames() []string {
	names := make([]string, len(broker.AllocationStatuses))
	for i, s := range broker.AllocationStatuses {
		names[i] = string(s)
	}
	return names
}

func allocationListCommand(a *app) *cobra.Command {
	var f client.AllocationFilter
	var project string
	var labels []string
	c := &cobra.Command{
		Use: "list", Short: "list allocations", Args: exactly(),
		Long: `List the allocations of a project, newest first. With a token of the platform and
without --project, list those of all projects.`,
		Example: "  hostler allocation list\n  hostler allocation list --project acme/lab --status active,release_failed\n" +
			"  hostler allocation list --sku h100.8gpu --label team=vision -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			var ok bool
			if f.Labels, ok = client.Labels(labels); !ok {
				return usage("--label takes key=value")
			}
			for name := range strings.SplitSeq(f.Status, ",") {
				if name != "" && !slices.Contains(allocationStatusNames(), name) {
					return usage("there is no status %q of an allocation (%s)", name, strings.Join(allocationStatusNames(), ", "))
				}
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if project, err = ownProject(c.Context(), remote, project); err != nil {
				return err
			}
			if project == "" {
				list, err := remote.PlatformAllocations(c.Context(), "", f)
				if err != nil {
					return err
				}
				all := make([]api.Allocation, len(list.Items))
				for i, v := range list.Items {
					all[i] = v.Allocation
				}
				return a.showAllocations(list, all)
			}
			list, err := remote.Allocations(c.Context(), project, f)
			if err != nil {
				return err
			}
			return a.showAllocations(list, list.Items)
		},
	}
	allocationProjectFlag(c, &project)
	c.Flags().StringVar(&f.Status, "status", "", "only these statuses, separated by commas")
	c.Flags().StringVar(&f.SKU, "sku", "", "only of this SKU")
	c.Flags().StringVar(&f.Site, "site", "", "only at this site")
	c.Flags().StringArrayVar(&labels, "label", nil, "only with this label, `KEY=VALUE` (may be repeated)")
	return c
}

func (a *app) showAllocations(answer any, all []api.Allocation) error {
	ids, rows := []string{}, [][]string{}
	for _, v := range all {
		ids = append(ids, v.ID)
		rows = append(rows, []string{
			v.ID, v.Status, v.SKU, count(int64(v.Nodes)), count(int64(v.GPUs)), v.Site, v.ProjectID, v.Code,
			render.Ago(v.RequestedAt, a.now()),
		})
	}
	return a.show(answer, ids, func(p *render.Page) {
		p.Table([]render.Column{
			render.ID("ID"), render.Keep("STATUS"), render.Keep("SKU"), render.Main("NODES"), render.Aside("GPUS"), render.Main("SITE"),
			render.More("PROJECT"), render.Keep("CODE"), render.Aside("REQUESTED"),
		}, rows)
		if len(rows) == 0 {
			a.note("no allocations (ask for nodes: hostler allocation create)")
		}
	})
}

func allocationShowCommand(a *app) *cobra.Command {
	var project string
	c := &cobra.Command{
		Use: "show ID", Short: "show an allocation, and where to log in", Args: exactly("ID"),
		Example: "  hostler allocation show alc-019c4e6a2f1k7m2q4s6t8w --project acme/lab",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if project, err = ownProject(c.Context(), remote, project); err != nil {
				return err
			}
			v, err := allocationOf(c.Context(), remote, project, args[0])
			if err != nil {
				return err
			}
			return a.showAllocation(v)
		},
	}
	allocationProjectFlag(c, &project)
	return c
}

func (a *app) showAllocation(v *seenAllocation) error {
	return a.show(v.answer, []string{v.ID}, func(p *render.Page) {
		p.Fields("id", v.ID, "project", v.ProjectID, "status", v.Status, "waits for", v.waits, "code", v.Code, "what to do", v.Message,
			"sku", v.SKU, "nodes", count(int64(v.Nodes)), "gpus", count(int64(v.GPUs)), "site", v.Site,
			"image", cmp.Or(v.Image, "whatever the nodes have"),
			"keys", strings.Join(v.SSHKeyIDs, ", "), "keys not accepted", keyWords(v.RefusedKeys), "node ids", strings.Join(v.nodeIDs, ", "),
			"certificates", strings.Join(v.CertificateIDs, ", "), "ends", ifReached(a, v.EndsAt), "requested", moment(a, v.RequestedAt),
			"active", ifReached(a, v.ActiveAt), "releasing", ifReached(a, v.ReleasingAt), "released", ifReached(a, v.ReleasedAt),
			"failed", ifReached(a, v.FailedAt), "release failed", ifReached(a, v.ReleaseFailedAt),
			"goes on by itself", ifReached(a, v.GoesOnAt), "end operation passed", ifReached(a, v.PassedAt))
		if len(v.Logins) > 0 {
			p.Title("Log in")
			rows := [][]string{}
			for _, l := range v.Logins {
				rows = append(rows, []string{l.Hostname, l.Address, l.Username, hostKeyFingerprint(l.HostKey)})
			}
			p.Table(render.Kept("HOSTNAME", "ADDRESS", "USER", "HOST KEY"), rows)
		}
		pairs(p, "Labels", v.Labels)
	})
}

// keyWords names keys with their fingerprints.
func keyWords(all []api.AllocationKey) string {
	var words []string
	for _, k := range all {
		words = append(words, k.ID+" ("+k.Fingerprint+")")
	}
	return strings.Join(words, ", ")
}

// ifReached is a moment; empty: it was not reached.
func ifReached(a *app, at *time.Time) string {
	if at == nil {
		return ""
	}
	return moment(a, *at)
}
