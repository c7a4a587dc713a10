package scrub

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/gpu"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// Persistence mode switched on by hand (nvidia-smi -pm 1) makes the driver itself hold the GPU: no
// process holds it, and every reset is refused as in use by another client. The mode is therefore
// off during the reset.

// Persistent is the durable record of GPUs whose persistence mode is off for a reset.
type Persistent interface {
	PutPersistent(uuid string) error
	PersistentGPUs() ([]string, error)
	DeletePersistent(uuid string) error
}

// persistenceOff switches the mode off on the GPUs to be reset. All GPUs that get the mode back
// later are in the ledger before the first loses it.
func (s *Scrub) persistenceOff(ctx context.Context, going []*unit) error {
	had := slices.DeleteFunc(slices.Clone(going), func(u *unit) bool {
		r, err := s.resolved(profiles.StepReset, u.device.Vendor, u.facts.Architecture)
		return !isTrue(u.before.Settings.Persistence) || err != nil || r.Nothing()
	})
	if len(had) == 0 {
		return nil
	}
	// Stopping a daemon may have switched the mode off already.
	on := gpus(had)
	for d, state := range s.states(ctx, had) {
		if state == nil || !isTrue(state.Settings.Persistence) {
			delete(on, d)
		}
	}
	for d, units := range on {
		if want := units[0].want; want == nil || want.Settings.Persistence == nil || *want.Settings.Persistence {
			if err := s.Stopped.PutPersistent(d.UUID); err != nil {
				return err
			}
		}
	}
	for d, err := range queryEach(on, func(d gpu.Device) error { return persist(ctx, s.Helper, d.UUID, false) }) {
		for _, u := range on[d] {
			if err != nil {
				u.persists = fmt.Sprintf(" (a possible reason: its persistence mode is on and cannot be turned off: %v)", err)
			}
		}
	}
	return context.Cause(ctx)
}

// persist switches a GPU's mode on or off, and checks that the change took.
func persist(ctx context.Context, helper *gpu.Helper, uuid string, on bool) error {
	if helper == nil {
		return errors.New("this agent was started without its GPU helper")
	}
	left, err := helper.Apply(ctx, gpu.Device{Vendor: "nvidia", UUID: uuid}, taskcatalog.GPUSettings{Persistence: &on})
	if err != nil {
		return err
	}
	for _, d := range left {
		return fmt.Errorf("%s stays %s: %s", d.Setting, d.Have, d.Message)
	}
	return nil
}

// persistAgain switches the mode on again for the GPUs in the ledger. A GPU that no longer exists
// is dropped from the ledger.
func persistAgain(ctx context.Context, persistent Persistent, helper *gpu.Helper) []taskcatalog.GPUInterrupted {
	uuids, err := persistent.PersistentGPUs()
	if err != nil {
		return []taskcatalog.GPUInterrupted{{Message: taskcatalog.Clean("cannot read which GPUs had their persistence mode turned off: "+
			err.Error(), taskcatalog.MaxText)}}
	}
	devices := make([]gpu.Device, len(uuids))
	for i, uuid := range uuids {
		devices[i].UUID = uuid
	}
	var all []taskcatalog.GPUInterrupted
	for i, err := range gpu.InParallel(devices, func(d gpu.Device) error { return persist(ctx, helper, d.UUID, true) }) {
		if err == nil || taskcatalog.CodeOf(err, "") == gpu.CodeDeviceMissing {
			err = persistent.DeletePersistent(uuids[i])
		}
		it := taskcatalog.GPUInterrupted{Unit: taskcatalog.Clean("persistence mode of "+uuids[i], 100), PutBack: err == nil}
		if err != nil {
			it.Message = taskcatalog.Clean(err.Error(), taskcatalog.MaxText)
		}
		all = append(all, it)
	}
	return all
}

// restorePersistence switches the mode on again at once: an unused GPU without the mode leaves its
// fabric. A failure is retried by putBack.
func (s *Scrub) restorePersistence(ctx context.Context) {
	for _, it := range persistAgain(ctx, s.Stopped, s.Helper) {
		if !it.PutBack {
			s.Log.Warn("persistence mode cannot be turned on again after a reset", zap.String("what", it.Unit),
				zap.String("why", it.Message))
		}
	}
}
