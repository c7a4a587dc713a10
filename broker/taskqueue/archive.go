package taskqueue

import (
	"cmp"
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// ArchivePolicy says how long collected diagnostics are kept.
type ArchivePolicy struct {
	For time.Duration `yaml:"keep_for"` // zero: DefaultKeepArchives
}

// DefaultKeepArchives is the default of ArchivePolicy.For.
const DefaultKeepArchives = 30 * 24 * time.Hour

// Check refuses a policy that deletes an archive before anybody can read it. Code:
// config_invalid.
func (p ArchivePolicy) Check() error {
	if p.For != 0 && p.For < time.Hour {
		return broker.Errorf(broker.Invalid, "config_invalid",
			"cannot keep archives of diagnostics for %s: the minimum is an hour (see diagnostics: in the config)", p.For)
	}
	return nil
}

// archiveOf is the archive of a result, if its digest is the digest in the result: the node's
// signature covers the result, and so the archive. The content is not inspected. Code:
// bad_archive.
func archiveOf(k broker.Task, decoded any, r wire.ResultRequest) ([]byte, error) {
	bad := func(why string) ([]byte, error) {
		return nil, broker.Errorf(broker.Invalid, "bad_archive", "cannot accept the result of task %s: %s", k.ID, why)
	}
	named, has := decoded.(*taskcatalog.DiagnosticsResult)
	switch {
	case !has && len(r.Archive) == 0:
		return nil, nil
	case !has:
		return bad("the result has an archive that it does not name")
	case len(r.Archive) == 0:
		return bad("its archive is missing")
	case len(r.Archive) > taskcatalog.MaxArchive:
		return bad("its archive is larger than the limit")
	case named.Digest != pki.Digest(r.Archive) || named.Bytes != len(r.Archive):
		return bad("its archive does not match the named digest")
	}
	return r.Archive, nil
}

// dropArchives removes archives older than the policy.
func (q *Queue) dropArchives(ctx context.Context) error {
	keep := cmp.Or(q.c.Archives.For, DefaultKeepArchives)
	_, err := q.c.DB.DropArchives(ctx, q.c.DB.Now().Add(-keep))
	return err
}
