package gpu

import (
	"context"
	"sync"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Helper asks GPUs by way of child processes. Its methods may be called side by
// side, for other devices or the same.
type Helper struct {
	// Argv of a child: its name and the words of its hidden command.
	Argv []string
	// Path is what a child runs: this very executable, replaced on disk or not.
	Path string
	// Env is added to the fixed environment of a child.
	Env []string
	// Deadline is the longest a child may take, Silence the longest it may say
	// nothing, Grace how long after SIGKILL it may still be there.
	Deadline, Silence, Grace time.Duration

	kill func(group int) // a test's SIGKILL that does not arrive
}

// NewHelper starts a child with argv for each question. The limits are for real GPUs: a driver
// that was not kept loaded takes a minute to bring eight of them up.
func NewHelper(argv ...string) *Helper {
	return &Helper{Argv: argv, Path: "/proc/self/exe", Deadline: 30 * time.Minute, Silence: 3 * time.Minute, Grace: 20 * time.Second}
}

// Device names a GPU, or an instance of one, to its vendor's library.
type Device struct {
	Vendor string `json:"vendor"`
	UUID   string `json:"uuid"`
}

// Survey asks the libraries of each vendor what there is. A helper that fails is
// a problem of that vendor's library, and what the others say stands.
func (h *Helper) Survey(ctx context.Context, vendors ...string) Survey {
	each := make([]Survey, len(vendors))
	var wg sync.WaitGroup
	for i, vendor := range vendors {
		wg.Go(func() {
			each[i].of = vendor
			if err := h.ask(ctx, request{Ask: askSurvey, Vendor: vendor}, nil, &each[i]); err != nil {
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
	err := h.ask(ctx, request{Ask: askHolders, Vendor: d.Vendor, UUID: d.UUID}, nil, &l)
	return l, err
}

// State is what a device is set to, and how it is.
func (h *Helper) State(ctx context.Context, d Device) (State, error) {
	var s State
	err := h.ask(ctx, request{Ask: askState, Vendor: d.Vendor, UUID: d.UUID}, nil, &s)
	return s, err
}

// Apply sets what want names and says what did not take.
func (h *Helper) Apply(ctx context.Context, d Device, want Settings) ([]Deviation, error) {
	var l deviationList
	err := h.ask(ctx, request{Ask: askApply, Vendor: d.Vendor, UUID: d.UUID, Want: &want}, nil, &l)
	return l, err
}

// Reset resets GPUs of one vendor together, where its library can.
func (h *Helper) Reset(ctx context.Context, vendor string, uuids []string) error {
	return h.ask(ctx, request{Ask: askReset, Vendor: vendor, UUIDs: uuids}, nil, &nothing{})
}

// CleanLocal clears registers and local data shares, where the library can.
func (h *Helper) CleanLocal(ctx context.Context, d Device) error {
	return h.ask(ctx, request{Ask: askCleanLocal, Vendor: d.Vendor, UUID: d.UUID}, nil, &nothing{})
}

// Scrub overwrites, verifies and clears the memory of a device. progress is called
// from one goroutine, and not after Scrub returned.
func (h *Helper) Scrub(ctx context.Context, d Device, o ScrubOptions, progress func(Progress)) (ScrubResult, error) {
	var r ScrubResult
	err := h.ask(ctx, request{Ask: askScrub, Vendor: d.Vendor, UUID: d.UUID, Scrub: &o}, progress, &r)
	return r, err
}

// Probe looks at the memory of a device as the next tenant would: in a process of
// its own that writes nothing.
func (h *Helper) Probe(ctx context.Context, d Device, o ProbeOptions, progress func(Progress)) (ProbeResult, error) {
	var r ProbeResult
	err := h.ask(ctx, request{Ask: askProbe, Vendor: d.Vendor, UUID: d.UUID, Probe: &o}, progress, &r)
	return r, err
}

// SideBySide does something with every device at once, in the order of devices in
// its results.
func SideBySide[T any](devices []Device, do func(Device) T) []T {
	results := make([]T, len(devices))
	var wg sync.WaitGroup
	for i, d := range devices {
		wg.Go(func() { results[i] = do(d) })
	}
	wg.Wait()
	return results
}
