package maas

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Status is a machine's status by its number. Names change; numbers do not. A number that is not
// listed below matches no condition.
type Status int

// statusUnknown is the status of a machine for which MAAS reports none: zero would be New.
const statusUnknown Status = -1

// The statuses.
const (
	New Status = iota
	Commissioning
	FailedCommissioning
	Missing
	Ready
	Reserved
	Deployed
	Retired
	Broken
	Deploying
	Allocated
	FailedDeployment
	Releasing
	ReleasingFailed
	DiskErasing
	FailedDiskErasing
	RescueMode
	EnteringRescueMode
	FailedEnteringRescueMode
	ExitingRescueMode
	FailedExitingRescueMode
	Testing
	FailedTesting
)

// Machine is a machine as MAAS describes it, with the fields on which decisions rest. All other
// fields are ignored, and so are fields that gomaasclient's type lacks.
type Machine struct {
	SystemID         string            `json:"system_id"`
	Hostname         string            `json:"hostname"`
	FQDN             string            `json:"fqdn"`
	Description      string            `json:"description"`
	Status           Status            `json:"status"`
	StatusName       string            `json:"status_name"`
	StatusMessage    string            `json:"status_message"`    // of the newest event: history, not state
	ErrorDescription string            `json:"error_description"` // since 3.5
	PowerState       string            `json:"power_state"`
	PowerType        string            `json:"power_type"`
	Commissioned     scriptStatus      `json:"commissioning_status"`
	Owner            string            `json:"owner"`
	Annotations      map[string]string `json:"workload_annotations"`
	OSystem          string            `json:"osystem"`
	DistroSeries     string            `json:"distro_series"`
	Architecture     string            `json:"architecture"`
	IPAddresses      []string          `json:"ip_addresses"`
	Interfaces       []Interface       `json:"interface_set"`
	Disks            []Disk            `json:"physicalblockdevice_set"`
	BootDisk         *Disk             `json:"boot_disk"`
	BootInterface    *Interface        `json:"boot_interface"`
	HardwareInfo     map[string]string `json:"hardware_info"`
	Memory           int64             `json:"memory"` // MiB
	CPUCount         int               `json:"cpu_count"`
	Locked           bool              `json:"locked"`
	Pool             Named             `json:"pool"`
	Zone             Named             `json:"zone"`
	Tags             []string          `json:"tag_names"`
	EnableHWSync     bool              `json:"enable_hw_sync"`
	SyncInterval     int               `json:"sync_interval"` // seconds; 0: none
	LastSync         Time              `json:"last_sync"`
	NextSync         Time              `json:"next_sync"`
}

// scriptStatus is how a set of MAAS's scripts ended.
type scriptStatus int

// ScriptsPassed is the only good status: with any other or unknown status, MAAS does not treat the
// machine as commissioned.
const ScriptsPassed scriptStatus = 2

// Named is a thing with an id and a name.
type Named struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

// Interface is a network interface of a machine.
type Interface struct {
	ID      int    `json:"id"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	MAC     string `json:"mac_address"`
	Enabled bool   `json:"enabled"`
	VLAN    *VLAN  `json:"vlan"`
	Links   []Link `json:"links"`
}

// Link joins an interface to a subnet.
type Link struct {
	ID        int     `json:"id"`
	Mode      string  `json:"mode"` // auto, dhcp, static, link_up
	IPAddress string  `json:"ip_address"`
	Subnet    *Subnet `json:"subnet"`
}

// Subnet is a subnet of the region.
type Subnet struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
	CIDR string `json:"cidr"`
	VLAN *VLAN  `json:"vlan"`
}

// VLAN is a VLAN of the region.
type VLAN struct {
	ID            int             `json:"id"`
	VID           int             `json:"vid"`
	Name          string          `json:"name"`
	Fabric        string          `json:"fabric"`
	FabricID      int             `json:"fabric_id"`
	DHCPOn        bool            `json:"dhcp_on"`
	ExternalDHCP  string          `json:"external_dhcp"`
	PrimaryRack   string          `json:"primary_rack"` // system_id; empty: no rack serves the VLAN
	SecondaryRack string          `json:"secondary_rack"`
	RelayVLAN     json.RawMessage `json:"relay_vlan"` // an object, a number or null
}

// Disk is a physical block device.
type Disk struct {
	ID     int      `json:"id"`
	Name   string   `json:"name"`
	Model  string   `json:"model"`
	Serial string   `json:"serial"`
	IDPath string   `json:"id_path"` // may be empty
	Size   int64    `json:"size"`    // bytes
	Type   string   `json:"type"`
	Tags   []string `json:"tags"`
}

// ofEvents is the layout of an event's time, in the same zone as MAAS's times without a zone.
const ofEvents = "Mon, 02 Jan. 2006 15:04:05"

// Time is a moment as MAAS writes it. Up to 3.5 MAAS writes no zone, and the time is read as UTC.
// Zero stands for null and for an unreadable time.
type Time struct{ time.Time }

// UnmarshalJSON never fails: an unreadable time becomes zero.
func (t *Time) UnmarshalJSON(raw []byte) error {
	t.Time = time.Time{}
	text := strings.Trim(string(raw), `"`)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", ofEvents} {
		if at, err := time.Parse(layout, text); err == nil {
			t.Time = at.UTC()
			break
		}
	}
	return nil
}

