package tasks

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

// A validation looks at the machine and either writes down what is there, as
// the baseline, or compares it with the baseline that the task brought.
//
// Both are the same look: each check turns one part of the machine into items
// with stable names. Taking a baseline keeps the names; judging reports the
// items that the baseline does not have, as settling has it: what is of a known
// owner must stay, and what is of an unknown one counts from any look.
type validation struct {
	*host.Run
	m        *machine.Machine
	kernel   kernelView
	base     *taskcatalog.Baseline // nil: there is none, or it is being taken
	taking   bool
	policy   taskcatalog.CleanPolicy
	expected []taskcatalog.AgentPackage
	accounts []host.Account
	now      taskcatalog.Baseline
	report   taskcatalog.Report
	perRow   map[string]int

	// What one check learns and later ones need.
	owned    map[uint64]struct{}                   // paths of packages; nil where they are not known
	recorded string                                // digest of all packages' records
	conf     map[string]string                     // conffiles in /etc with their packages' sums
	users    map[uint32]string                     // known uids
	homes    map[string]uint32                     // of known users that log in
	files    map[string][]taskcatalog.BaselineFile // by look: what goes into Files and Units
	baseKeys map[*[]string]map[string]bool
	below    *platform.Platform
	absent   map[string]string // rows that do not apply, and why
}

// kernelView is what no directory can stand for.
type kernelView struct {
	bpf      func() ([]machine.BPFProgram, error)
	firewall func(context.Context, *host.Host) ([]string, error)
	// cards is what the driver of a network card says of its firmware.
	cards func(name string) (string, error)
}

// item is one thing that is there, or that is missing.
type item struct {
	row     string
	key     string // stable name: what the baseline keeps
	id      string // of this one thing, and nobody's choice: device and inode, pid and start; empty: its key says as much
	finding taskcatalog.Finding
	// tenant marks what is residue whatever a baseline says: it is an
	// allocation's. differs marks what the look itself compared.
	tenant, differs bool
	// stranger marks what is of an owner that the baseline does not have.
	stranger bool
	// despite marks what was found though its look could not be made whole.
	despite bool
}

// check is one line of the table of looks. Several rows of the table of checks
// may come from one look.
type check struct {
	rows []string
	look func(context.Context, *validation) ([]item, error)
	// settles: what is of a known owner and was not there before must stay for
	// Host.Settle to count.
	settles bool
	// later is what takes long and no other look asks for: it is done while
	// things settle.
	later func(context.Context, *validation) ([]item, error)
}

// validationChecks are the looks in their order: users and packages first,
// since the others ask whom and what they know.
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

func validateClean(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	return runValidation(ctx, r, kernelView{bpf: machine.BPFPrograms, firewall: readFirewall, cards: platform.CardFirmware})
}

const (
	defaultSettle = 20 * time.Second
	// bootWait is how long a baseline waits for the first boot to end: for longer than
	// one of its layers may take, and not for all of the task's time.
	bootWait = 20 * time.Minute
)

func runValidation(ctx context.Context, r *host.Run, kernel kernelView) (any, taskcatalog.Report, error) {
	p := r.Params.(*taskcatalog.ValidateCleanParams)
	v := &validation{Run: r, m: r.Host.Machine, kernel: kernel, taking: p.TakeBaseline, perRow: map[string]int{}, files: map[string][]taskcatalog.BaselineFile{}, baseKeys: map[*[]string]map[string]bool{}}
	v.below = &platform.Platform{Machine: v.m, Commands: r.Host.Commands, CardFirmware: kernel.cards}
	v.absent = map[string]string{}
	if !v.taking {
		v.base, v.expected = p.Baseline, p.ExpectedAgent
	}
	if p.Policy != nil {
		v.policy = *p.Policy
	}
	var err error
	if v.accounts, err = r.Host.Accounts.List(); err != nil {
		return nil, v.report, err
	}
	if v.taking {
		if len(v.accounts) > 0 {
			return nil, v.report, taskcatalog.Errorf(taskcatalog.CodeAllocationPresent, "cannot take a baseline: allocation %s has a user on this node (revoke it first)", v.accounts[0].AllocationID)
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
	if v.taking {
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

// looks makes every look, and those that must settle until they have. It returns each
// look's items that count, and why a look could not be made.
func (v *validation) looks(ctx context.Context) (found [][]item, failed []error, err error) {
	all, last := make([]*settling, len(validationChecks)), len(validationChecks)+2
	for i, c := range validationChecks {
		v.Step(c.rows[0], i+1, last)
		all[i] = &settling{v: v, check: c}
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
		open := slices.DeleteFunc(slices.Clone(all), func(s *settling) bool { return s.done })
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

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// booted waits until cloud-init and the agent have done all of a first boot: what
// they still change would be a finding later, which nobody could mend. After bootWait
// there is no baseline: the broker asks again, and in the end a person.
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
		if err := wait(ctx, time.Second); err != nil {
			return err
		}
	}
	return taskcatalog.Errorf(taskcatalog.CodeHandlerFailed, "cannot take a baseline: the first boot has not ended within %s (cloud-init status and systemctl list-units 'hostler-*' on the machine say what it waits for)", bootWait)
}

// account finds the allocation whose user has uid.
func (v *validation) account(uid uint32) (host.Account, bool) {
	i := slices.IndexFunc(v.accounts, func(a host.Account) bool { return a.UID == uid })
	if i < 0 {
		return host.Account{}, false
	}
	return v.accounts[i], true
}

// owner says of whom an item is: an allocation's user, whom a revoke removes,
// or anybody else, whom only next mends.
func (v *validation) owner(it item, uid uint32, next string) item {
	it.finding.UID, it.finding.NextAction = &uid, next
	it.stranger = !v.knows(uid)
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
