package machine

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Package is dpkg's record of an installed Debian package.
type Package struct {
	Name  string // libc6:amd64
	Pin   string // digest of the record: the conffiles, the file list and the list of sums
	Files []PackagedFile
	Owns  []string // every path of the package, directories and links too
}

// PackagedFile is a file with the MD5 sum recorded by its package. The sum is only as trustworthy
// as the pin of the list that holds it.
type PackagedFile struct {
	Path string
	MD5  string
	Conf bool // a conffile: an administrator may change it
}

const dpkgDir = "/var/lib/dpkg"

// Packages calls yield with each installed package in turn: the lists of all packages together are
// too large to hold in memory.
func (m *Machine) Packages(yield func(Package) error) error {
	raw, err := m.ReadFile(dpkgDir+"/status", 128<<20)
	if err != nil {
		return fmt.Errorf("cannot list packages: %w", err)
	}
	known, err := parseDpkgStatus(raw)
	if err != nil {
		return err
	}
	names, err := m.Names(dpkgDir + "/info")
	if err != nil {
		return fmt.Errorf("cannot list packages: %w", err)
	}
	slices.Sort(names)
	has := func(name string) bool { _, ok := slices.BinarySearch(names, name); return ok }
	for _, k := range known {
		base := k.name + ":" + k.arch
		if !has(base + ".list") {
			base = k.name
		}
		p := Package{Name: k.name + ":" + k.arch, Files: k.conffiles}
		pin := sha256.New()
		for _, f := range k.conffiles {
			fmt.Fprintf(pin, "%s %s\n", f.MD5, f.Path)
		}
		for _, part := range []struct {
			suffix string
			take   func([]byte) error
		}{
			{".list", func(raw []byte) (err error) { p.Owns, err = parseDpkgList(raw); return }},
			{".md5sums", func(raw []byte) error {
				files, err := parseMD5Sums(raw)
				p.Files = append(p.Files, files...)
				return err
			}},
		} {
			fmt.Fprintf(pin, "\x00%s\n", part.suffix)
			if !has(base + part.suffix) {
				continue // a package with only links and conffiles has no sums
			}
			raw, err := m.ReadFile(path.Join(dpkgDir, "info", base+part.suffix), 64<<20)
			if err != nil {
				return fmt.Errorf("cannot read package %s: %w", p.Name, err)
			}
			pin.Write(raw)
			if err := part.take(raw); err != nil {
				return fmt.Errorf("cannot read package %s: %w", p.Name, err)
			}
		}
		p.Pin = hex.EncodeToString(pin.Sum(nil)[:16])
		if err := yield(p); err != nil {
			return err
		}
	}
	return nil
}

type dpkgPackage struct {
	name, arch string
	conffiles  []PackagedFile
}

// parseDpkgStatus lists the packages with files on the machine, including the remaining conffiles
// of a package that was removed but not purged.
func parseDpkgStatus(raw []byte) ([]dpkgPackage, error) {
	var all []dpkgPackage
	var p dpkgPackage
	present, conffiles := false, false
	flush := func() {
		if p.name != "" && present {
			all = append(all, p)
		}
		p, present, conffiles = dpkgPackage{}, false, false
	}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "" {
			flush()
			continue
		}
		if line[0] == ' ' {
			if f := strings.Fields(line); conffiles && len(f) >= 2 && !slices.Contains(f[2:], "obsolete") &&
				!slices.Contains(f[2:], "remove-on-upgrade") && isMD5(f[1]) {
				p.conffiles = append(p.conffiles, PackagedFile{Path: path.Clean("/" + f[0]), MD5: f[1], Conf: true})
			}
			continue
		}
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		conffiles = key == "Conffiles"
		switch key {
		case "Package":
			p.name = value
		case "Architecture":
			p.arch = value
		case "Status":
			present = !strings.HasSuffix(value, " not-installed")
		}
		if (key == "Package" || key == "Architecture") && (value == "" || strings.ContainsAny(value, "/\x00") ||
			strings.HasPrefix(value, ".")) {
			return nil, fmt.Errorf("cannot parse %s/status: an invalid field %s", dpkgDir, strings.ToLower(key))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cannot parse %s/status: %w", dpkgDir, err)
	}
	flush()
	if len(all) == 0 {
		return nil, fmt.Errorf("cannot parse %s/status: it names no package", dpkgDir)
	}
	return all, nil
}

func parseDpkgList(raw []byte) ([]string, error) {
	var all []string
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "/") {
			return nil, errors.New("cannot parse the list of its files")
		}
		all = append(all, path.Clean(line))
	}
	return all, nil
}

func parseMD5Sums(raw []byte) ([]PackagedFile, error) {
	var all []PackagedFile
	for line := range strings.Lines(string(raw)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		name = strings.TrimLeft(name, " *")
		if !ok || name == "" || !isMD5(sum) {
			return nil, errors.New("cannot parse the sums of its files")
		}
		all = append(all, PackagedFile{Path: path.Clean("/" + name), MD5: sum})
	}
	return all, nil
}

func isMD5(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}
