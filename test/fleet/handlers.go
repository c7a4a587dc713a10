package fleet

import (
	"fmt"
	"time"

	"github.com/hostler/hostler/agent/inbox"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// handlers map a task type to a function that returns the result of a successful task.
var handlers map[string]func(*node, *inbox.Admitted) (any, error)

// taskTypes and report are each node's description of itself.
var (
	taskTypes []string
	report    string
)

func init() {
	handlers = map[string]func(*node, *inbox.Admitted) (any, error){
		"node.heartbeat_check": heartbeat,
		"node.validate_clean":  baseline,
		"node.trust_update":    trustUpdate,
	}
	for name := range handlers {
		typ, err := taskcatalog.Latest(name)
		if err != nil {
			panic(err)
		}
		taskTypes = append(taskTypes, typ.ID())
	}
	report = wire.ReportDigest(taskTypes, nil, nil, nil)
}

func heartbeat(*node, *inbox.Admitted) (any, error) {
	return taskcatalog.HeartbeatCheckResult{
		AgentVersion: version, BootID: "boot", UptimeSeconds: 1, Now: time.Now().UTC(),
		RootFreeBytes: 1,
	}, nil
}

// baseline returns the result that takes a node into service. It reports no residue: the node never
// had a tenant.
func baseline(n *node, a *inbox.Admitted) (any, error) {
	b := taskcatalog.Baseline{TakenAt: time.Now().UTC(), Processes: []string{"/usr/sbin/sshd"}}
	b.Inventory.NICs = []string{fmt.Sprintf("0c:42:%02x:%02x:%02x:01", byte(n.index>>16), byte(n.index>>8), byte(n.index))}
	digest, err := b.Digest()
	return taskcatalog.ValidateCleanResult{BaselineDigest: digest, Baseline: &b}, err
}

func trustUpdate(n *node, a *inbox.Admitted) (any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	next, err := n.trust.Accept([]byte(a.Params.(*taskcatalog.TrustUpdateParams).Bundle), time.Now())
	if err != nil {
		return nil, err
	}
	changed := next.Version != n.trust.Version
	n.trust = next
	n.connect()
	return taskcatalog.TrustUpdateResult{Version: next.Version, Changed: changed}, nil
}
