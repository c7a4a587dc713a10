package steps

import (
	"context"

	"github.com/hostler/hostler/taskcatalog"
)

// verified holds a file against its digest, and a directory against the digest of its artifact's manifest.
func verified(ctx context.Context, s *Step) (Proof, bool, error) {
	name := s.Args.Text("path")
	if proof, done, err := hasDigest(ctx, s, name); done || err != nil {
		return proof, done, err
	}
	return hasArtifact(ctx, s, name)
}

// verify is verified, and says what is wrong.
func verify(ctx context.Context, s *Step) (Proof, error) {
	proof, done, err := verified(ctx, s)
	if err == nil && !done {
		err = taskcatalog.Errorf(taskcatalog.CodeDigestMismatch, "cannot verify %s: it is missing, larger than the plan permits, or has other content than %s",
			taskcatalog.Clean(s.Args.Text("path"), 300), s.Args.Text("digest"))
	}
	return proof, err
}
