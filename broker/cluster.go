package broker

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Cluster is the record of a cluster that nodes join. The token of its API and what its nodes
// authenticate with are among the broker's secrets.
type Cluster struct {
	Name    string
	Backend string // one of ClusterBackends
	URL     string // https://HOST[:PORT] of the cluster's API
	CACert  string // PEM; empty: the system's roots
	// ProjectID is the project whose operations may make members; empty: operations of the platform
	// alone.
	ProjectID string
	// Controller is where nodes report: HOST:PORT; empty: no node can join.
	Controller string
	// JoinAuth is how nodes authenticate to the controller, one of ClusterJoinAuths; empty: no node can
	// join.
	JoinAuth string
	// VaultPath is the path of the secrets.
	VaultPath string
	// Generation changes each time a cluster is set, and is stored with the record and with the
	// secrets. Different values mean an interruption between the two writes.
	Generation string

	SetBy, Reason string
	SetAt         time.Time
}

// ClusterSlurm is the backend of clusters that Slurm schedules.
const ClusterSlurm = "slurm"

// The ways in which nodes authenticate to a Slurm controller.
const (
	JoinMunge = "munge" // auth/munge, by munge.key
	JoinSlurm = "slurm" // auth/slurm, by slurm.key
)

var (
	// ClusterBackends are the kinds of clusters that the broker speaks to.
	ClusterBackends = []string{ClusterSlurm}
	// ClusterJoinAuths are the values of Cluster.JoinAuth.
	ClusterJoinAuths = []string{JoinMunge, JoinSlurm}

	clusterName       = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	clusterController = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,252}:[1-9][0-9]{0,4}$`)
)

// The sizes of a join secret, in bytes: munge takes no shorter key, and slurm.key no longer one.
const (
	minJoinSecret, maxJoinSecret = 32, 1024
	maxClusterToken              = 8 << 10
)

// ClusterPath is the path of a cluster's secrets.
func ClusterPath(name string) string { return "clusters/" + name + "/access" }

// Check refuses an invalid cluster. Code: cluster_invalid.
func (c Cluster) Check(token string, joinSecret []byte) error {
	refuse := func(why string) error {
		return Errorf(Invalid, "cluster_invalid", "cannot store cluster %q: %s", taskcatalog.Clean(c.Name, 64), why)
	}
	at, err := url.Parse(c.URL)
	switch {
	case !clusterName.MatchString(c.Name):
		return refuse("a name has a-z, 0-9 and '-', 63 at most")
	case !slices.Contains(ClusterBackends, c.Backend):
		return refuse("the backend is not " + strings.Join(ClusterBackends, " or "))
	case err != nil || at.Hostname() == "" || c.URL != "https://"+at.Host || len(c.URL) > 300:
		return refuse("the URL is not https://HOST[:PORT]: the token travels over TLS alone (put a proxy with TLS before slurmrestd)")
	case !plainSecret(token, maxClusterToken):
		return refuse("the token is empty, longer than 8 KiB, or has blanks or control characters")
	}
	if why := checkCACert(c.CACert); why != "" {
		return refuse("the CA certificate " + why)
	}
	if why := c.checkJoin(joinSecret); why != "" {
		return refuse(why)
	}
	return nil
}

// checkJoin judges what nodes join with: all of it, or nothing.
func (c Cluster) checkJoin(secret []byte) (why string) {
	switch {
	case c.Controller == "" && c.JoinAuth == "" && len(secret) == 0:
		return ""
	case c.Controller == "" || c.JoinAuth == "" || len(secret) == 0:
		return "nodes join with a controller, a way to authenticate and a join secret (give all three, or none)"
	case !slices.Contains(ClusterJoinAuths, c.JoinAuth):
		return "the way to authenticate is not " + strings.Join(ClusterJoinAuths, " or ")
	case len(secret) < minJoinSecret || len(secret) > maxJoinSecret:
		return "the join secret has fewer than 32 or more than 1024 bytes"
	}
	_, port, err := net.SplitHostPort(c.Controller)
	if err != nil || !clusterController.MatchString(c.Controller) || len(port) == 5 && port > "65535" {
		return "the controller is not HOST:PORT"
	}
	return ""
}
