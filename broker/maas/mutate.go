package maas

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/canonical/gomaasclient/client"
	"github.com/canonical/gomaasclient/entity"
)

// These functions change a machine. The caller has looked at the machine right before. Nothing of
// MAAS's answer beyond success is used: the next look shows the result.

// NewMachine describes a machine, with its BMC, for a new record in MAAS.
type NewMachine struct {
	Hostname, Architecture, Address, MAC string
	Power                                Power
}

// Create makes a record without commissioning the machine: no power is switched.
func (r *Region) Create(ctx context.Context, n NewMachine) (systemID string, err error) {
	no := false
	params := &entity.MachineCreateParams{Hostname: n.Hostname, Architecture: n.Architecture, PowerType: ipmi, Commission: &no}
	if n.MAC != "" {
		params.MACAddresses = []string{n.MAC}
	}
	m, err := call(ctx, r, "create machine", changes, func(c *client.Client) (*entity.Machine, error) {
		return c.Machines.Create(params, powerParams(n.Address, n.Power))
	})
	if err != nil {
		return "", err
	}
	if checkID("create machine", m.SystemID) != nil {
		return "", notMAAS("create machine", true)
	}
	return m.SystemID, nil
}

const ipmi = "ipmi"

func powerParams(address string, p Power) map[string]interface{} {
	user, pass := p.Reveal()
	params := map[string]interface{}{"power_parameters_power_user": user, "power_parameters_power_pass": pass}
	if address != "" {
		params["power_parameters_power_address"] = address
	}
	return params
}

// Configure sets a machine's name and the login of its BMC. A machine whose power MAAS can switch
// already (SwitchedBy) keeps its driver and address; any other gets ipmi and address.
func (r *Region) Configure(ctx context.Context, m Machine, hostname, address string, p Power) error {
	params := &entity.MachineUpdateParams{Hostname: hostname}
	if SwitchedBy(m.PowerType) {
		address = ""
		params.PowerType, params.PowerParametersSkipCheck = m.PowerType, true
	} else {
		params.PowerType = ipmi
	}
	return change(ctx, r, "configure machine", m.SystemID, changes, func(c *client.Client) (*entity.Machine, error) {
		return c.Machine.Update(m.SystemID, params, powerParams(address, p))
	})
}

// SwitchedBy reports whether MAAS can switch power with this power type.
func SwitchedBy(powerType string) bool { return powerType != "" && powerType != "manual" }

// change is call for changes of one machine.
func change[T any](ctx context.Context, r *Region, op, id string, k kind, f func(*client.Client) (T, error)) error {
	if err := checkID(op, id); err != nil {
		return err
	}
	_, err := call(ctx, r, op, k, f)
	return err
}

// Commission switches the machine on, or off and on, and inspects it. The BMC's settings are left
// unchanged, and the machine stays on afterwards no longer than MAAS needs it.
func (r *Region) Commission(ctx context.Context, id string) error {
	return change(ctx, r, "commission", id, switches, func(c *client.Client) (*entity.Machine, error) {
		return c.Machine.Commission(id, &entity.MachineCommissionParams{EnableSSH: true, SkipBMCConfig: true})
	})
}

// Test runs the tests of a machine again.
func (r *Region) Test(ctx context.Context, id string) error {
	const op = "test"
	if err := checkID(op, id); err != nil {
		return err
	}
	_, err := r.raw(ctx, op, switches, http.MethodPost, "machines/"+id, "test", nil)
	return err
}

// Allocate is the only call that takes a machine exclusively. owner is the new owner: the user of
// the key.
func (r *Region) Allocate(ctx context.Context, id, agent, comment string) (owner string, err error) {
	err = change(ctx, r, "allocate", id, changes, func(c *client.Client) (*entity.Machine, error) {
		m, err := c.Machines.Allocate(&entity.MachineAllocateParams{SystemID: id, AgentName: agent, Comment: comment})
		if err == nil {
			owner = m.Owner
		}
		return m, err
	})
	return owner, err
}

// Annotate writes a machine's mark. Only the owner may.
func (r *Region) Annotate(ctx context.Context, id string, mark map[string]string) error {
	return change(ctx, r, "annotate", id, changes, func(c *client.Client) (*entity.Machine, error) {
		return c.Machine.SetWorkloadAnnotations(id, mark)
	})
}

// Deployment is what a machine is deployed with.
type Deployment struct {
	Series   string
	UserData []byte
	Sync     bool
	Agent    string
	Comment  string
}

