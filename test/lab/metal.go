package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hostler/hostler/test/qemu"
)

// Metal is a piece of hardware that is a QEMU guest: what a simulated region
// installs on it boots, and takes its data from the region. Its root disk is another
// one for each system; its drives stay. It is a maassim.Guest.
// Orders are carried out one after the other, behind the caller's back.
type Metal struct {
	image  *qemu.Image
	config qemu.Config
	drives []*Drive
	region func() string // its address as guests see it

	ctx    context.Context
	end    context.CancelFunc
	orders chan func(context.Context) error
	ended  chan struct{}

	mu     sync.Mutex
	guest  *qemu.Guest
	keep   bool        // the root disk of what is on it
	kept   *qemu.Guest // the system on a root disk that was kept, unplugged
	failed error
}

// newMetal makes hardware of a guest with that configuration and those drives, switched
// off and with nothing installed. Region gives the address at which guests find the
// region; it is asked when the first system is installed. The caller must Close it.
func newMetal(image *qemu.Image, config qemu.Config, region func() string, drives ...*Drive) (*Metal, error) {
	operator, err := qemu.NewOperator() // the same whatever is installed, as MAAS's keys are
	if err != nil {
		return nil, err
	}
	config.Operator = operator
	for _, d := range drives {
		config.Args = append(config.Args, d.args()...)
	}
	m := &Metal{image: image, config: config, drives: drives, region: region, orders: make(chan func(context.Context) error, 64), ended: make(chan struct{})}
	m.ctx, m.end = context.WithCancel(context.Background())
	go func() {
		defer close(m.ended)
		for {
			select {
			case <-m.ctx.Done():
				return
			case do := <-m.orders:
				if err := do(m.ctx); err != nil {
					m.mu.Lock()
					m.failed = errors.Join(m.failed, err)
					m.mu.Unlock()
				}
			}
		}
	}()
	return m, nil
}

// Install implements maassim.Guest.
func (m *Metal) Install(seed string) {
	m.orders <- func(ctx context.Context) error {
		if err := m.pull(ctx); err != nil {
			return err
		}
		config := m.config
		config.ReachHost, config.SeedURL = true, m.region()+seed
		g, err := qemu.Boot(ctx, m.image, config)
		if err != nil {
			return err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.guest = g
		return nil
	}
}

// Erase implements maassim.Guest. The root disk needs none: the next system gets
// another one.
func (m *Metal) Erase(how string) {
	m.orders <- func(ctx context.Context) error {
		if err := m.pull(ctx); err != nil {
			return err
		}
		for _, d := range m.drives {
			if err := d.erase(how); err != nil {
				return err
			}
		}
		return nil
	}
}

// Switch implements maassim.Guest.
func (m *Metal) Switch(on bool) {
	m.orders <- func(ctx context.Context) error {
		g, _ := m.Guest()
		switch {
		case g == nil:
			return nil
		case on:
			return g.SwitchOn(ctx)
		}
		return g.SwitchOff(ctx)
	}
}

// Guest is the machine as it was installed last, nil before there is one; the error
// is what could not be done of what the region had asked for.
func (m *Metal) Guest() (*qemu.Guest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return m.guest, fmt.Errorf("cannot play bare metal: %w", m.failed)
	}
	return m.guest, nil
}

// KeepDisk has somebody take the root disk out before the region gets to it: the
// system that is on the machine now is not lost with the next one.
func (m *Metal) KeepDisk() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keep = true
}

// BootKept boots the system that was kept from its disk, in another chassis beside this
// one. It runs until the Metal is closed.
func (m *Metal) BootKept(ctx context.Context) (*qemu.Guest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		return nil, errors.New("cannot boot the system of before: its disk was not kept")
	}
	return m.kept, m.kept.Replug(ctx)
}

// pull ends the guest, and its disks with it, but for one that is to be kept.
func (m *Metal) pull(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.guest
	m.guest = nil
	switch {
	case g == nil:
		return nil
	case m.keep:
		m.keep, m.kept = false, g
		return g.Unplug(ctx)
	}
	return g.Close()
}

// Close ends the guest, and the one that was kept.
func (m *Metal) Close() {
	m.end()
	<-m.ended
	m.keep = false
	_ = m.pull(context.Background())
	if m.kept != nil {
		_ = m.kept.Close()
	}
}
