package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func nodeCommand(a *app) *cobra.Command {
	return noun("node", "create, show, change and remove nodes", "  hostler node list",
		nodeCreateCommand(a),
		nodeAdoptCommand(a),
		nodeListCommand(a),
		nodeShowCommand(a),
		nodeTimelineCommand(a),
		nodeFactsCommand(a),
		nodeAgentCommand(a),
		nodeDiagnosticsCommand(a),
		nodeActionCommand(a, drain),
		nodeActionCommand(a, resume),
		nodeActionCommand(a, quarantine),
		nodeActionCommand(a, activate),
		nodeActionCommand(a, retire),
		nodeActionCommand(a, remove),
		baselineCommand(a),
		nodeDeviceCommand(a),
		nodeLabelCommand(a),
		nodePlaceCommand(a),
		nodeTokenCommand(a),
		nodeCertificateCommand(a),
		nodeCredentialsCommand(a),
	)
}

func nodeListCommand(a *app) *cobra.Command {
	var f client.NodeFilter
	var labels []string
	var since, selector string
	c := &cobra.Command{
		Use: "list", Short: "list nodes", Args: exactly(),
		Example: "  hostler node list\n  hostler node list --status offline --site dc1 -q\n" +
			"  hostler node list --availability held,in_turnover\n  hostler node list --sku h100.8gpu --tenant acme -o wide\n" +
			"  hostler node list --nodes rack=c07",
		RunE: func(c *cobra.Command, _ []string) error {
			var ok bool
			if f.Labels, ok = client.Labels(labels); !ok {
				return usage("--label takes key=value")
			}
			if err := checkStatus(f.Status); err != nil {
				return err
			}
			if err := checkAvailability(f.Availability); err != nil {
				return err
			}
			var err error
			if f.UpdatedSince, err = a.timeFlag("updated-since", since); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			list, err := remote.Nodes(c.Context(), f)
			if err != nil {
				return err
			}
			if selector != "" {
				if err := narrow(list, selector); err != nil {
					return err
				}
			}
			return a.show(list, idsOf(list.Items), func(p *render.Page) {
				rows := [][]string{}
				for _, n := range list.Items {
					rows = append(rows, []string{
						n.ID, n.Hostname, n.Site, n.Zone, n.Rack, count(int64(n.Unit)), n.Domain,
						n.Status, n.Availability, owed(n), n.Tenant, n.SKU,
						count(int64(n.GPUsTotal)), n.Serial, n.Host, n.IPMIIP, n.AgentVersion, render.Ago(n.LastAgentContactAt, a.now()),
					})
				}
				p.Table([]render.Column{
					render.NodeID("ID"), render.Keep("HOSTNAME"), render.Main("SITE"), render.Aside("ZONE"), render.Aside("RACK"),
					render.Aside("UNIT"), render.Aside("DOMAIN"),
					render.Keep("STATUS"), render.Keep("AVAILABILITY"), render.Keep("TURNOVER"), render.Main("TENANT"),
					render.More("SKU"), render.Aside("GPUS"), render.Aside("SERIAL"), render.Aside("HOST"),
					render.Aside("BMC"), render.Aside("AGENT"), render.More("LAST CONTACT"),
				}, rows)
				if len(rows) == 0 {
					a.note("no nodes (create one: hostler node create)")
				}
			})
		},
	}
	c.Flags().StringVar(&f.Site, "site", "", "only nodes of this site")
	c.Flags().StringVar(&f.Status, "status", "", "only nodes of this status, or of several separated by commas")
	c.Flags().StringVar(&f.Availability, "availability", "", "only nodes of this availability, or of several separated by commas")
	c.Flags().StringVar(&f.Hostname, "hostname", "", "only nodes of this `HOSTNAME`")
	c.Flags().StringVar(&f.SKU, "sku", "", "only nodes of this SKU")
	c.Flags().StringVar(&f.Serial, "serial", "", "only the node whose chassis has this serial number, in any case")
	c.Flags().StringVar(&f.Tenant, "tenant", "", "only nodes with a live allocation of this tenant")
	c.Flags().StringVar(&since, "updated-since", "", "only nodes whose record changed since this `TIME`: a date, RFC 3339, or an age such as 24h")
	c.Flags().StringVar(&selector, "nodes", "", "only nodes that match a `SELECTOR`: key=value,key=value")
	c.Flags().StringArrayVar(&labels, "label", nil, "only nodes with this label, `key=value` (may be repeated)")
	return c
}

