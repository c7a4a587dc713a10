//go:build e2e

package e2e

import (
	"strings"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/lab"
)

// iscsi gives the guest a disk that it reaches over TCP by SCSI; the guest's kernel is both
// initiator and target. The disk exists until the part ends.
func (s *site) iscsi() taskcatalog.DiskName {
	s.t.Helper()
	const (
		config = "/sys/kernel/config/target"
		iqn    = "iqn.2026-01.test.hostler:far"
		group  = config + "/iscsi/" + iqn + "/tpgt_1"
		store  = config + "/core/fileio_0/far"
	)
	s.sh(strings.Join([]string{
		"set -e", "modprobe -a target_core_file iscsi_target_mod iscsi_tcp", "mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config",
		"truncate -s 8M /root/far.img", "mkdir -p " + store, "echo fd_dev_name=/root/far.img,fd_dev_size=8388608 > " + store + "/control",
		"echo FAR1 > " + store + "/wwn/vpd_unit_serial", "echo 1 > " + store + "/enable",
		"mkdir -p " + group + "/lun/lun_0 " + group + "/np/127.0.0.1:3260", "ln -s " + store + " " + group + "/lun/lun_0/far",
		"echo 0 > " + group + "/attrib/authentication", "echo 1 > " + group + "/attrib/generate_node_acls", "echo 0 > " + group + "/attrib/demo_mode_write_protect",
		"echo 1 > " + group + "/enable",
		"echo InitiatorName=iqn.2026-01.test.hostler:guest > /etc/iscsi/initiatorname.iscsi", "systemctl start iscsid",
		"iscsiadm -m discovery -t sendtargets -p 127.0.0.1", "iscsiadm -m node -T " + iqn + " -p 127.0.0.1 --login", "udevadm settle",
	}, "\n"), strings.Join([]string{
		"set -e", "iscsiadm -m node -T " + iqn + " -p 127.0.0.1 --logout", "iscsiadm -m node -o delete", "systemctl stop iscsid.socket iscsid", "rm /etc/iscsi/initiatorname.iscsi",
		"echo 0 > " + group + "/enable", "rm " + group + "/lun/lun_0/far", "rmdir " + group + "/lun/lun_0 " + group + "/np/127.0.0.1:3260 " + group,
		"rmdir " + config + "/iscsi/" + iqn, "rmdir " + store, "rm /root/far.img",
	}, "\n"))
	disk := lab.DiskName(s.ctx, s.guest, strings.TrimSpace(s.root("sh", "-c", "ls /sys/class/iscsi_session/session*/device/target*/*/block")))
	if disk.Serial != "FAR1" || disk.SizeBytes != 8<<20 {
		s.t.Fatalf("the disk on the network is %+v", disk)
	}
	return disk
}
