package taskqueue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/deb"
	"github.com/hostler/hostler/taskcatalog"
)

// Bounds of the packages in a task, as in its schema.
const (
	maxAgentPackages = 32
	maxAgentFiles    = 64
)

// contents caches the installed files of packages, by digest: a package never changes. An
// unreadable package has no files.
type contents struct {
	mu            sync.Mutex
	filesByDigest map[string][]taskcatalog.BaselineFile
}

// agentPackages are the published packages of the version that a node reports, the newest first.
// The version is the node's own report: a tenant who names an older published version is not
// detected here. In a fresh system, the newly installed agent reports the version.
func (q *Queue) agentPackages(ctx context.Context, n broker.Node) ([]taskcatalog.AgentPackage, error) {
	all, err := q.c.DB.Packages(ctx)
	if err != nil {
		return nil, err
	}
	program := taskcatalog.AgentProgram(n.AgentVersion)
	slots, err := q.slots(ctx, n, program)
	if err != nil {
		return nil, err
	}
	var out []taskcatalog.AgentPackage
	for _, p := range all {
		if len(slots) > 0 {
			files, err := q.filesOf(ctx, p.Digest)
			if err != nil {
				return nil, err
			}
			out = withUpdated(out, taskcatalog.AgentPackage{Digest: p.Digest, Files: files}, slots)
			continue
		}
		// Debian writes 1.0.0~rc1 for 1.0.0-rc1, and adds a revision. The files identify the
		// exact version.
		if n.AgentVersion == "" || !strings.HasPrefix(strings.Replace(p.Version, "~", "-", 1), n.AgentVersion) {
			continue
		}
		files, err := q.filesOf(ctx, p.Digest)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(files, func(f taskcatalog.BaselineFile) bool { return f.Path == program }) {
			out = append(out, taskcatalog.AgentPackage{Digest: p.Digest, Files: files})
		}
	}
	if len(out) > maxAgentPackages {
		// A partial list would give a finding on a node that has a package left out.
		q.c.Log.Warn("an agent cannot be compared with what was published: its version was published too often (give each build its own version)",
			zap.String("node", n.ID), zap.String("version", taskcatalog.Clean(n.AgentVersion, 64)), zap.Int("packages", len(out)))
		return nil, nil
	}
	return out, nil
}

// filesOf reads a package; no files: the package is unreadable, or has too many files for a task.
func (q *Queue) filesOf(ctx context.Context, digest string) ([]taskcatalog.BaselineFile, error) {
	q.packages.mu.Lock()
	defer q.packages.mu.Unlock()
	if files, ok := q.packages.filesByDigest[digest]; ok {
		return files, nil
	}
	_, content, err := q.c.DB.OpenPackage(ctx, digest)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	bytes := io.TeeReader(content, sum)
	files, bad := deb.Files(bytes)
	if bad != nil && !errors.Is(bad, deb.ErrUnreadable) {
		return nil, bad
	}
	if _, err := io.Copy(io.Discard, bytes); err != nil {
		return nil, err
	}
	if "sha256:"+hex.EncodeToString(sum.Sum(nil)) != digest {
		return nil, broker.Errorf(broker.Refused, "package_untrusted",
			"cannot use the agent package %s: its content does not match its digest (the database may have been changed)", digest)
	}
	if bad == nil && len(files) > maxAgentFiles {
		bad = errors.New("the package has too many files")
	}
	if bad != nil {
		q.c.Log.Warn("an agent package cannot be compared with what nodes have (publish a package from make package)",
			zap.String("digest", digest), zap.Error(bad))
		files = nil
	}
	q.packages.filesByDigest[digest] = files
	return files, nil
}
