package broker

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Cluster is the record of a cluster that nodes join. The token of its API and what its nodes
// authenticate with are among the broker's secrets.
type Cluster struct {
	Name    string
	Backend string // one of clusterBackends
	URL     string // https://HOST[:PORT] of the cluster's API
	CACert  string // PEM; empty: the system's roots
	// ProjectID is the project whose operations may make members; empty: operations of the platform
	// alone.
	ProjectID string
	// Controller is where nodes report: HOST:PORT; empty: no node can join.
	Controller string
	// JoinAuth is how nodes authenticate to the controller, in a way that the backend has; empty: no node
	// can join.
	JoinAuth string
	// VaultPath is the path of the secrets.
	VaultPath string
	// Generation changes each time a cluster is set, and is stored with the record and with the
	// secrets. Different values mean an interruption between the two writes.
	Generation string

	SetBy, Reason string
	SetAt         time.Time
}

// The backends of clusters: what schedules them.
const (
	ClusterSlurm = "slurm"
	ClusterRay   = "ray"
	ClusterK8s   = "k8s"
)

// The ways in which nodes authenticate to a controller.
const (
	JoinMunge = "munge" // Slurm's auth/munge, by munge.key
	JoinSlurm = "slurm" // Slurm's auth/slurm, by slurm.key
	JoinToken = "token" // the token of a cluster of Ray
	// JoinBootstrap is a bootstrap token of Kubernetes, made for one node.
	JoinBootstrap = "bootstrap-token"
)

// clusterBackend is what a kind of cluster asks of its record.
type clusterBackend struct {
	joinAuths []string // the values of Cluster.JoinAuth
	// minSecret and maxSecret are the sizes of a join secret, in bytes; zero: none is stored, since each
	// node gets one of its own.
	minSecret, maxSecret int
	lineSecret           bool   // the join secret is one line of text
	joinCA               bool   // nodes verify the controller with the record's CA certificate
	tls                  string // how the URL gets TLS
}

// clusterBackends are the kinds of clusters that the broker speaks to, by Cluster.Backend.
var clusterBackends = map[string]clusterBackend{
	ClusterRay: {
		joinAuths: []string{JoinToken}, minSecret: 32, maxSecret: 1024, lineSecret: true, tls: "put a proxy with TLS before the head's dashboard",
	},
	// munge takes no shorter key, and slurm.key no longer one.
	ClusterSlurm: {joinAuths: []string{JoinMunge, JoinSlurm}, minSecret: 32, maxSecret: 1024, tls: "put a proxy with TLS before slurmrestd"},
	ClusterK8s:   {joinAuths: []string{JoinBootstrap}, joinCA: true, tls: "name the API server itself, without a path"},
}

var (
	clusterName       = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,62}$`)
	clusterLine       = lazyregexp.New(`^[!-~]+$`)
	clusterController = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9.-]{0,252}:[1-9][0-9]{0,4}$`)
)

// maxClusterToken bounds the token of a cluster's API, in bytes.
const maxClusterToken = 8 << 10

// ClusterPath is the path of a cluster's secrets.
func ClusterPath(name string) string { return "clusters/" + name + "/access" }

// Check refuses an invalid cluster. Code: cluster_invalid.
func (c Cluster) Check(token string, joinSecret []byte) error {
	refuse := func(why string) error {
		return Errorf(Invalid, "cluster_invalid", "cannot store cluster %q: %s", taskcatalog.Clean(c.Name, 64), why)
	}
	at, err := url.Parse(c.URL)
	backend, known := clusterBackends[c.Backend]
	switch {
	case !clusterName.MatchString(c.Name):
		return refuse("a name has a-z, 0-9 and '-', 63 at most")
	case !known:
		return refuse("the backend is not " + strings.Join(slices.Sorted(maps.Keys(clusterBackends)), " or "))
	case err != nil || at.Hostname() == "" || c.URL != "https://"+at.Host || len(c.URL) > 300:
		return refuse("the URL is not https://HOST[:PORT]: the token travels over TLS alone (" + backend.tls + ")")
	case !plainSecret(token, maxClusterToken):
		return refuse("the token is empty, longer than 8 KiB, or has blanks or control characters")
	}
	if why := checkCACert(c.CACert); why != "" {
		return refuse("the CA certificate " + why)
	}
	if why := c.checkJoin(backend, joinSecret); why != "" {
		return refuse(why)
	}
	return nil
}

// checkJoin judges what nodes join with: all of it, or nothing.
func (c Cluster) checkJoin(backend clusterBackend, secret []byte) (why string) {
	stored := backend.maxSecret > 0
	switch {
	case c.Controller == "" && c.JoinAuth == "" && len(secret) == 0:
		return ""
	case stored && (c.Controller == "" || c.JoinAuth == "" || len(secret) == 0):
		return "nodes join with a controller, a way to authenticate and a join secret (give all three, or none)"
	case c.Controller == "" || c.JoinAuth == "" || !stored && len(secret) > 0:
		return "nodes join with a controller and a way to authenticate, and get a secret each (give both and no join secret, or neither)"
	case backend.joinCA && c.CACert == "":
		return "nodes that join verify the controller with the cluster's CA certificate (give it, /etc/kubernetes/pki/ca.crt as a rule)"
	case !slices.Contains(backend.joinAuths, c.JoinAuth):
		return "the way to authenticate is not " + strings.Join(backend.joinAuths, " or ")
	case len(secret) < backend.minSecret || len(secret) > backend.maxSecret:
		return fmt.Sprintf("the join secret has fewer than %d or more than %d bytes", backend.minSecret, backend.maxSecret)
	case backend.lineSecret && !clusterLine.Match(secret):
		return "the join secret is not one line of visible ASCII characters without blanks (an end of the line counts)"
	}
	_, port, err := net.SplitHostPort(c.Controller)
	if err != nil || !clusterController.MatchString(c.Controller) || len(port) == 5 && port > "65535" {
		return "the controller is not HOST:PORT"
	}
	return ""
}
