package api

import "time"

// NodeDevice is a part of a node's machine that the broker recognises by its serial.
type NodeDevice struct {
	Kind      string    `json:"kind" doc:"disk or gpu"`
	ID        string    `json:"id" doc:"the device's id: a disk's serial number, a GPU's UUID"`
	Serial    string    `json:"serial,omitempty" doc:"serial number, if it is not the id: of a GPU with a UUID, or of a drive with several namespaces"`
	Model     string    `json:"model,omitempty"`
	Place     string    `json:"place,omitempty" doc:"a disk's name, a GPU's PCI address"`
	SizeBytes int64     `json:"size_bytes,omitempty" doc:"size that was recorded first"`
	Role      string    `json:"role,omitempty" doc:"recorded role of a disk: system (not erased by the agent under the running system) or data; empty: not recorded"`
	Transport string    `json:"transport,omitempty" doc:"recorded transport of a disk: pcie, sata, sas, or another"`
	State     string    `json:"state" doc:"expected (not looked for yet), found, missing, unexpected or removed"`
	Source    string    `json:"source" doc:"who first reported the device: maas or agent"`
	Since     time.Time `json:"since" doc:"when the state began"`
	Reason    string    `json:"reason,omitempty" doc:"why an operator accepted the change"`
}

// NodeDeviceList lists a node's expected parts and the parts that its agent reports.
type NodeDeviceList struct {
	Standing
	NodeID string       `json:"node_id"`
	Items  []NodeDevice `json:"items"`
	Next   string       `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// DeviceAccept accepts missing parts as removed and unexpected parts as the node's own. For disks
// it also takes over the size and the path that the node reports.
type DeviceAccept struct {
	Devices []string `json:"devices" minItems:"1" maxItems:"64" doc:"ids or serial numbers"`
	System  bool     `json:"system,omitzero" doc:"true: the system runs from the disks, and the agent does not erase them under it; false: the disks are data disks, except those recorded as system disks"`
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
