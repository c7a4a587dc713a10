package simnode

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/maassim"
)

const (
	accounts = "root:x:0:0:root:/root:/bin/bash\nubuntu:x:%d:%d::/home/ubuntu:/bin/bash\n"
	ipcHead  = "       key      %s perms      uid   gid  cuid  cgid\n"
	sockets  = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	efi      = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
	disk     = "sys/devices/pci0000:00/0000:00:05.0/0:0:0:0"

	// mounts are of an ext2, which takes no trim: a trim would reach the disk of the machine that
	// runs this program.
	mounts = "22 1 8:1 / / rw,relatime shared:1 - ext2 /dev/sda1 rw\n"
	// information is the driver's of a GPU; it shows no uuid until somebody opens the GPU.
	information = "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-????????-????-????-????-????????????\nVideo BIOS: \t 96.00.74.00.01\n"
)

// tree is what lay writes: the text of each file by its name. A name that ends with a slash is a
// directory, and a text that begins with link is a symbolic link.
type tree map[string]string

const link = "-> "

// files are what the agent reads on an untouched node with the hardware of box.
func files(box maassim.Hardware, bootID string) tree {
	all := system(bootID)
	for _, more := range []tree{kernel(), hardware(box), gpus()} {
		maps.Copy(all, more)
	}
	return all
}

// ubuntu is the uid of the node's operator account. Every file of the node belongs to the user who
// runs this program, so that user is the operator, or root.
func ubuntu() int {
	if uid := os.Getuid(); uid != 0 {
		return uid
	}
	return 1000
}

// system is an installed system: its accounts, its one package, its agent, its one process.
func system(bootID string) tree {
	sum := md5.Sum([]byte("sshd"))
	uid := ubuntu()
	all := tree{
		"etc/passwd": fmt.Sprintf(accounts, uid, uid), "etc/group": fmt.Sprintf("root:x:0:\nubuntu:x:%d:\n", uid),
		"etc/shadow": "root:*:20000:0:99999:7:::\nubuntu:!:20000:0:99999:7:::\n", "etc/gshadow": "root:*::\nubuntu:!::\n",
		"etc/os-release":        "ID=ubuntu\nVERSION_ID=\"24.04\"\n",
		"etc/pam.d/common-auth": "auth required pam_unix.so\n", "etc/sudoers.d/README": "",
		"usr/sbin/sshd":                            "sshd",
		"var/lib/dpkg/status":                      "Package: openssh-server\nStatus: install ok installed\nArchitecture: amd64\n",
		"var/lib/dpkg/info/openssh-server.list":    "/usr/sbin/sshd\n",
		"var/lib/dpkg/info/openssh-server.md5sums": hex.EncodeToString(sum[:]) + "  usr/sbin/sshd\n",
		"boot/grub/grub.cfg":                       "menu",
		"proc/1/stat":                              "1 (systemd) S 1" + strings.Repeat(" 0", 17) + " 100\n",
		"proc/1/status":                            "Name:\tsystemd\nUid:\t0\t0\t0\t0\n",
		"proc/1/cgroup":                            "0::/init.scope\n",
		"proc/1/exe":                               link + "/usr/lib/systemd/systemd",
		"proc/1/ns/net":                            link + "net:[4026531840]",
		"proc/1/task/1/fd/":                        "",
		"proc/sys/kernel/random/boot_id":           bootID + "\n",
	}
	for name, to := range map[string]string{
		taskcatalog.AgentFolder + "/packaged": "versions/" + Version, taskcatalog.AgentFolder + "/current": "versions/" + Version,
		taskcatalog.AgentLink: "../lib/hostler-agent/current/hostler-agent",
	} {
		all[strings.TrimPrefix(name, "/")] = link + to
	}
	for _, dir := range []string{
		"tmp", "var/tmp", "dev/shm", "dev/mqueue", "var/spool/cron/crontabs", "var/lib/systemd/linger", "root/.ssh", "home/ubuntu", "run",
	} {
		all[dir+"/"] = ""
	}
	return all
}

