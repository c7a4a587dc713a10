package api

// Found is one thing that a word names.
type Found struct {
	Kind     string `json:"kind" doc:"node, device, allocation, run, task, certificate (of a turnover) or node_certificate"`
	ID       string `json:"id" doc:"id of the thing; serial number of a node_certificate"`
	By       string `json:"by" doc:"the property that matched: id, hostname, serial, maas_system_id, pxe_mac, ipmi_ip, host, maas_ip or uuid"`
	What     string `json:"what" doc:"a node's SKU, a device's model, an allocation's tenant, a run's kind, a task's type, a certificate's mode"`
	Status   string `json:"status" doc:"status of the thing, such as deleted of a node or removed of a device"`
	NodeID   string `json:"node_id" doc:"empty: a run without a node"`
	Hostname string `json:"hostname"`
	Site     string `json:"site"`
}

// FoundList lists what a word names, nodes first. Deleted nodes are listed, too.
type FoundList struct {
	Standing
	Items []Found `json:"items"`
	Next  string  `json:"next" doc:"cursor of the next page; empty: there is no next page"`
	More  bool    `json:"more" doc:"some things are left out: one property matched more than 100"`
}