// SyncHealthy reports the health that MAAS's own pages show: the REST API does not report it.
func (m Machine) SyncHealthy(now time.Time) bool {
	late := time.Duration(m.SyncInterval) * time.Second * 3 / 2
	return m.EnableHWSync && !m.LastSync.IsZero() && m.SyncInterval > 0 && !now.After(m.LastSync.Add(late))
}

// Machine reads one machine as it is now.
func (r *Region) Machine(ctx context.Context, id string) (Machine, error) {
	const op = "read machine"
	if err := checkID(op, id); err != nil {
		return Machine{}, err
	}
	raw, err := r.raw(ctx, op, looks, http.MethodGet, "machines/"+id, "", nil)
	if err != nil {
		return Machine{}, err
	}
	m, ok := machineOf(raw)
	if !ok || m.SystemID != id {
		return Machine{}, notMAAS(op, false)
	}
	return m, nil
}

// machineOf reads a machine; false: raw is no machine.
func machineOf(raw []byte) (Machine, bool) {
	m := Machine{Status: statusUnknown}
	return m, json.Unmarshal(raw, &m) == nil && SystemIDForm.MatchString(m.SystemID) && m.Status != statusUnknown
}

// Listing is all machines, and the ids of machines that this client cannot read.
type Listing struct {
	Machines []Machine
	Unread   []string // empty: not even the id
}

// list reads all machines. A machine that cannot be read does not hide the others, and is not
// forgotten either.
func (r *Region) list(ctx context.Context) (Listing, error) {
	return r.listOf(ctx, url.Values{})
}

// ByID returns filters of machines by their ids, in parts: a filter is part of a URL.
func ByID(ids []string) (filters []url.Values) {
	const some = 100
	for part := range slices.Chunk(ids, some) {
		filters = append(filters, url.Values{"id": part})
	}
	return filters
}

// FilteredMachines reads the machines that match any of the filters.
func (r *Region) FilteredMachines(ctx context.Context, filters ...url.Values) (out Listing, err error) {
	had := map[string]bool{}
	for _, filter := range filters {
		l, err := r.listOf(ctx, filter)
		if err != nil {
			return Listing{}, err
		}
		for _, m := range l.Machines {
			if !had[m.SystemID] {
				had[m.SystemID] = true
				out.Machines = append(out.Machines, m)
			}
		}
		for _, id := range l.Unread {
			if id == "" || !had[id] {
				had[id] = true
				out.Unread = append(out.Unread, id)
			}
		}
	}
	return out, nil
}

func (r *Region) listOf(ctx context.Context, filter url.Values) (Listing, error) {
	const op = "list machines"
	raw, err := r.raw(ctx, op, lists, http.MethodGet, "machines", "", filter)
	if err != nil {
		return Listing{}, err
	}
	var each []json.RawMessage
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &each) != nil {
		return Listing{}, notMAAS(op, false)
	}
	out := Listing{Machines: make([]Machine, 0, len(each))}
	for _, one := range each {
		if m, ok := machineOf(one); ok {
			out.Machines = append(out.Machines, m)
			continue
		}
		var known struct {
			SystemID string `json:"system_id"`
		}
		if json.Unmarshal(one, &known) != nil || !SystemIDForm.MatchString(known.SystemID) {
			known.SystemID = ""
		}
		out.Unread = append(out.Unread, known.SystemID)
	}
	return out, nil
}
