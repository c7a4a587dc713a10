package validate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/cleanup"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// records looks at files. A conffile unchanged since its package brought it is left out: the
// package's pin vouches for it.
func (v *validation) records(ctx context.Context, names []string, etc bool) ([]taskcatalog.BaselineFile, error) {
	var records []taskcatalog.BaselineFile
	var again []string
	take := func(q machine.FileQuery, s machine.FileState) {
		switch {
		case q.MD5 != "" && s.As && s.UID == 0 && s.Mode&0o022 == 0:
		case q.MD5 != "":
			again = append(again, q.Path)
		default:
			records = append(records, taskcatalog.BaselineFile{Path: clean(q.Path), Digest: clean(s.Digest), Mode: s.Mode, UID: s.UID})
		}
	}
	err := v.m.FileStates(ctx, func(yield func(machine.FileQuery) bool) {
		for _, name := range names {
			q := machine.FileQuery{Path: name, Without: datedFiles[name]}
			if etc {
				q.MD5 = v.conf[name]
			}
			if !yield(q) {
				return
			}
		}
	}, take)
	if err == nil && len(again) > 0 {
		err = v.m.FileStates(ctx, func(yield func(machine.FileQuery) bool) {
			for _, name := range slices.Clone(again) {
				if !yield(machine.FileQuery{Path: name}) {
					return
				}
			}
		}, take)
	}
	sortFiles(records)
	return records, err
}

// compareFiles compares the records of a look with the look's part of the baseline: the paths for
// which mine reports true.
func (v *validation) compareFiles(look string, records []taskcatalog.BaselineFile, mine func(string) bool, row func(string) string) []item {
	if v.takesBaseline {
		v.files[look] = rollUp(records)
		return nil
	}
	if v.base == nil {
		return nil
	}
	before, rolls := map[string]taskcatalog.BaselineFile{}, []string{}
	for _, files := range [][]taskcatalog.BaselineFile{v.base.Files, v.base.Units} {
		for _, f := range files {
			before[f.Path] = f
			if strings.HasSuffix(f.Path, "/*") || strings.HasSuffix(f.Path, "/**") {
				rolls = append(rolls, f.Path)
			}
		}
	}
	var items []item
	differ := func(f taskcatalog.BaselineFile, detail string) {
		items = append(items, item{
			row: row(f.Path), key: f.Path, differs: true, stranger: !v.knownUID(f.UID),
			finding: taskcatalog.Finding{UID: &f.UID, Detail: detail, NextAction: taskcatalog.ActionReimage},
		})
	}
	seen := map[string]bool{}
	for _, is := range mergeBelow(records, rolls) {
		seen[is.Path] = true
		was, there := before[is.Path]
		switch {
		case !there && look == "packages":
			differ(is, "differs from its package: "+state(is))
		case !there && is.Digest == machine.FileMissing:
			differ(is, "is gone, and its package contains it")
		case !there && v.conf[is.Path] != "":
			differ(is, "a conffile that differs from its package: "+state(is))
		case !there:
			differ(is, "not in the baseline: "+state(is))
			if cleanup.ContainerUnit(is.Path) {
				items[len(items)-1].finding.NextAction = taskcatalog.ActionStorageCleanup
			}
		case was != is:
			differ(is, "was "+state(was)+", is "+state(is))
		}
	}
	for name, was := range before {
		if !seen[name] && mine(name) && was.Digest != machine.FileMissing && v.conf[name] == "" {
			differ(was, "is gone")
		}
	}
	return items
}

func sortFiles(files []taskcatalog.BaselineFile) {
	slices.SortFunc(files, func(a, b taskcatalog.BaselineFile) int { return cmp.Compare(a.Path, b.Path) })
}

func state(f taskcatalog.BaselineFile) string {
	if f.Mode == 0 && f.UID == 0 {
		return f.Digest
	}
	return fmt.Sprintf("%s mode %04o uid %d", f.Digest, f.Mode, f.UID)
}
