package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/hostler/hostler/taskcatalog"
)

// ReportDigest is the value of HeaderReport: "sha256:" and the hex SHA-256 of
// what a node says it can do. The order of the types does not matter.
func ReportDigest(taskTypes []string, capabilities map[string]string) string {
	types := slices.Sorted(slices.Values(taskTypes))
	if capabilities == nil {
		capabilities = map[string]string{}
	}
	// Only strings: there is nothing in it that could not be encoded. Bytes that
	// are no UTF-8 could not have been sent.
	raw, err := taskcatalog.Encode(struct {
		TaskTypes    []string          `json:"task_types"`
		Capabilities map[string]string `json:"capabilities"`
	}{types, capabilities})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}
