package api

import "github.com/hostler/hostler/taskcatalog"

// NodeCredentials are the secrets that tasks of one node may mint. The broker keeps them outside
// the database and never shows them again.
type NodeCredentials struct {
	MAASMachineToken taskcatalog.MAASMachineToken `json:"maas_machine_token" doc:"the machine's own MAAS token, as in /etc/maas/maas-machine-creds.yml"`
	Reason           string                       `json:"reason,omitempty" maxLength:"500"`
}

// NodeCredentialsSet names the secrets that the broker keeps, never their values.
type NodeCredentialsSet struct {
	NodeID string   `json:"node_id"`
	Set    []string `json:"set"`
}
