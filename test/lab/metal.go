package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hostler/hostler/test/qemu"
)

// Metal is hardware played by a QEMU guest: the system that a simulated region installs boots and
// takes its data from the region. Each system gets a new root disk; the drives stay. A Metal is a
// maassim.Guest. Orders run one after the other, in the background.
type Metal struct {
	image  *qemu.Image
	config qemu.Config
	drives []*Drive
	region func() string // the region's address for guests

	ctx    context.Context
	end    context.CancelFunc
	orders chan func(context.Context) error
	ended  chan struct{}

	mu     sync.Mutex
	guest  *qemu.Guest
	keep   bool        // keep the root disk of the current system
	kept   *qemu.Guest // the system on a root disk that was kept, unplugged
	failed error
}

// newMetal makes hardware with the given configuration and drives, switched off and without a
// system. Region returns the region's address for guests; it is called when the first system is
// installed. The caller must Close the Metal.
func newMetal(image *qemu.Image, config qemu.Config, region func() string, drives ...*Drive) (*Metal, error) {
	operator, err := qemu.NewOperator() // the same for every system, like MAAS's keys
	if err != nil {
		return nil, err
	}
	config.Operator = operator
	for _, d := range drives {
		config.Args = append(config.Args, d.args()...)
	}
	m := &Metal{
		image: image, config: config, drives: drives, region: region, orders: make(chan func(context.Context) error, 64),
		ended: make(chan struct{}),
	}
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

// Erase implements maassim.Guest. The root disk is not erased: the next system gets a new root
// disk.
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

// Guest returns the machine with its latest system, nil before the first installation. The error is
// the order of the region that failed.
func (m *Metal) Guest() (*qemu.Guest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return m.guest, fmt.Errorf("cannot play bare metal: %w", m.failed)
	}
	return m.guest, nil
}

// KeepDisk takes the root disk out before the region erases it: the current system is not lost at
// the next installation.
func (m *Metal) KeepDisk() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keep = true
}

// BootKept boots the kept system from its disk, in another chassis beside this machine. The kept
// system runs until the Metal is closed.
func (m *Metal) BootKept(ctx context.Context) (*qemu.Guest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		return nil, errors.New("cannot boot the system of before: its disk was not kept")
	}
	return m.kept, m.kept.Replug(ctx)
}

// pull ends the guest and removes its disks, except a disk that is to be kept.
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

// Close ends the guest and the kept guest.
func (m *Metal) Close() {
	m.end()
	<-m.ended
	m.keep = false
	_ = m.pull(context.Background())
	if m.kept != nil {
		_ = m.kept.Close()
	}
}