// kernel is what a kernel tells that runs no module, no swap and no server.
func kernel() tree {
	all := tree{
		"proc/1/mountinfo": mounts, "proc/self/mountinfo": mounts, "proc/1/net/tcp": sockets, "proc/1/net/udp": sockets,
		"proc/devices": "Character devices:\n195 nvidia-frontend\n\nBlock devices:\n  8 sd\n",
		"proc/modules": "", "proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
		"proc/cmdline": "root=/dev/sda1\n", "proc/uptime": "600.00 1.00\n",
		"proc/sys/kernel/osrelease": "6.8.0\n", "proc/sys/kernel/core_pattern": "/var/cores/core.%e.%p\n",
		"lib/modules/6.8.0/modules.dep": "", "sys/module/": "",
	}
	for _, kind := range []string{"shm", "sem", "msg"} {
		all["proc/sysvipc/"+kind] = fmt.Sprintf(ipcHead, kind+"id")
	}
	return all
}

// hardware is the firmware, the disk and the network cards.
func hardware(box maassim.Hardware) tree {
	all := tree{
		"sys/firmware/efi/efivars/BootOrder-" + efi:  "\x07\x00\x00\x00\x01\x00",
		"sys/firmware/efi/efivars/SecureBoot-" + efi: "\x06\x00\x00\x00\x01",
		"sys/firmware/dmi/tables/DMI":                "\x00\x04\x00\x00\x00\x00\x7f\x04\x00\x00\x00\x00", // a BIOS and no BMC
		"sys/class/dmi/id/bios_version":              "2.1a\n",
		"sys/class/dmi/id/product_serial":            box.Serial + "\n",
		disk + "/block/sda/device":                   link + "../../../0:0:0:0",
	}
	sectors := box.Disks[0].Size / 512
	for name, text := range map[string]string{
		"model": box.Disks[0].Model, "serial": box.Disks[0].Serial,
		"block/sda/size": fmt.Sprint(sectors), "block/sda/ro": "0", "block/sda/removable": "0", "block/sda/dev": "8:0",
		"block/sda/sda1/partition": "1", "block/sda/sda1/size": fmt.Sprint(sectors - 2048), "block/sda/sda1/dev": "8:1",
	} {
		all[disk+"/"+name] = text + "\n"
	}
	whole := "../../" + strings.TrimPrefix(disk, "sys/") + "/block/sda"
	for name, to := range map[string]string{
		"block/sda": strings.TrimPrefix(whole, "../"), "class/block/sda": whole, "class/block/sda1": whole + "/sda1",
		"dev/block/8:0": whole, "dev/block/8:1": whole + "/sda1",
	} {
		all["sys/"+name] = link + to
	}
	for i, card := range box.NICs {
		function := fmt.Sprintf("devices/pci0000:00/0000:00:%02x.0", 3+i)
		all["sys/"+function+"/"] = ""
		dir := "sys/class/net/" + card.Name
		all[dir+"/address"], all[dir+"/addr_assign_type"], all[dir+"/device"] = card.MAC+"\n", "0\n", link+"../../../"+function
	}
	return all
}

// gpus are at the addresses where test/fakegpu puts them.
func gpus() tree {
	all := tree{}
	for i := range GPUs {
		slot := fmt.Sprintf("0000:%02x:00.0", 3+3*i)
		dir := "sys/bus/pci/devices/" + slot
		all[dir+"/class"], all[dir+"/vendor"], all[dir+"/device"], all[dir+"/sriov_numvfs"] = "0x030200\n", "0x10de\n", "0x2330\n", "0\n"
		all["proc/driver/nvidia/gpus/"+slot+"/information"] = information
	}
	return all
}

// lay writes the files into the directory root.
func (t tree) lay(root string) error {
	var all []error
	for name, text := range t {
		at := filepath.Join(root, name)
		if strings.HasSuffix(name, "/") {
			all = append(all, os.MkdirAll(at, 0o755))
			continue
		}
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if to, is := strings.CutPrefix(text, link); is {
			err = errors.Join(err, os.Symlink(to, at))
		} else {
			err = errors.Join(err, os.WriteFile(at, []byte(text), 0o644))
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// copyProgram copies a program.
func copyProgram(from, to string) error {
	raw, err := os.ReadFile(from)
	return errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, raw, 0o755))
}
