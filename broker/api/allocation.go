package api

import "time"

// Allocation is what a project asked for and holds, as its tenant sees it.
type Allocation struct {
	ID             string            `json:"id"`
	ProjectID      string            `json:"project_id"`
	Status         string            `json:"status" doc:"requested, provisioning, active, releasing, released, failed or release_failed"`
	SKU            string            `json:"sku"`
	Nodes          int               `json:"nodes" doc:"whole nodes; 0: GPUs of one node"`
	GPUs           int               `json:"gpus" doc:"GPUs of one node; 0: whole nodes"`
	Site           string            `json:"site"`
	Image          string            `json:"image" doc:"image that was asked for; empty: whatever the nodes have"`
	SSHKeyIDs      []string          `json:"ssh_key_ids"`
	RefusedKeys    []AllocationKey   `json:"refused_ssh_keys" doc:"keys that the SSH server of a node does not accept, such as those of a type that it does not permit; the others let in"`
	Labels         map[string]string `json:"labels"`
	Logins         []AllocationLogin `json:"logins" doc:"where to log in, one for each node, while the status is provisioning or active"`
	Code           string            `json:"code" doc:"of a failure; empty: nothing failed"`
	Message        string            `json:"message" doc:"what failed, and what to do; empty: nothing failed"`
	CertificateIDs []string          `json:"certificate_ids" doc:"of the turnovers that ended the allocation, one for each node"`

	EndsAt          *time.Time `json:"ends_at" doc:"when the allocation is to be released; null: no end"`
	RequestedAt     time.Time  `json:"requested_at"`
	ProvisioningAt  *time.Time `json:"provisioning_at" doc:"when the status was reached; null: never"`
	ActiveAt        *time.Time `json:"active_at" doc:"when the status was reached; null: never"`
	ReleasingAt     *time.Time `json:"releasing_at" doc:"when the status was reached first; null: never"`
	ReleasedAt      *time.Time `json:"released_at" doc:"when the status was reached; null: never"`
	FailedAt        *time.Time `json:"failed_at" doc:"when the status was reached; null: never"`
	ReleaseFailedAt *time.Time `json:"release_failed_at" doc:"when the status was last reached; null: never"`
	GoesOnAt        *time.Time `json:"goes_on_at" doc:"when a failed release goes on by itself, without the operation of its end (end_operation_pass_after of the site's default profile); null: it does not"`
	PassedAt        *time.Time `json:"end_operation_passed_at" doc:"when the release went on without the operation of its end, which did not end well; null: never"`
}

// AllocationKey is an SSH key of an allocation.
type AllocationKey struct {
	ID          string `json:"id"`
	Fingerprint string `json:"fingerprint" doc:"as ssh-keygen -l shows it"`
}

// AllocationLogin is where a tenant logs in to a node.
type AllocationLogin struct {
	Hostname string `json:"hostname"`
	Address  string `json:"address" doc:"IP address; empty: not known"`
	HostKey  string `json:"host_key" doc:"public key that the node's SSH server proved to have, as a line without a host name; empty: not proven yet"`
	Username string `json:"username"`
}

