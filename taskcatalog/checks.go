package taskcatalog

// Treatment says what Hostler does about one kind of residue.
type Treatment string

// The treatments.
const (
	Cleaned     Treatment = "cleaned"       // removed by CleanedBy, then verified
	FoundOnly   Treatment = "found"         // reported only; no task removes it. Its findings name the remedy: reimage, if nothing less
	NotLookedAt Treatment = "not_looked_at" // outside what software on the node can see
)

// Remedies for a finding: the values of Finding.NextAction.
const (
	ActionRevokeUser     = "allocation.revoke_user"
	ActionStorageCleanup = "node.storage_cleanup"
	ActionGPUScrub       = "node.gpu_scrub"
	ActionReimage        = "reimage"
	ActionAcceptBaseline = "accept_baseline"
	// ActionByHand is for residue that no task can restore. A person restores the state in the BMC
	// or the firmware, or accepts the state with a new baseline.
	ActionByHand = "by_hand"
)

// CheckRow is one line of the table of checks. The table says what is cleaned, what is only found,
// and what is not looked at.
type CheckRow struct {
	Name      string    `json:"name"`
	Covers    string    `json:"covers"`
	Treatment Treatment `json:"treatment"`
	CleanedBy string    `json:"cleaned_by,omitempty"` // a task type
}

// CheckAgent is the row of the agent's own program and unit. A tenant with root can replace the
// agent, and a replaced agent reports anything it likes. Therefore a clean result counts only in a
// fresh system; a finding counts everywhere.
const CheckAgent = "agent"

// CheckGPU is the row of the settings, the holders and the health of GPUs.
const CheckGPU = "gpu"

// Checks returns the table.
func Checks() []CheckRow { return append([]CheckRow(nil), checks...) }

// LookedAt returns the names of the rows that node.validate_clean reports on, each once. Rows that
// no software on the node can see are left out.
func LookedAt() []string {
	var names []string
	for _, c := range checks {
		if c.Treatment != NotLookedAt {
			names = append(names, c.Name)
		}
	}
	return names
}