func statusNames() []string {
	names := []string{}
	for _, s := range broker.NodeStatuses {
		names = append(names, string(s))
	}
	return names
}

// checkStatus refuses a misspelled status, which would list nothing.
func checkStatus(s string) error {
	for name := range strings.SplitSeq(s, ",") {
		if name != "" && !slices.Contains(statusNames(), name) {
			return usage("there is no node status %q (%s)", name, strings.Join(statusNames(), ", "))
		}
	}
	return nil
}

// checkAvailability refuses a misspelled availability, which would list nothing.
func checkAvailability(s string) error {
	for name := range strings.SplitSeq(s, ",") {
		if name != "" && !slices.Contains(broker.Availabilities, broker.Availability(name)) {
			words := []string{}
			for _, w := range broker.Availabilities {
				words = append(words, string(w))
			}
			return usage("there is no availability %q (%s)", name, strings.Join(words, ", "))
		}
	}
	return nil
}

func owed(n api.Node) string {
	if n.TurnoverOwed {
		return "owed"
	}
	return ""
}

func idsOf(nodes []api.Node) []string {
	ids := []string{}
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	return ids
}

func nodeShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show NODE", Short: "show one node", Args: exactly("NODE"),
		Example: "  hostler node show gpu-07\n  hostler node show dc1/gpu-07 -o json",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			n, err := remote.Node(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showNode(n)
		},
	}
}

func (a *app) showNode(n *api.Node) error {
	return a.show(n, []string{n.ID}, func(p *render.Page) {
		p.Fields("id", n.ID, "hostname", n.Hostname, "serial", n.Serial, "site", n.Site,
			"zone", n.Zone, "room", n.Room, "row", n.Row, "rack", n.Rack, "unit", count(int64(n.Unit)), "domain", n.Domain, "sku", n.SKU,
			"gpus", count(int64(n.GPUsTotal)), "tenant", n.Tenant, "allocation", n.AllocationID,
			"status", n.Status, "because", n.StatusReason, "turnover owed", render.YesNo(n.TurnoverOwed),
			"availability", availabilityWord(a, n.NodeAvailability), "may be handed out", handoutWord(n.Handout),
			"bootstrap", n.Bootstrap, "maas system", n.MAASSystemID, "image", n.Image, "bmc", n.IPMIIP, "host", n.Host, "onboarding", n.OnboardingID,
			"replaces", n.Replaces, "replaced by", n.ReplacedBy,
			"enrolled", moment(a, n.EnrolledAt), "enrolments", strconv.FormatInt(n.Epoch, 10),
			"last contact", moment(a, n.LastAgentContactAt), "certificate until", moment(a, n.CertNotAfter),
			"agent", n.AgentVersion, "trust bundle", "version "+strconv.FormatInt(n.TrustVersion, 10),
			"baseline", n.BaselineDigest, "created", moment(a, n.CreatedAt),
			"task types", strings.Join(n.TaskTypes, " "))
		handoutPage(p, n.Handout)
		if len(n.Devices) > 0 {
			p.Title("Devices")
			partTable(a, p, n.Devices)
		}
		pairs(p, "Labels", n.Labels)
		pairs(p, "Capabilities", n.Capabilities)
	})
}

// moment is a time with its distance from now.
func moment(a *app, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return render.Time(t) + " (" + render.Ago(t, a.now()) + ")"
}

func pairs(p *render.Page, title string, of map[string]string) {
	if len(of) == 0 {
		return
	}
	p.Title(title)
	list := []string{}
	for _, k := range slices.Sorted(maps.Keys(of)) {
		list = append(list, k, of[k])
	}
	p.Fields(list...)
}

func nodeLabelCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "label NODE key=value …", Short: "set labels; key= removes one", Args: exactly("NODE", "key=value …"),
		Example: "  hostler node label gpu-07 tier=gold owner=",
		RunE: func(c *cobra.Command, args []string) error {
			labels, ok := client.Labels(args[1:])
			if !ok {
				return usage("labels are written key=value (key= removes one)")
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			n, err := remote.SetLabels(c.Context(), args[0], api.Labels{Labels: labels, Reason: reason})
			if err != nil {
				return err
			}
			return a.show(n, []string{n.ID}, func(p *render.Page) { pairs(p, "Labels of "+n.Hostname, n.Labels) })
		},
	}
	reasonFlag(c, &reason)
	return c
}