// AllocationList is one page of a project's allocations, newest first.
type AllocationList struct {
	Items []Allocation `json:"items"`
	Next  string       `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// PlatformAllocation is an allocation as the platform sees it.
type PlatformAllocation struct {
	Allocation
	NodeIDs []string `json:"node_ids" doc:"the nodes that it holds, or held"`
	Waiting string   `json:"waiting,omitempty" doc:"why its run waits; left out of lists"`
}

// PlatformAllocationList is one page of the allocations of all projects, newest first.
type PlatformAllocationList struct {
	Standing
	Items []PlatformAllocation `json:"items"`
	Next  string               `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// AllocationTimeline is the list of the statuses that an allocation reached, oldest first.
type AllocationTimeline struct {
	AllocationID string                    `json:"allocation_id"`
	Items        []AllocationTimelineEvent `json:"items" doc:"at most the newest 200"`
	Next         string                    `json:"next" doc:"always empty: there is one page"`
	Earlier      bool                      `json:"earlier" doc:"older items were left out"`
}

// AllocationTimelineEvent is a status of an allocation, at the moment in which it was reached.
type AllocationTimelineEvent struct {
	At     time.Time `json:"at"`
	Status string    `json:"status"`
	By     string    `json:"by" doc:"the tenant's token or person; empty: the platform"`
	Code   string    `json:"code" doc:"of a failure, or end_operation_passed: the release goes on without the operation of its end; empty: nothing failed"`
}

// AllocationCertificateList is the list of the certificates of the turnovers that ended an allocation,
// the oldest first. Each turnover is of one node.
type AllocationCertificateList struct {
	Items []AllocationCertificate `json:"items"`
	Next  string                  `json:"next" doc:"always empty: there is one page"`
}

// AllocationCertificate is a certificate as the tenant of an allocation may see it.
type AllocationCertificate struct {
	CertificateID string    `json:"id"`
	Digest        string    `json:"digest" doc:"sha256:… of the certificate's file; the receipt names it"`
	MeetsPolicy   bool      `json:"meets_policy" doc:"the cleaning meets the policy"`
	IssuedAt      time.Time `json:"issued_at"`
}

// AllocationReceipt is the receipt of a certificate: the signed file for the tenant.
type AllocationReceipt struct {
	CertificateID string    `json:"certificate_id"`
	Digest        string    `json:"digest" doc:"sha256:… of the receipt's file"`
	IssuedAt      time.Time `json:"issued_at" doc:"when the receipt was signed: at the first request"`
	File          string    `json:"file" doc:"the signed receipt, exactly as signed; hostler-verify checks it without a network"`
}

// AllocationCreate asks for nodes: all of them, at one site, or none.
type AllocationCreate struct {
	SKU       string            `json:"sku" minLength:"1" maxLength:"63"`
	Nodes     int               `json:"nodes,omitzero" minimum:"0" maximum:"1000" doc:"whole nodes of a baremetal SKU"`
	GPUs      int               `json:"gpus,omitzero" minimum:"0" maximum:"1000" doc:"GPUs of one node of a gpu_slice SKU, instead of nodes"`
	Site      string            `json:"site,omitempty" maxLength:"63" doc:"default: any site that offers the SKU"`
	SSHKeyIDs []string          `json:"ssh_key_ids" maxItems:"64" doc:"at least one key of a member of the project, or of its whole organisation"`
	Image     string            `json:"image,omitempty" maxLength:"128" doc:"one of the SKU's images, for all nodes; a node that has another one is reimaged first; default: whatever the nodes have"`
	Spread    string            `json:"spread,omitempty" enum:"zone,room,row,rack,domain" doc:"take the nodes from as many racks, say, of the site as possible; domain: a failure domain"`
	Pack      string            `json:"pack,omitempty" enum:"zone,room,row,rack,domain" doc:"take the nodes from as few racks, say, of the site as possible"`
	EndsAt    time.Time         `json:"ends_at,omitzero" doc:"when the allocation is to be released; default: no end"`
	Labels    map[string]string `json:"labels,omitempty" doc:"at most 64; keys and values as those of a node's labels"`
	Reason    string            `json:"reason,omitempty" maxLength:"500"`
}

// AllocationExplanation says whether a request for nodes of a SKU would find them now, and why nodes
// do not fit. Quotas are not looked at.
type AllocationExplanation struct {
	SKU      string                 `json:"sku"`
	Nodes    int                    `json:"nodes"`
	Image    string                 `json:"image" doc:"empty: whatever the nodes have"`
	WouldFit bool                   `json:"would_fit" doc:"the request would find its nodes"`
	Site     string                 `json:"site" doc:"where it would find them; empty: nowhere"`
	Code     string                 `json:"code" doc:"of the refusal; empty: none"`
	Message  string                 `json:"message" doc:"why the request would be refused; empty: it would not"`
	Fit      int                    `json:"fit" doc:"nodes of the SKU that may be handed out"`
	DoNotFit int                    `json:"do_not_fit"`
	Places   int                    `json:"places" doc:"racks, say, from which spread or pack would take the nodes: nodes without a rack count for nothing in a spread, and each as one rack in a pack; 0: neither was given, or no known one"`
	Reimages int                    `json:"reimages" doc:"of the nodes that fit, those that are reimaged with the image first"`
	Sites    []AllocationSiteCounts `json:"sites"`
	Reasons  []AllocationReason     `json:"reasons" doc:"why nodes do not fit, the most frequent first; a node may have several"`
}

// AllocationSiteCounts counts the nodes of a site.
type AllocationSiteCounts struct {
	Site     string `json:"site"`
	Fit      int    `json:"fit"`
	DoNotFit int    `json:"do_not_fit"`
}

// AllocationReason is a reason for which nodes do not fit.
type AllocationReason struct {
	Code     string                 `json:"code" doc:"as of a node's handout, site_not_offered, image_not_installed: the node has another image, and MAAS cannot install one, label_missing: the node lacks a label to which the project is pinned, or reserved: as many nodes are kept for other projects"`
	Nodes    int                    `json:"nodes"`
	Examples []AllocationReasonNode `json:"examples" doc:"at most ten of the nodes"`
}

// AllocationReasonNode is a node with the next action for a reason.
type AllocationReasonNode struct {
	NodeID     string `json:"node_id"`
	Hostname   string `json:"hostname"`
	Site       string `json:"site"`
	NextAction string `json:"next_action"`
}
