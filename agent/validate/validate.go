package validate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/agent/platform"
	"github.com/hostler/hostler/taskcatalog"
)

// A validation looks at the machine. It either records the findings as the baseline, or compares
// them with the baseline of the task.
//
// Both use the same looks: each check turns one part of the machine into items with stable names.
// Taking a baseline keeps the names. Judging reports the items that the baseline does not have,
// after settling: an item of a known owner must stay to count, and an item of an unknown owner
// counts from any look.
type validation struct {
	*host.Run
	m             *machine.Machine
	kernel        Kernel
	base          *taskcatalog.Baseline // nil: there is none, or it is being taken
	takesBaseline bool
	policy        taskcatalog.CleanPolicy
	expected      []taskcatalog.AgentPackage
	accounts      []host.Account
	now           taskcatalog.Baseline
	report        taskcatalog.Report
	perRow        map[string]int

	// Results of one check that later checks need.
	owned    map[uint64]struct{}                   // paths of packages; nil if unknown
	recorded string                                // digest of all packages' records
	conf     map[string]string                     // conffiles in /etc with their packages' sums
	users    map[uint32]string                     // known uids
	homes    map[string]uint32                     // of known users that log in
	files    map[string][]taskcatalog.BaselineFile // by look: the records for Files and Units
	baseKeys map[*[]string]map[string]bool
	below    *platform.Platform
	absent   map[string]string // rows that do not apply, each with the reason
}

// Kernel holds the functions that read the kernel itself: a directory can stand for a machine, and
// not for its kernel.
type Kernel struct {
	BPF      func() ([]machine.BPFProgram, error)
	Firewall func(context.Context, *host.Host) ([]string, error)
	// Cards returns the firmware version reported by a network card's driver.
	Cards func(name string) (string, error)
}

// item is a thing that is on the machine, or that is missing.
type item struct {
	row     string
	key     string // stable name, kept in the baseline
	id      string // identity that nobody can choose, such as device and inode, or pid and start; empty: the key identifies the item
	finding taskcatalog.Finding
	// tenant marks an item of an allocation: residue, even if a baseline has it. differs marks an
	// item that the look itself compared.
	tenant, differs bool
	// stranger marks an item whose owner the baseline does not have.
	stranger bool
	// partial marks an item found although its look could not be completed.
	partial bool
}

// check is a line of the table of looks. A look may decide several rows of the table of checks.
type check struct {
	rows []string
	look func(context.Context, *validation) ([]item, error)
	// settles: a new item of a known owner must stay for Host.Settle to count.
	settles bool
	// later is a slow look that no other look depends on: it runs while other things settle.
	later func(context.Context, *validation) ([]item, error)
}

// validationChecks are the looks in order: users and packages first, since the other looks need the
// known users and the packages' paths.
var validationChecks = []check{
	{rows: []string{"users"}, look: lookUsers},
	{rows: []string{"packages"}, look: lookPackages, later: lookPackageFiles},
	{rows: []string{"processes"}, look: lookProcesses, settles: true},
	{rows: []string{"listeners"}, look: lookListeners, settles: true},
	{rows: etcRows, look: lookEtc, settles: true},
	{rows: []string{"authorized_keys"}, look: lookKeys},
	{rows: []string{"login_files"}, look: lookLoginFiles},
	{rows: []string{"jobs"}, look: lookJobs},
	{rows: []string{"boot"}, look: lookBoot},
	{rows: []string{"cloud_init"}, look: lookCloudInit, settles: true},
	{rows: []string{"programs"}, look: lookPrograms, settles: true},
	{rows: []string{taskcatalog.CheckAgent}, look: lookAgent},
	{rows: []string{"ipc"}, look: lookIPC, settles: true},
	{rows: []string{"files", "setuid"}, look: lookFiles, settles: true},
	{rows: []string{"homes"}, look: lookHomes},
	{rows: []string{"temporary"}, look: lookTemporary, settles: true},
	{rows: []string{"scratch"}, look: lookScratch},
	{rows: []string{"containers"}, look: lookContainers, settles: true},
	{rows: []string{"dumps"}, look: lookDumps},
	{rows: []string{"swap"}, look: lookSwap},
	{rows: []string{"hugepages"}, look: lookHugepages, settles: true},
	{rows: []string{"block_devices"}, look: lookBlockDevices, settles: true},
	{rows: []string{"namespaces"}, look: lookNamespaces, settles: true},
	{rows: []string{"mounts"}, look: lookMounts, settles: true},
	{rows: []string{"modules"}, look: lookModules, settles: true},
	{rows: []string{"bpf"}, look: lookBPF, settles: true},
	{rows: []string{"firewall"}, look: lookFirewall, settles: true},
	{rows: []string{"kernel_hooks"}, look: lookKernelHooks},
	{rows: []string{"inventory"}, look: lookInventory},
	{rows: []string{taskcatalog.CheckGPU}, look: lookGPUs},
	{rows: []string{taskcatalog.CheckBMCUsers}, look: lookPlatform(taskcatalog.CheckBMCUsers)},
	{rows: []string{taskcatalog.CheckBMCLAN}, look: lookPlatform(taskcatalog.CheckBMCLAN)},
	{rows: []string{taskcatalog.CheckBMCFirmware}, look: lookPlatform(taskcatalog.CheckBMCFirmware)},
	{rows: []string{taskcatalog.CheckEFI}, look: lookPlatform(taskcatalog.CheckEFI)},
	{rows: []string{taskcatalog.CheckFirmware}, look: lookPlatform(taskcatalog.CheckFirmware)},
	{rows: []string{taskcatalog.CheckSRIOV}, look: lookPlatform(taskcatalog.CheckSRIOV)},
}

