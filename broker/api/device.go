package api

import "time"

// NodeDevice is a part of a node's machine that the broker recognises by its serial.
type NodeDevice struct {
	Kind      string    `json:"kind" doc:"disk or gpu"`
	ID        string    `json:"id" doc:"by which it is known again: a disk's serial, a GPU's UUID"`
	Serial    string    `json:"serial,omitempty" doc:"where it has one beside its id: of a GPU with a UUID, of one of several namespaces of a drive"`
	Model     string    `json:"model,omitempty"`
	Place     string    `json:"place,omitempty" doc:"a disk's name, a GPU's PCI address"`
	SizeBytes int64     `json:"size_bytes,omitempty" doc:"as first taken"`
	Role      string    `json:"role,omitempty" doc:"of a disk, as recorded: system (no erase names it) or data; empty: not recorded"`
	Transport string    `json:"transport,omitempty" doc:"of a disk, as recorded: pcie, sata, sas, or what it is instead"`
	State     string    `json:"state" doc:"expected (nobody has looked), found, missing, unexpected or removed"`
	Source    string    `json:"source" doc:"who first told of it: maas or agent"`
	Since     time.Time `json:"since" doc:"of the state"`
	Reason    string    `json:"reason,omitempty" doc:"why an operator accepted it"`
}

// NodeDeviceList lists a node's expected parts and the parts that its agent reports.
type NodeDeviceList struct {
	Standing
	NodeID string       `json:"node_id"`
	Items  []NodeDevice `json:"items"`
}

// DeviceAccept accepts missing parts as removed and unexpected parts as the node's own. For disks
// it also takes over the size and the path that the node reports.
type DeviceAccept struct {
	Devices []string `json:"devices" minItems:"1" maxItems:"64" doc:"ids or serials"`
	System  bool     `json:"system,omitzero" doc:"they are disks that the system runs from, which no erase names; false: they are data disks, but for those on record as the system's"`
	Reason  string   `json:"reason" maxLength:"500"`
}

// StatusDevices is a node whose parts differ from the expected parts.
type StatusDevices struct {
	NodeID     string    `json:"node_id"`
	Hostname   string    `json:"hostname"`
	Site       string    `json:"site"`
	Missing    int64     `json:"missing"`
	Unexpected int64     `json:"unexpected"`
	Since      time.Time `json:"since"`
}
