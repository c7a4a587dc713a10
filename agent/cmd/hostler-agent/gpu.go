package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/gpu/amd"
	"github.com/hostler/hostler/agent/gpu/nvidia"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// gpuVendors are the surveyed vendors, each in a child process of its own.
var gpuVendors = []string{"nvidia", "amd"}

// codeGPUNotFound: the machine has no such GPU, or none at all.
const codeGPUNotFound taskcatalog.Code = "gpu_not_found"

// codeNotClean: a GPU's memory has data of a former tenant, or may have.
const codeNotClean taskcatalog.Code = "not_clean"

// gpuOpeners finds the processes with open GPUs: tests replace it.
var gpuOpeners = gpu.Openers

// gpuHelperEnv is added to the fixed environment of the helper: tests select fake GPUs with it.
var gpuHelperEnv []string

func newGPUHelper() *gpu.Helper {
	h := gpu.NewHelper("hostler-agent", "gpu", "helper")
	h.Env = gpuHelperEnv
	return h
}

func newGPU() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "gpu",
		Short:   "Judge the health of GPUs, inspect their memory as the next tenant would see it, or scrub it, by hand",
		Example: "  hostler-agent gpu probe\n  hostler-agent gpu scrub --no-reset --no-quiesce --device 0",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGPUHealth(lookByHand), newGPUProbe(), newGPUScrub(), newGPUChild())
	return cmd
}

// newGPUChild is the process that loads vendor libraries: see package gpu.
func newGPUChild() *cobra.Command {
	return &cobra.Command{
		Use: "helper", Hidden: true, Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			var seed [32]byte
			if _, err := rand.Read(seed[:]); err != nil {
				return err
			}
			m, err := machine.Open("/")
			if err != nil {
				return err
			}
			os.Exit(gpu.Child([]gpu.Vendor{nvidia.New(), amd.New(m)}, time.Now, seed))
			return nil
		},
	}
}

// gpuUnit is a GPU, or an instance of a GPU.
type gpuUnit struct {
	Index int `json:"index"` // of its GPU
	gpu.Device
	Parent     string       `json:"parent,omitempty"` // the GPU's uuid, of an instance
	Name       string       `json:"name,omitempty"`
	Serial     string       `json:"serial,omitempty"`
	PCIAddress string       `json:"pci_address"`
	Holders    []gpu.Holder `json:"holders,omitempty"` // according to the library
	// Openers are the processes that, according to the machine, have the GPU open or may have it
	// open.
	Openers []gpu.Opener     `json:"openers,omitempty"`
	Code    taskcatalog.Code `json:"code,omitempty"`
	Message string           `json:"message,omitempty"`
}

func (u gpuUnit) held() bool { return len(u.Holders) > 0 || len(u.Openers) > 0 }

func (u *gpuUnit) fail(err error) {
	u.Code, u.Message = taskcatalog.CodeOf(err, gpu.CodeDriverFailed), taskcatalog.Clean(err.Error(), taskcatalog.MaxText)
}

// heldText describes the holders for people.
func (u gpuUnit) heldText() string {
	var sure, unsure []string
	for _, h := range u.Holders {
		sure = append(sure, fmt.Sprintf("%d (%s)", h.PID, h.Kind))
	}
	for _, o := range u.Openers {
		switch {
		case slices.ContainsFunc(u.Holders, func(h gpu.Holder) bool { return int(h.PID) == o.PID }):
		case len(o.Nodes) > 0:
			sure = append(sure, fmt.Sprintf("%d (%s, has %s open)", o.PID, taskcatalog.Clean(o.Name, 64), strings.Join(o.Nodes, " ")))
		default:
			unsure = append(unsure, fmt.Sprintf("%d (%s: %s)", o.PID, taskcatalog.Clean(o.Name, 64), o.Unseen))
		}
	}
	var texts []string
	if len(sure) > 0 {
		texts = append(texts, "held by "+summarise(sure))
	}
	if len(unsure) > 0 {
		texts = append(texts, "cannot tell whether the GPU is held by "+summarise(unsure))
	}
	return strings.Join(texts, "; ")
}

// rootHint is what to add for a caller who cannot inspect the processes of others.
func rootHint() string {
	if os.Geteuid() != 0 {
		return "; only root can inspect the processes of others"
	}
	return ""
}

// summarise returns the first few entries and a count: without root hardly any process can be
// inspected.
func summarise(all []string) string {
	const most = 4
	if n := len(all) - most; n > 0 {
		all = append(slices.Clone(all[:most]), fmt.Sprintf("%d more", n))
	}
	return strings.Join(all, ", ")
}

