package api

import "time"

// ClusterPut is a cluster that nodes join by operations. The broker keeps the token and the join secret
// outside the database, and never shows them again.
type ClusterPut struct {
	Backend    string `json:"backend" enum:"ray,slurm,k8s" doc:"what schedules the cluster"`
	URL        string `json:"url" maxLength:"300" doc:"https://HOST[:PORT] of slurmrestd, or of the dashboard of Ray's head, behind a proxy with TLS; or of the API server of Kubernetes"`
	CACert     string `json:"ca_cert,omitempty" maxLength:"65536" doc:"PEM certificates that the URL's certificate is verified with; default: the system's roots; nodes that join a k8s cluster verify the controller with them"`
	Project    string `json:"project,omitempty" maxLength:"130" doc:"id, or ORGANISATION/NAME, of the project whose operations may make members; default: operations of the platform alone"`
	Controller string `json:"controller,omitempty" maxLength:"260" doc:"HOST:PORT where nodes report; default: no node can join"`
	JoinAuth   string `json:"join_auth,omitempty" enum:"munge,slurm,token,bootstrap-token" doc:"how nodes authenticate to the controller: by munge.key or slurm.key of Slurm, the token of Ray, or a bootstrap token of k8s for each node"`
	Token      string `json:"token" minLength:"1" maxLength:"8192" doc:"token of the API: for Slurm a JSON Web Token of an account that may change nodes, for Ray the token of the cluster, for k8s the token of a service account"`
	JoinSecret []byte `json:"join_secret,omitempty" maxLength:"2048" doc:"the key or token that nodes of Slurm or Ray authenticate with, in base64"`
	Reason     string `json:"reason,omitempty" maxLength:"500" doc:"recorded in the audit log"`
}

// Cluster says that a cluster is known, and never shows its secrets.
type Cluster struct {
	Name       string    `json:"name"`
	Backend    string    `json:"backend"`
	URL        string    `json:"url"`
	CACert     string    `json:"ca_cert"`
	ProjectID  string    `json:"project_id" doc:"the project whose operations may make members; empty: operations of the platform alone"`
	Controller string    `json:"controller" doc:"empty: no node can join"`
	JoinAuth   string    `json:"join_auth"`
	VaultPath  string    `json:"vault_path"`
	Generation string    `json:"generation" doc:"changes each time the cluster is set; the stored secrets have the same"`
	SetBy      string    `json:"set_by"`
	Reason     string    `json:"reason"`
	SetAt      time.Time `json:"set_at"`
}

// ClusterList lists every cluster, by name.
type ClusterList struct {
	Standing
	Items []Cluster `json:"items"`
	Next  string    `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}
