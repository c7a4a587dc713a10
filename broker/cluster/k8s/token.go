package k8s

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	tokenType   = "bootstrap.kubernetes.io/token"
	tokenGroup  = "system:bootstrappers:kubeadm:default-node-token"
	tokensPath  = "/api/v1/namespaces/kube-system/secrets"
	tokenPrefix = "bootstrap-token-"
)

// secret is a Secret, as it is sent and answered.
type secret struct {
	typed
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Type string            `json:"type"`
	Data map[string][]byte `json:"data"`
}

// tokenID is the ID of a node's token: six letters and digits, which follow from its name. Two names may
// have the same ID: the later join then replaces the token of the earlier one.
func tokenID(node string) string {
	sum := sha256.Sum256([]byte("hostler bootstrap token of " + node))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))[:6]
}

// Join implements cluster.Adapter: it has the cluster make a bootstrap token of the node. The token signs no
// cluster-info, since kubeadm finds the API server by a file.
func (c *Cluster) Join(ctx context.Context, of cluster.Node, until time.Time) (taskcatalog.ClusterJoin, error) {
	node := of.Name
	if err := c.named(node); err != nil {
		return taskcatalog.ClusterJoin{}, err
	}
	if c.controller == "" {
		return taskcatalog.ClusterJoin{}, broker.Errorf(broker.Refused, "cluster_join_unset",
			"no node can join cluster %s: no controller is stored with it (set it: hostler help cluster set)", c.name)
	}
	id, key := tokenID(node), strings.ToLower(rand.Text())[:16]
	want := secret{typed: typed{"v1", "Secret"}, Type: tokenType, Data: map[string][]byte{
		"token-id": []byte(id), "token-secret": []byte(key), "expiration": []byte(until.UTC().Format(time.RFC3339)),
		"usage-bootstrap-authentication": []byte("true"), "auth-extra-groups": []byte(tokenGroup),
		"description": []byte("hostler: node " + node + " joins once"),
	}}
	want.Metadata.Name, want.Metadata.Namespace = tokenPrefix+id, "kube-system"
	if err := c.makeToken(ctx, node, want); err != nil {
		return taskcatalog.ClusterJoin{}, err
	}
	return taskcatalog.ClusterJoin{Node: node, ID: of.ID, Controller: c.controller, Auth: c.auth, Key: []byte(id + "." + key), CA: c.ca}, nil
}

// makeToken stores a token in place of an earlier one of the node. The answer must be what was sent: a
// token with other rights or a later end is deleted again.
func (c *Cluster) makeToken(ctx context.Context, node string, want secret) error {
	for range 2 {
		var got secret
		s, err := c.rest.ask(ctx, http.MethodPost, tokensPath, plainJSON, want, &got)
		switch {
		case err != nil:
			return err
		case s == nil && same(got, want):
			return nil
		case s == nil:
			if err := c.dropToken(ctx, node); err != nil {
				return err
			}
			return c.rest.http.Invalid("shows another bootstrap token than the one that it was sent")
		case s.code != http.StatusConflict || !s.about("AlreadyExists", "secrets", want.Metadata.Name):
			return c.rest.said(s)
		}
		if err := c.dropToken(ctx, node); err != nil {
			return err
		}
	}
	return broker.Errorf(broker.Unavailable, "cluster_refused", "cluster %s has the bootstrap token of the node again after it was deleted", c.name)
}

func same(got, want secret) bool {
	return got.typed == want.typed && got.Metadata == want.Metadata && got.Type == want.Type &&
		maps.EqualFunc(got.Data, want.Data, func(a, b []byte) bool { return string(a) == string(b) })
}

// Joined implements cluster.Adapter: it deletes the node's token.
func (c *Cluster) Joined(ctx context.Context, of cluster.Node) error {
	if err := c.named(of.Name); err != nil || c.controller == "" {
		return err
	}
	return c.dropToken(ctx, of.Name)
}

func (c *Cluster) dropToken(ctx context.Context, node string) error {
	name := tokenPrefix + tokenID(node)
	return c.rest.remove(ctx, tokensPath+"/"+name, "secrets", name, options{})
}
