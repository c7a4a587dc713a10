package taskqueue

import (
	"context"
	"path"
	"slices"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// maxAgentSlots is the schema's limit of rows in a task: of many versions, the newest.
const maxAgentSlots = 256

// slots are the programs of signed releases, if the node's own program is among them: such an
// agent updates itself, and keeps other versions beside it. The rows come from the signed
// statements, never from database columns, which an owner of the database could change.
func (q *Queue) slots(ctx context.Context, n broker.Node, program string) ([]taskcatalog.BaselineFile, error) {
	if q.c.ReleaseKeys == nil || !slices.Contains(n.TaskTypes, sinceSlots) {
		return nil, nil
	}
	all, err := q.c.DB.AgentReleases(ctx, "")
	if err != nil {
		return nil, err
	}
	keys := q.c.ReleaseKeys()
	var out []taskcatalog.BaselineFile
	for _, r := range all { // newest first
		_, s, err := release.Verify(r.Manifest, r.Statement, r.Signatures, keys, r.Digest)
		if err != nil {
			q.c.Log.Warn("an agent cannot be compared with a release that no release key in force signed (sign the release with a key in force, and publish it again)",
				zap.String("version", r.Version), zap.Error(err))
			continue
		}
		out = append(out, taskcatalog.BaselineFile{
			Path: taskcatalog.AgentProgram(s.Version), Digest: s.Binary.SHA256[:32],
			Mode: programMode,
		})
	}
	i := slices.IndexFunc(out, func(f taskcatalog.BaselineFile) bool { return f.Path == program })
	if i < 0 {
		return nil, nil
	}
	out[0], out[i] = out[i], out[0]
	return out[:min(len(out), maxAgentSlots)], nil
}

// programMode is the mode of every program of the agent: dpkg's and an update's.
const programMode = 0o755

// withUpdated adds a package as it looks on a node that updated itself from it, to the version of
// the first slot. Packages that differ only in version give one entry, whose Slots list their own
// files: each of these may be present or not.
func withUpdated(all []taskcatalog.AgentPackage, p taskcatalog.AgentPackage, slots []taskcatalog.BaselineFile) []taskcatalog.AgentPackage {
	program := slots[0]
	var own []taskcatalog.BaselineFile
	next := taskcatalog.AgentPackage{Digest: p.Digest}
	for _, f := range p.Files {
		switch {
		case f.Path == program.Path:
			program = f // the package is of this version: its own program
		case f.Path == packagedLink || path.Dir(path.Dir(f.Path)) == path.Dir(path.Dir(program.Path)):
			own = append(own, f)
		default:
			next.Files = append(next.Files, f)
		}
	}
	if len(next.Files) == 0 || len(next.Files) >= maxAgentFiles {
		return all // unreadable, or too many files for a task
	}
	next.Files = append(next.Files, program)
	i := slices.IndexFunc(all, func(had taskcatalog.AgentPackage) bool { return slices.Equal(had.Files, next.Files) })
	if i < 0 {
		next.Slots = slices.Clone(slots[1:])
		all, i = append(all, next), len(all)
	}
	for _, f := range own {
		if !slices.Contains(all[i].Slots, f) {
			all[i].Slots = append(all[i].Slots, f)
		}
	}
	all[i].Slots = all[i].Slots[:min(len(all[i].Slots), maxAgentSlots)]
	return all
}

// packagedLink is the package's link to the version that it brought.
const packagedLink = taskcatalog.AgentFolder + "/packaged"
