package server

import (
	"context"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker/operation/definition"
)

// shipDefinitions stores the definitions of operations that come with the broker. One that cannot be
// stored keeps no broker from starting; hostler status tells of it, too.
func (s *Server) shipDefinitions(ctx context.Context) {
	log := s.c.Log.Named("operations")
	all, err := definition.Shipped()
	if err != nil {
		log.Error("cannot read the definitions of operations that come with the broker", zap.Error(err))
		return
	}
	missing, other, err := s.db.UnlikeOperationDefinitions(ctx, all)
	if err == nil && len(missing) > 0 {
		err = s.db.ShipOperationDefinitions(ctx, missing)
	}
	if err != nil {
		log.Error("cannot store the definitions of operations that come with the broker", zap.Error(err))
	}
	for _, d := range other {
		log.Error("a definition of an operation that comes with this broker is not in force: the broker keeps other content under its id",
			zap.String("definition", d.ID()), zap.String("digest", d.Digest))
	}
}
