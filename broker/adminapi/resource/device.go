package resource

import "time"

// NodeDevice is a part of a node's machine that is known again by its serial.
type NodeDevice struct {
	Kind      string    `json:"kind" doc:"disk or gpu"`
	ID        string    `json:"id" doc:"by which it is known again: a disk's serial, a GPU's UUID"`
	Serial    string    `json:"serial,omitempty" doc:"of a GPU that has one beside its UUID"`
	Model     string    `json:"model,omitempty"`
	Place     string    `json:"place,omitempty" doc:"a disk's name, a GPU's PCI address"`
	SizeBytes int64     `json:"size_bytes,omitempty"`
	State     string    `json:"state" doc:"expected (nobody has looked), found, missing, unexpected or removed"`
	Source    string    `json:"source" doc:"who first told of it: maas or agent"`
	Since     time.Time `json:"since" doc:"of the state"`
	Reason    string    `json:"reason,omitempty" doc:"why an operator accepted it"`
}

// NodeDeviceList are a node's parts: what it shall have, and what its agent reports.
type NodeDeviceList struct {
	Standing
	NodeID string       `json:"node_id"`
	Items  []NodeDevice `json:"items"`
}

// DeviceAccept accepts parts that are missing as removed, and parts that are
// unexpected as its own.
type DeviceAccept struct {
	Devices []string `json:"devices" minItems:"1" maxItems:"64" doc:"ids or serials"`
	Reason  string   `json:"reason" maxLength:"500"`
}

// StatusDevices is a node with other parts than it shall have.
type StatusDevices struct {
	NodeID     string    `json:"node_id"`
	Hostname   string    `json:"hostname"`
	Site       string    `json:"site"`
	Missing    int64     `json:"missing"`
	Unexpected int64     `json:"unexpected"`
	Since      time.Time `json:"since"`
}
