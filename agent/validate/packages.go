package validate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// Paths are kept as hashes with a random seed: a hundred thousand paths need little memory, and
// nobody can choose a path with the hash of another.
var pathSeed = maphash.MakeSeed()

func pathHash(name string) uint64 { return maphash.String(pathSeed, merged(name)) }

// merged rewrites a path for a machine on which /bin, /sbin and /lib are links into /usr.
func merged(name string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	switch first {
	case "bin", "sbin", "lib", "lib32", "lib64", "libx32":
		return "/usr" + name
	}
	return name
}

// packaged reports whether a package brought the path. lookPackageFiles checks the content.
func (v *validation) packaged(name string) bool {
	_, ok := v.owned[pathHash(name)]
	return ok && name != ""
}

// documentation is not compared: images leave it out, and no program runs it.
func documentation(name string) bool {
	rest, ok := strings.CutPrefix(name, "/usr/share/")
	dir, _, _ := strings.Cut(rest, "/")
	return ok && slices.Contains([]string{"doc", "man", "info", "locale", "lintian", "bug", "doc-base"}, dir)
}

// lookPackages compares each package's record with the baseline's pin, and keeps the paths and
// conffiles that other looks need.
func lookPackages(ctx context.Context, v *validation) ([]item, error) {
	v.owned, v.conf = map[uint64]struct{}{}, map[string]string{}
	pins := map[string]string{}
	if v.base != nil {
		for _, p := range v.base.Packages {
			pins[p.Path] = p.Digest
		}
	}
	v.now.Packages = nil
	var items []item
	differ := func(key, detail string) {
		items = append(items, item{
			row: "packages", key: key, differs: true,
			finding: taskcatalog.Finding{Detail: detail, NextAction: taskcatalog.ActionReimage},
		})
	}
	all := sha256.New()
	err := v.m.Packages(func(p machine.Package) error {
		fmt.Fprintf(all, "%q %s\n", p.Name, p.Pin)
		v.now.Packages = append(v.now.Packages, taskcatalog.BaselineFile{Path: p.Name, Digest: p.Pin})
		pin, there := pins[p.Name]
		delete(pins, p.Name)
		switch {
		case v.base == nil:
		case !there:
			differ(p.Name, "a package that is not in the baseline")
		case pin != p.Pin:
			differ(p.Name, "the package has another version, or its record was changed")
		}
		for _, name := range p.Owns {
			v.owned[pathHash(name)] = struct{}{}
		}
		for _, f := range p.Files {
			if f.Conf && etc(f.Path) {
				v.conf[f.Path] = f.MD5
			}
		}
		return ctx.Err()
	})
	if err != nil {
		v.owned = nil
		return nil, err
	}
	for name := range pins {
		differ(name, "a package of the baseline that is gone")
	}
	sortFiles(v.now.Packages)
	v.recorded = hex.EncodeToString(all.Sum(nil))
	return items, nil
}

// etc reports whether a path is in /etc; lookEtc compares all of /etc.
func etc(name string) bool { return strings.HasPrefix(name, "/etc/") }

// lookPackageFiles compares each file of a package with the record that lookPackages saw. A file
// that differed from its record when the baseline was taken must be unchanged since then.
func lookPackageFiles(ctx context.Context, v *validation) ([]item, error) {
	var records []taskcatalog.BaselineFile
	var failed error
	stop, all := errors.New("stop"), sha256.New()
	queries := func(yield func(machine.FileQuery) bool) {
		failed = v.m.Packages(func(p machine.Package) error {
			fmt.Fprintf(all, "%q %s\n", p.Name, p.Pin)
			for _, f := range p.Files {
				if !etc(f.Path) && !documentation(f.Path) && !yield(machine.FileQuery{Path: f.Path, MD5: f.MD5}) {
					return stop
				}
			}
			return ctx.Err()
		})
		if failed == nil && hex.EncodeToString(all.Sum(nil)) != v.recorded {
			failed = errors.New("the records of packages changed during the scan")
		}
	}
	err := v.m.FileStates(ctx, queries, func(q machine.FileQuery, s machine.FileState) {
		if !s.As || s.UID != 0 || s.Mode&0o022 != 0 {
			records = append(records, taskcatalog.BaselineFile{Path: q.Path, Digest: s.Digest, Mode: s.Mode, UID: s.UID})
		}
	})
	if errors.Is(failed, stop) {
		failed = nil
	}
	if err := errors.Join(failed, err); err != nil {
		return nil, err
	}
	return v.compareFiles("packages", records, func(string) bool { return false }, func(string) string { return "packages" }), nil
}

// unpackaged lists the files below tops that no package brought, except the paths that skip
// excludes.
func (v *validation) unpackaged(ctx context.Context, tops []string, skip func(name string, mode uint32) bool) ([]string, error) {
	if v.owned == nil {
		return nil, errors.New("what packages own is not known")
	}
	return v.tree(ctx, tops, func(name string, mode uint32) bool {
		return skip(name, mode) || mode&unix.S_IFMT != unix.S_IFDIR && v.packaged(name)
	})
}
