package api

// Found is one thing that a word names.
type Found struct {
	Kind     string `json:"kind" doc:"node, device, allocation (a tenant's user on a node), project_allocation, run, task, certificate (of a turnover), node_certificate, attestation, terminal (for operators), organisation, project, reservation or webhook"`
	ID       string `json:"id" doc:"id of the thing; serial number of a node_certificate"`
	By       string `json:"by" doc:"the property that matched: id, name, hostname, serial, maas_system_id, pxe_mac, ipmi_ip, host, maas_ip or uuid"`
	What     string `json:"what" doc:"a node's SKU, a device's model, an allocation's tenant, a run's kind, a task's type, a certificate's mode, an attestation's device, a terminal's user, an organisation's name, ORGANISATION/NAME of a project, the project's id of a project_allocation, a reservation or a webhook"`
	Status   string `json:"status" doc:"status of the thing, such as deleted of a node or removed of a device"`
	NodeID   string `json:"node_id" doc:"empty: the thing is of no node"`
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