// gpuUnits lists the units that match wanted, an index or a uuid; all units if wanted is empty. The
// survey covers all GPUs.
func gpuUnits(ctx context.Context, h *gpu.Helper, wanted string) ([]gpuUnit, gpu.Survey, error) {
	s := h.Survey(ctx, gpuVendors...)
	if err := ctx.Err(); err != nil {
		return nil, s, err
	}
	var units []gpuUnit
	for i, g := range s.GPUs {
		whole := gpuUnit{
			Index: i, Device: gpu.Device{Vendor: g.Vendor, UUID: g.UUID}, Name: g.Name, Serial: g.Serial,
			PCIAddress: g.PCIAddress,
		}
		all := []gpuUnit{whole}
		if len(g.Instances) > 0 {
			all = nil
		}
		for _, in := range g.Instances {
			one := whole
			one.UUID, one.Parent = in.UUID, g.UUID
			all = append(all, one)
		}
		for _, u := range all {
			if wanted == "" || wanted == strconv.Itoa(i) || wanted == u.UUID || wanted == u.Parent && u.Parent != "" {
				units = append(units, u)
			}
		}
	}
	if len(units) > 0 {
		return units, s, nil
	}
	if wanted != "" && len(s.GPUs) > 0 {
		return nil, s, taskcatalog.Errorf(codeGPUNotFound,
			"no GPU has the index or uuid %q: this machine has GPUs 0 to %d (see hostler-agent facts)", taskcatalog.Clean(wanted, 80),
			len(s.GPUs)-1)
	}
	return nil, s, taskcatalog.Errorf(codeGPUNotFound, "no vendor library lists a GPU on this machine: %s", libraryText(s.Libraries))
}

func libraryText(all []taskcatalog.LibraryFacts) string {
	var texts []string
	for _, l := range all {
		if l.Problem != "" {
			texts = append(texts, l.Name+" "+string(l.Problem))
		}
	}
	return strings.Join(texts, ", ")
}

// findHolders fills in the processes that hold each unit, or may hold it. A unit whose holders
// cannot be determined gets an error of its own. all are the machine's GPUs: a process with another
// GPU's device file open does not hold this GPU.
func findHolders(ctx context.Context, h *gpu.Helper, units []gpuUnit, all []taskcatalog.GPUFacts) error {
	m, err := machine.Open("/")
	if err != nil {
		return err
	}
	defer func() { _ = m.Close() }()
	openers, err := gpuOpeners(m)
	if err != nil {
		return err
	}
	openers = slices.DeleteFunc(openers, func(o gpu.Opener) bool { return isKeeper(m, o) })
	devices := make([]gpu.Device, len(all))
	for i, g := range all {
		devices[i] = gpu.Device{Vendor: g.Vendor, UUID: g.UUID}
	}
	type read struct {
		nodes []string
		err   error
	}
	nodes, errs := map[gpu.Device][]string{}, map[gpu.Device]error{}
	for i, r := range gpu.InParallel(devices, func(d gpu.Device) read {
		state, err := h.State(ctx, d)
		return read{state.Nodes, err}
	}) {
		nodes[devices[i]], errs[devices[i]] = r.nodes, r.err
	}
	var wg sync.WaitGroup
	for i := range units {
		u := &units[i]
		wg.Go(func() {
			whole := u.Device
			if u.Parent != "" {
				whole.UUID = u.Parent
			}
			holders, err := h.Holders(ctx, whole)
			if err := cmp.Or(err, errs[whole]); err != nil {
				u.fail(err)
				return
			}
			for _, holder := range holders {
				if u.Parent == "" || holder.Instance == "" || holder.Instance == u.UUID {
					u.Holders = append(u.Holders, holder)
				}
			}
			u.Openers = slices.DeleteFunc(slices.Clone(openers), func(o gpu.Opener) bool { return !mayHold(o, whole, nodes) })
		})
	}
	wg.Wait()
	return ctx.Err()
}

// mayHold reports whether a process may hold a GPU: it has this GPU's file open, or a shared file
// and no other GPU's file, or it cannot be inspected fully.
func mayHold(o gpu.Opener, d gpu.Device, nodes map[gpu.Device][]string) bool {
	elsewhere := false
	for other, its := range nodes {
		if slices.ContainsFunc(o.Nodes, func(n string) bool { return slices.Contains(its, n) }) {
			if other == d {
				return true
			}
			elsewhere = true
		}
	}
	return !elsewhere && (o.Unseen != "" || o.Anywhere(d.Vendor))
}

// keepers have GPUs open without using them: NVIDIA's persistence daemon, which keeps the driver
// loaded, the fabric manager, and IMEX, which shares GPU memory between the nodes of an NVLink
// domain. user is the user to which the program drops its privileges.
var keepers = []struct{ program, user string }{
	{"/usr/bin/nvidia-persistenced", "nvidia-persistenced"}, {"/usr/bin/nv-fabricmanager", ""}, {"/usr/bin/nvidia-imex", ""},
}

// isKeeper checks the program's file, because a process may show any path of its own mount
// namespace, and the user, because anyone may run these programs.
func isKeeper(m *machine.Machine, o gpu.Opener) bool {
	exe, err := m.Exe(o.PID)
	if err != nil || o.Unseen != "" {
		return false
	}
	p, err := m.Process(o.PID)
	if err != nil {
		return false
	}
	for _, k := range keepers {
		if exe != k.program {
			continue
		}
		uid := uint32(0)
		if k.user != "" && !p.Has(0) {
			u, there, err := m.UserNamed(k.user)
			if err != nil || !there {
				return false
			}
			uid = u.UID
		}
		its, err := m.Runs(o.PID, k.program)
		return err == nil && its && !slices.ContainsFunc(p.UIDs, func(u uint32) bool { return u != uid })
	}
	return false
}

func rateText(perSecond *uint64) string {
	if perSecond == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f GB/s", float64(*perSecond)/1e9)
}
