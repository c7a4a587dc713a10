package lab

import (
	"context"
	"strconv"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/qemu"
)

const fabricSerial = "NETDISK"

const target = "/sys/kernel/config/nvmet"

// NetworkDisk gives a guest a disk that the guest exports to itself over NVMe/TCP.
func NetworkDisk(ctx context.Context, g *qemu.Guest) (taskcatalog.DiskName, error) {
	r, err := g.Run(ctx, "sh", "-c", strings.Join([]string{
		"set -e", "modprobe nvmet-tcp", "modprobe nvme-tcp",
		"mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config",
		"truncate -s 8M /root/net.img", "mkdir -p " + target + "/subsystems/erase/namespaces/1 " + target + "/ports/1",
		"echo 1 > " + target + "/subsystems/erase/attr_allow_any_host",
		"echo " + fabricSerial + " > " + target + "/subsystems/erase/attr_serial",
		"printf /root/net.img > " + target + "/subsystems/erase/namespaces/1/device_path",
		"echo 1 > " + target + "/subsystems/erase/namespaces/1/enable",
		"cd " + target + "/ports/1", "echo ipv4 > addr_adrfam", "echo tcp > addr_trtype", "echo 4420 > addr_trsvcid",
		"echo 127.0.0.1 > addr_traddr",
		"ln -s " + target + "/subsystems/erase subsystems/erase",
		"nvme connect --transport=tcp --traddr=127.0.0.1 --trsvcid=4420 --nqn=erase",
		"udevadm settle", "basename $(dirname $(dirname $(grep -ls " + fabricSerial + " /sys/block/nvme*n*/device/serial)))",
	}, "\n"))
	if err != nil {
		return taskcatalog.DiskName{}, err
	}
	return DiskName(ctx, g, strings.TrimSpace(r.Stdout)), nil
}

// DiskName returns the identity of a guest's disk, as the guest's kernel reports it.
func DiskName(ctx context.Context, g *qemu.Guest, kernel string) (n taskcatalog.DiskName) {
	read := func(file string) string {
		r, _ := g.Run(ctx, "cat", "/sys/block/"+kernel+"/"+file)
		return strings.TrimSpace(r.Stdout)
	}
	sectors, _ := strconv.ParseInt(read("size"), 10, 64)
	n = taskcatalog.DiskName{Serial: read("device/serial"), Model: read("device/model"), WWN: read("wwid"), SizeBytes: sectors * 512}
	if page := read("device/vpd_pg80"); n.Serial == "" && len(page) > 4 {
		n.Serial, n.WWN = strings.Trim(page[4:], " \x00"), ""
	}
	return n
}

// NoNetworkDisk removes the disk of NetworkDisk.
func NoNetworkDisk(ctx context.Context, g *qemu.Guest) error {
	_, err := g.Run(ctx, "sh", "-c", strings.Join([]string{
		"set -e", "nvme disconnect --nqn=erase", "rm " + target + "/ports/1/subsystems/erase", "rmdir " + target + "/ports/1",
		"echo 0 > " + target + "/subsystems/erase/namespaces/1/enable", "rmdir " + target + "/subsystems/erase/namespaces/1",
		"rmdir " + target + "/subsystems/erase", "rm /root/net.img",
	}, "\n"))
	return err
}
