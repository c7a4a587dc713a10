package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/hostler/hostler/taskcatalog"
)

// ReportDigest returns the value of HeaderReport: "sha256:" and the hex SHA-256 of a node's task
// types, capabilities, facts and program. The order of the types does not matter.
func ReportDigest(taskTypes []string, capabilities map[string]string, facts *taskcatalog.Facts, agent *taskcatalog.AgentBuild) string {
	types := slices.Sorted(slices.Values(taskTypes))
	if capabilities == nil {
		capabilities = map[string]string{}
	}
	// Strings and numbers can always be encoded, and invalid UTF-8 could not have been sent.
	raw, err := taskcatalog.Encode(struct {
		TaskTypes    []string                `json:"task_types"`
		Capabilities map[string]string       `json:"capabilities"`
		Facts        *taskcatalog.Facts      `json:"facts,omitempty"`
		Agent        *taskcatalog.AgentBuild `json:"agent,omitempty"`
	}{types, capabilities, facts, agent})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}
