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
func verifyMember(ctx context.Context, s *Step) (Proof, error) {
	answer, err := s.Mint(ctx)
	if err != nil {
		return Proof{}, err
	}
	var is taskcatalog.ClusterMembership
	if json.Unmarshal(answer, &is) != nil || is.State == "" {
		return Proof{}, taskcatalog.Errorf(taskcatalog.CodeHandlerFailed, "the broker's answer about the cluster cannot be read")
	}
	words := "cluster " + s.Args.Text("name") + " says " + taskcatalog.Clean(is.State, 32) + " (" + taskcatalog.Clean(is.Words, 200) + ")"
	if is.State != taskcatalog.ClusterMember {
		return Proof{}, taskcatalog.Errorf(CodeNotMember, "%s", words)
	}
	return Proof{Message: words}, nil
}
