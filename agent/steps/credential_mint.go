package steps

import (
	"context"

	"github.com/hostler/hostler/taskcatalog"
)

// mintCredential gets a credential from the broker and gives later steps its handle. Nothing on the
// node proves that a step has minted: each process mints for itself.
func mintCredential(ctx context.Context, s *Step) (Proof, error) {
	value, err := s.Mint(ctx)
	if err != nil {
		return Proof{}, err
	}
	if len(value) == 0 {
		return Proof{}, taskcatalog.Errorf(taskcatalog.CodeHandlerFailed, "the broker minted an empty credential")
	}
	return Proof{Secret: NewSecret(value, s.Mint), Message: s.Args.Text("type") + " is in the agent's memory"}, nil
}
