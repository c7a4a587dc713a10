package main

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// sshPort is where a node's own SSH server listens.
const sshPort = "22"

// reachWithin bounds the look whether a node is reachable from here.
const reachWithin = 5 * time.Second

func allocationSSHCommand(a *app) *cobra.Command {
	var project, node, via string
	c := &cobra.Command{
		Use: "ssh ID [-- SSH_ARGUMENTS …]", Short: "log in to a node of an allocation with the ssh program of this machine",
		Long: `Log in to a node of an allocation as the tenant's user. The command becomes the ssh
program of this machine, with your own keys and configuration. What follows -- is
given to ssh behind the node's address: options, or a command for the node. The node
must be named (--node) if the allocation has several.

A node that is not reachable from here gets a terminal through the broker instead, as
by hostler terminal: what it shows is recorded, it takes no arguments of ssh, and the
exit status is that of the shell. --via ssh uses ssh without a look, as for a node
behind a jump host of your own configuration; --via broker opens the terminal at once.

ssh accepts the host key that the node proved to have (HOST KEY of hostler allocation
show), and no other one. The key is kept beside the contexts, in known_hosts. Without a
proven key the check of ssh stays as you have it: it asks about a new key, and refuses
a changed one.`,
		Example: "  hostler allocation ssh alc-019c4e6a2f1k7m2q4s6t8w\n" +
			"  hostler allocation ssh alc-019c4e6a2f1k7m2q4s6t8w --node gpu-07 -- -L 8888:localhost:8888\n" +
			"  hostler allocation ssh alc-019c4e6a2f1k7m2q4s6t8w --node gpu-07 -- nvidia-smi\n" +
			"  hostler allocation ssh alc-019c4e6a2f1k7m2q4s6t8w --via broker",
		Args: func(c *cobra.Command, args []string) error {
			if n := c.ArgsLenAtDash(); n >= 0 {
				args = args[:n]
			}
			return exactly("ID")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if via != "" && via != viaSSH && via != viaBroker {
				return usage("--via takes ssh or broker, and got %q", via)
			}
			return a.sshTo(c.Context(), sshTarget{project, args[0], node, via}, args[1:])
		},
	}
	allocationProjectFlag(c, &project)
	c.Flags().StringVar(&node, "node", "", "the node, by the `HOSTNAME` of hostler allocation show")
	c.Flags().StringVar(&via, "via", "", "`WAY` to the node: ssh or broker; default: ssh, or the broker if the node is not reachable from here")
	return c
}

// The ways to a node.
const (
	viaSSH    = "ssh"
	viaBroker = "broker"
)

// sshTarget is what a person names of a node. Empty fields are found out.
type sshTarget struct{ project, allocation, node, via string }

func (a *app) sshTo(ctx context.Context, to sshTarget, more []string) error {
	remote, project, err := a.connectTo(ctx, to.project, to.allocation)
	if err != nil {
		return err
	}
	v, err := remote.Allocation(ctx, project, to.allocation)
	if err != nil {
		return err
	}
	l, err := loginOf(v, to.node)
	if err != nil {
		return err
	}
	host, err := hostOf(l)
	if err != nil {
		return err
	}
	switch {
	case to.via == viaBroker && len(more) > 0:
		return usage("a terminal through the broker takes no arguments of ssh (leave them out, or use --via ssh)")
	case to.via == viaBroker:
		a.note("opening a terminal on %s through the broker, as --via says", l.Hostname)
		return a.openThroughBroker(ctx, terminalRoutes{remote, project}, v, l)
	case to.via == "" && !a.reaches(ctx, net.JoinHostPort(host, sshPort)):
		if len(more) > 0 {
			return broker.Errorf(broker.Unavailable, "node_unreachable",
				"cannot reach %s at %s port %s from here, and a terminal through the broker takes no arguments of ssh (leave them out; or use --via ssh, if your ssh has another way to the node)",
				l.Hostname, host, sshPort)
		}
		a.tell("%s is not reachable at %s port %s from here: opening a terminal through the broker", l.Hostname, host, sshPort)
		return a.openThroughBroker(ctx, terminalRoutes{remote, project}, v, l)
	}
	options, err := a.hostKeyOptions(v.ID, l)
	if err != nil {
		return err
	}
	return a.become("ssh", slices.Concat(options, []string{"-l", l.Username, host}, more)...)
}

// openThroughBroker opens a terminal as a member of the project, or with a token of the platform as an
// operator.
func (a *app) openThroughBroker(ctx context.Context, routes terminalRoutes, v *api.Allocation, l api.AllocationLogin) error {
	me, err := routes.remote.Whoami(ctx)
	if err != nil {
		return err
	}
	if me.OrganisationID == "" {
		at := l.Hostname
		if v.Site != "" {
			at = v.Site + "/" + at
		}
		return a.openTerminal(ctx, api.TerminalStart{Node: at, AllocationID: v.ID})
	}
	s := api.ProjectTerminalStart{Hostname: l.Hostname}
	size := a.terminalSize()
	s.Columns, s.Rows = size.Columns, size.Rows
	s.Term, s.Locale = a.environment()
	k, err := routes.remote.OpenProjectTerminal(ctx, routes.project, v.ID, s)
	if err != nil {
		return err
	}
	return a.attachTerminal(ctx, routes, projectsTerminal(&k.Terminal), k.Ticket, true)
}

// loginOf finds the login of a node; without a hostname, of the only node.
func loginOf(v *api.Allocation, hostname string) (api.AllocationLogin, error) {
	if len(v.Logins) == 0 {
		return api.AllocationLogin{}, broker.Errorf(broker.Refused, "allocation_not_active",
			"cannot log in to allocation %s: it is %s, and has a user on its nodes only while it is provisioning or active", v.ID, v.Status)
	}
	names := []string{}
	for _, l := range v.Logins {
		if l.Hostname == hostname || hostname == "" && len(v.Logins) == 1 {
			return l, nil
		}
		names = append(names, l.Hostname)
	}
	if hostname == "" {
		return api.AllocationLogin{}, usage("allocation %s has %d nodes (name one with --node: %s)", v.ID, len(names), strings.Join(names, ", "))
	}
	return api.AllocationLogin{}, broker.Errorf(broker.NotFound, "node_not_found", "allocation %s has no node %q (its nodes: %s)", v.ID,
		hostname, strings.Join(names, ", "))
}

var hostForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9.-]{0,252}$`)

// hostOf is the address of a login, or its hostname. No other form reaches ssh, which would take a word
// such as -oProxyCommand=… for an option.
func hostOf(l api.AllocationLogin) (string, error) {
	host := cmp.Or(l.Address, l.Hostname)
	if ip, err := netip.ParseAddr(host); err == nil && ip.Zone() == "" || hostForm.MatchString(host) {
		return host, nil
	}
	return "", broker.Errorf(broker.Internal, "address_invalid",
		"cannot log in: the broker names %q, which is neither an address nor a hostname (ask the platform's operators)", host)
}
