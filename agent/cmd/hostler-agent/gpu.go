package main

import (
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

// gpuVendors are asked for GPUs, each in a child of its own.
var gpuVendors = []string{"nvidia", "amd"}

// codeGPUNotFound: the machine has no such GPU, or none at all.
const codeGPUNotFound taskcatalog.Code = "gpu_not_found"

// gpuHelperEnv is added to the fixed environment of the helper: tests name fakes.
var gpuHelperEnv []string

func newGPUHelper() *gpu.Helper {
	h := gpu.NewHelper("hostler-agent", "gpu", "helper")
	h.Env = gpuHelperEnv
	return h
}

func newGPU() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "gpu",
		Short:   "Look at the memory of GPUs as the next tenant would, or scrub it, by hand",
		Example: "  hostler-agent gpu probe\n  hostler-agent gpu scrub --no-reset --no-quiesce --device 0",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGPUProbe(), newGPUScrub(), newGPUChild())
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

// gpuUnit is what is looked at as one: a GPU, or an instance of one.
type gpuUnit struct {
	Index int `json:"index"` // of its GPU
	gpu.Device
	Parent     string           `json:"parent,omitempty"` // the GPU's uuid, of an instance
	Name       string           `json:"name,omitempty"`
	Serial     string           `json:"serial,omitempty"`
	PCIAddress string           `json:"pci_address"`
	Holders    []gpu.Holder     `json:"holders,omitempty"` // by the library's word
	Openers    []gpu.Opener     `json:"openers,omitempty"` // by the machine's
	Code       taskcatalog.Code `json:"code,omitempty"`
	Message    string           `json:"message,omitempty"`
}

func (u gpuUnit) held() bool { return len(u.Holders) > 0 || len(u.Openers) > 0 }

func (u *gpuUnit) fail(err error) {
	u.Code, u.Message = taskcatalog.CodeOf(err, gpu.CodeDriverFailed), taskcatalog.Clean(err.Error(), taskcatalog.MaxText)
}

// holderText is for people.
func (u gpuUnit) holderText() string {
	var all []string
	for _, h := range u.Holders {
		all = append(all, fmt.Sprintf("%d (%s)", h.PID, h.Kind))
	}
	for _, o := range u.Openers {
		if !slices.ContainsFunc(u.Holders, func(h gpu.Holder) bool { return int(h.PID) == o.PID }) {
			all = append(all, fmt.Sprintf("%d (%s, has %s open)", o.PID, o.Name, strings.Join(o.Nodes, " ")))
		}
	}
	return strings.Join(all, ", ")
}

// gpuUnits lists what wanted names, an index or a uuid, or with an empty one all
// there is.
func gpuUnits(ctx context.Context, h *gpu.Helper, wanted string) ([]gpuUnit, []taskcatalog.LibraryFacts, error) {
	s := h.Survey(ctx, gpuVendors...)
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	var units []gpuUnit
	for i, g := range s.GPUs {
		whole := gpuUnit{Index: i, Device: gpu.Device{Vendor: g.Vendor, UUID: g.UUID}, Name: g.Name, Serial: g.Serial, PCIAddress: g.PCIAddress}
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
		return units, s.Libraries, nil
	}
	if wanted != "" && len(s.GPUs) > 0 {
		return nil, nil, taskcatalog.Errorf(codeGPUNotFound, "no GPU is %q: there are 0 to %d (see hostler-agent facts)", taskcatalog.Clean(wanted, 80), len(s.GPUs)-1)
	}
	return nil, nil, taskcatalog.Errorf(codeGPUNotFound, "no library knows a GPU on this machine: %s", libraryText(s.Libraries))
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

// findHolders fills in who holds each unit. A unit whose holders cannot be known
// gets an error of its own.
func findHolders(ctx context.Context, h *gpu.Helper, units []gpuUnit) error {
	m, err := machine.Open("/")
	if err != nil {
		return err
	}
	defer func() { _ = m.Close() }()
	openers, err := gpu.Openers(m)
	if err != nil {
		return err
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
			if err != nil {
				u.fail(err)
				return
			}
			for _, holder := range holders {
				if u.Parent == "" || holder.Instance == "" || holder.Instance == u.UUID {
					u.Holders = append(u.Holders, holder)
				}
			}
			state, err := h.State(ctx, whole)
			if err != nil {
				u.fail(err)
				return
			}
			for _, o := range openers {
				if slices.ContainsFunc(o.Nodes, func(n string) bool { return slices.Contains(state.Nodes, n) }) && !keepsLoaded(m, o.PID) {
					u.Openers = append(u.Openers, o)
				}
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}

// keepsLoaded knows NVIDIA's persistence daemon, which has every GPU open so that
// the driver stays loaded, and uses none.
func keepsLoaded(m *machine.Machine, pid int) bool {
	exe, err := m.Exe(pid)
	return err == nil && exe == "/usr/bin/nvidia-persistenced"
}

func rateText(perSecond *uint64) string {
	if perSecond == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f GB/s", float64(*perSecond)/1e9)
}