// checks is the table. Names are wire names. Residue of a cleaned row that its task cannot remove,
// because root of the node left it and no user of an allocation, is a finding with the remedy
// reimage.
var checks = []CheckRow{
	{
		"users",
		"accounts, groups and their members, logins and passwords in /etc/passwd, group, shadow; an allocation's user is cleaned, another is found",
		Cleaned, ActionRevokeUser,
	},
	{"processes", "processes by owner and executable; those of an allocation's user are cleaned, others found", Cleaned, ActionRevokeUser},
	{"jobs", "crontabs, at jobs and lingering of users; an allocation's are cleaned, others found", Cleaned, ActionRevokeUser},
	{"ipc", "System V shared memory, semaphores and queues, /dev/shm, /dev/mqueue", Cleaned, ActionRevokeUser},
	{"files", "files on local file systems owned by no user or by a uid that the baseline does not have", Cleaned, ActionRevokeUser},
	{"homes", "directories in /home that are no home of a known user", Cleaned, ActionStorageCleanup},
	{"temporary", "what is in /tmp and /var/tmp beside the system's own", Cleaned, ActionStorageCleanup},
	{"scratch", "what is in the scratch directories of the node and the site's policy", Cleaned, ActionStorageCleanup},
	{
		"containers",
		"containers, images and volumes of docker, containerd, CRI-O, podman, nspawn and LXC outside the baseline",
		Cleaned, ActionStorageCleanup,
	},
	{"dumps", "crash and core dumps", Cleaned, ActionStorageCleanup},
	{"swap", "swap areas outside the baseline", Cleaned, ActionStorageCleanup},
	{"hugepages", "files on hugetlbfs", Cleaned, ActionStorageCleanup},
	{
		"block_devices",
		"loop, device-mapper, LVM, md, nbd and zram devices outside the baseline, those that are set up",
		Cleaned, ActionStorageCleanup,
	},
	{"namespaces", "network namespaces outside the baseline", Cleaned, ActionStorageCleanup},
	{"mounts", "mounts in the host's mount namespace", FoundOnly, ""},
	{"listeners", "TCP and UDP sockets that wait for others, in the host's network namespace", FoundOnly, ""},
	{"authorized_keys", "authorized_keys and other ssh files of root and of every known user", FoundOnly, ""},
	{
		"login_files",
		"what a login of a known user runs: profiles, shell and user-unit files in its home; /etc/profile.d, /etc/environment",
		FoundOnly, "",
	},
	{"cron", "/etc/crontab and /etc/cron.*", FoundOnly, ""},
	{
		"units",
		"systemd units, drop-ins and what enables them, in /etc, /run and /usr/local; environment and generators in /etc",
		FoundOnly, "",
	},
	{
		"packages",
		"installed packages, and their files by digest, owner and mode; not documentation, manual pages and translations",
		FoundOnly, "",
	},
	{
		"programs",
		"files of no package in /usr, /opt and the directories programs are found in; not interpreters' compiled caches",
		FoundOnly, "",
	},
	{
		CheckAgent,
		"the agent's program, its links and its unit against the package that was published, and what goes before that unit or adds to it. To have found nothing counts in a fresh system alone",
		FoundOnly, "",
	},
	{"setuid", "set-uid and set-gid files and file capabilities on local file systems", FoundOnly, ""},
	{"config", "every other file in /etc by digest, owner and mode", FoundOnly, ""},
	{"preload", "ld.so.preload, ld.so.conf and the loader's cache", FoundOnly, ""},
	{"pam", "PAM and name-service configuration", FoundOnly, ""},
	{"sudoers", "sudoers and polkit rules", FoundOnly, ""},
	{"ssh_server", "the ssh server's configuration and host keys, by digest", FoundOnly, ""},
	{"udev", "udev rules", FoundOnly, ""},
	{"modprobe", "modprobe options, modules loaded at boot", FoundOnly, ""},
	{"modules", "kernel modules that no package brought, that taint the kernel, or that are hidden", FoundOnly, ""},
	{"bpf", "eBPF programs but systemd's device filters", FoundOnly, ""},
	{"firewall", "nftables and iptables rules, without counters", FoundOnly, ""},
	{"kernel_hooks", "core_pattern, modprobe and uevent helpers, binfmt_misc, kernel version and command line", FoundOnly, ""},
	{"boot", "/boot, boot loader configuration", FoundOnly, ""},
	{
		"cloud_init",
		"what cloud-init keeps in /var/lib/cloud and carries out where it runs at a boot, and Hostler's first boot; whether it runs. Made where cloud-init is off",
		FoundOnly, "",
	},
	{"inventory", "GPUs, disks and network cards that the baseline has and the machine does not show", FoundOnly, ""},
	{
		CheckGPU,
		"GPUs by uuid, what they are set to, programs on them, and whether the driver clears what is freed",
		Cleaned, ActionGPUScrub,
	},
	{
		CheckBMCUsers,
		"users of the BMC with name, privilege and whether they are enabled, and how each of its network channels lets them in; not their passwords",
		FoundOnly, "",
	},
	{
		CheckBMCLAN,
		"the BMC's network settings by channel: address source, addresses that no DHCP server gave, VLAN, authentication, cipher suites",
		FoundOnly, "",
	},
	{CheckBMCFirmware, "the version that the BMC says its firmware has", FoundOnly, ""},
	{
		CheckEFI,
		"EFI variables that decide what boots: entries, order, the next boot; Secure Boot, its mode, its keys and shim's",
		FoundOnly, "",
	},
	{CheckFirmware, "the versions that BIOS, GPUs, network cards and NVMe drives say their firmware has", FoundOnly, ""},
	{CheckSRIOV, "virtual functions that are switched on", FoundOnly, ""},
	{"hidden_kernel", "a kernel that lies to what runs on it: only a boot from known media shows that", NotLookedAt, ""},
	{
		"firmware",
		"the code of UEFI, option ROMs, disk, NIC and GPU firmware: a version is what the firmware says of itself",
		NotLookedAt, "",
	},
	{
		"bmc",
		"the baseboard management controller's own storage, sessions, code and passwords, and what it has beside IPMI",
		NotLookedAt, "",
	},
	{"dpu", "DPUs and SmartNICs and what runs on them", NotLookedAt, ""},
	{"gpu_memory", "GPU memory, which node.gpu_scrub overwrites and verifies, and its registers", NotLookedAt, ""},
	{"system_memory", "memory of processes that ended and the kernel's caches", NotLookedAt, ""},
	{
		"free_blocks",
		"deleted data in free disk blocks, data under mount points, disks and partitions that are not mounted",
		NotLookedAt, "",
	},
	{"remote", "what a tenant left on network file systems and other machines", NotLookedAt, ""},
	{
		"system_data",
		"other files of root in /var, and in /srv and on data disks, and in homes of known users beside what a login runs",
		NotLookedAt, "",
	},
	{"kernel_settings", "sysctl values", NotLookedAt, ""},
	{"other_sockets", "raw, packet, SCTP, vsock and abstract unix sockets", NotLookedAt, ""},
	{
		"interpreter_caches",
		"compiled caches of interpreters such as __pycache__, and what generators put in /run/systemd at boot",
		NotLookedAt, "",
	},
}
