package maassim

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// machine is MAAS's record of a machine.
type machine struct {
	region  *Region
	id      int
	gone    bool // deleted
	process int  // the process counter; events scheduled by an older process are void

	systemID, hostname, description, architecture, minKernel string

	powerType   string
	powerParams map[string][]string
	powerState  string

	status, previous Status
	owner, agent     string
	annotations      map[string]string
	pool             int
	locked           bool
	zone             poolBody
	commissioned     bool
	errorDescription string

	osystem, series, kernel string
	userData                []byte
	ephemeral               bool
	token                   *token
	syncs                   bool
	syncInterval            int // seconds
	lastSync                time.Time

	hardwareInfo     map[string]string
	cpus, memory     int
	interfaces       []*iface
	disks            []*disk
	bootDisk         int            // id, 0 if not set
	testing, staysOn bool           // options of the commissioning: run the tests, and leave the machine on
	results          map[string]int // the newest result id of each kind

	runs []*run

	said          int    // id of the newest event above the debug level
	statusMessage string // text of the event
	statusUnsaid  bool   // status_message stays null
}

// newMachine adds a record in New without hardware data.
func (r *Region) newMachine(hostname string) *machine {
	m := &machine{
		region: r, id: r.id("machine"), systemID: r.systemID(), hostname: hostname, architecture: "amd64/generic",
		powerParams: map[string][]string{}, powerState: "unknown", annotations: map[string]string{}, testing: true, zone: zone,
		results: map[string]int{},
	}
	if m.hostname == "" {
		m.hostname = r.letters("bcdfgklmnprst", 1) + r.letters("aeiou", 1) + r.letters("bcdfgklmnprst", 2) + "-" +
			r.letters("aeioubdfgklmnprst", 5)
	}
	r.machines = append(r.machines, m)
	return m
}

func (m *machine) powerParam(name string) string {
	if v := m.powerParams[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// timing returns the durations that apply to the machine's hardware.
func (m *machine) timing() Timing {
	if h := m.metal(); h != nil && h.Timing != nil {
		return *h.Timing
	}
	return m.region.Timing
}

// begin starts a new process: events that the old process scheduled are void.
func (m *machine) begin() { m.process++ }

// enter changes the status and writes the change to the events feed and the history. Events of the
// given kinds follow at level INFO.
func (m *machine) enter(s Status, said ...string) {
	if s == m.status {
		return
	}
	m.tellChange(s)
	m.enterUnseen(s)
	for _, kind := range said {
		m.region.event(m, info, kind, "")
	}
}

func (m *machine) tellChange(to Status) {
	change := "From '" + m.status.String() + "' to '" + to.String() + "'"
	if to == Allocated {
		change += " (to " + m.owner + ")"
	}
	m.region.event(m, debug, "Node changed status", change)
}

// start enters a status and switches the machine on for it. If the power fails, start reverts the
// status and returns the answer of the call. Scheduled events of the old status then stay valid.
func (m *machine) start(by *user, to Status, said ...string) *answer {
	was, before := m.status, m.previous
	m.enter(to, said...)
	if !m.switchable() {
		return nil
	}
	refusal := m.power(true)
	if refusal != nil {
		m.region.event(m, warning, "Failed to query node's BMC",
			fmt.Sprintf("(%s) - Aborting %s and reverting to %s. Unable to power control the node. "+
				"Please check power credentials.", by.name, to, was))
		m.revert(was, before)
	}
	return refusal
}

// revert restores a status without the side effects of entering it.
func (m *machine) revert(to, previous Status) {
	m.tellChange(to)
	m.change("reverted", m.status.String(), to.String())
	m.status, m.previous = to, previous
}

// enterUnseen changes the status without writing an event.
func (m *machine) enterUnseen(s Status) {
	if s == m.status {
		return
	}
	m.change("status", m.status.String(), s.String())
	if !m.status.in(Testing, RescueMode, EnteringRescueMode, FailedEnteringRescueMode, ExitingRescueMode, FailedExitingRescueMode) {
		m.previous = m.status // the status after tests and rescue mode
	}
	m.status = s
	if s.in(New, Ready) {
		m.setOwner("")
	}
}

// setOwner changes the owner. The machine's token ends with its owner.
func (m *machine) setOwner(name string) {
	if name == m.owner {
		return
	}
	m.change("owner", m.owner, name)
	m.owner = name
	if m.token != nil && !m.hit(TokenKept) {
		m.token = nil
	}
}

// forgetSystem clears the fields of the installed system and of the requested deployment.
func (m *machine) forgetSystem() {
	m.osystem, m.series, m.kernel, m.agent, m.userData = "", "", "", "", nil
	m.ephemeral = false
	m.syncs, m.syncInterval, m.lastSync = false, 0, time.Time{}
}

// leave clears the machine's addresses, annotations and owner.
func (m *machine) leave() {
	m.dropAddresses()
	clear(m.annotations)
	m.setOwner("")
}

// free returns the machine to the pool.
func (m *machine) free() {
	m.begin()
	m.forgetSystem()
	m.leave()
	if m.commissioned {
		m.enter(Ready, "Released")
	} else {
		m.enter(New, "Released")
	}
}

// fail puts the machine into a failed status, with the reason in the feed.
func (m *machine) fail(to Status, reason string) {
	m.begin()
	m.errorDescription = reason
	m.region.event(m, failure, "Marking node failed", reason)
	m.enter(to)
}

// Machine is a copy of the region's record of a machine, with the state of its hardware, which no
// API shows.
type Machine struct {
	SystemID, Hostname, Owner, Pool, PowerState string
	Status                                      Status
	Locked                                      bool
	Annotations                                 map[string]string
	OSystem, Series                             string
	UserData                                    []byte
	Token                                       string // token key, empty if the machine has no token
	LastSync                                    time.Time
	Interfaces                                  []string // MAC addresses
	Addresses                                   []string // configured
	BootDisk                                    string   // serial

	Serial string // of the hardware at its BMC, empty if there is no hardware
	On     bool   // the hardware has power
	HostUp bool   // the installed system is reachable
	Boots  int    // how often the hardware was switched on or reset
}

// Machine returns the machine with the system_id; false if there is none.
func (r *Region) Machine(systemID string) (Machine, bool) {
	defer r.enter()()
	if m := r.find(systemID); m != nil {
		return m.snapshot(), true
	}
	return Machine{}, false
}

// Machines returns all machines in the order of creation.
func (r *Region) Machines() []Machine {
	defer r.enter()()
	var all []Machine
	for _, m := range r.machines {
		all = append(all, m.snapshot())
	}
	return all
}

func (m *machine) snapshot() Machine {
	s := Machine{
		SystemID: m.systemID, Hostname: m.hostname, Owner: m.owner, Pool: m.region.poolNamed(m.pool).name, PowerState: m.powerState,
		Status: m.status, Locked: m.locked, Annotations: maps.Clone(m.annotations), OSystem: m.osystem, Series: m.series,
		UserData: slices.Clone(m.userData), LastSync: m.lastSync, Addresses: m.addresses(),
	}
	if m.token != nil {
		s.Token = m.token.key
	}
	for _, i := range m.interfaces {
		s.Interfaces = append(s.Interfaces, i.mac)
	}
	if d := m.boot(); d != nil {
		s.BootDisk = d.Serial
	}
	if h := m.metal(); h != nil {
		s.Serial, s.On, s.HostUp, s.Boots = h.Serial, h.on, h.hostUp, h.boots
	}
	return s
}
