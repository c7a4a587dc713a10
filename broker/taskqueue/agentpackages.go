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

// Bounds of what a task carries of published packages, as its schema says.
const (
	maxAgentPackages = 32
	maxAgentFiles    = 64
)

// contents are what packages put on a machine, by their digests, worked out once: a
// package never changes. One that cannot be read has none.
type contents struct {
	mu sync.Mutex
	of map[string][]taskcatalog.BaselineFile
}

// agentPackages are the published packages of the agent's version that a node has
// said it runs, the newest first. The version is the node's word: a tenant who names
// an older one that was published is told apart by nobody here, and in a fresh system
// the agent that was just installed says it.
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
		// Debian writes 1.0.0~rc1 for 1.0.0-rc1, and adds a revision. Which version it
		// is, its files say.
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
		// With some of them left out, a node that has one of these would be told off.
		q.c.Log.Warn("an agent cannot be compared with what was published: its version was published too often (give builds versions of their own)",
			zap.String("node", n.ID), zap.String("version", taskcatalog.Clean(n.AgentVersion, 64)), zap.Int("packages", len(out)))
		return nil, nil
	}
	return out, nil
}

// filesOf reads a package; no files: it cannot be read, or has too many to be carried.
func (q *Queue) filesOf(ctx context.Context, digest string) ([]taskcatalog.BaselineFile, error) {
	q.packages.mu.Lock()
	defer q.packages.mu.Unlock()
	if files, ok := q.packages.of[digest]; ok {
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
		return nil, broker.Errorf(broker.Refused, "package_untrusted", "cannot use the agent package %s: its content is not that of its digest (the database may have been changed)", digest)
	}
	if bad == nil && len(files) > maxAgentFiles {
		bad = errors.New("it has too many files")
	}
	if bad != nil {
		q.c.Log.Warn("an agent package cannot be compared with what nodes have (publish one as make package builds it)", zap.String("digest", digest), zap.Error(bad))
		files = nil
	}
	q.packages.of[digest] = files
	return files, nil
}
