package validate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/hwsync"
)

// unitDirs are the directories in which systemd looks for units and drop-ins.
var unitDirs = []string{
	"/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient", "/run/systemd/generator.early",
	"/etc/systemd/system", "/etc/systemd/system.attached", "/run/systemd/system", "/run/systemd/system.attached",
	"/run/systemd/generator", "/usr/local/lib/systemd/system", hwsync.Units, "/run/systemd/generator.late",
}

// lookAgent compares the agent itself with the published package, as reported by the broker. No
// record of the machine is used: a person who changed the program could have changed the record
// too. If several packages of this version are published, the agent must match one of them.
func lookAgent(ctx context.Context, v *validation) ([]item, error) {
	if v.takesBaseline {
		return nil, nil
	}
	program := taskcatalog.AgentProgram(v.Host.Version)
	var found []item
	compared := false
	for _, p := range v.expected {
		if !slices.ContainsFunc(p.Files, func(f taskcatalog.BaselineFile) bool { return f.Path == program }) {
			continue
		}
		items, err := v.packageDifferences(ctx, p)
		if err != nil {
			return nil, err
		}
		if !compared || len(items) < len(found) {
			found = items
		}
		compared = true
	}
	if !compared {
		return nil,
			fmt.Errorf("agent_not_published: the broker has no readable package of agent version %s (publish the .deb that this node has: hostler agent-release publish FILE; then validate again)", clean(v.Host.Version))
	}
	return found, nil
}

func differs(key, format string, args ...any) item {
	return item{
		row: taskcatalog.CheckAgent, key: key, differs: true,
		finding: taskcatalog.Finding{Detail: fmt.Sprintf(format, args...), NextAction: taskcatalog.ActionReimage},
	}
}

// packageDifferences lists the differences between the machine and one package of the agent.
func (v *validation) packageDifferences(ctx context.Context, p taskcatalog.AgentPackage) ([]item, error) {
	want := map[string]taskcatalog.BaselineFile{
		// The package creates these two links when it is installed.
		taskcatalog.AgentLink:                {Digest: machine.FileLink + "../lib/hostler-agent/current/hostler-agent"},
		taskcatalog.AgentFolder + "/current": {Digest: machine.FileLink + "versions/" + v.Host.Version},
	}
	for _, f := range p.Files {
		if !etc(f.Path) && !documentation(f.Path) {
			want[f.Path] = f
		}
	}
	if err := v.wantSlots(ctx, p, want); err != nil {
		return nil, err
	}
	items, err := v.unlikeFiles(ctx, want)
	if err != nil {
		return nil, err
	}
	beside, err := v.tree(ctx, []string{taskcatalog.AgentFolder}, func(name string, _ uint32) bool { _, ok := want[name]; return ok })
	if err != nil {
		return nil, err
	}
	for _, name := range beside {
		items = append(items, differs(name, "the package of the agent does not have it"))
	}
	for name := range want {
		if path.Dir(merged(name)) != hwsync.Units {
			continue
		}
		others, err := v.unitFiles(ctx, path.Base(name))
		if err != nil {
			return nil, err
		}
		items = append(items, others...)
	}
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.key, b.key) })
	return items, nil
}

// wantSlots adds the files that updates left beside the running version, as far as they exist: the
// programs of other published versions, the link to the version known to work, and the link to the
// version of the package. Of several published rows for a path it adds the row that matches.
func (v *validation) wantSlots(ctx context.Context, p taskcatalog.AgentPackage, want map[string]taskcatalog.BaselineFile) error {
	if len(p.Slots) == 0 {
		return nil
	}
	rows := map[string][]taskcatalog.BaselineFile{}
	for _, f := range append(slices.Clone(p.Files), p.Slots...) {
		rows[taskcatalog.AgentGood] = append(rows[taskcatalog.AgentGood], taskcatalog.BaselineFile{Digest: slotLink(f.Path)})
	}
	for _, f := range p.Slots {
		rows[f.Path] = append(rows[f.Path], f)
	}
	queries := func(yield func(machine.FileQuery) bool) {
		for name := range rows {
			if !yield(machine.FileQuery{Path: name}) {
				return
			}
		}
	}
	return v.m.FileStates(ctx, queries, func(q machine.FileQuery, s machine.FileState) {
		if s.Digest == machine.FileMissing {
			return
		}
		fits := rows[q.Path][0]
		for _, f := range rows[q.Path] {
			if f.Digest == s.Digest {
				fits = f
			}
		}
		want[q.Path] = fits
	})
}

