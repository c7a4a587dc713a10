package steps

import (
	"context"

	"github.com/hostler/hostler/taskcatalog"
)

// verified holds a file against its digest, and a directory against the digest of its artifact's manifest.
func verified(ctx context.Context, s *Step) (Proof, bool, error) {
	name, open := s.Args.Text("path"), s.Host.Machine.OpenStrict
	proof, done, err := hasDigest(ctx, s, open, name)
	if !done && err == nil {
		proof, done, err = hasArtifact(ctx, s, open, name)
	}
	proof.Output = name
	return proof, done, err
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
