package main

import (
	"archive/tar"
	"context"
	"maps"
	"os"
	"slices"

	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/qemu"
	"github.com/hostler/hostler/test/slurm"
)

// machine makes an archive that is part of the machine from its first boot: a signed package source with
// slurmd, and the authority of the source of models.
func (d *demo) machine(ctx context.Context, programs string, authority []byte) (rootfs string, err error) {
	work := d.Lab.Path("slurmd")
	if err := os.Mkdir(work, 0o700); err != nil {
		return "", err
	}
	deb, version, err := slurm.NodePackage(ctx, programs, work)
	if err != nil {
		return "", err
	}
	d.slurmd = slurm.Package + "=" + version
	d.Say("The machine is Debian 12, whose Slurm is 22.05. slurmd of the cluster's version comes as a package of the site: %s.", d.slurmd)
	packages, err := lab.AptSource(ctx, work, deb)
	if err != nil {
		return "", err
	}
	files := map[string][]byte{"etc/apt/sources.list.d/site.list": []byte(lab.AptLine), "root/models.pem": authority}
	for name, content := range packages {
		files[lab.AptDir[1:]+"/"+name] = content
	}
	return d.archive(files)
}

// connect connects the machine to the network of the cluster, where it finds the source of models.
func (d *demo) connect(ctx context.Context) error {
	_, err := d.InGuest(ctx, "sh", "-c", `cat /root/models.pem >> /etc/ssl/certs/ca-certificates.crt
echo "$1 $2" >> /etc/hosts
at=$(grep --files-with-matches "$4" /sys/class/net/*/address) && card=$(basename "$(dirname "$at")")
ip address add "$3" dev "$card" && ip link set "$card" up`, "sh", sourceAddress, lab.SourceName,
		slurm.NodeAddress+"/"+slurm.NetworkBits, qemu.CardMAC)
	return err
}

// archive writes files to a tar.
func (d *demo) archive(files map[string][]byte) (name string, err error) {
	name = d.Lab.Path("machine.tar")
	f, err := os.Create(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(files[path])), Typeflag: tar.TypeReg}); err != nil {
			return "", err
		}
		if _, err := w.Write(files[path]); err != nil {
			return "", err
		}
	}
	return name, w.Close()
}