func (r *Region) Deploy(ctx context.Context, id string, d Deployment) error {
	return change(ctx, r, "deploy", id, switches, func(c *client.Client) (*entity.Machine, error) {
		return c.Machine.Deploy(id, &entity.MachineDeployParams{
			UserData: base64.StdEncoding.EncodeToString(d.UserData), DistroSeries: Image(d.Series), EnableHwSync: d.Sync,
			AgentName: d.Agent, Comment: d.Comment,
		})
	})
}

// Release gives a machine back, with its disks as they are.
func (r *Region) Release(ctx context.Context, id, comment string) error {
	return change(ctx, r, "release", id, switches, func(c *client.Client) (*entity.Machine, error) {
		return c.Machine.Release(id, &entity.MachineReleaseParams{Comment: comment})
	})
}

func (r *Region) SetBootDisk(ctx context.Context, id string, disk int) error {
	return change(ctx, r, "set boot disk", id, changes, func(c *client.Client) (struct{}, error) {
		return struct{}{}, c.BlockDevice.SetBootDisk(id, disk)
	})
}

// LinkSubnet gives an interface an address of a subnet: any address, or the given one.
func (r *Region) LinkSubnet(ctx context.Context, id string, iface, subnet int, address string) error {
	params := &entity.NetworkInterfaceLinkParams{Mode: "AUTO", Subnet: subnet, Force: true}
	if address != "" {
		params.Mode, params.IPAddress, params.Force = "STATIC", address, false
	}
	return change(ctx, r, "link interface", id, changes, func(c *client.Client) (*entity.NetworkInterface, error) {
		return c.NetworkInterface.LinkSubnet(id, iface, params)
	})
}

func (r *Region) CreateSubnet(ctx context.Context, cidr string, vlan int) error {
	_, err := call(ctx, r, "create subnet", changes, func(c *client.Client) (*entity.Subnet, error) {
		return c.Subnets.Create(&entity.SubnetParams{CIDR: cidr, VLAN: strconv.Itoa(vlan), Managed: true})
	})
	return err
}

// SetSyncInterval changes the setting of the whole region.
func (r *Region) SetSyncInterval(ctx context.Context, interval string) error {
	_, err := call(ctx, r, "set "+SyncSetting, changes, func(c *client.Client) (struct{}, error) {
		return struct{}{}, c.MAASServer.Post(SyncSetting, interval)
	})
	return err
}

const SyncSetting = "hardware_sync_interval"

// What MAAS is asked to do, or did, to the disks of a released machine. Quick is no overwrite: MAAS
// wipes the first and the last 2 MiB of each disk.
const (
	EraseNone      = "none"
	EraseQuick     = "quick"
	EraseSecure    = "secure"    // the drive's own erase where there is one, else zeros from end to end
	EraseOverwrite = "overwrite" // zeros from end to end: by a region's own setting, never requested
)

// ReleaseErasing gives a machine back, and has its disks erased. All three parameters are sent: up
// to 3.4 the other two count only with the first, and an omitted parameter follows the region's
// settings. MAAS erases nothing of a machine that is Ready or Releasing already, and does not
// report that.
func (r *Region) ReleaseErasing(ctx context.Context, id, erase, comment string) error {
	const op = "release"
	if erase == EraseNone {
		return r.Release(ctx, id, comment)
	}
	if err := checkID(op, id); err != nil {
		return err
	}
	_, err := r.raw(ctx, op, switches, http.MethodPost, "machines/"+id, "release", url.Values{
		"comment": {comment}, "erase": {"true"}, "quick_erase": {strconv.FormatBool(erase == EraseQuick)},
		"secure_erase": {strconv.FormatBool(erase == EraseSecure)},
	})
	return err
}

// PowerOffNow switches the machine off, whatever runs on it.
func (r *Region) PowerOffNow(ctx context.Context, id, comment string) error {
	const op = "power off"
	if err := checkID(op, id); err != nil {
		return err
	}
	_, err := r.raw(ctx, op, switches, http.MethodPost, "machines/"+id, "power_off",
		url.Values{"stop_mode": {"hard"}, "comment": {comment}})
	return err
}

// Forget deletes MAAS's record of a machine and does nothing to the machine itself.
func (r *Region) Forget(ctx context.Context, id string) error {
	return change(ctx, r, "delete machine", id, changes,
		func(c *client.Client) (struct{}, error) { return struct{}{}, c.Machine.Delete(id) })
}

// SetFlatLayout puts one root file system on the boot disk, which must be set before.
func (r *Region) SetFlatLayout(ctx context.Context, id string) error {
	const op = "set storage layout"
	if err := checkID(op, id); err != nil {
		return err
	}
	_, err := r.raw(ctx, op, changes, http.MethodPost, fmt.Sprintf("machines/%s", id), "set_storage_layout",
		url.Values{"storage_layout": {"flat"}})
	return err
}
