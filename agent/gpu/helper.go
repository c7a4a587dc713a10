package gpu

import (
	"context"
	"sync"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Vendors are the vendors whose libraries the child process can ask for GPUs.
var Vendors = []string{"nvidia", "amd"}

// Helper queries GPUs through child processes. Its methods may be called concurrently, for
// different devices or the same device.
type Helper struct {
	// Argv of a child: its name and the words of its hidden command.
	Argv []string
	// Path is the child's program: this executable, even if it was replaced on disk.
	Path string
	// Env is added to the fixed environment of a child.
	Env []string
	// Deadline limits a child's run, Silence the time between its replies, and Grace the time from
	// SIGKILL to its end.
	Deadline, Silence, Grace time.Duration

	kill func(group int) // a test's SIGKILL that does not arrive
}

// NewHelper returns a Helper that starts a child with argv for each request. The limits are for
// real GPUs: a driver that was not kept loaded takes a minute to bring eight of them up.
func NewHelper(argv ...string) *Helper {
	return &Helper{Argv: argv, Path: "/proc/self/exe", Deadline: 30 * time.Minute, Silence: 3 * time.Minute, Grace: 20 * time.Second}
}

// Device names a GPU, or an instance of a GPU, to its vendor's library.
type Device struct {
	Vendor string `json:"vendor"`
	UUID   string `json:"uuid"`
}

// Survey surveys the GPUs of each vendor. A failed helper becomes a problem of its vendor's
// library, and the results of the others stand.
func (h *Helper) Survey(ctx context.Context, vendors ...string) Survey {
	each := make([]Survey, len(vendors))
	var wg sync.WaitGroup
	for i, vendor := range vendors {
		wg.Go(func() {
			each[i].vendor = vendor
			if err := h.request(ctx, request{Op: opSurvey, Vendor: vendor}, nil, &each[i]); err != nil {
				each[i] = Survey{Libraries: []taskcatalog.LibraryFacts{{
					Name: vendor, Problem: taskcatalog.CodeOf(err, taskcatalog.CodeCanceled), Detail: err.Error(),
				}}}
			}
		})
	}
	wg.Wait()
	var all Survey
	for _, s := range each {
		all.GPUs, all.Libraries = append(all.GPUs, s.GPUs...), append(all.Libraries, s.Libraries...)
	}
	return all
}

// Holders is the library's own list of processes on a device.
func (h *Helper) Holders(ctx context.Context, d Device) ([]Holder, error) {
	var l holderList
	err := h.request(ctx, request{Op: opHolders, Vendor: d.Vendor, UUID: d.UUID}, nil, &l)
	return l, err
}

// State returns a device's settings and health.
func (h *Helper) State(ctx context.Context, d Device) (State, error) {
	var s State
	err := h.request(ctx, request{Op: opState, Vendor: d.Vendor, UUID: d.UUID}, nil, &s)
	return s, err
}

// Look reads the health of all GPUs of a vendor. It changes nothing, and its child ends with the answer.
func (h *Helper) Look(ctx context.Context, vendor string) (Looks, error) {
	var l Looks
	err := h.request(ctx, request{Op: opLook, Vendor: vendor}, nil, &l)
	return l, err
}

// Apply sets the settings in want and returns those that did not take.
func (h *Helper) Apply(ctx context.Context, d Device, want Settings) ([]Deviation, error) {
	var l deviationList
	err := h.request(ctx, request{Op: opApply, Vendor: d.Vendor, UUID: d.UUID, Want: &want}, nil, &l)
	return l, err
}

// Reset resets GPUs of a vendor together, if its library can.
func (h *Helper) Reset(ctx context.Context, vendor string, uuids []string) error {
	return h.request(ctx, request{Op: opReset, Vendor: vendor, UUIDs: uuids}, nil, &noResult{})
}

// CleanLocal clears registers and local data shares, if the library can.
func (h *Helper) CleanLocal(ctx context.Context, d Device) error {
	return h.request(ctx, request{Op: opCleanLocal, Vendor: d.Vendor, UUID: d.UUID}, nil, &noResult{})
}

// Scrub overwrites, verifies and clears the memory of a device. progress is called from a single
// goroutine, and never after Scrub has returned.
func (h *Helper) Scrub(ctx context.Context, d Device, o ScrubOptions, progress func(Progress)) (ScrubResult, error) {
	var r ScrubResult
	err := h.request(ctx, request{Op: opScrub, Vendor: d.Vendor, UUID: d.UUID, Scrub: &o}, progress, &r)
	return r, err
}

// Probe looks at the memory of a device as the next tenant would: in a process of its own, without
// writing.
func (h *Helper) Probe(ctx context.Context, d Device, o ProbeOptions, progress func(Progress)) (ProbeResult, error) {
	var r ProbeResult
	err := h.request(ctx, request{Op: opProbe, Vendor: d.Vendor, UUID: d.UUID, Probe: &o}, progress, &r)
	return r, err
}

// InParallel calls do for every device at once. The results are in the order of devices.
func InParallel[T any](devices []Device, do func(Device) T) []T {
	results := make([]T, len(devices))
	var wg sync.WaitGroup
	for i, d := range devices {
		wg.Go(func() { results[i] = do(d) })
	}
	wg.Wait()
	return results
}
