package steps

import (
	"context"
	"encoding/json"

	"github.com/hostler/hostler/taskcatalog"
)

// CodeNotMember: the cluster says that the node is no member that takes work.
const CodeNotMember taskcatalog.Code = "not_member"

// verifyMember asks the broker what the cluster itself says of the node. The node proves nothing here:
// its own word that it has joined counts for nobody. The attempts of the step are the patience.
// Before, the node ends what its join may have left.
func verifyMember(ctx context.Context, s *Step) (Proof, error) {
	if settle := clusterNodes[s.Args.Text("cluster")].settle; settle != nil {
		if err := settle(ctx, s); err != nil {
			return Proof{}, err
		}
	}
	is, err := askCluster(ctx, s)
	if err == nil && is.State != taskcatalog.ClusterMember {
		err = taskcatalog.Errorf(CodeNotMember, "%s", clusterSays(s, is))
	}
	if err != nil {
		return Proof{}, err
	}
	return Proof{Message: clusterSays(s, is)}, nil
}

// askCluster asks the broker what the cluster says of the node.
func askCluster(ctx context.Context, s *Step) (is taskcatalog.ClusterMembership, err error) {
	answer, err := s.Mint(ctx)
	if err == nil && (json.Unmarshal(answer, &is) != nil || is.State == "") {
		err = taskcatalog.Errorf(taskcatalog.CodeHandlerFailed, "the broker's answer about the cluster cannot be read")
	}
	return is, err
}

// clusterSays is what the cluster says of the node, for people.
func clusterSays(s *Step, is taskcatalog.ClusterMembership) string {
	return "cluster " + s.Args.Text("name") + " says " + taskcatalog.Clean(is.State, 32) + " (" + taskcatalog.Clean(is.Words, 200) + ")"
}
