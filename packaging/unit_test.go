package packaging

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// settings returns the assignments of a unit file, in their order.
func settings(t *testing.T, file string) [][2]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all [][2]string
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			all = append(all, [2]string{key, value})
		}
	}
	return all
}

// ownView matches the settings that give a service another view of the machine than a tenant has:
// namespaces, private mounts, a device policy.
var ownView = regexp.MustCompile(`^(Private[A-Z].*|Protect[A-Z].*|ProcSubset|Device[A-Z].*|` +
	`(Read|Inaccessible|Exec|NoExec|ReadWrite|ReadOnly).*Paths|Bind(ReadOnly)?Paths|TemporaryFileSystem|` +
	`Root[A-Z].*|Mount[A-Z].*|ExtensionImages|ExtensionDirectories|DynamicUser|LogNamespace|` +
	`IPCNamespacePath|NetworkNamespacePath|JoinsNamespaceOf|User|Group)$`)

func TestTheAgentSeesWhatATenantSees(t *testing.T) {
	all := settings(t, "systemd/hostler-agent.service")
	for _, s := range all {
		if ownView.MatchString(s[0]) {
			t.Errorf("%s=%s gives the agent a view of its own", s[0], s[1])
		}
	}
	for _, bad := range []string{"PrivateTmp", "ProtectHome", "ProtectKernelLogs", "DeviceAllow", "ReadOnlyPaths", "BindPaths", "RootDirectory", "MountAPIVFS"} {
		if !ownView.MatchString(bad) {
			t.Errorf("%s is not looked for", bad)
		}
	}
}

// The capabilities that a handler, or a tool started by a handler, needs. Without one of them a
// check or a cleanup fails, on machines with the affected feature.
func TestTheAgentMayDoWhatItsTasksNeed(t *testing.T) {
	var may []string
	for _, s := range settings(t, "systemd/hostler-agent.service") {
		if s[0] == "CapabilityBoundingSet" {
			may = append(may, strings.Fields(s[1])...)
		}
	}
	for capability, why := range map[string]string{
		"CAP_NET_RAW":         "iptables-legacy-save asks the kernel through a raw socket",
		"CAP_NET_ADMIN":       "nft lists rules",
		"CAP_SYS_ADMIN":       "umount, swapoff, FITRIM, device-mapper and loop devices, eBPF programs",
		"CAP_LINUX_IMMUTABLE": "chattr +i",
		"CAP_IPC_OWNER":       "System V objects of others",
		"CAP_SYS_PTRACE":      "/proc/PID/fd, exe and ns of others",
		"CAP_KILL":            "processes of others",
		"CAP_DAC_OVERRIDE":    "files of others",
		"CAP_FOWNER":          "files in sticky directories",
		"CAP_CHOWN":           "homes of new users",
		"CAP_AUDIT_WRITE":     "useradd and userdel",
		"CAP_SYSLOG":          "/dev/kmsg, where dmesg is for root alone",
		"CAP_SYS_RAWIO":       "ATA security erase by hdparm",
	} {
		if !slices.Contains(may, capability) {
			t.Errorf("the agent has no %s: %s", capability, why)
		}
	}
}

func TestTheAgentsUnitBoundsWhatItUses(t *testing.T) {
	all := settings(t, "systemd/hostler-agent.service")
	for _, want := range []string{"Type", "WatchdogSec", "Restart", "KillMode", "CPUQuota", "CPUWeight", "IOWeight", "MemoryHigh", "MemoryMax", "TasksMax", "LimitCORE"} {
		if !slices.ContainsFunc(all, func(s [2]string) bool { return s[0] == want && s[1] != "" }) {
			t.Errorf("the unit sets no %s", want)
		}
	}
}

// GOMEMLIMIT makes the garbage collector work harder before the kernel kills the broker.
func TestTheBrokersUnitBoundsItsMemory(t *testing.T) {
	var most, limit string
	for _, s := range settings(t, "systemd/hostler-broker.service") {
		switch value, is := strings.CutPrefix(s[1], "GOMEMLIMIT="); {
		case s[0] == "MemoryMax":
			most = s[1]
		case s[0] == "Environment" && is:
			limit = value
		}
	}
	gigabytes := func(value, unit string) float64 {
		n, err := strconv.ParseFloat(strings.TrimSuffix(value, unit), 64)
		if err != nil {
			t.Fatalf("%q is no number of %s", value, unit)
		}
		return n
	}
	if most, limit := gigabytes(most, "G"), gigabytes(limit, "GiB"); limit < 1 || limit > 0.8*most {
		t.Errorf("GOMEMLIMIT is %vG of %vG, and is to leave a fifth", limit, most)
	}
}

var exposure = regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)

// maxExposure is the highest exposure level that `systemd-analyze security` may report for a unit.
// Of the agent's level, 0.2 come from CAP_SYS_RAWIO: an ATA disk accepts the erase command only
// with this capability.
var maxExposure = map[string]float64{"hostler-agent": 6.4, "hostler-agent-watch": 2.5, "hostler-broker": 1.5}

func TestTheUnitsAreNoMoreExposedThanTheyMustBe(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze on this machine; the guest has one")
	}
	for name, most := range maxExposure {
		out, err := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--no-pager", "systemd/"+name+".service").CombinedOutput()
		if err != nil {
			t.Fatalf("systemd-analyze: %v\n%s", err, out)
		}
		checkExposure(t, name, string(out), most)
	}
}

func checkExposure(t *testing.T, name, report string, most float64) {
	t.Helper()
	found := exposure.FindStringSubmatch(report)
	if found == nil {
		t.Fatalf("no exposure in what systemd-analyze says of %s:\n%s", name, report)
	}
	level, err := strconv.ParseFloat(found[1], 64)
	if err != nil || level > most {
		t.Errorf("%s has an exposure of %s, more than %.1f", name, found[1], most)
	}
	t.Logf("%s: exposure %s", name, found[1])
}

// The memory limit of users' terminals leaves memory for the services that look after the node.
func TestTerminalsLeaveSomeMemory(t *testing.T) {
	var high string
	for _, s := range settings(t, "systemd/hostler-terminal.slice") {
		if s[0] == "MemoryHigh" {
			high = s[1]
		}
	}
	if percent, err := strconv.Atoi(strings.TrimSuffix(high, "%")); err != nil || percent < 50 || percent > 95 {
		t.Errorf("they may have %s of it", high)
	}
	yaml, err := os.ReadFile("deb/agent.yaml")
	if err != nil || !strings.Contains(string(yaml), "dst: /usr/lib/systemd/system/hostler-terminal.slice") {
		t.Errorf("the package does not have it (%v)", err)
	}
}
