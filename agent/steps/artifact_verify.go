package steps

import (
	"context"

	"github.com/hostler/hostler/taskcatalog"
)

// verified holds a file against its digest.
func verified(ctx context.Context, s *Step) (Proof, bool, error) {
	return hasDigest(ctx, s, s.Args.Text("path"))
}

// verify is verified, and says what is wrong.
func verify(ctx context.Context, s *Step) (Proof, error) {
	name := s.Args.Text("path")
	digest, size, err := digestOf(ctx, s, name)
	switch {
	case err != nil:
		return Proof{}, err
	case digest == "":
		return Proof{}, taskcatalog.Errorf(taskcatalog.CodeDigestMismatch,
			"cannot verify %s: it is missing, no regular file, or larger than the plan permits", taskcatalog.Clean(name, 300))
	case digest != s.Args.Text("digest"):
		return Proof{}, taskcatalog.Errorf(taskcatalog.CodeDigestMismatch,
			"%s has other content: its digest is %s, and the plan names %s", taskcatalog.Clean(name, 300), digest, s.Args.Text("digest"))
	}
	return Proof{Output: name, Digest: digest, Bytes: size}, nil
}
