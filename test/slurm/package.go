package slurm

import (
	"context"
	"debug/elf"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Package is the name of the package of NodePackage.
const Package = "slurmd"

// home is where the package has the programs with their libraries.
const home = "/opt/slurm"

// nodePrograms are what slurmd and the jobs of a node start.
var nodePrograms = []string{
	"usr/sbin/slurmd", "usr/sbin/slurmstepd", "usr/bin/cat", "usr/bin/dash", "usr/bin/id", "usr/bin/sh", "usr/bin/sha256sum",
	"usr/bin/sleep", "usr/bin/uname",
}

const (
	libraries = "usr/lib/x86_64-linux-gnu"
	plugins   = libraries + "/slurm-wlm"
	loader    = libraries + "/ld-linux-x86-64.so.2"
)

// unit runs slurmd in the directory with its own libraries. All else is the machine's own.
const unit = `[Unit]
Description=Slurm node daemon
After=network-online.target
ConditionPathExists=/etc/slurm/slurm.conf
[Service]
RootDirectory=` + home + `
MountAPIVFS=yes
BindPaths=/etc /home /root /srv /tmp /var
ExecStart=/usr/sbin/slurmd -D
KillMode=process
Delegate=yes
[Install]
WantedBy=multi-user.target
`

const postinst = `#!/bin/sh
set -e
getent passwd slurm > /dev/null || adduser --system --quiet --group --no-create-home --home /nonexistent slurm
`

// NodePackage makes a Debian package of slurmd, and returns its file and version. A machine with an older
// release than that of the programs cannot install Debian's own package: it needs a newer C library. The
// package therefore brings the libraries of slurmd, in a directory of its own.
func NodePackage(ctx context.Context, programs, dir string) (file, version string, err error) {
	if version, err = versionOf(ctx, programs); err != nil {
		return "", "", err
	}
	tree := filepath.Join(dir, "tree")
	paths, err := nodeFiles(programs)
	if err != nil {
		return "", "", err
	}
	for _, path := range paths {
		if err := copyInto(filepath.Join(tree, home, path), filepath.Join(programs, path)); err != nil {
			return "", "", err
		}
	}
	for _, link := range []string{"bin", "lib", "lib64", "sbin"} {
		if err := os.Symlink("usr/"+link, filepath.Join(tree, home, link)); err != nil {
			return "", "", err
		}
	}
	for _, mount := range []string{"dev", "etc", "home", "proc", "root", "run", "srv", "sys", "tmp", "var"} {
		if err := os.MkdirAll(filepath.Join(tree, home, mount), 0o755); err != nil {
			return "", "", err
		}
	}
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: site <site@example>\nDescription: Slurm node daemon\n",
		Package, version)
	for name, text := range map[string]string{
		"DEBIAN/control": control, "DEBIAN/postinst": postinst, "usr/lib/systemd/system/slurmd.service": unit,
	} {
		mode := fs.FileMode(0o644)
		if name == "DEBIAN/postinst" {
			mode = 0o755
		}
		if err := put(filepath.Join(tree, name), []byte(text), mode); err != nil {
			return "", "", err
		}
	}
	file = filepath.Join(dir, Package+".deb")
	out, err := exec.CommandContext(ctx, "dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", tree, file).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("dpkg-deb: %w\n%s", err, out)
	}
	return file, version, err
}

// versionOf is the version of a package of the site with the programs' slurmd.
func versionOf(ctx context.Context, programs string) (string, error) {
	out, err := exec.CommandContext(ctx, "chroot", programs, "/usr/sbin/slurmd", "-V").Output()
	if err != nil {
		return "", fmt.Errorf("cannot find the version of slurmd in %s: %w", programs, err)
	}
	words := strings.Fields(string(out))
	return words[len(words)-1] + "-1site1", nil
}

// nodeFiles are the programs and plugins of a node, with the libraries that they need.
func nodeFiles(programs string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(programs, plugins, "*.so"))
	if err != nil {
		return nil, err
	}
	todo := append(slices.Clone(nodePrograms), loader, "usr/lib64/ld-linux-x86-64.so.2")
	for _, p := range found {
		todo = append(todo, strings.TrimPrefix(p, programs+"/"))
	}
	seen := map[string]bool{}
	for len(todo) > 0 {
		path := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[path] {
			continue
		}
		seen[path] = true
		if to, err := os.Readlink(filepath.Join(programs, path)); err == nil {
			todo = append(todo, filepath.Join(filepath.Dir(path), to)) // none of them is absolute
			continue
		}
		needed, err := neededBy(filepath.Join(programs, path))
		if err != nil {
			return nil, err
		}
		for _, name := range needed {
			for _, below := range []string{libraries, plugins} {
				if _, err := os.Lstat(filepath.Join(programs, below, name)); err == nil {
					todo = append(todo, filepath.Join(below, name))
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// neededBy are the names of the libraries that a program names.
func neededBy(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	defer f.Close()
	return f.ImportedLibraries()
}

// copyInto copies a file or a link.
func copyInto(to, from string) error {
	if link, err := os.Readlink(from); err == nil {
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.Symlink(link, to)
	}
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return put(to, raw, 0o755)
}

func put(name string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, content, mode)
}
