package main

import (
	"bytes"
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func clusterCommand(a *app) *cobra.Command {
	return noun("cluster", "clusters that nodes join and leave by operations", "  hostler cluster list",
		clusterSetCommand(a), clusterListCommand(a), clusterRemoveCommand(a))
}

func clusterSetCommand(a *app) *cobra.Command {
	var put api.ClusterPut
	var token, join, ca string
	c := &cobra.Command{
		Use:   "set NAME --backend slurm|ray|k8s --url URL --token-file FILE|- --reason R",
		Short: "store a cluster and its secrets", Args: exactly("NAME"),
		Long: `Store a cluster, and its secrets among the broker's secrets. The broker asks the
cluster's API which nodes are its members, and has it drain and remove nodes. The API
of Slurm or Ray is behind a proxy with TLS:

  slurm  slurmrestd of Slurm 23.11 or later, with a token of an account that may
         change nodes: scontrol token username=slurm lifespan=31536000
  ray    the dashboard of the head, of Ray 2.52 or later with RAY_AUTH_MODE=token,
         with the token of the cluster
  k8s    the API server of Kubernetes itself, with the token of a service account:
         kubectl create token broker (docs/how-to/kubernetes.md has its rights)

Nodes join only if --controller, --join-auth and --join-secret-file are given. The
join secret is what all members share: munge.key, slurm.key of auth/slurm, or the token
of Ray, of 32 characters or more. Whoever is root on a member can act as any user of
the cluster, so the members of a cluster should belong to one tenant. Operations of
--project alone may make members; without it, operations of the platform alone. The
cluster is not asked here: the first operation that uses it tries it. Each FILE with a
secret must be readable by its owner alone.

Each node of k8s gets a bootstrap token of its own, so no join secret is stored: its
nodes join only if --controller, the API server as nodes reach it, --join-auth
bootstrap-token and --ca-file, the cluster's own CA, are given.`,
		Example: `  hostler cluster set lab --backend slurm --url https://slurm.example:6820 --token-file token --reason 'our lab'
  hostler cluster set lab --backend slurm --url https://slurm.example:6820 --token-file token --project acme/lab --controller ctl.example:6817 --join-auth munge --join-secret-file munge.key --reason 'our lab'
  hostler cluster set train --backend ray --url https://head.example --token-file auth_token --project acme/lab --controller head.example:6379 --join-auth token --join-secret-file auth_token --reason 'our lab'
  hostler cluster set prod --backend k8s --url https://api.example:6443 --token-file token --ca-file ca.crt --controller api.example:6443 --join-auth bootstrap-token --reason 'our cluster'`,
		RunE: func(c *cobra.Command, args []string) error {
			if put.Backend == "" || put.URL == "" || token == "" {
				return usage("no backend, URL or token is given (use --backend slurm, ray or k8s, --url URL and --token-file FILE, or - for stdin)")
			}
			if err := needReason(put.Reason); err != nil {
				return err
			}
			if err := a.readCluster(&put, token, join, ca); err != nil {
				return err
			}
			defer clear(put.JoinSecret)
			remote, err := a.connect()
			if err != nil {
				return err
			}
			kept, err := remote.SetCluster(c.Context(), args[0], put)
			if err != nil {
				return err
			}
			return a.showClusters(kept, []api.Cluster{*kept})
		},
	}
	f := c.Flags()
	f.StringVar(&put.Backend, "backend", "", "what schedules the cluster: `slurm`, ray or k8s")
	f.StringVar(&put.URL, "url", "", "`URL` of the cluster's API, https://HOST[:PORT]")
	f.StringVar(&token, "token-file", "", "`FILE` with a token of the API, or - for stdin")
	f.StringVar(&ca, "ca-file", "", "PEM `FILE` that the URL's certificate is verified with, by nodes of k8s as well (default: the system's roots)")
	f.StringVar(&put.Project, "project", "", "`PROJECT` whose operations may make members (default: operations of the platform alone)")
	f.StringVar(&put.Controller, "controller", "", "`HOST:PORT` where nodes report (default: no node can join)")
	f.StringVar(&put.JoinAuth, "join-auth", "", "how nodes authenticate: `munge`, slurm, token or bootstrap-token")
	f.StringVar(&join, "join-secret-file", "", "`FILE` with munge.key, slurm.key or the token of Ray")
	reasonFlag(c, &put.Reason)
	return c
}

// readCluster reads the files of a cluster.
func (a *app) readCluster(put *api.ClusterPut, token, join, ca string) (err error) {
	if ca != "" {
		raw, err := a.readBounded(ca)
		if err != nil {
			return err
		}
		put.CACert = string(raw)
	}
	if join != "" {
		if put.JoinSecret, err = a.readSecret(join); err != nil {
			return err
		}
	}
	if put.Backend == "ray" { // as Ray reads it
		put.JoinSecret = bytes.TrimSpace(put.JoinSecret)
	}
	return a.readSecretLine(token, &put.Token)
}

func clusterListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the clusters", Args: exactly(),
		Example: "  hostler cluster list",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.Clusters(c.Context())
			if err != nil {
				return err
			}
			return a.showClusters(l, l.Items)
		},
	}
}

func clusterRemoveCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "remove CLUSTER --reason R", Short: "remove a cluster and its secrets", Args: exactly("CLUSTER"),
		Long: `Remove a cluster and its secrets from the broker. The cluster and its members stay
what they are: let the members leave first, since afterwards the broker can neither
ask about them nor drain them.`,
		Example: "  hostler cluster remove lab --reason 'the lab is closed' --yes",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			if err := a.confirm(c, "remove cluster %s? Its secrets are deleted, and its members stay members", args[0]); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			r, err := remote.RemoveCluster(c.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return a.show(r, []string{r.Name}, func(p *render.Page) { p.Line("removed: " + r.Name + ", at " + r.URL) })
		},
	}
	yesFlag(c)
	reasonFlag(c, &reason)
	return c
}

func (a *app) showClusters(v any, items []api.Cluster) error {
	names, rows := []string{}, [][]string{}
	for _, s := range items {
		names = append(names, s.Name)
		rows = append(rows, []string{
			s.Name, s.Backend, s.URL, cmp.Or(s.ProjectID, "–"), cmp.Or(s.Controller, "–"), cmp.Or(s.JoinAuth, "–"),
			s.SetBy, render.Ago(s.SetAt, a.now()), s.Reason,
		})
	}
	return a.show(v, names, func(p *render.Page) {
		p.Table([]render.Column{
			render.Keep("NAME"), render.Keep("BACKEND"), render.Main("URL"), render.More("PROJECT"), render.More("CONTROLLER"), render.Aside("JOIN"),
			render.Aside("SET BY"), render.More("SET"), render.Keep("REASON"),
		}, rows)
		if len(rows) == 0 {
			a.note("no clusters: operations make no node a member of a cluster")
		}
	})
}

func clusterCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	l, err := remote.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range l.Items {
		out = append(out, candidate{c.Name, c.Backend + " at " + c.URL})
	}
	return out, nil
}