// Clean carries out node.validate_clean: it takes a baseline or judges the machine by one. Codes:
// allocation_present, handler_failed.
func Clean(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	return Kernel{BPF: machine.BPFPrograms, Firewall: readFirewall, Cards: platform.CardFirmware}.Clean(ctx, r)
}

// Clean carries out node.validate_clean on a simulated machine; k answers in place of its kernel.
func (k Kernel) Clean(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	return runValidation(ctx, r, k)
}

const (
	defaultSettle = 20 * time.Second
	// bootWait is how long a baseline waits for the first boot to end: longer than one layer of the
	// first boot may take, but shorter than the task may run.
	bootWait = 20 * time.Minute
)

func runValidation(ctx context.Context, r *host.Run, kernel Kernel) (any, taskcatalog.Report, error) {
	p := r.Params.(*taskcatalog.ValidateCleanParams)
	v := &validation{
		Run: r, m: r.Host.Machine, kernel: kernel, takesBaseline: p.TakeBaseline, perRow: map[string]int{},
		files: map[string][]taskcatalog.BaselineFile{}, baseKeys: map[*[]string]map[string]bool{},
	}
	v.below = &platform.Platform{Machine: v.m, Commands: r.Host.Commands, CardFirmware: kernel.Cards}
	v.absent = map[string]string{}
	if !v.takesBaseline {
		v.base, v.expected = p.Baseline, p.ExpectedAgent
	}
	if p.Policy != nil {
		v.policy = *p.Policy
	}
	var err error
	if v.accounts, err = r.Host.Accounts.List(); err != nil {
		return nil, v.report, err
	}
	if v.takesBaseline {
		if len(v.accounts) > 0 {
			return nil, v.report, taskcatalog.Errorf(taskcatalog.CodeAllocationPresent,
				"cannot take a baseline: allocation %s has a user on this node (revoke it first)", v.accounts[0].AllocationID)
		}
		if err := v.booted(ctx); err != nil {
			return nil, v.report, err
		}
		v.now.TakenAt = r.Host.Now().UTC()
	}
	found, failed, err := v.looks(ctx)
	if err != nil {
		return nil, v.report, err
	}
	result := &taskcatalog.ValidateCleanResult{}
	if v.takesBaseline {
		err = v.finishBaseline(found, failed, result)
	} else {
		err = v.judge(found, failed, result)
	}
	for _, c := range v.report.Checks {
		if c.Made {
			result.ChecksMade++
		} else {
			result.ChecksNotMade++
		}
	}
	return result, v.report, err
}

// looks makes every look, and repeats the looks that must settle until they have settled. For each
// look it returns the items that count, and the error if the look could not be made.
func (v *validation) looks(ctx context.Context) (found [][]item, failed []error, err error) {
	all, last := make([]*repeatedCheck, len(validationChecks)), len(validationChecks)+2
	for i, c := range validationChecks {
		v.Step(c.rows[0], i+1, last)
		all[i] = &repeatedCheck{v: v, check: c}
		if all[i].look(ctx); ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
	}
	settle := cmp.Or(v.Host.Settle, defaultSettle)
	settled := time.NewTimer(settle)
	defer settled.Stop()
	for _, s := range all {
		if s.check.later == nil || s.err != nil {
			continue
		}
		v.Step(s.check.rows[0]+"_files", last-1, last)
		items, err := s.check.later(ctx, v)
		s.sure, s.err = append(s.sure, items...), err
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
	}
	for {
		open := slices.DeleteFunc(slices.Clone(all), func(s *repeatedCheck) bool { return s.done })
		if len(open) == 0 {
			break
		}
		v.Step("settle", last, last)
		select {
		case <-settled.C:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		for _, s := range open {
			if s.look(ctx); ctx.Err() != nil {
				return nil, nil, context.Cause(ctx)
			}
		}
		settled.Reset(settle)
	}
	for _, s := range all {
		items, err := s.result()
		found, failed = append(found, items), append(failed, err)
	}
	return found, failed, nil
}

// booted waits until cloud-init and the agent have finished the first boot: a later change of
// theirs would become a finding that nobody could repair. After bootWait no baseline is taken: the
// broker requests one again, and in the end a person does.
func (v *validation) booted(ctx context.Context) error {
	for range int(bootWait / time.Second) {
		enabled, err1 := v.m.Has("/run/cloud-init/enabled")
		finished, err2 := v.m.Has("/run/cloud-init/result.json")
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if (!enabled || finished) && (v.Host.FirstBoot == nil || v.Host.FirstBoot()) {
			return nil
		}
		if err := host.Wait(ctx, time.Second); err != nil {
			return err
		}
	}
	return taskcatalog.Errorf(taskcatalog.CodeHandlerFailed,
		"cannot take a baseline: the first boot has not ended within %s (cloud-init status and systemctl list-units 'hostler-*' on the machine show what it waits for)", bootWait)
}

// account finds the allocation whose user has the uid.
func (v *validation) account(uid uint32) (host.Account, bool) {
	i := slices.IndexFunc(v.accounts, func(a host.Account) bool { return a.UID == uid })
	if i < 0 {
		return host.Account{}, false
	}
	return v.accounts[i], true
}

// owner records an item's owner and next action: a revoke for an allocation's user, next for
// anybody else.
func (v *validation) owner(it item, uid uint32, next string) item {
	it.finding.UID, it.finding.NextAction = &uid, next
	it.stranger = !v.knownUID(uid)
	if a, ok := v.account(uid); ok {
		it.tenant, it.finding.NextAction = true, taskcatalog.ActionRevokeUser
		it.finding.Detail = join(it.finding.Detail, "of allocation "+a.AllocationID)
	}
	return it
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

func uidText(uid uint32) string { return fmt.Sprintf("uid %d", uid) }
