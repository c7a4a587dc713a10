package api

import "github.com/hostler/hostler/taskcatalog"

// NodeCredentials are secrets that tasks of one node may mint. They are kept
// outside the database and never shown again.
type NodeCredentials struct {
	MAASMachineToken taskcatalog.MAASMachineToken `json:"maas_machine_token" doc:"the machine's own token, as in /etc/maas/maas-machine-creds.yml"`
	Reason           string                       `json:"reason,omitempty" maxLength:"500"`
}

// NodeCredentialsSet names what is kept, never its value.
type NodeCredentialsSet struct {
	NodeID string   `json:"node_id"`
	Set    []string `json:"set"`
}