// slotLink is the text of a link in the agent's folder to the slot of a program.
func slotLink(program string) string {
	return machine.FileLink + strings.TrimPrefix(path.Dir(program), taskcatalog.AgentFolder+"/")
}

// unlikeFiles compares files with their published state. A link on the way to a file is as bad as a
// link in the file's place: the link's target can be changed without a trace here.
func (v *validation) unlikeFiles(ctx context.Context, want map[string]taskcatalog.BaselineFile) (items []item, err error) {
	queries := func(yield func(machine.FileQuery) bool) {
		for name := range want {
			if !yield(machine.FileQuery{Path: name}) {
				return
			}
		}
	}
	err = v.m.FileStates(ctx, queries, func(q machine.FileQuery, s machine.FileState) {
		is, must := taskcatalog.BaselineFile{Path: q.Path, Digest: clean(s.Digest), Mode: s.Mode, UID: s.UID}, want[q.Path]
		must.Path = q.Path
		if strings.HasPrefix(s.Digest, machine.FileLink) {
			is.UID, must.UID = 0, 0 // a link's owner has no meaning
		}
		if is != must {
			items = append(items, differs(q.Path, "published %s, is %s", state(must), state(is)))
		}
	})
	if err != nil {
		return nil, err
	}
	for name := range want {
		dir, err := v.m.OpenDirStrict(path.Dir(merged(name)))
		switch {
		case err == nil:
			_ = dir.Close()
		case errors.Is(err, unix.ELOOP):
			items = append(items, differs(name, "the path goes through a link"))
		case !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR): // a missing file is reported above
			return nil, err
		}
	}
	return items, nil
}

// unitFiles lists the files that override a unit of the package, or add to it: the files that
// systemd reports, which apply now, and the files in systemd's directories, which apply from the
// next boot. A drop-in for all services that came with another package is checked with that
// package, in the row packages.
func (v *validation) unitFiles(ctx context.Context, unit string) ([]item, error) {
	file, additions, err := v.Host.Systemd.Files(ctx, unit)
	if err != nil {
		return nil, err
	}
	installed, err := v.m.IsInstalled(file, path.Join(hwsync.Units, unit))
	if err != nil {
		return nil, err
	}
	instead := map[string]bool{}
	if !installed {
		instead[cmp.Or(file, "(no file)")] = true
	}
	kind := path.Ext(unit)
	general := []string{strings.TrimPrefix(kind, ".") + ".d"}
	for i, r := range unit {
		if r == '-' {
			general = append(general, unit[:i+1]+kind+".d")
		}
	}
	for _, dir := range unitDirs {
		name := path.Join(dir, unit)
		there, err := v.m.Has(name)
		if err != nil {
			return nil, err
		}
		if there && dir != hwsync.Units {
			instead[name] = true
		}
		for _, in := range append([]string{unit + ".d"}, general...) {
			names, err := v.m.Names(path.Join(dir, in))
			if err != nil {
				return nil, err
			}
			for _, n := range names {
				if strings.HasSuffix(n, ".conf") {
					additions = append(additions, path.Join(dir, in, n))
				}
			}
		}
	}
	var items []item
	for name := range instead {
		items = append(items, differs(name, "is used in place of the published %s", unit))
	}
	for i, name := range additions {
		additions[i] = merged(name)
	}
	slices.Sort(additions)
	for _, name := range slices.Compact(additions) {
		ofAll := slices.Contains(general, path.Base(path.Dir(name))) && v.packaged(name)
		if !ofAll && !slices.Contains(v.policy.KnownUnits, path.Base(name)) {
			items = append(items, differs(name, "adds to the published %s", unit))
		}
	}
	return items, nil
}
