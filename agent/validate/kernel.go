package validate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/agent/cleanup"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

func lookSwap(_ context.Context, v *validation) ([]item, error) {
	areas, err := v.m.SwapAreas()
	names := make([]string, len(areas))
	for i, a := range areas {
		names[i] = a.Path
	}
	return objects("swap", "swap/", names, taskcatalog.ActionStorageCleanup), err
}

func lookBlockDevices(_ context.Context, v *validation) ([]item, error) {
	devices, err := v.m.SetUpDevices()
	items := make([]item, len(devices))
	for i, d := range devices {
		items[i] = item{
			row: "block_devices", key: d.Object, id: "device " + d.Name,
			finding: taskcatalog.Finding{Subject: d.Object, NextAction: taskcatalog.ActionStorageCleanup},
		}
	}
	return items, err
}

func lookHugepages(ctx context.Context, v *validation) ([]item, error) {
	mounts, err := v.m.Mounts()
	if err != nil {
		return nil, err
	}
	var all []item
	for _, m := range mounts {
		if m.Type != "hugetlbfs" {
			continue
		}
		items, err := v.entries(ctx, "hugepages", "hugepages/", m.Point, taskcatalog.ActionStorageCleanup, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	return all, nil
}

// apiMounts are the kernel's file systems at their usual mount points. systemd mounts them on first
// use.
var apiMounts = map[string]string{
	"/proc/sys/fs/binfmt_misc": "binfmt_misc autofs", "/sys/fs/fuse/connections": "fusectl", "/sys/kernel/config": "configfs",
	"/sys/kernel/debug": "debugfs", "/sys/kernel/debug/tracing": "tracefs", "/sys/kernel/tracing": "tracefs", "/sys/fs/bpf": "bpf",
	"/sys/fs/pstore": "pstore", "/sys/kernel/security": "securityfs", "/dev/hugepages": "hugetlbfs", "/dev/mqueue": "mqueue",
	"/run/rpc_pipefs": "rpc_pipefs", "/proc/fs/nfsd": "nfsd", "/sys/firmware/efi/efivars": "efivarfs",
}

// lookMounts compares the mount table by mount point, type and root, and by the restrictions of
// each mount. The second mount on a point gets a name of its own.
func lookMounts(_ context.Context, v *validation) ([]item, error) {
	mounts, err := v.m.Mounts()
	if err != nil {
		return nil, err
	}
	var items []item
	count := map[string]int{}
	for _, m := range mounts {
		owner, isUser := strings.CutPrefix(m.Point, "/run/user/")
		switch {
		case m.Root == "/" && slices.Contains(strings.Fields(apiMounts[m.Point]), m.Type):
		case m.Type == "nsfs": // handled by lookNamespaces
		case m.Point == "/run/netns" && m.Type == "tmpfs" && m.Root == "/netns": // ip netns binds the directory to itself
		case strings.HasPrefix(m.Point, "/run/credentials/") && (m.Type == "ramfs" || m.Type == "tmpfs"):
		case isUser && v.knownUIDText(owner) && m.Type == "tmpfs" && m.Root == "/":
		default:
			key := m.Point + " " + m.Type + " " + m.Root
			if count[key]++; count[key] > 1 {
				key = fmt.Sprintf("%s, mount %d of it", key, count[key])
			}
			next := taskcatalog.ActionReimage
			if v.containers(m.Point) {
				next = taskcatalog.ActionStorageCleanup
			}
			// The mount point of a FUSE was chosen by the user for whom it was mounted.
			items = append(items, item{
				row: "mounts", key: key, stranger: m.User != "" && !v.knownUIDText(m.User),
				finding: taskcatalog.Finding{Subject: m.Point, Detail: m.Type + " " + m.Root, NextAction: next},
			})
			// The options are an item of their own, since a cleanup must not detach a mount of the
			// baseline because of its options. No mount point begins with "options".
			options := item{
				row: "mounts", key: "options " + m.Access + " of " + key,
				finding: taskcatalog.Finding{Subject: m.Point, Detail: "its options differ from the baseline; they are " + m.Access},
			}
			if v.takesBaseline || v.has(items[len(items)-1]) {
				items = append(items, options)
			}
		}
	}
	return items, nil
}

// containers reports whether a path is below a directory that a cleanup empties of containers. A
// cleanup detaches the mounts there that the baseline does not have.
func (v *validation) containers(name string) bool {
	below := func(root string) bool { return machine.Under(name, root) }
	return slices.ContainsFunc(cleanup.ContainerRoots, below) ||
		slices.ContainsFunc(slices.Collect(maps.Keys(v.Host.ContainerRoots)), below) ||
		slices.ContainsFunc(cleanup.ContainerStates, func(pattern string) bool { return below(strings.TrimSuffix(pattern, "/*")) })
}

// knownUIDText reports whether a text is the number of a known uid.
func (v *validation) knownUIDText(text string) bool {
	uid, err := strconv.ParseUint(text, 10, 32)
	_, known := v.users[uint32(uid)]
	return err == nil && known && text == strconv.FormatUint(uid, 10)
}

// lookNamespaces finds network namespaces by their holders: a mount, or processes. The namespaces
// of a system service come and go with the service and are passed.
func lookNamespaces(_ context.Context, v *validation) ([]item, error) {
	mounts, err := v.m.Mounts()
	if err != nil {
		return nil, err
	}
	host, err := v.m.NetNS(1)
	if err != nil {
		return nil, fmt.Errorf("cannot look at the host's network namespace: %w", err)
	}
	var items []item
	points := map[string]bool{}
	for _, m := range mounts {
		if m.Type == "nsfs" && m.Root != host && !points[m.Point] {
			points[m.Point] = true
			items = append(items, item{
				row: "namespaces", key: "netns/" + m.Point, id: m.Root,
				finding: taskcatalog.Finding{Subject: m.Point, NextAction: taskcatalog.ActionStorageCleanup},
			})
		}
	}
	all, _, _, err := v.processes()
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, p := range all {
		ns, err := v.m.NetNS(p.PID)
		if p.Unread != nil { // the owner is unknown
			return items, p.Unread
		}
		if err != nil || ns == host || seen[ns] { // the process ended, or is a zombie
			continue
		}
		if v.packaged(p.exe) && v.unitKnown(p.unit) {
			continue
		}
		seen[ns] = true
		// A cleanup ends only processes in containers.
		items = append(items, v.owner(item{row: "namespaces", key: "netns/of " + p.key(), id: ns, finding: taskcatalog.Finding{
			Subject: ns, Detail: fmt.Sprintf("%d %s; %s", p.PID, p.Name, p.key()),
		}}, p.UIDs[0], p.remedy()))
	}
	return items, nil
}

// lookModules passes modules that a package of the kernel brought and that the kernel does not mark
// as tainting: such modules load by themselves on demand.
func lookModules(_ context.Context, v *validation) ([]item, error) {
	modules, err := v.m.Modules()
	if err != nil {
		return nil, err
	}
	var items []item
	for _, m := range modules {
		detail := ""
		switch {
		case m.Hidden:
			detail = "loaded, and hidden from the list of modules"
		case m.Taints != "":
			detail = "taints the kernel: " + m.Taints
		case m.File == "" || !v.packaged(m.File):
			detail = "no package contains it"
		default:
			continue
		}
		key := m.Name
		if m.Taints != "" {
			key += " (" + m.Taints + ")"
		}
		items = append(items, item{
			row: "modules", key: key, differs: m.Hidden,
			finding: taskcatalog.Finding{Subject: m.Name, Detail: join(detail, m.File)},
		})
	}
	return items, nil
}

// lookBPF passes device filters of cgroups: systemd creates one for each unit that limits devices,
// and such a filter can only refuse.
func lookBPF(_ context.Context, v *validation) ([]item, error) {
	programs, err := v.kernel.BPF()
	if err != nil {
		return nil, err
	}
	var items []item
	for _, p := range programs {
		if p.Type != "cgroupdevice" {
			items = append(items, item{row: "bpf", key: p.Type + "/" + p.Name + "/" + p.Tag, id: fmt.Sprintf("program %d", p.ID)})
		}
	}
	return items, nil
}

func lookFirewall(ctx context.Context, v *validation) ([]item, error) {
	rules, err := v.kernel.Firewall(ctx, v.Host)
	if err != nil {
		return nil, err
	}
	v.now.Firewall = ""
	if len(rules) > 0 {
		sum := sha256.Sum256([]byte(strings.Join(rules, "\n")))
		v.now.Firewall = hex.EncodeToString(sum[:16])
	}
	if v.base == nil || v.base.Firewall == v.now.Firewall {
		return nil, nil
	}
	return []item{{row: "firewall", key: "rules", differs: true, finding: taskcatalog.Finding{
		Subject: "firewall rules", Detail: "the rules differ from the baseline", Count: int64(len(rules)),
	}}}, nil
}

// readFirewall reads the rules with the packet filters' own tools, and only if the kernel has
// loaded the filter: without the filter there are no rules.
func readFirewall(ctx context.Context, h *host.Host) ([]string, error) {
	if !h.Machine.Live() {
		return nil, errors.New("cannot read firewall rules of a machine that does not run")
	}
	var rules []string
	loaded, err := h.Machine.Has("/sys/module/nf_tables")
	if err != nil {
		return nil, err
	}
	if loaded {
		raw, err := host.Output(ctx, "/usr/sbin/nft", "--json", "--stateless", "list", "ruleset")
		if err != nil {
			return nil, err
		}
		if rules, err = machine.NormalizeNFT(raw); err != nil {
			return nil, err
		}
	}
	for _, family := range []struct{ names, tool string }{
		{"/proc/1/net/ip_tables_names", "/usr/sbin/iptables-legacy-save"},
		{"/proc/1/net/ip6_tables_names", "/usr/sbin/ip6tables-legacy-save"},
	} {
		has, err := h.Machine.Has(family.names)
		if err != nil {
			return nil, err
		}
		if !has {
			continue
		}
		names, err := h.Machine.ReadFile(family.names, 64<<10)
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(names)) == 0 {
			continue
		}
		raw, err := host.Output(ctx, family.tool)
		if err != nil {
			return nil, err
		}
		rules = append(rules, machine.NormalizeIPTables(string(raw))...)
	}
	return rules, nil
}

// lookKernelHooks compares the programs that the kernel itself starts, and the kernel's release,
// version and command line.
func lookKernelHooks(_ context.Context, v *validation) ([]item, error) {
	var items []item
	for _, hook := range []struct {
		name, file string
		digest     bool
	}{
		{"release", "/proc/sys/kernel/osrelease", false},
		{"version", "/proc/sys/kernel/version", false},
		{"cmdline", "/proc/cmdline", true}, // the command line may hold the secret that enrols a node
		{"core_pattern", "/proc/sys/kernel/core_pattern", false},
		{"modprobe", "/proc/sys/kernel/modprobe", false},
		{"hotplug", "/proc/sys/kernel/hotplug", false},
		{"uevent_helper", "/sys/kernel/uevent_helper", false},
		{"poweroff_cmd", "/proc/sys/kernel/poweroff_cmd", false},
	} {
		has, err := v.m.Has(hook.file)
		if err != nil {
			return nil, err
		}
		if !has && hook.name != "release" {
			continue // not every kernel has each hook
		}
		raw, err := v.m.ReadFile(hook.file, 64<<10)
		if err != nil {
			return nil, err
		}
		value := strings.TrimSpace(string(raw))
		if hook.digest {
			sum := sha256.Sum256(raw)
			value = hex.EncodeToString(sum[:16])
		}
		items = append(items, item{
			row: "kernel_hooks", key: "kernel/" + hook.name + " " + value,
			finding: taskcatalog.Finding{Subject: hook.file, Detail: "is " + value},
		})
	}
	formats, err := v.m.BinaryFormats()
	return append(items, objects("kernel_hooks", "kernel/binfmt ", formats, taskcatalog.ActionReimage)...), err
}

// lookInventory finds devices of the baseline that are no longer seen.
func lookInventory(_ context.Context, v *validation) ([]item, error) {
	inv, err := v.m.Inventory()
	if err != nil {
		return nil, err
	}
	v.now.Inventory = taskcatalog.Inventory{GPUs: sorted(inv.GPUs), Disks: sorted(inv.Disks), NICs: sorted(inv.NICs)}
	if v.base == nil {
		return nil, nil
	}
	var items []item
	for _, kind := range []struct {
		name    string
		was, is []string
	}{
		{"gpu", v.base.Inventory.GPUs, v.now.Inventory.GPUs},
		{"disk", v.base.Inventory.Disks, v.now.Inventory.Disks},
		{"nic", cardsOf(v.base.Inventory.NICs, inv), v.now.Inventory.NICs},
	} {
		left := slices.Clone(kind.is)
		for _, want := range kind.was {
			if i := slices.Index(left, want); i >= 0 {
				left = slices.Delete(left, i, i+1)
				continue
			}
			items = append(items, item{row: "inventory", key: path.Join(kind.name, want), differs: true, finding: taskcatalog.Finding{
				Subject: kind.name + " " + want, Detail: "in the baseline and not seen on the node", NextAction: taskcatalog.ActionReimage,
			}})
		}
	}
	return items, nil
}

// cardsOf returns the addresses of a baseline that name cards. A baseline of an older agent also
// has addresses made up by the kernel. An address is left out if no maker gave it out and it is not
// seen now, but at most as many as there are now cards without an address of their own.
func cardsOf(baseline []string, now machine.Inventory) []string {
	var all []string
	unnamed := now.UnnamedNICs
	for _, address := range baseline {
		if address = machine.CardAddress(address); unnamed > 0 && machine.LocallyAdministered(address) &&
			!slices.Contains(now.NICs, address) {
			unnamed--
			continue
		}
		all = append(all, address)
	}
	return all
}

func sorted(names []string) []string {
	for i := range names {
		names[i] = clean(names[i])
	}
	slices.Sort(names)
	return names
}
