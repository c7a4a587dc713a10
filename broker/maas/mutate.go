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

// These change a machine. Whoever calls one has looked at the machine right
// before. What MAAS answers beyond yes is not used: the next look tells.

// newMachine is a machine that MAAS is told of by its BMC.
type newMachine struct {
	hostname, architecture, address, mac string
	power                                Power
}

// create makes a record without commissioning the machine: nothing is switched.
func (r *Region) create(ctx context.Context, n newMachine) (systemID string, err error) {
	no := false
	params := &entity.MachineCreateParams{Hostname: n.hostname, Architecture: n.architecture, PowerType: ipmi, Commission: &no}
	if n.mac != "" {
		params.MACAddresses = []string{n.mac}
	}
	m, err := call(ctx, r, "create machine", changes, func(c *client.Client) (*entity.Machine, error) {
		return c.Machines.Create(params, powerParams(n.address, n.power))
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

// configure gives a machine its name and the login of its BMC. One that MAAS
// switches by another driver than ipmi keeps driver and address.
func (r *Region) configure(ctx context.Context, m Machine, hostname, address string, p Power) error {
	params := &entity.MachineUpdateParams{Hostname: hostname}
	if switchedBy(m.PowerType) {
		address = ""
		params.PowerType, params.PowerParametersSkipCheck = m.PowerType, true
	} else {
		params.PowerType = ipmi
	}
	return change(ctx, r, "configure machine", m.SystemID, changes, func(c *client.Client) (*entity.Machine, error) {
		return c.Machine.Update(m.SystemID, params, powerParams(address, p))
	})
}

// switchedBy reports whether MAAS can switch a machine's power that way.
func switchedBy(powerType string) bool { return powerType != "" && powerType != "manual" }

// change is call for what changes one machine.
func change[T any](ctx context.Context, r *Region, op, id string, k kind, f func(*client.Client) (T, error)) error {
	if err := checkID(op, id); err != nil {
		return err
	}
	_, err := call(ctx, r, op, k, f)
	return err
}

// commission switches the machine on, or off and on, to find out what it is. The
// BMC is left as it is, and the machine stays on afterwards no longer than MAAS
// needs it.
func (r *Region) commission(ctx context.Context, id string) error {
	return change(ctx, r, "commission", id, switches, func(c *client.Client) (*entity.Machine, error) {
		return c.Machine.Commission(id, &entity.MachineCommissionParams{EnableSSH: true, SkipBMCConfig: true})
	})
}

// test runs the tests of a machine again.
func (r *Region) test(ctx context.Context, id string) error {
	const op = "test"
	if err := checkID(op, id); err != nil {
		return err
	}
	_, err := r.raw(ctx, op, switches, http.MethodPost, "machines/"+id, "test", nil)
	return err
}

// allocate is the one call that takes a machine from everybody else. owner is who
// has it now: the user of the key.
func (r *Region) allocate(ctx context.Context, id, agent, comment string) (owner string, err error) {
	err = change(ctx, r, "allocate", id, changes, func(c *client.Client) (*entity.Machine, error) {
		m, err := c.Machines.Allocate(&entity.MachineAllocateParams{SystemID: id, AgentName: agent, Comment: comment})
		if err == nil {
			owner = m.Owner
		}
		return m, err
	})
	return owner, err
}

// annotate writes a machine's mark. Only its owner may.
func (r *Region) annotate(ctx context.Context, id string, mark map[string]string) error {
	return change(ctx, r, "annotate", id, changes, func(c *client.Client) (*entity.Machine, error) {
		return c.Machine.SetWorkloadAnnotations(id, mark)
	})
}

// deployment is what a machine is deployed with.
type deployment struct {
	series   string
	userData []byte
	sync     bool
	agent    string
	comment  string
}

func (r *Region) deploy(ctx context.Context, id string, d deployment) error {
	return change(ctx, r, "deploy", id, switches, func(c *client.Client) (*entity.Machine, error) {
		return c.Machine.Deploy(id, &entity.MachineDeployParams{
			UserData: base64.StdEncoding.EncodeToString(d.userData), DistroSeries: Image(d.series), EnableHwSync: d.sync, AgentName: d.agent, Comment: d.comment,
		})
	})
}

// release gives a machine back, with its disks as they are.
func (r *Region) release(ctx context.Context, id, comment string) error {
	return change(ctx, r, "release", id, switches, func(c *client.Client) (*entity.Machine, error) {
		return c.Machine.Release(id, &entity.MachineReleaseParams{Comment: comment})
	})
}

func (r *Region) setBootDisk(ctx context.Context, id string, disk int) error {
	return change(ctx, r, "set boot disk", id, changes, func(c *client.Client) (struct{}, error) {
		return struct{}{}, c.BlockDevice.SetBootDisk(id, disk)
	})
}

// linkTo gives an interface an address of a subnet: any, or this one.
func (r *Region) linkTo(ctx context.Context, id string, iface, subnet int, address string) error {
	params := &entity.NetworkInterfaceLinkParams{Mode: "AUTO", Subnet: subnet, Force: true}
	if address != "" {
		params.Mode, params.IPAddress, params.Force = "STATIC", address, false
	}
	return change(ctx, r, "link interface", id, changes, func(c *client.Client) (*entity.NetworkInterface, error) {
		return c.NetworkInterface.LinkSubnet(id, iface, params)
	})
}

func (r *Region) createSubnet(ctx context.Context, cidr string, vlan int) error {
	_, err := call(ctx, r, "create subnet", changes, func(c *client.Client) (*entity.Subnet, error) {
		return c.Subnets.Create(&entity.SubnetParams{CIDR: cidr, VLAN: strconv.Itoa(vlan), Managed: true})
	})
	return err
}

// setSyncInterval is the whole region's.
func (r *Region) setSyncInterval(ctx context.Context, interval string) error {
	_, err := call(ctx, r, "set "+syncSetting, changes, func(c *client.Client) (struct{}, error) {
		return struct{}{}, c.MAASServer.Post(syncSetting, interval)
	})
	return err
}

const syncSetting = "hardware_sync_interval"

// What MAAS is asked to do to the disks of a machine that it takes back, and what it
// did. Quick is no overwrite: MAAS wipes the first and the last 2 MiB of each disk.
const (
	EraseNone      = "none"
	EraseQuick     = "quick"
	EraseSecure    = "secure"    // the drive's own erase where it has one, else zeros from end to end
	EraseOverwrite = "overwrite" // zeros from end to end: by a region's own setting, never asked for
)

// releaseErasing gives a machine back, and has its disks erased. All three words are
// sent: up to 3.4 none counts without the first, and what is left out is as the
// region's settings say. Of a machine that is Ready or Releasing by now MAAS erases
// nothing, and does not say so.
func (r *Region) releaseErasing(ctx context.Context, id, erase, comment string) error {
	const op = "release"
	if erase == EraseNone {
		return r.release(ctx, id, comment)
	}
	if err := checkID(op, id); err != nil {
		return err
	}
	_, err := r.raw(ctx, op, switches, http.MethodPost, "machines/"+id, "release", url.Values{
		"comment": {comment}, "erase": {"true"}, "quick_erase": {strconv.FormatBool(erase == EraseQuick)}, "secure_erase": {strconv.FormatBool(erase == EraseSecure)},
	})
	return err
}

// powerOffNow switches the machine off, whatever runs there.
func (r *Region) powerOffNow(ctx context.Context, id, comment string) error {
	const op = "power off"
	if err := checkID(op, id); err != nil {
		return err
	}
	_, err := r.raw(ctx, op, switches, http.MethodPost, "machines/"+id, "power_off", url.Values{"stop_mode": {"hard"}, "comment": {comment}})
	return err
}

// forget deletes MAAS's record of a machine, which does nothing to the machine.
func (r *Region) forget(ctx context.Context, id string) error {
	return change(ctx, r, "delete machine", id, changes, func(c *client.Client) (struct{}, error) { return struct{}{}, c.Machine.Delete(id) })
}

// setFlatLayout puts one root file system on the boot disk, which is set before.
func (r *Region) setFlatLayout(ctx context.Context, id string) error {
	const op = "set storage layout"
	if err := checkID(op, id); err != nil {
		return err
	}
	_, err := r.raw(ctx, op, changes, http.MethodPost, fmt.Sprintf("machines/%s", id), "set_storage_layout", url.Values{"storage_layout": {"flat"}})
	return err
}
